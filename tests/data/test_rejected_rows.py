"""Bad rows are left out and listed, with file, line, byte, column, reason and text of each; others are untouched."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.data.file_schema import FilePart, ReadColumns, ReadOptions
from dkernel.data.opening import open_source, read_unit
from dkernel.data.paths import expand
from dkernel.data.readers.csv_schema import _header, scan
from dkernel.data.rejected_rows import REJECTS, rows_of_csv, to_csv
from dkernel.data.scratch import Scratch
from dkernel.data.scratch_copies import unpack_all
from dkernel.errors import DataError, RecipeError
from tests.combinations import examples
from tests.data import brute_csv


def read(paths, columns, **options):
    """Features, kept columns and rejected rows of all units."""
    source = open_source(paths, columns=columns, quarantine=True, **options)
    blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    X = np.concatenate([block.X for block in blocks])
    kept = pa.concat_tables([block.kept for block in blocks]) if source.kept else None
    refused = pa.concat_tables([b.refused for b in blocks if b.refused is not None] or [REJECTS.empty_table()])
    assert len(X) + len(refused) == source.n_rows
    return X, kept, refused.to_pylist()


def in_ranges(path: Path, folder: str, scan_bytes: int, step_rows: int):
    """The same of one CSV file, as units of one small step each would read them."""
    (file,) = unpack_all(expand(path), Scratch(folder), dask.compute)
    found = scan(file, _header(file, ReadOptions()), None, ("id", "text"), scan_bytes, step_rows, True)
    kinds = {"a": "float", "b": "float", "id": "text", "text": "text"}
    columns = ReadColumns(("a", "b"), None, None, ("id", "text"), "float32", kinds, "text", True)
    blocks: list = []
    for i, n in enumerate(found.steps):
        first = sum(found.steps[:i])
        part = FilePart(i, i + 1, first, n, (found.marks[i], found.marks[i + 1]), found.extra, found.lines[i])
        blocks += read_unit(file, part, columns, (n,))
    lists = [block.refused.to_pylist() for block in blocks if block.refused is not None]
    return (
        np.concatenate([b.X for b in blocks]),
        pa.concat_tables([b.kept for b in blocks]),
        [row for rows in lists for row in rows],
    )


@pytest.mark.usefixtures("batches")
@examples(60)
@given(brute_csv.contents(), st.booleans(), st.integers(1, 97), st.integers(1, 4))
def test_rejects_are_those_of_a_reader_that_follows_every_character(data, packed, scan_bytes, step_rows):
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.csv.gz" if packed else "x.csv")
        path.write_bytes(gzip.compress(data) if packed else data)
        rows = [(*row, brute_csv.verdict(row[-1])) for row in brute_csv.rows_of(data)]
        good, bad = [row for row in rows if row[-1] is None], [row for row in rows if row[-1]]
        X, kept, refused = in_ranges(path, folder, scan_bytes, step_rows)
    assert kept.to_pydict() == {"id": [r[4][2] for r in good], "text": [r[4][3] for r in good]}
    np.testing.assert_array_equal(X, np.array([r[4][:2] for r in good], float).reshape(-1, 2).astype("float32"))
    assert [(r["file"], r["line"], r["offset"], r["raw"]) for r in refused] == [(str(path), *r[:3]) for r in bad]
    for found, (*_, (column, reason)) in zip(refused, bad, strict=True):
        assert found["column"] == column
        assert reason in found["reason"]


WORDS = {"words": "x,b,t\n1,true,u\noops,false,v\n3,maybe,w\n4,true,z\n", "no words": "x,b,t\n1,true,u\n2,false,v\n"}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("kept_as", ["types", "numbers", "text"])
@pytest.mark.parametrize("keep", [("x",), ("b", "t"), "all"])
def test_a_feature_that_is_kept_is_read_as_one_that_is_not(tmp_path, name, kept_as, keep):
    (tmp_path / "k.csv").write_text(WORDS[name])
    (plain, _, bad), (found, kept, refused) = (
        read(tmp_path / "k.csv", ("x", "b"), keep=names, kept_as=kept_as, known=["t"]) for names in ((), keep)
    )
    np.testing.assert_array_equal(found, plain)
    assert (refused, len(kept)) == (bad, len(plain))


def test_lines_are_right_far_into_a_file_of_many_units(tmp_path):
    n, bad = 20_000, (0, 4_999, 5_000, 12_345, 19_999)
    rows = [f'{i},"t\n{i}"\n' if i % 7 == 0 else f"{i},t\n" for i in range(n)]
    for i in bad:
        rows[i] = f"oops{i},t\n"
    lines = np.cumsum([0, *(row.count("\n") for row in rows)]) + 2
    offsets = np.cumsum([0, *(len(row) for row in rows)]) + len("x,t\n")
    (tmp_path / "x.csv").write_text("x,t\n" + "".join(rows))
    X, kept, refused = read(tmp_path / "x.csv", ("x",), keep=["t"], scan_bytes=1000)
    assert [r["line"] for r in refused] == [lines[i] for i in bad]
    assert [r["offset"] for r in refused] == [offsets[i] for i in bad]
    assert [r["reason"] for r in refused] == [f"'oops{i}' is not a number" for i in bad]
    np.testing.assert_array_equal(X[:, 0], np.delete(np.arange(n), bad))
    assert kept.column("t")[-1].as_py() == "t"


def binary(folder: Path, kind: str, X: np.ndarray) -> Path:
    path = folder / f"x.{kind}"
    if kind == "parquet":
        columns = [pa.array(c, mask=np.arange(len(c)) == 3) if j == 1 else pa.array(c) for j, c in enumerate(X.T)]
        pq.write_table(pa.table(columns, names=["0", "1"]), path, row_group_size=4)
    elif kind == "npy":
        np.save(path, X)
    elif kind == "zarr":
        import zarr

        zarr.create_array(path, data=X, chunks=(4, 2))
    else:
        import h5py

        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=X, chunks=(4, 2))
    return path


@pytest.mark.parametrize("kind", ["parquet", "npy", "zarr", "h5"])
def test_rows_of_binary_files_by_their_number(tmp_path, kind):
    X = np.arange(22.0).reshape(11, 2)
    X[3, 1], X[5, 0], X[5, 1], X[10, 1] = np.nan, 1e300, np.inf, -np.inf
    path = binary(tmp_path, kind, X)
    found, _, refused = read(path, ("0", "1"))
    np.testing.assert_array_equal(found, np.delete(X, [3, 5, 10], axis=0).astype("float32"))
    assert [(r["file"], r["line"], r["offset"], r["column"]) for r in refused] == [
        (str(path), 4, None, "1"),
        (str(path), 6, None, "0"),
        (str(path), 11, None, "1"),
    ]
    first = "the value is missing" if kind == "parquet" else "nan is not finite"
    assert [r["reason"] for r in refused] == [first, "1e+300 is too large for float32", "-inf is not finite"]
    assert [r["raw"] for r in refused][1:] == ["1e+300", "-inf"]


def test_lines_of_svmlight(tmp_path):
    lines = ["1 1:0.5 2:1", "# nothing", "1 oops", "", "-1 2:nan", "1 1:1 1:2", "1 2:4 # fine", "0 a:1"]
    (tmp_path / "x.svm").write_text("\n".join(lines) + "\n")
    X, _, refused = read(tmp_path / "x.svm", ("1", "2"), scan_bytes=16)
    np.testing.assert_array_equal(X, [[0.5, 1], [0, 4]])
    assert [(r["line"], r["raw"]) for r in refused] == [(i + 1, lines[i]) for i in (2, 4, 5, 7)]
    assert [r["offset"] for r in refused] == [len("\n".join(lines[:i])) + 1 for i in (2, 4, 5, 7)]
    assert [r["reason"] for r in refused] == [
        "not a label, then index:value pairs",
        "nan is not finite",
        "the index 1 occurs twice",
        "not a label, then index:value pairs",
    ]


@pytest.mark.parametrize("neighbour", ["1 oops", "1 2:4"])
def test_an_index_twice_is_bad_beside_any_line(tmp_path, neighbour):
    (tmp_path / "x.svm").write_text(f"1 1:1\n{neighbour}\n1 1:1 9:1 9:2\n")
    refused = read(tmp_path / "x.svm", ("1", "2"), allow_extra=True)[2]
    assert [r["reason"] for r in refused if r["line"] == 3] == ["the index 9 occurs twice"]
    (tmp_path / "x.svm").write_text("1 1:1 9:1 9:2\n")
    with pytest.raises(DataError, match=r"x\.svm, row 1: .* is not a line of svmlight: the index 9 occurs twice"):
        open_source(tmp_path / "x.svm", columns=("1", "2"), allow_extra=True)


def test_text_that_is_not_utf8_is_a_bad_row_only_where_it_is_used(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"x,t\n1,a\n2,\xff\n3,b\n")
    X, kept, refused = read(tmp_path / "x.csv", ("x",), keep=["t"])
    assert (X[:, 0].tolist(), kept.column("t").to_pylist()) == ([1, 3], ["a", "b"])
    assert [(r["line"], r["column"], r["raw"]) for r in refused] == [(3, "t", "2,\\xff")]
    assert read(tmp_path / "x.csv", ("x",), exclude=["t"])[2] == []


def test_what_is_no_matter_of_rows_is_still_refused(tmp_path):
    (tmp_path / "x.csv").write_text('x\n1\n"2\n')
    with pytest.raises(DataError, match="never closed"):
        read(tmp_path / "x.csv", ("x",))
    with pytest.raises(RecipeError, match="label"):
        open_source(tmp_path / "x.csv", label="x", quarantine=True)


def test_the_list_is_csv_that_comes_back():
    rows = [("a.csv", 3, 17, "x", "'a,\"b\"' is not a number", '"a,""b""",1\n2'), ("b.npy", 1, None, "0", "nan", "nan")]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=REJECTS)
    expected = [tuple("" if v is None else str(v) for v in row) for row in rows]
    assert rows_of_csv(to_csv(table)) == expected
