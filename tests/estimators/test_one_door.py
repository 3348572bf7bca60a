"""Rows are the same whatever holds them: columns by name, masked values missing, arrays of other libraries."""

import array_api_strict
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import xarray as xr

from dkernel import BinningFeatures, KernelCCA, KernelClassifier, KernelPCA, KernelRegressor, NystromFeatures
from dkernel.errors import DataError

RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame(RNG.normal(size=(240, 3)) * [1, 10, 100], columns=list("abc"))
TABLE = NUMBERS.assign(s=np.where(NUMBERS["a"] > 0, "u", "v"), t=pd.date_range("2024-01-01", periods=240))
Y = NUMBERS["a"] + NUMBERS["b"]
TARGETS = pd.DataFrame({"p": NUMBERS["a"], "q": NUMBERS["b"]})
QUICK = {"kernel": "gaussian", "gamma": 0.1, "n_components": 16, "alpha": 1e-3, "local": "none", "metric": "identity"}


def machine():
    return KernelRegressor(**QUICK)


FITTED = {"numbers": machine().fit(NUMBERS, Y), "table": machine().fit(TABLE, Y)}
TOLD = KernelClassifier(**QUICK).fit(NUMBERS, Y > 0)
# What each call that reads rows gives, by rows and numbers; those of numbers alone take no table.
READS = {
    "fit": lambda X, y: machine().fit(X, y).component_coef_,
    "predict": lambda X, _: FITTED["numbers" if X.shape[1] == 3 else "table"].predict(X),
    "score": lambda X, y: FITTED["numbers" if X.shape[1] == 3 else "table"].score(X, y),
    "judged by": lambda X, y: machine().fit(*AS_IT_IS[X.shape[1]], eval_set=(X, y)).component_coef_,
}
ALONE = {
    "partial_fit": lambda X, y: machine().partial_fit(X, y).component_coef_,
    "probabilities": lambda X, _: TOLD.predict_proba(X),
    "components": lambda X, _: KernelPCA(2, gamma=0.1).fit(X).transform(X),
    "grids": lambda X, _: BinningFeatures(0.1, n_grids=4).fit(X).transform(X),
    "views": lambda X, _: KernelCCA(1, gamma=0.1).fit(X, X).transform(X),
}
AS_IT_IS = {3: (NUMBERS, Y), 5: (TABLE, Y)}


def lazy(frame, turned=lambda part: part):
    """A Dask frame of four partitions, of which the third is turned; Dask knows what the first holds."""
    parts = [turned(frame[i : i + 60]) if i == 120 else frame[i : i + 60] for i in range(0, 240, 60)]
    return dd.from_map(lambda i: parts[i], range(4), meta=frame[:0])


def known(call):
    value = call.compute() if hasattr(call, "compute") else call
    return value.toarray() if hasattr(value, "toarray") else np.asarray(value)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("columns", ["numbers", "table"])
@pytest.mark.parametrize("call", {**READS, **ALONE})
def test_a_partition_is_read_by_name(call, columns):
    if columns == "table" and call in ALONE:
        return
    X, read = (NUMBERS if columns == "numbers" else TABLE), {**READS, **ALONE}[call]
    y = lazy(Y)
    expected = known(read(lazy(X), y))
    np.testing.assert_array_equal(known(read(lazy(X, lambda part: part[part.columns[::-1]]), y)), expected)
    with pytest.raises(DataError, match="A partition of X lacks the column 'b'"):
        known(read(lazy(X, lambda part: part.drop(columns="b")), y))


def test_targets_of_a_partition_are_read_by_name():
    expected = machine().fit(lazy(NUMBERS), lazy(TARGETS)).component_coef_
    found = machine().fit(lazy(NUMBERS), lazy(TARGETS, lambda part: part[["q", "p"]])).component_coef_
    np.testing.assert_array_equal(found, expected)


def test_dates_in_a_partition_of_numbers_are_refused():
    days = lazy(NUMBERS, lambda part: part.assign(b=pd.Timestamp("2024-01-01")))
    with pytest.raises(DataError, match=r"Column 'b' of X holds .*, where other rows or the training have numbers"):
        FITTED["numbers"].predict(days).compute()


@pytest.mark.parametrize("columns", ["numbers", "table"])
def test_a_stream_is_read_by_name(columns):
    rows = AS_IT_IS[3 if columns == "numbers" else 5][0]
    stream = pa.Table.from_pandas(rows[rows.columns[::-1]]).to_reader(100)
    np.testing.assert_array_equal(FITTED[columns].predict(stream), FITTED[columns].predict(rows))


HOLES = NUMBERS.to_numpy().copy()
HOLES[::9, 1] = -9999
GAPS = np.where(HOLES == -9999, np.nan, HOLES)
MASKED = np.ma.masked_equal(HOLES, -9999)
MASKS = {
    "in memory": (MASKED, GAPS),
    "in Dask": (da.ma.masked_equal(da.from_array(HOLES, chunks=(60, 2)), -9999), da.from_array(GAPS, chunks=(60, 2))),
    "on a worker": (
        da.from_array(HOLES, chunks=(60, 3)).map_blocks(lambda block: np.ma.masked_equal(block, -9999), dtype=float),
        da.from_array(GAPS, chunks=(60, 3)),
    ),
    "of whole numbers": (
        np.ma.masked_equal(HOLES.astype(int), -9999),
        np.where(np.isnan(GAPS), GAPS, HOLES.astype(int)),
    ),
}


