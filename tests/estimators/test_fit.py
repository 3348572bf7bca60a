"""Fits through the estimators: the command's bytes, every executor's bits, bad input, every kind of label."""

import hashlib

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

import dkernel
from dkernel import Gaussian, KernelClassifier, KernelRegressor, Linear, errors, open_source
from dkernel.errors import DataError, RecipeError
from tests.estimators.data import ESTIMATORS, SMALL, ball, wave


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("scale", ["auto", "standard"])
def test_the_bytes_of_the_command_on_the_same_parquet_files(run_to, tmp_path, scale):
    X, y = ball(900)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.where(y, "out", "in"))
    folder = tmp_path / "t"
    folder.mkdir()
    parts = [table[:400], table[400:800], table[800:]]
    for i, part in enumerate(parts):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"{i}.parquet")
    run_to("train", folder, "--label", "y", "--out", tmp_path / "a", "--n-components", 64,
            "--seed", 3, "--scale", scale, "--solver", "psgd")  # fmt: skip
    machine = KernelClassifier(n_components=64, random_state=3, scale=scale, solver="psgd")  # "auto": so few are exact
    frames = dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    dkernel.save(machine.fit(frames[["a", "b", "c"]], frames["y"]), tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    dkernel.save(machine.fit(open_source(str(folder), label="y")), tmp_path / "c")
    assert digest(tmp_path / "a") == digest(tmp_path / "c")
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.cluster
def test_under_a_client_the_same_bits_and_one_model_a_worker(shared_cluster):
    X, y = ball(3000)
    lazy = [da.from_array(X, chunks=(500, -1)), da.from_array(y, chunks=500)]
    here = KernelClassifier(**SMALL).fit(*lazy)
    features = dkernel.NystromFeatures(gamma=0.4, n_components=100).fit(lazy[0])
    with distributed.Client(shared_cluster):
        there = KernelClassifier(**SMALL).fit(*lazy)
        np.testing.assert_array_equal(there.component_coef_, here.component_coef_)
        np.testing.assert_array_equal(there.intercept_, here.intercept_)
        np.testing.assert_array_equal(there.decision_function(lazy[0]).compute(), here.decision_function(X))
        assert there.score(*lazy) == pytest.approx(here.score(X, y))
        again = dkernel.NystromFeatures(gamma=0.4, n_components=100).fit(lazy[0])
        np.testing.assert_array_equal(again.whitening_, features.whitening_)
        np.testing.assert_allclose(again.transform(lazy[0]).compute(), features.transform(X), atol=1e-6)


def test_a_heavy_class_takes_more_rows():
    X, y = ball(1500)
    plain, heavy = (KernelClassifier(**SMALL, class_weight=w).fit(X, y).predict(X).mean() for w in (None, {True: 50}))
    assert heavy > plain + 0.05
    with pytest.raises(RecipeError, match="names 'maybe', which is not a class"):
        KernelClassifier(**SMALL, class_weight={"maybe": 2}).fit(X, y)


def test_kernels_by_name_text_and_value():
    X, y = ball(400)
    small = SMALL | {"gamma": 0.25}
    for kernel in ("gaussian", "rbf", 'Gaussian(gamma="auto")', Gaussian(gamma="auto"), Gaussian(gamma=0.25)):
        machine = KernelClassifier(**small | {"kernel": kernel}).fit(X, y)
        assert machine.model_.recipe.kernel == "Gaussian(gamma=0.25)"
    own = KernelClassifier(**small | {"kernel": Gaussian(gamma=2.0) + 0.5 * Linear()}).fit(X, y)
    assert "gamma=2.0" in own.model_.recipe.kernel
    assert KernelClassifier(gamma="scale", n_components=32).fit(X, y).model_.recipe.kernel != "gaussian"
    with pytest.raises(RecipeError, match="gausian"):
        KernelClassifier("gausian").fit(X, y)


def test_random_states():
    X, y = ball(400)

    def coef(state):
        return KernelClassifier(**(SMALL | {"n_components": 16}), random_state=state).fit(X, y).component_coef_

    np.testing.assert_array_equal(coef(None), coef(0))
    assert not np.array_equal(coef(0), coef(1))
    np.testing.assert_array_equal(coef(np.random.RandomState(5)), coef(np.random.RandomState(5)))
    assert coef(np.random.default_rng(5)).shape == coef(np.int64(5)).shape == (1, 16)
    with pytest.raises(errors.DKernelError):
        coef("seven")


def test_what_a_fit_leaves_behind():
    X, y = ball(1000)
    machine = KernelClassifier(gamma=0.4, n_components=64, calibration=None).fit(X, y)
    assert machine.n_features_in_ == 3
    assert not hasattr(machine, "feature_names_in_")
    assert machine.component_coef_.shape == (1, machine.n_components_) == (1, 64)
    assert machine.intercept_.shape == (1,)
    assert {"alpha", "scale"} <= set(machine.chosen_)
    assert machine.history_
    regressor = KernelRegressor(**SMALL).fit(*wave(500))
    assert regressor.component_coef_.shape == (64,)
    assert type(regressor.intercept_) is float


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_before_fit_the_error_is_ours_and_scikit_learns(kind):
    method = "predict" if hasattr(kind, "predict") else "transform"
    with pytest.raises(NotFittedError) as refused:
        getattr(kind(), method)(np.zeros((2, 3)))
    assert isinstance(refused.value, errors.DKernelError)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros(4), [0, 1, 0, 1], "Expected 2D array"),
        (da.zeros(4), [0, 1, 0, 1], r"X has 1 dimension\(s\)"),
        (ball(50)[0], None, "requires y"),
    ],
    ids=str,
)
def test_bad_input_is_a_data_error(X, y, message):
    with pytest.raises(DataError, match=message):
        KernelClassifier(**SMALL).fit(X, y)


