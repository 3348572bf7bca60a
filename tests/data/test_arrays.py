"""Collections in memory and in Dask: the same rows, nothing copied that need not be, errors with both numbers."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dkernel.data.block import Block
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from tests.data.blocks import read_blocks

X = np.arange(60, dtype=np.float32).reshape(20, 3)
Y = np.arange(20) % 3


def blocks(source: Source) -> list[Block]:
    found = read_blocks(source)
    assert tuple(b.rows for b in found) == source.chunk_rows
    return found


def values(source: Source) -> tuple[np.ndarray, np.ndarray | None]:
    found = blocks(source)
    y = None if source.label is None else np.concatenate([b.y for b in found])
    return np.concatenate([b.X for b in found]), y


COLLECTIONS = {
    "numpy": lambda: (X, Y),
    "fortran": lambda: (np.asfortranarray(X), Y.tolist()),
    "integers": lambda: (X.astype("int16"), Y.astype("int8")),
    "lists": lambda: (X.tolist(), Y.tolist()),
    "pandas": lambda: (pd.DataFrame(X), pd.Series(Y)),
    "nullable": lambda: (pd.DataFrame(X.astype(int)).astype("Int64"), pd.Series(Y, dtype="Int64")),
    "dask": lambda: (da.from_array(X, chunks=(7, 3)), da.from_array(Y, chunks=7)),
    "other chunks": lambda: (da.from_array(X, chunks=(7, 3)), da.from_array(Y, chunks=5)),
    "column chunks": lambda: (da.from_array(X, chunks=(7, 2)), da.from_array(Y, chunks=7)),
    "dask and numpy": lambda: (da.from_array(X, chunks=(7, 3)), Y),
    "numpy and dask": lambda: (X, da.from_array(Y, chunks=7)),
    "column of y": lambda: (da.from_array(X, chunks=(7, 3)), da.from_array(Y[:, None], chunks=7)),
    "frames": lambda: (dd.from_pandas(pd.DataFrame(X), npartitions=3), dd.from_pandas(pd.Series(Y), npartitions=3)),
    "frame and array": lambda: (dd.from_pandas(pd.DataFrame(X), npartitions=3), da.from_array(Y, chunks=6)),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_every_collection_gives_the_same_rows(kind: str) -> None:
    source = from_arrays(*COLLECTIONS[kind]())
    found, y = values(source)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(y, Y)
    assert found.dtype == np.float32
    assert y.dtype == np.int64
    assert source.columns == ("0", "1", "2")
    assert len(source.fingerprint) == 64


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_names_of_tasks_say_the_content(kind: str) -> None:
    def keys(source: Source) -> list[str]:
        return [unit.task.key for unit in source.units]

    made = COLLECTIONS[kind]()
    again = COLLECTIONS[kind]()
    assert keys(from_arrays(*made)) == keys(from_arrays(*again))
    assert keys(from_arrays(*made)) != keys(from_arrays(made[0]))


def test_numpy_is_viewed_not_copied() -> None:
    found = blocks(from_arrays(X, Y))
    assert np.shares_memory(found[0].X, X)


def test_chunks_of_a_large_array_are_equal_and_within_the_limit() -> None:
    large = np.zeros((300_000, 2), np.float32)
    assert from_arrays(large).chunk_rows == (100_000,) * 3
    one = from_arrays(da.from_array(large, chunks=(-1, -1)))
    assert len(one.units) == 1
    assert one.chunk_rows == (100_000,) * 3


def test_unknown_chunks_are_computed_once() -> None:
    calls = []

    def counted(block: np.ndarray) -> np.ndarray:
        calls.append(len(block))
        return block

    x = da.from_array(X, chunks=(5, 3)).map_blocks(counted, meta=X[:0], dtype=X.dtype)
    keep = x[:, 0] % 2 == 0
    given = []

    def compute(*tasks: object) -> tuple:
        given.append(len(tasks))
        return dask.compute(*tasks, scheduler="sync")

    source = from_arrays(x[keep], da.from_array(Y, chunks=5)[X[:, 0] % 2 == 0], compute=compute)
    assert given == [1]
    assert calls == [5] * 4
    np.testing.assert_array_equal(values(source)[0], X[X[:, 0] % 2 == 0])


def test_empty_chunks_are_left_out() -> None:
    x = da.concatenate([da.from_array(X[a:b], chunks=-1) for a, b in ((0, 0), (0, 9), (9, 9), (9, 20), (20, 20))])
    source = from_arrays(x, Y)
    assert source.chunk_rows == (9, 11)
    np.testing.assert_array_equal(values(source)[1], Y)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=4)
    source = from_arrays(frame[frame.a > 30])
    np.testing.assert_array_equal(values(source)[0], X[X[:, 0] > 30])
    assert source.columns == ("a", "b", "c")


def test_a_unit_carries_only_its_own_part_of_the_graph() -> None:
    x = da.from_array(np.zeros((10_000, 3), np.float32), chunks=(100, 3)) + 1
    assert max(len(dict(u.task.__dask_graph__())) for u in from_arrays(x).units) < 8


def test_weights_and_labels_of_every_kind() -> None:
    weight = np.linspace(0, 1, 20)
    source = from_arrays(X, np.array(["a", "b"], object)[Y % 2], weight)
    assert source.label_kind == "text"
    assert blocks(source)[0].y.dtype.kind == "U"
    np.testing.assert_array_equal(blocks(source)[0].weight, weight)
    categories = pd.Series(np.array(["a", "b"])[Y % 2], dtype="category", name="animal")
    assert from_arrays(X, categories).label == "animal"
    frame = dd.from_pandas(pd.DataFrame({"x": X[:, 0], "y": categories}), npartitions=2)
    found = values(from_arrays(frame[["x"]], frame["y"]))[1]
    assert found.tolist() == list(categories)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "dask", "frame", "beside dask", "unknown"])
def test_several_targets(kind: str) -> None:
    wanted = np.stack([Y, 2.0 * Y], axis=1)
    frame, x = pd.DataFrame(wanted.astype(int), columns=["a", "b"]), da.from_array(X, chunks=(7, 2))
    rows, targets = {
        "numpy": (X, wanted),
        "pandas": (X, frame),
        "dask": (x, da.from_array(wanted, chunks=(4, 1))),
        "frame": (dd.from_pandas(pd.DataFrame(X), npartitions=3), dd.from_pandas(frame, npartitions=3)),
        "beside dask": (x, frame),
        "unknown": (x[x[:, 0] >= 0], da.from_array(wanted, chunks=(4, 2))[X[:, 0] >= 0]),
    }[kind]
    source = from_arrays(rows, targets)
    assert (source.targets, source.label_kind) == (2, "float")
    assert source.label == ("a, b" if kind in ("pandas", "frame", "beside dask") else "label")
    assert source.y is not None
    np.testing.assert_array_equal(source.y.compute(), wanted)
    assert source.y.dtype == np.float64


@pytest.mark.parametrize("wrap", [np.asarray, lambda a: da.from_array(a, chunks=7)])
def test_lengths_that_differ(wrap: object) -> None:
    with pytest.raises(DataError, match="X has 20 rows, but y has 19"):
        from_arrays(wrap(X), wrap(Y[:19]))
    with pytest.raises(DataError, match="X has 20 rows, but weight has 21"):
        from_arrays(wrap(X), wrap(Y), np.ones(21))


@pytest.mark.parametrize("wrap", [np.asarray, lambda a: da.from_array(a, chunks=7)])
def test_values_that_cannot_be(wrap: object) -> None:
    bad = X.copy()
    bad[17, 1] = np.nan
    with pytest.raises(DataError, match="row 17, column 'v'"):
        blocks(from_arrays(wrap(bad), columns=["u", "v", "w"]))
    y = Y.astype(float)
    y[15] = np.nan
    with pytest.raises(DataError, match="row 15"):
        blocks(from_arrays(wrap(X), wrap(y)))
    with pytest.raises(DataError, match=r"row 15.*-1\.0"):
        blocks(from_arrays(wrap(X), None, wrap(np.where(np.arange(20) == 15, -1.0, 1.0))))


@pytest.mark.parametrize("wrap", [np.asarray, lambda a: da.from_array(a, chunks=7)])
def test_masked_labels_and_weights_are_refused(wrap: Callable[[np.ndarray], Any]) -> None:
    hidden = np.ma.masked_less(np.ones(20) * np.arange(20), 3)
    for beside in ((hidden,), (Y, hidden), (wrap(Y), hidden), (Y, da.from_array(hidden, chunks=7))):
        with pytest.raises(DataError, match="masked array with 3 masked"):
            values(from_arrays(wrap(X), *beside))


def test_sparse_labels_and_weights_are_refused_by_their_type() -> None:
    for several in (sp.csr_matrix(X), sp.coo_array(X)):
        for beside in ((several,), (Y, several)):
            with pytest.raises(DataError, match=r"is of type c\w+; one value per row .* Give \w+\.toarray\(\)"):
                values(from_arrays(X, *beside))


def test_shapes_and_types_that_cannot_be() -> None:
    with pytest.raises(DataError, match="1 dimension"):
        from_arrays(Y)
    with pytest.raises(DataError, match="no rows"):
        from_arrays(X[:0])
    with pytest.raises(DataError, match="no rows"):
        from_arrays(da.from_array(X[:0], chunks=-1))
    with pytest.raises(DataError, match=r"shape \(20, 3\)"):
        from_arrays(X, None, X)
    with pytest.raises(DataError, match="3 columns, but 2 names"):
        from_arrays(X, columns=["a", "b"])
    with pytest.raises(DataError, match="'a' twice"):
        from_arrays(X, columns=["a", "a", "b"])
    with pytest.raises(DataError, match="X, column 'word': it holds text, not numbers"):
        from_arrays(pd.DataFrame({"x": [1.0], "word": ["w"]}))
    with pytest.raises(DataError, match="X, column 'word': it holds text, not numbers"):
        from_arrays(dd.from_pandas(pd.DataFrame({"x": [1.0], "word": ["w"]}), npartitions=1))
    with pytest.raises(DataError, match="mixes int, str"):
        from_arrays(X[:2], np.array([1, "a"], object))
    with pytest.raises(DataError, match="the label is None"):
        from_arrays(X[:2], np.array(["a", None], object))
    with pytest.raises(DataError, match=r"row 1.*the label is"):
        from_arrays(X[:2], pd.Series([1, None], dtype="Int64"))
    with pytest.raises(RecipeError):
        from_arrays(X, dtype="int8")


def test_tasks_that_count_values_are_of_their_frame_alone() -> None:
    # An address is used again once a frame is gone, and a cluster keeps the result of a key.
    frame, keys = pd.DataFrame({"a": [1.0, 2.0], "s": ["u", "v"]}), []

    def compute(*tasks):
        keys.extend(task.key for task in tasks)
        return dask.compute(*tasks)

    for _ in range(2):
        from_arrays(frame, categorical="auto", missing="indicator", compute=compute)
    assert len(set(keys)) == len(keys) == 2


def test_inputs_may_have_equal_names_where_columns_have_none():
    n = 40
    frame = pd.DataFrame(
        {
            "d": pd.date_range("2024-01-01", periods=n),
            "d.year": np.arange(n),
            "s": np.where(np.arange(n) % 2, "a", "b"),
            "s=a": np.arange(n),
        }
    )
    sources = [from_arrays(data, missing="indicator", categorical="auto") for data in (frame, dd.from_pandas(frame, 2))]
    for source in sources:
        assert sorted(source.columns.count(name) for name in ("d.year", "s=a")) == [2, 2]
    one, other = (source.X.compute(scheduler="sync") for source in sources)
    np.testing.assert_array_equal(one, other)
    with pytest.raises(DataError, match="the column 's' twice"):
        from_arrays(pd.concat([frame, frame[["s"]]], axis=1), missing="indicator", categorical="auto")


OBJECTS = {"whole": [1, 2, 3, 4], "fractions": [1.0, 2.0, 3.0, 4.0], "decimals": list(map(Decimal, range(1, 5)))}


@pytest.mark.parametrize("door", ["frame", "array", "dask array"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_that_are_numbers_are_numbers_beside_texts(kind: str, door: str) -> None:
    texts = np.array(["ab", "bc", "cd", "de"], object)
    table = np.stack([texts, np.array(OBJECTS[kind], object)], axis=1)
    rows = {"frame": pd.DataFrame(table), "array": table, "dask array": da.from_array(table, chunks=(2, -1))}[door]
    source = from_arrays(rows, kernel="SpectrumKernel(2).on(['0']) + Linear().on(['1'])")
    assert source.objects == ("0",)
    assert values(source)[0].tolist() == [[text, float(i + 1)] for i, text in enumerate(texts)]
