"""Regressions of several targets: each as it would be alone, one setup for all, in every collection and solver."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import scipy.spatial.distance
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import KernelCenterer

import dkernel
from dkernel import KernelClassifier, KernelRegressor, Tuner
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError
from dkernel.estimators.validation import make_source
from dkernel.inference.evaluate import evaluate_model
from dkernel.inference.score import write_scores
from dkernel.model.recipe import Recipe
from dkernel.solvers.exact import deduplicate
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train

MANY = 4200  # rows: fewer are in an order that the label decides too
SET = {"kernel": "gaussian", "metric": "identity", "gamma": 0.4, "n_components": 64, "alpha": 1e-4, "scale": "standard"}


def pair(n, seed=0):
    """Two functions of three columns, of units that are far apart; noise of 0.1 and of 20."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3)).astype(np.float32)
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], 1000 + 200 * np.cos(X[:, 1])])
    return X, Y + rng.normal(size=(n, 2)) * [0.1, 20.0]


def lazy(X, Y, rows=400):
    return da.from_array(X, chunks=(rows, -1)), da.from_array(Y, chunks=(rows, 1))


def fit(X, Y, weight=None, landmarks=None, **changes):
    """A model of all rows, none of them held out."""
    settings = {"task": "regress", "loss": "squared", "metric": "identity", "holdout": 0.0, "solver": "psgd"}
    recipe = Recipe(**SET | settings | changes)
    return train(from_arrays(X, Y, weight), recipe, SerialExecutor(), landmarks=landmarks).model


@pytest.mark.parametrize("solver", ["exact", "normal"])
def test_kernel_ridge_of_scikit_learn(solver):
    (X, Y), (new, _) = pair(300), pair(100, seed=1)
    given = X if solver == "normal" else None
    model = fit(X, Y, None, given, solver=solver, alpha=1e-3, n_components="auto", scale="none")

    def kernel(A):
        return np.exp(-0.4 * scipy.spatial.distance.cdist(A, X, "sqeuclidean"))

    centre = KernelCenterer().fit(kernel(X))  # of a machine with an intercept
    twin = KernelRidge(alpha=1e-3 * 300, kernel="precomputed").fit(centre.transform(kernel(X)), Y - Y.mean(axis=0))
    wanted = twin.predict(centre.transform(kernel(new))) + Y.mean(axis=0)
    found = model.predict(new)
    assert found.shape == (100, 2)
    assert (np.abs(found - wanted) / Y.std(axis=0)).max() < 1e-4


