"""Features that are far from 0 for their spread are as good as without the offset, from files and in the estimators."""

import json
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import RANSACRegressor
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import dkernel
from dkernel import (
    BinningFeatures,
    FourierFeatures,
    KernelClassifier,
    KernelKMeans,
    KernelRegressor,
    NystromFeatures,
    OneClassSVM,
)
from dkernel.errors import DataError, DKernelWarning
from tests.combinations import every_two

OPTIONS = ("--label", "y", "--task", "classify", "--n-components", 128, "--kernel", "gaussian")


def rows(offset, n=1500, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X + offset, (X**2).sum(axis=1) > 2.4


def written(folder, form, offset, seed=0):
    X, y = rows(offset, seed=seed)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y.astype(int))
    if form == "parquet":
        frame.to_parquet(folder / "t.parquet")
    elif form == "csv":
        frame.to_csv(folder / "t.csv", index=False)
    else:
        np.save(folder / "t.npy", frame.to_numpy())
    return folder / f"t.{form}"


@pytest.mark.parametrize("form", ["parquet", "csv", "npy"])
def test_files_with_an_offset_are_as_good_as_without(run_to, tmp_path, form):
    found, options = {}, ("--label", "3", *OPTIONS[2:]) if form == "npy" else OPTIONS
    if form != "parquet":  # one choice is enough
        options = (*options, "--gamma", 0.3, "--alpha", 1e-5, "--metric", "identity")
    for offset in (0.0, 1e9):
        path = written(tmp_path, form, offset)
        run_to("train", path, *options, "--out", tmp_path / "m", "--overwrite", "--quiet")
        new = written(tmp_path, form, offset, seed=1)
        told = run_to("evaluate", tmp_path / "m", new, "--label", "3" if form == "npy" else "y", "--json")
        found[offset] = json.loads(told.stdout)["accuracy"]
        assert json.loads(run_to("show", tmp_path / "m", "--json").stdout)["recipe"]["dtype"] == (
            "float64" if offset else "float32"
        )
    assert found[0.0] > 0.95
    assert found[1e9] > found[0.0] - 0.02
    run_to("train", path, *options, "--out", tmp_path / "m", "--overwrite", "--dtype", "float32", "--quiet")
    assert json.loads(run_to("show", tmp_path / "m", "--json").stdout)["recipe"]["dtype"] == "float32"


def in_a_frame(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


def nullable(X):
    return in_a_frame(X).astype("Float64")


def in_dask(X):
    return da.from_array(X, chunks=(700, *X.shape[1:]))


def in_a_dask_frame(X):
    return dd.from_pandas(in_a_frame(X), npartitions=4)


MAPS = ["nystrom", "fourier"]
CASES = [
    *every_two([np.asarray], ["none", "maxabs", "minmax", "global"], MAPS, ["auto", "psgd"]),
    *every_two([in_a_frame, nullable, in_dask, in_a_dask_frame], ["auto", "none"], MAPS, ["auto"]),
]


@pytest.mark.parametrize(("kind", "scale", "features", "solver"), CASES)
def test_every_kind_of_rows_under_every_scale(kind, scale, features, solver):
    given = {"kernel": "gaussian", "gamma": "scale", "alpha": 1e-6, "n_components": 128, "random_state": 0}
    given |= {"scale": scale, "features": features, "solver": solver}
    found = []
    for offset in (0.0, 1e9):
        X, y = rows(offset)
        machine = KernelClassifier(**given).fit(kind(X), in_dask(y) if "dask" in kind.__name__ else y)
        found.append(np.mean(np.asarray(machine.predict(kind(X))) == y))
    assert found[0] > 0.95
    assert found[1] > found[0] - 0.02


@pytest.mark.parametrize(("kind", "unit"), [(np.asarray, 1e-44), (nullable, 1e-60), (in_dask, 1e-150)])
def test_a_column_of_any_unit_is_learned(kind, unit):
    """In float32 all of its values were 0, without a word."""
    X, _ = rows(0.0)
    y = X[:, 0] > 0
    X[:, 0] *= unit
    machine = KernelClassifier("gaussian", n_components=64, local="none", random_state=0)
    machine.fit(kind(X), in_dask(y) if "dask" in kind.__name__ else y)
    assert np.mean(np.asarray(machine.predict(kind(X))) == y) > 0.95
    machine = KernelClassifier("gaussian", n_components=64, random_state=0)
    for first in (0, 750):
        machine.partial_fit(X[first : first + 750], y[first : first + 750], classes=[False, True])
    assert machine.score(X, y) > 0.9


@pytest.mark.parametrize("unit", [1e-320, 1e-200, 1e-165, 1e155, 1e200, 1e300])
def test_a_column_whose_squares_float64_cannot_hold_is_refused(unit):
    X, _ = rows(0.0)
    y = X[:, 0] > 0
    X[:, 0] *= unit
    text = "cannot hold their squares|too large for float32"
    for settings in ({}, {"dtype": "float64"}):
        with pytest.raises(DataError, match=text if not settings else "cannot hold their squares"):
            KernelClassifier("gaussian", n_components=64, **settings).fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "psgd"])