GRID = np.random.default_rng(0).integers(0, 3, (500, 2)).astype(np.float32)
LINE = np.random.default_rng(1).uniform(0, 6, (500, 1))


@pytest.mark.parametrize(
    ("machine", "X", "y", "least"),
    [
        (KernelRegressor(n_components=64), LINE, np.sin(LINE[:, 0]), 0.999),
        (KernelRegressor("linear", n_components=64), LINE, LINE[:, 0], 0.999),
        (KernelRegressor(), GRID, GRID.sum(axis=1) + 0.1, 0.999),
        (KernelClassifier(), GRID, GRID.sum(axis=1) > 2, 0.999),
        (KernelClassifier("polynomial", n_components=100), GRID, GRID.sum(axis=1) > 2, 0.999),
        (KernelClassifier(), np.ones((100, 3)), np.arange(100) % 2, 0.45),
    ],
    ids=["one column", "linear", "equal rows", "equal rows of classes", "polynomial", "all rows equal"],
)
def test_rows_that_say_the_same(machine, X, y, least):
    assert machine.fit(X, y).score(X, y) >= least


def test_exactly_with_landmarks_given_in_any_order():
    X, y = wave(150)
    settings = {"gamma": 0.4, "solver": "exact", "alpha": 1e-4, "scale": "none"}
    all_rows = KernelRegressor("gaussian", **settings).fit(X, y)
    given = KernelRegressor("gaussian", landmarks=X[::-1], **settings).fit(X, y)
    np.testing.assert_allclose(given.predict(X), all_rows.predict(X), atol=1e-3)


@pytest.mark.parametrize("solver", ["auto", "psgd"])
def test_two_rows_are_enough_for_an_answer(solver):
    X = np.array([[1.0], [2.0]])
    low, high = KernelRegressor(solver=solver).fit(X, np.array([2.5, 3.5])).predict(X)
    assert 2.4 < low < high < 3.6
    classes = KernelClassifier(solver=solver).fit(X, np.array(["a", "b"])).predict(X).tolist()
    assert classes == ["a", "b"] if solver == "auto" else set(classes) <= {"a", "b"}  # steps need more rows