@pytest.mark.parametrize(
    ("changes", "off"),
    [
        ({"solver": "normal"}, 5e-5),  # of a float32 score; the rows are in another order, which rounds otherwise
        ({"solver": "exact", "n_components": "auto"}, 2e-5),
        ({"solver": "exact", "n_components": "auto", "loss": "quantile(0.7)"}, 1e-4),
        ({"solver": "pcg"}, 1e-3),
        ({"solver": "lbfgs", "loss": "huber"}, 1e-3),
        ({"solver": "psgd"}, 2e-5),
        ({"solver": "psgd", "loss": "epsilon_insensitive(0.2)"}, 2e-5),
        ({"solver": "psgd", "features": "fourier", "loss": "quantile"}, 2e-5),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_each_column_is_the_fit_of_that_target_alone(changes, off):
    X, Y = pair(1000)
    weight = np.random.default_rng(2).uniform(0.2, 2.0, len(X))
    # Few rows are merged in an order that the label decides too, and landmarks would be drawn in it.
    landmarks = None if changes["solver"] in ("exact", "psgd") else X[:64]
    both = fit(X, Y, weight, landmarks, **changes)
    found = both.predict(X)
    assert both.coef.shape == (both.map.n_components, 2)
    for j in range(2):
        apart = np.abs(found[:, j] - fit(X, Y[:, j], weight, landmarks, **changes).predict(X))
        assert apart.max() < off * Y[:, j].std(), j


def test_alpha_is_that_of_the_sum_of_the_standardized_targets():
    X, Y = pair(MANY)
    Y[:, 1] = np.random.default_rng(1).normal(size=MANY)  # nothing to learn, which wants another alpha
    both, *alone = (fit(X, y, alpha="auto", solver="normal").facts["ridge"] for y in (Y, Y[:, 0], Y[:, 1]))
    for figure in ("kfold", "loo", "mse", "gcv"):
        wanted = sum(np.array(each[figure]) / Y[:, j].var() for j, each in enumerate(alone))
        np.testing.assert_allclose(both[figure], wanted, rtol=1e-4)
    best = [each["alpha"][int(np.argmin(each["kfold"]))] for each in (both, *alone)]
    assert best[1] < best[2]
    assert best[1] <= best[0] <= best[2]


def test_every_collection_gives_the_same_model_and_answers_in_its_kind():
    X, Y = pair(1500)
    machine = KernelRegressor(**SET, solver="normal").fit(*lazy(X, Y))
    frame, targets = pd.DataFrame(X, columns=list("abc")), pd.DataFrame(Y, columns=["low", "high"])
    frames = dd.from_pandas(frame, npartitions=4), dd.from_pandas(targets, npartitions=4)
    model = KernelRegressor(**SET, solver="normal").fit(*frames).model_
    np.testing.assert_allclose(model.coef, machine.model_.coef, rtol=1e-6, atol=1e-6 * np.abs(model.coef).max())
    assert model.label == "low, high"
    here = KernelRegressor(**SET, solver="normal").fit(frame, targets)
    assert here.score(frame, targets) > 0.9
    x = lazy(X, Y)[0]
    found, std = machine.predict(x, return_std=True)
    for answer in (found, std):
        assert isinstance(answer, da.Array)
        assert answer.chunks == (x.chunks[0], (2,))
        assert answer.compute().shape == (1500, 2)
    np.testing.assert_array_equal(found.compute(), machine.predict(X))
    np.testing.assert_allclose(here.predict(frame), machine.predict(X), rtol=1e-3)
    np.testing.assert_array_equal(from_arrays(x, Y).y.compute(), Y)


def test_score_is_r2_of_all_targets_alike():
    X, Y = pair(1500)
    new, wanted = pair(700, seed=3)
    machine = KernelRegressor(**SET).fit(X, Y)
    weight = np.random.default_rng(0).uniform(size=700)
    r2 = r2_score(wanted, machine.predict(new), sample_weight=weight)
    assert machine.score(new, wanted, weight) == pytest.approx(r2)
    assert machine.score(*lazy(new, wanted), da.from_array(weight, chunks=400)) == pytest.approx(r2)
    assert r2 > 0.9
    error = wanted - machine.predict(new)
    found = evaluate_model(machine.model_, from_arrays(new, wanted), SerialExecutor())
    assert found["rmse"] == pytest.approx(np.sqrt((error**2).mean(axis=0)).mean())
    assert found["mae"] == pytest.approx(np.abs(error).mean())
    with pytest.raises(DataError, match=r"predicts 2 target\(s\), and the rows have 1"):
        evaluate_model(machine.model_, from_arrays(new, wanted[:, 0]), SerialExecutor())


def test_deviations_are_those_of_each_target_alone():
    X, Y = pair(900)
    both, new = fit(X, Y, landmarks=X[:64], solver="normal"), pair(50, seed=5)[0]
    for j in range(2):
        alone = fit(X, Y[:, j], landmarks=X[:64], solver="normal")
        assert both.facts["noise"][j] == pytest.approx(alone.facts["noise"])
        np.testing.assert_allclose(both.std(new)[:, j], alone.std(new), rtol=1e-6)


@pytest.mark.parametrize("solver", ["normal", "psgd"])
def test_it_leaves_and_comes_back(tmp_path, solver):
    X, Y = pair(900)
    machine = KernelRegressor(**SET, solver=solver).fit(X, Y)
    dkernel.save(machine, tmp_path / "a")
    again = dkernel.load(tmp_path / "a").model_
    np.testing.assert_array_equal(again.predict(X), machine.model_.predict(X))
    dkernel.save(again, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    words = ["score", "std"] if solver == "normal" else ["score"]
    write_scores(again, from_arrays(X), tmp_path / "out", SerialExecutor(), write=words)
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == [f"{word}_{j}" for word in words for j in range(2)]
    np.testing.assert_array_equal(table["score_1"].to_numpy(), again.predict(X)[:, 1])
    if solver == "normal":
        np.testing.assert_array_equal(table["std_1"].to_numpy(), again.std(X)[:, 1])


@pytest.mark.parametrize("way", ["fit", "blocks", "file"])
def test_dask_frames_have_the_names_of_the_targets(way, tmp_path):
    X, Y = (pd.DataFrame(each) for each in pair(900))
    Y.columns = ["u", "v"]
    lazy, targets = (dd.from_pandas(each, npartitions=2) for each in (X, Y))
    machine = KernelRegressor(**SET)
    machine.partial_fit(lazy, targets) if way == "blocks" else machine.fit(lazy, targets)
    if way == "file":
        dkernel.save(machine, tmp_path / "m")
        machine = dkernel.load(tmp_path / "m")
    assert list(machine.predict(lazy).columns) == ["score_u", "score_v"]
    assert list(machine.predict_interval(lazy).columns) == ["lower_u", "upper_u", "lower_v", "upper_v"]
    Y.columns = ["u", "u"]
    assert list(machine.fit(X, Y).predict(lazy).columns) == ["score_0", "score_1"]


def test_blocks_as_they_come():
    X, Y = pair(6000)
    machine = KernelRegressor(**SET)
    for first in range(0, 6000, 1000):
        machine.partial_fit(X[first : first + 1000], Y[first : first + 1000])
    new, wanted = pair(700, seed=3)
    assert min(r2_score(wanted, machine.predict(new), multioutput="raw_values")) > 0.9
    with pytest.raises(DataError, match=r"y has 1 column\(s\), and the rows before it had 2"):
        machine.partial_fit(X, Y[:, 0])
    fitted = KernelRegressor(**SET).fit(X[:3000], Y[:3000]).partial_fit(X[3000:], Y[3000:])
    assert fitted.score(new, wanted) > 0.9


@pytest.mark.parametrize("solver", ["normal", "psgd"])
def test_a_checkpoint_holds_it(tmp_path, solver):
    X, Y = pair(900)
    whole = KernelRegressor(**SET, solver=solver).fit(X, Y)
    for _ in range(2):  # the second finds what the first has left
        machine = KernelRegressor(**SET, solver=solver, checkpoint=tmp_path / "kept").fit(X, Y)
        np.testing.assert_array_equal(machine.component_coef_, whole.component_coef_)
        np.testing.assert_array_equal(machine.predict(X), whole.predict(X))


def test_rows_of_equal_features_and_other_targets_stay_apart():
    X, Y = np.array([[0.0], [0.0], [1.0], [0.0]]), np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 0.0], [1.0, -0.0]])
    source = deduplicate(make_source(KernelRegressor(), X, Y), KernelRegressor()._recipe(), SerialExecutor())
    assert sorted(source.y.compute().tolist()) == [[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]
    blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    assert sorted(weight for block in blocks for weight in block.weight) == [1.0, 1.0, 2.0]


def test_sparse_rows():
    rng = np.random.default_rng(0)
    X = sp.random(600, 6000, density=0.005, random_state=rng, format="csr", dtype=np.float32)
    W = rng.normal(size=(6000, 2))
    settings = {"kernel": "linear", "gamma": "auto", "scale": "auto"}
    both, one = (fit(X, y, **settings) for y in (X @ W, (X @ W)[:, 1]))
    np.testing.assert_allclose(both.predict(X)[:, 1], one.predict(X), atol=1e-4)
    machine = KernelRegressor("linear").fit(X, X @ W)
    assert machine.predict(X).shape == (600, 2)
    assert machine.score(X, X @ W) > 0.9


def test_a_search_and_cross_validation():
    X, Y = pair(1500)
    machine = KernelRegressor("gaussian", metric="identity", n_components=48, random_state=0, solver="psgd")
    tuner = Tuner(machine, {"gamma": [1e-4, 0.4], "alpha": [1e-6]}).fit(X, Y)
    assert tuner.best_params_["kernel"] == "Gaussian(gamma=0.4)"
    assert tuner.predict(X).shape == Y.shape
    assert 0 < tuner.leaderboard_[0]["rmse"] < 1  # in standard deviations
    frame = pd.DataFrame(Y, columns=["low", "high"])
    assert Tuner(machine, tuner.param_grid).fit(X, frame).best_model_.facts["targets"] == ["low", "high"]
    assert cross_val_score(KernelRegressor(**SET), X, Y, cv=3, error_score="raise").min() > 0.9


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame, lambda Y: da.from_array(Y, chunks=(70, 1))])
def test_targets_that_cannot_be(wrap):
    X, Y = pair(200)
    x = da.from_array(X, chunks=(50, -1)) if hasattr(wrap(Y), "chunks") else X
    spoilt = Y.copy()
    spoilt[150, 1] = np.nan
    with pytest.raises(DataError, match=r"row 150, column 'y\[1\]': the label is nan"):
        KernelRegressor(**SET).fit(x, wrap(spoilt))
    with pytest.raises(DataError, match="200 rows, but y has 199"):
        KernelRegressor(**SET).fit(x, wrap(Y[:199]))
    with pytest.raises(DataError, match=r"2 columns|y should be a 1d array|Unknown label type"):
        KernelClassifier(**SET).fit(x, wrap(Y))