def test_numbers_are_learned_too(solver):
    far, y = rows(1e9)[0], rows(0.0)[0][:, 0]
    settings = {"kernel": "gaussian", "n_components": 128, "random_state": 0, "solver": solver}
    assert KernelRegressor(**settings).fit(far, y).score(far, y) > 0.95


def test_blocks_that_come_one_by_one_and_sources():
    X, y = rows(1e9, 6000)
    machine = KernelClassifier("gaussian", n_components=128, random_state=0)
    for first in range(0, 6000, 1000):
        machine.partial_fit(X[first : first + 1000], y[first : first + 1000], classes=[False, True])
    assert machine.score(X, y) > 0.9


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
@pytest.mark.parametrize(
    "machine",
    [partial(OneClassSVM, n_components=64), partial(KernelKMeans, 3, n_map_components=64)],
    ids=["one class", "k-means"],
)
def test_machines_without_labels_and_their_models_too(machine, features, tmp_path):
    """Their models had no shift, and were float32 noise."""
    near = rows(0.0, n=400)[0]
    near[:200] += 4
    far = near + 1e9
    near = far - 1e9  # exactly
    settings = {"gamma": 0.3, "features": features, "random_state": 0}
    expected = machine(**settings).fit(near).predict(near)
    fitted = machine(**settings).fit(far)
    np.testing.assert_array_equal(fitted.predict(far), expected)
    dkernel.save(fitted.model_, tmp_path / "m")
    np.testing.assert_array_equal(dkernel.load(tmp_path / "m").model_.predict(far), expected)
    np.testing.assert_array_equal(machine(**settings).fit(in_dask(far)).predict(far), expected)


@pytest.mark.parametrize("scale", ["none", "maxabs"])
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "Gaussian(gamma=0.3) + Linear()"])
def test_products_that_are_nothing_but_rounding_are_told(kernel, scale):
    """R2 was 0, without a word; with the columns centred it is 1. Few rows have the mean, in many nothing is known."""
    X, y = rows(1e9)[0], rows(0.0)[0][:, 0]
    text = r"is near 1.* no more than their rounding\. Centre the columns"
    with pytest.warns(DKernelWarning, match=text):
        mean = KernelRegressor(kernel, scale=scale, n_components=64).fit(X, y).predict(X)
    np.testing.assert_allclose(mean, y.mean(), atol=0.1)
    with pytest.raises(DataError, match=text):
        KernelRegressor(kernel, scale=scale, solver="psgd", n_components=64).fit(X, y)
    if scale == "none":
        for machine in (
            OneClassSVM(kernel=kernel, n_components=32),
            KernelKMeans(2, kernel=kernel, n_map_components=32),
        ):
            with pytest.raises(DataError, match="no more than their rounding"):
                machine.fit(X)


@pytest.mark.filterwarnings("ignore:Column '0' is near 164")
def test_a_search_of_subsets_goes_on_where_two_rows_are_near():
    """RANSACRegressor fits two rows at a time, and an error of one fit ended it."""
    rng = np.random.default_rng(0)
    X = np.append(164 + 0.0072 * rng.normal(size=(40, 1)), rng.normal(164, 8, size=(40, 1)), axis=0)
    y = 2 * X[:, 0] + 0.1 * rng.normal(size=80)
    y[::10] += 500
    search = RANSACRegressor(KernelRegressor("linear", scale=None), min_samples=2, random_state=0, max_trials=20)
    assert r2_score(2 * X[:, 0], search.fit(X, y).predict(X)) > 0.99


def test_products_that_hold_something_are_none_of_these():
    X, y = rows(1e3)[0], rows(0.0)[0][:, 0]
    assert KernelRegressor("linear", scale="none", n_components=64).fit(X, y).score(X, y) > 0.99
    far = np.column_stack([rows(1e9)[0][:, :1], rows(0.0)[0]])
    for kernel, scale in (("Gaussian(gamma=0.3).on([0]) * Linear().on([1, 2, 3])", "none"), ("linear", "maxabs")):
        assert KernelRegressor(kernel, scale=scale, n_components=64).fit(far, y).score(far, y) > 0.9