@pytest.mark.parametrize("where", MASKS)
@pytest.mark.parametrize("call", ["fit", "predict", "score"])
def test_what_is_masked_is_missing(where, call):
    X, gaps = MASKS[where]
    y = Y.to_numpy() if where in ("in memory", "of whole numbers") else da.from_array(Y.to_numpy(), chunks=60)
    fitted = machine().fit(NUMBERS.to_numpy(), Y)
    reads = {"fit": READS["fit"], "predict": lambda X, _: fitted.predict(X), "score": fitted.score}
    np.testing.assert_array_equal(known(reads[call](X, y)), known(reads[call](gaps, y)))


@pytest.mark.parametrize("which", ["y", "sample_weight"])
@pytest.mark.parametrize("lazily", [False, True])
def test_masked_labels_and_weights_are_refused(which, lazily):
    given = {"X": NUMBERS.to_numpy(), "y": Y.to_numpy(), "sample_weight": np.ones(240)}
    for hidden in (False, True):
        values = np.ma.array(given[which], mask=np.arange(240) == 3 * hidden if hidden else False)
        given[which] = values
        rows = {name: da.from_array(each, chunks=60) for name, each in given.items()} if lazily else given
        if not hidden:
            machine().fit(**rows)
            continue
        with pytest.raises(DataError, match=r"^(y|sample_weight|weight) is a masked array with 1 masked value"):
            machine().fit(**rows)


WEIGHTS = {
    "masked": np.ma.array(np.ones(240), mask=np.arange(240) == 3),
    "negative": np.arange(240) - 1.0,
    "missing": np.where(np.arange(240) == 3, np.nan, 1.0),
    "of time": pd.to_timedelta(np.arange(240), "s"),
    "complex": np.ones(240) * 1j,
    "text": np.repeat("1", 240),
    "short": np.ones(239),
    "two columns": np.ones((240, 2)),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("which", [KernelRegressor, KernelClassifier])
def test_weights_that_a_fit_refuses_are_refused_by_score(kind, which):
    y = Y > 0 if which is KernelClassifier else Y
    with pytest.raises(DataError) as of_fit:
        which(**QUICK).fit(NUMBERS, y, WEIGHTS[kind])
    with pytest.raises(DataError) as of_score:
        (TOLD if which is KernelClassifier else FITTED["numbers"]).score(NUMBERS, y, WEIGHTS[kind])
    assert str(of_score.value) == str(of_fit.value)
    assert len(str(of_fit.value)) < 200


@pytest.mark.parametrize("frame_of", [polars.from_pandas, pa.Table.from_pandas], ids=["polars", "arrow"])
@pytest.mark.parametrize("kind", ["numbers", "table", "any"])
def test_frames_of_other_libraries_are_those_of_pandas(frame_of, kind):
    rows = TABLE if kind == "table" else NUMBERS.astype("float32")
    settings = {**QUICK, **({"kernel": "Gaussian(0.1).on(['a', 'b'])", "gamma": "auto"} if kind == "any" else {})}
    expected, found = (KernelRegressor(**settings).fit(X, Y) for X in (rows, frame_of(rows)))
    assert found.model_.columns == expected.model_.columns == tuple(rows)
    np.testing.assert_array_equal(found.predict(frame_of(rows)), expected.predict(rows))
    if kind == "numbers":
        maps = [NystromFeatures(gamma=0.1, n_components=8).fit(X).transform(X) for X in (rows, frame_of(rows))]
        assert maps[0].dtype == maps[1].dtype
        np.testing.assert_array_equal(*maps)


STRUCTURED = np.rec.fromrecords(NUMBERS.to_numpy().tolist(), names=list("abc"))
HOLDERS = {
    "xarray": xr.DataArray(NUMBERS.to_numpy()),
    "xarray on Dask": xr.DataArray(NUMBERS.to_numpy()).chunk(60),
    "strict arrays": array_api_strict.asarray(NUMBERS.to_numpy()),
    "structured": np.array(STRUCTURED, STRUCTURED.dtype.descr),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("holder", HOLDERS)
def test_arrays_of_other_libraries_are_read(holder):
    X, y = HOLDERS[holder], Y.to_numpy()
    lazily = holder == "xarray on Dask"
    rows = da.from_array(NUMBERS.to_numpy(), chunks=(60, 3)) if lazily else NUMBERS.to_numpy()
    labels = xr.DataArray(y).chunk(60) if lazily else array_api_strict.asarray(y) if holder == "strict arrays" else y
    expected = machine().fit(rows, da.from_array(y, chunks=60) if lazily else y)
    found = machine().fit(X, labels)
    np.testing.assert_array_equal(found.component_coef_, expected.component_coef_)
    np.testing.assert_array_equal(known(found.predict(X)), known(expected.predict(rows)))
    np.testing.assert_array_equal(FITTED["numbers"].predict(X), FITTED["numbers"].predict(NUMBERS))
    assert found.score(X, labels) == expected.score(rows, da.from_array(y, chunks=60) if lazily else y)


def test_truth_values_and_numbers_are_the_same_groups():
    sites, rows = np.arange(240) % 2, NUMBERS.to_numpy()
    forms = (sites, sites == 1, sites.astype(float), np.where(sites == 1, "true", "false"))
    for training in forms[:3]:
        told = machine().fit(rows, Y).conformalize(rows, Y, groups=training)
        expected = told.predict_interval(rows, groups=training)
        for groups in forms:
            np.testing.assert_array_equal(told.predict_interval(rows, groups=groups), expected)
