"""Files that are not what they should be: each refused by a DataError that names it."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.file_schema import ReadColumns
from dkernel.data.opening import open_source
from dkernel.data.readers.arrow_tables import raw_of_table
from dkernel.errors import DataError, RecipeError

X = np.arange(12.0).reshape(6, 2)


def frame(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def read(path: object, **options: object) -> np.ndarray:
    return open_source(path, **options).X.compute(scheduler="sync")


def test_the_original_of_a_scratch_copy_is_watched(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n"))
    source = open_source(tmp_path / "a.csv.gz", scratch=tmp_path / "scratch")
    before = [p.stat().st_mtime_ns for p in (tmp_path / "scratch").iterdir()]
    again = open_source(tmp_path / "a.csv.gz", scratch=tmp_path / "scratch")
    assert [p.stat().st_mtime_ns for p in (tmp_path / "scratch").iterdir()] == before
    assert again.fingerprint == source.fingerprint
    os.utime(tmp_path / "a.csv.gz", ns=(1, 1))
    with pytest.raises(DataError, match=r"a\.csv\.gz: the file changed"):
        source.units[0].task.compute(scheduler="sync")


def test_a_null_inside_a_dictionary() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    table = pa.table({"x": [1.0, 2.0], "y": coded})
    columns = ReadColumns(("x",), "y", None, (), "float32", {})
    with pytest.raises(DataError, match=r"row 1, column 'y'"):
        raw_of_table(table, columns, lambda row: f"row {row}")


def test_other_types_of_numbers(tmp_path: Path) -> None:
    path = frame(
        tmp_path / "a.parquet",
        a=pa.array([1, 2]).cast(pa.decimal128(21, 2)),
        b=pa.array([1.5, 2.5], pa.float16()),
        c=pa.array([True, False]),
    )
    assert read(path).tolist() == [[1, 1.5, 1], [2, 2.5, 0]]


def test_several_files_have_their_columns_in_any_order(tmp_path: Path) -> None:
    frame(tmp_path / "p.2.parquet", x=[1.0], y=[2.0])
    frame(tmp_path / "p.10.parquet", y=[4.0], x=[3.0])
    assert read(tmp_path).tolist() == [[1, 2], [3, 4]]


def test_label_types_of_several_files(tmp_path: Path) -> None:
    frame(tmp_path / "1.parquet", x=[1.0], y=pa.array([1], pa.int8()))
    frame(tmp_path / "2.parquet", x=[1.0], y=pa.array([1], pa.int64()))
    assert open_source(tmp_path, label="y").label_kind == "int"


def test_files_without_rows(tmp_path: Path) -> None:
    frame(tmp_path / "1.parquet", x=pa.array([], pa.float64()))
    frame(tmp_path / "2.parquet", x=[1.0, 2.0])
    assert open_source(tmp_path).chunk_rows == (2,)


def test_columns_of_a_model(tmp_path: Path) -> None:
    path = frame(tmp_path / "a.parquet", b=[1.0], a=[2.0], id=["k"], label=[1])
    assert read(path, columns=["a", "b"], keep=["id"], label="label").tolist() == [[2, 1]]
    assert read(path, columns=["b", "a"], allow_extra=True).tolist() == [[1, 2]]
    with pytest.raises(DataError, match="'a' is a feature"):
        open_source(path, columns=["a", "b"], label="a")


def test_roles_that_clash(tmp_path: Path) -> None:
    path = frame(tmp_path / "a.parquet", x=[1.0], y=[1.0])
    with pytest.raises(DataError, match="both the label and the weight"):
        open_source(path, label="y", weight="y")
    with pytest.raises(DataError, match="is excluded"):
        open_source(path, label="y", exclude=["y"])
    with pytest.raises(RecipeError, match="float16"):
        open_source(path, dtype="float16")


def test_the_folder_of_a_run_that_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,y\n1,2\n3,4\n"))
    script = (
        "import os, signal, sys\nfrom dkernel import open_source\nfrom dkernel.data.scratch import Scratch\n"
        "open_source(sys.argv[1] + '/a.csv.gz', label='y', scratch=Scratch(beside=sys.argv[1]))\n"
        "print(*os.listdir(sys.argv[1]), flush=True)\n"
        "input() if sys.argv[2] == 'wait' else os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def run(what: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", script, str(tmp_path), what]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def folders(process: subprocess.Popen[str]) -> set[str]:
        assert process.stdout is not None
        return {name for name in process.stdout.readline().split() if name.startswith(".dkernel-")}

    with run("wait") as waiting:
        held = folders(waiting)
        with run("die") as first:
            left = folders(first) - held
        assert len(held) == len(left) == 1
        with run("die") as second:
            found = folders(second)
        assert held < found
        assert not left & found
        waiting.communicate("")