def test_a_column_of_little_variation_is_not_constant():
    rng = np.random.default_rng(0)
    signal, noise = rng.normal(size=2000), rng.normal(size=(2000, 2))
    X = np.column_stack([noise, 1e5 + 1e-3 * signal])
    machine = KernelClassifier("gaussian", n_components=128, random_state=0, scale="standard")
    assert machine.fit(X, signal > 0).score(X, signal > 0) > 0.95
    constant = np.column_stack([X, np.full(2000, 1e9 + 0.1)])  # and one that is has no scale
    assert machine.fit(constant, signal > 0).score(constant, signal > 0) > 0.95


TRANSFORMERS = {
    "fourier": (partial(FourierFeatures, n_components=4096), rbf_kernel, 0.05),
    "nystrom": (partial(NystromFeatures, n_components=300), rbf_kernel, 1e-6),
    "binning": (partial(BinningFeatures, n_grids=512, n_bins=256), laplacian_kernel, 0.2),
}


@pytest.mark.parametrize(("gamma", "kind"), list(zip(["auto", "median", "scale"], TRANSFORMERS, strict=True)))
def test_transformers_have_the_gamma_and_the_kernel_of_float64(kind, gamma):
    make, exact, atol = TRANSFORMERS[kind]
    far = rows(1e9, n=300)[0]
    near = far - 1e9  # exactly
    machine = make(gamma=gamma, random_state=0).fit(far)
    assert machine.kernel_.gamma == pytest.approx(make(gamma=gamma, random_state=0).fit(near).kernel_.gamma, rel=1e-6)
    phi = machine.transform(far)
    phi = phi.toarray() if hasattr(phi, "toarray") else phi
    np.testing.assert_allclose(phi @ phi.T, exact(near, gamma=machine.kernel_.gamma), atol=atol)


def dtype_of_a_fit(X, **columns):
    X = pd.DataFrame({"x": X[:, 0]}) if columns else X
    machine = KernelClassifier("gaussian", gamma=1.0, n_components=16, alpha=1e-4, local="none", scale="standard")
    return machine.fit(X.assign(**columns) if columns else X, np.arange(len(X)) % 2).model_.recipe.dtype


def test_all_rows_decide_whether_blocks_are_of_float64():
    x = np.random.default_rng(0).normal(size=(1200, 1))
    wants = {1.0: False, 1e3: False, 1e9: True, 1e15: True}
    for offset, wanted in wants.items():
        assert (dtype_of_a_fit(x + offset) == "float64") == wanted
    assert dtype_of_a_fit((x + 1e9).astype(np.float32)) == "float32"
    assert dtype_of_a_fit(np.hstack([x, np.full((1200, 1), 0.1)])) == "float32"
    assert dtype_of_a_fit(1_700_000_000 + np.arange(1200)[:, None]) == "float64"
    assert dtype_of_a_fit(np.arange(1200)[:, None]) == "float32"
    assert dtype_of_a_fit(x, year=2013, one=1.0) == "float32"


@pytest.mark.parametrize("gap", [5, 700])
def test_a_gap_does_not_take_the_digits_of_a_column(gap):
    """A gap among the first rows left blocks of float32, in which the column was noise."""
    e = np.random.default_rng(0).normal(size=3000)
    X = pd.DataFrame({"x": 1e9 + e, "z": e[::-1]})
    X.loc[gap, "x"] = np.nan
    machine = KernelClassifier("gaussian", gamma=1, n_components=16, alpha=1e-6, local="none", random_state=0)
    for rows in (X, dd.from_pandas(X, npartitions=3)):
        y = e > 0 if rows is X else da.from_array(e > 0, chunks=1000)
        assert machine.fit(rows, y).score(X, e > 0) > 0.98


def test_digits_of_later_rows_count_too():
    e = np.random.default_rng(0).normal(size=3000)
    x = np.where(np.arange(3000) < 600, 1e9, 1e9 + e)  # the first rows are alike, and exact in float32
    X = np.column_stack([x, e[::-1]])
    assert dtype_of_a_fit(X) == "float64"


def test_a_stopped_fit_goes_on_in_the_dtype_that_its_rows_decided(tmp_path):
    X, y = rows(1e9)
    settings = {"kernel": "gaussian", "n_components": 64, "random_state": 0, "solver": "psgd", "passes": 2}
    whole = KernelClassifier(**settings).fit(X, y)

    def stop(_):
        raise KeyboardInterrupt

    stopped = KernelClassifier(**settings, checkpoint=tmp_path / "c", callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, y)
    resumed = KernelClassifier(**settings, checkpoint=tmp_path / "c").fit(X, y)
    assert resumed.model_.recipe.dtype == "float64"
    np.testing.assert_array_equal(resumed.decision_function(X), whole.decision_function(X))