def test_targets_that_cannot_be_learned_as_classes():
    X, Y = pair(200)
    with pytest.raises(DataError, match="y has 2 columns, and a KernelClassifier learns one"):
        KernelClassifier(**SET).fit(from_arrays(X, Y))
    with pytest.raises(DataError, match=r"y\[0\] holds text"):
        KernelRegressor(**SET).fit(X, pd.DataFrame({"a": ["u", "v"] * 100, "b": Y[:, 0]}))
    with pytest.raises(DataError, match="the label is <NA>"):
        KernelRegressor(**SET).fit(X[:2], pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, None], "Int64")}))
    with pytest.raises(DataError, match="dim 3"):
        KernelRegressor(**SET).fit(X, np.zeros((200, 2, 2)))


def test_one_column_is_one_target():
    X, Y = pair(300)
    flat = KernelRegressor(**SET).fit(X, Y[:, 0])
    table = KernelRegressor(**SET).fit(X, pd.DataFrame({"y": Y[:, 0]}))
    np.testing.assert_array_equal(flat.predict(X), table.predict(X))
    assert flat.predict(X).shape == (300,)


def test_the_fingerprint_knows_which_target_is_which():
    X, Y = pair(100)
    whole = [fit(X, y, solver="normal").facts["data"] for y in (Y, Y[:, ::-1], Y[:, [0, 0]], Y.copy())]
    assert len(set(whole)) == 3
    assert whole[0] == whole[3]
