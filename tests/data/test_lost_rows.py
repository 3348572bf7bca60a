"""A writer that loses or repeats rows is found by what it wrote, and nothing appears."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dkernel.data.writers.destination import Destination
from dkernel.data.writers.formats import Csv, Npy, Parquet, Zarr
from dkernel.data.writers.partitions import Partitioned
from dkernel.errors import DKernelError

JOB = {"model": "m1"}
ROWS = (5, 7)
NAMES = ("folder", "one.parquet", "one.csv", "one.npy", "one.zarr", "divided")


def parts(name: str) -> list[pa.Table]:
    text = ["a\nb", '"', "", "c", "d", "e", "f"] if not name.endswith(".npy") else np.arange(7)
    return [pa.table({"k": text[:n], "x": np.arange(n) / 3}) for n in ROWS]


def write(path: str) -> None:
    destination = Destination(path, partition_by=("k",) if path.endswith("divided") else ())
    assert destination.complete(JOB) is None
    with destination.stage(JOB) as staging:
        written = [staging.part_writer(i, n).write([t]) for i, (n, t) in enumerate(zip(ROWS, parts(path), strict=True))]
        staging.commit(written, ("k", "x"))


def changed(stage, change):
    return lambda self, tables, path: stage(self, change(list(tables)), path)


def without_first(tables):
    return [table.slice(1) for table in tables]


def twice(tables):
    return [*tables, *tables]


def with_a_bare_comma(stage):
    def write(self, tables, path):
        stage(self, tables, path)
        path.write_bytes(path.read_bytes().replace(b'"c"', b'"c",1'))

    return write


def refuse(name, folder, said):
    path = name if "://" in name else str(folder / name)
    with pytest.raises(DKernelError, match=said):
        write(path)
    assert not Path(path).exists()


def lossy_assemble(original):
    def assemble(self, parts, columns, path):
        original(self, parts[1:], columns, path)

    return assemble


@pytest.mark.parametrize("change", [without_first, twice])
@pytest.mark.parametrize("name", [*NAMES, "memory://lost/folder", "memory://lost/one.csv", "memory://lost/one.npy"])
def test_a_part_with_other_rows_than_were_read_is_refused(tmp_path, monkeypatch, name, change):
    for form in (Parquet, Csv, Npy):
        monkeypatch.setattr(form, "stage", changed(form.stage, change))
    refuse(name, tmp_path, "rows were written where 5 were read")


def test_a_row_of_a_csv_with_another_number_of_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Csv, "stage", with_a_bare_comma(Csv.stage))
    refuse("one.csv", tmp_path, "4 rows were written where 5 were read")


@pytest.mark.parametrize("name", ["one.parquet", "one.csv", "one.npy", "one.zarr", "memory://lost/one.parquet"])
def test_an_output_without_one_of_its_parts_is_refused(tmp_path, monkeypatch, name):
    for form in (Parquet, Csv, Npy, Zarr):
        monkeypatch.setattr(form, "assemble", lossy_assemble(form.assemble))
    refuse(name, tmp_path, "7 rows were written where 12 were read")


def test_folders_of_keys_that_overwrite_each_other_are_refused(tmp_path, monkeypatch):
    folders = Partitioned._folders
    monkeypatch.setattr(
        Partitioned, "_folders", lambda self, table: [("k=u", rows) for _, rows in folders(self, table)]
    )
    with pytest.raises(DKernelError, match="File exists"):
        write(str(tmp_path / "divided"))
    assert not (tmp_path / "divided").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_writer_that_loses_nothing_is_not_refused(tmp_path, name):
    write(str(tmp_path / name))
    assert (tmp_path / name).exists()


def test_a_changed_input_is_still_said_to_be_one(tmp_path):
    with (
        Destination(tmp_path / "folder").stage(JOB) as staging,
        pytest.raises(DKernelError, match="changed meanwhile"),
    ):
        staging.part_writer(0, 4).write(parts("folder")[:1])
