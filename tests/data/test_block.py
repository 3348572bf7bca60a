"""The checks that every block goes through, and the sizes of chunks."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel import KernelRegressor
from dkernel.data.block import Block, UncheckedBlock, as_label, as_weight, chunk_limit, cut_blocks, cut_evenly
from dkernel.data.file_schema import FileSchema, ReadColumns, divide
from dkernel.data.opening import open_source
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import raw_of_table
from dkernel.errors import DataError
from dkernel.numerics.layout import Layout
from tests.combinations import examples


@examples(200)
@given(rows=st.integers(0, 10_000), limit=st.integers(1, 3_000))
def test_cut_is_the_fewest_equal_chunks(rows: int, limit: int) -> None:
    sizes = cut_evenly(rows, limit)
    assert sum(sizes) == rows
    assert len(sizes) == -(-rows // limit)
    assert not sizes or (max(sizes) <= limit and max(sizes) - min(sizes) <= 1)


@examples(200)
@given(steps=st.one_of(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 60)), limit=st.integers(1, 40))
def test_parts_cover_every_row_once_in_order(steps: list[int] | int, limit: int) -> None:
    rows = sum(steps) if isinstance(steps, list) else 500
    table = FileSchema(File("t", 1, "", "npy"), {}, rows, tuple(steps) if isinstance(steps, list) else steps)
    at = 0
    for part, sizes in divide(table, limit):
        assert part.first_row == at
        assert sum(sizes) == part.rows > 0
        assert max(sizes) <= limit
        at += part.rows
    assert at == rows


def test_chunk_limit_is_a_multiple_within_its_bounds() -> None:
    for p in (1, 28, 54, 784, 3000, 10**6):
        for itemsize in (4, 8):
            limit = chunk_limit(p, itemsize)
            assert limit % 2048 == 0
            assert 2048 <= limit <= 131_072
            assert limit * p * itemsize <= 64 * 2**20 or limit == 2048


def test_blocks_of_one_unit() -> None:
    raw = UncheckedBlock(np.arange(10).reshape(5, 2), np.arange(5), np.ones(5), pa.table({"k": range(5)}))
    first, second = cut_blocks(raw, (3, 2), Layout(["a", "b"], "float64"), str, "y", "w")
    assert second.X.tolist() == [[6, 7], [8, 9]]
    assert second.y.tolist() == [3, 4]
    assert second.kept.column("k").to_pylist() == [3, 4]
    assert first.nbytes >= 3 * 2 * 8
    with pytest.raises(DataError, match="5 rows were read where 6 were counted"):
        cut_blocks(raw, (3, 3), Layout(["a", "b"], "float64"), str, "y", "w")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1, 2], np.uint8), "int64"),
        (np.array([1, 2], np.float32), "float64"),
        (np.array([True]), "bool"),
        (np.array(["a", "bc"], object), "<U2"),
        (np.array([b"a", b"bc"]), "<U2"),
        (np.array([True, False], object), "bool"),
        (np.array([1, 2.5], object), "float64"),
        (np.array([[1, 2], [3, 4]]), "float64"),
    ],
)
def test_labels(values: np.ndarray, dtype: str) -> None:
    assert as_label(values, str, "y").dtype == dtype


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (np.array([0, 2**63], np.uint64), "1, column 'y': .*64 signed bits"),
        (np.array([1.0, np.inf]), "1, column 'y': the label is inf"),
        (np.array(["2020-01-01"], "M8[D]"), "bool, integer, float or text is needed"),
        (np.zeros((2, 2, 2)), "one value per row"),
        (np.array([[0.0, 1.0], [2.0, np.nan]]), r"1, column .y\[1\].: the label is nan"),
        (np.array([[0.0, "a"]], object), r"y\[1\] holds text"),
    ],
)
def test_labels_that_cannot_be(values: np.ndarray, match: str) -> None:
    with pytest.raises(DataError, match=match):
        as_label(values, str, "y")


def test_weights_that_cannot_be() -> None:
    for bad in (np.nan, -0.5, np.inf):
        with pytest.raises(DataError, match="1, column 'w'"):
            as_weight(np.array([1, bad]), str, "w")
    with pytest.raises(DataError, match="one number per row"):
        as_weight(np.array(["a"]), str, "w")


@examples(50)
@given(rows=st.integers(1, 3000), p=st.integers(1, 60), pieces=st.integers(1, 5), seed=st.integers(0, 99))
def test_columns_become_rows_whatever_their_chunks(rows: int, p: int, pieces: int, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((rows, p))
    names = tuple(f"c{j}" for j in range(p))
    bounds = list(itertools.pairwise(np.linspace(0, rows, pieces + 1).astype(int)))
    table = pa.table({n: pa.chunked_array([X[a:b, j] for a, b in bounds]) for j, n in enumerate(names)})
    raw = raw_of_table(table, ReadColumns(names, None, None, (), "float32", {}), str)
    np.testing.assert_array_equal(raw.X, X.astype("float32"))


def test_size_of_a_block_is_that_of_its_arrays() -> None:
    block = Block(np.zeros((100, 10), np.float32), np.zeros(100))
    assert block.nbytes == 4800
    assert block.__sizeof__() >= 4800


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float64(), 2)], ids=str)
def test_lists_are_no_labels(kind, tmp_path):
    label = pa.array([[1.0, 2.0]] * 60, kind)
    pq.write_table(pa.table({"a": np.arange(60.0), "label": label}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="'label' holds lists"):
        open_source(tmp_path / "a.parquet", label="label").units[0].task.compute()
    with pytest.raises(DataError, match="y holds lists"):
        KernelRegressor().fit(np.arange(60.0)[:, None], label.to_pandas())
