"""Folders of tables with a log are refused by name: their files also hold rows that are no longer there."""

import os

import fsspec
import pandas as pd
import pytest

from dkernel.data.paths import expand
from dkernel.errors import DataError

LOGS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Hudi": ".hoodie/hoodie.properties",
    "Iceberg": "metadata/00000-5e3d.metadata.json",
}
WAYS = {"Delta": "deltalake.DeltaTable", "Hudi": "spark.read.format", "Iceberg": "pyiceberg"}


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    return str(tmp_path / "t") if request.param == "local" else f"memory://tables{tmp_path}/t"


def fill(folder: str, *names: str) -> None:
    for name in names:
        with fsspec.open(f"{folder}/{name}", "wb", **({} if "://" in folder else {"auto_mkdir": True})) as stream:
            if name.endswith(".parquet"):
                stream.write(pd.DataFrame({"x": [1.0, 2.0]}).to_parquet())
            else:
                stream.write(b"{}")


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize(
    ("data", "given"),
    [
        ("part.parquet", ""),
        ("part.parquet", "/*.parquet"),
        ("part.parquet", "/part.parquet"),
        ("day=1/hour=2/part.parquet", ""),
        ("day=1/hour=2/part.parquet", "/day=1/hour=2"),
        ("day=1/hour=2/part.parquet", "/*/*/*"),
        ("data/part.parquet", ""),
        ("data/part.parquet", "/data"),
        ("data/day=1/part.parquet", "/data/*/*.parquet"),
        ("xy/part.parquet", "/*/*.parquet"),
    ],
)
def test_a_table_is_refused_by_name_however_it_is_reached(place, kind, data, given):
    fill(place, data, LOGS[kind])
    with pytest.raises(DataError, match=rf"(?s)/t: this is the folder of an? {kind} table.*{WAYS[kind]}"):
        expand(place + given)


@pytest.mark.parametrize("kind", LOGS)
def test_a_table_is_refused_by_name_from_the_folder_above(tmp_path, kind):
    fill(str(tmp_path / "t"), "part.parquet", LOGS[kind])
    with pytest.raises(DataError, match=f"this is the folder of an? {kind} table"):
        expand(f"{tmp_path}/t/../t")


def test_a_folder_of_parquet_is_read_beside_other_names(place):
    fill(place, "a.parquet", "notes/plain.json", "metadata/notes.json")
    assert len(expand(f"{place}/a.parquet")) == len(expand(f"{place}/*.parquet")) == 1
    fill(f"{place}/x", "data/a.parquet")
    assert len(expand(f"{place}/x/data")) == 1


def test_a_table_in_the_working_folder_is_refused(tmp_path, monkeypatch):
    fill(str(tmp_path), "a.parquet", LOGS["Delta"])
    monkeypatch.chdir(tmp_path)
    for given in (".", "*.parquet", "a.parquet", f"..{os.sep}{tmp_path.name}"):
        with pytest.raises(DataError, match="Delta"):
            expand(given)
