"""A Zarr store is another one when any of its values was written anew, before a run and during it."""

import os
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr

from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.data.usable_files import DoneFiles
from dkernel.errors import DataError

WAYS = {"format 2": {"zarr_format": 2}, "format 3": {}, "shards": {"shards": (6, 2)}, "parts of rows": {"cut": 1}}


@pytest.fixture(params=["disk", "memory"])
def place(request, tmp_path):
    return str(tmp_path / "x.zarr") if request.param == "disk" else f"memory://stamps{tmp_path}/x.zarr"


def write(place, zarr_format=3, shards=None, cut=2):
    """Rows in chunks of three, with a label."""
    group = zarr.open_group(place, mode="w", zarr_format=zarr_format)
    group.create_array("X", data=np.arange(24.0).reshape(12, 2), chunks=(3, cut), shards=shards)
    group.create_array("y", data=np.arange(12.0), chunks=(3,))
    for path in [] if "://" in str(place) else [Path(place), *Path(place).rglob("*")]:
        os.utime(path, (10**9, 10**9))  # long ago
    return group


def read(source):
    return source.X.compute(scheduler="sync")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", ["X", "y"])
def test_values_that_are_written_anew_make_it_another_store(place, way, key, tmp_path):
    group, done = write(place, **WAYS[way]), DoneFiles(str(tmp_path / "done.json"))
    done.add(expand(place), {}, {})
    assert done.new_files(expand(place)) == []
    source = open_source(place, label="y")
    assert read(source).tolist() == np.arange(24.0).reshape(12, 2).tolist()
    group[key][4] = 9.0
    assert done.new_files(expand(place)) == expand(place)
    with pytest.raises(DataError, match="the file changed since it was opened"):
        read(source)


def test_a_chunk_that_is_removed_is_seen(tmp_path):
    write(tmp_path / "x.zarr")
    source = open_source(tmp_path / "x.zarr", label="y")
    (tmp_path / "x.zarr/X/c/1/0").unlink()
    with pytest.raises(DataError, match="the file changed since it was opened"):
        read(source)


def test_a_store_that_was_copied_with_its_dates_is_the_same(tmp_path):
    write(tmp_path / "x.zarr")
    shutil.copytree(tmp_path / "x.zarr", tmp_path / "y.zarr")  # as cp -p does
    one, other = expand([tmp_path / "x.zarr", tmp_path / "y.zarr"])
    assert (one.size, one.stamp) == (other.size, other.stamp)


def test_a_part_looks_at_its_own_files_alone(tmp_path, monkeypatch):
    write(tmp_path / "x.zarr")
    source, seen = open_source(tmp_path / "x.zarr", label="y"), []
    check = type(expand(tmp_path / "x.zarr")[0]).check
    monkeypatch.setattr(
        "dkernel.data.paths.File.check", lambda file, inside=(): seen.extend(inside) or check(file, inside)
    )
    read(source)
    stored = [
        str(path.relative_to(tmp_path / "x.zarr")) for path in Path(tmp_path / "x.zarr").rglob("*") if path.is_file()
    ]
    assert sorted(set(seen)) == sorted(name for name in stored if name != "zarr.json")


def test_a_folder_that_is_no_store_is_refused(place):
    with fsspec.open(f"{place}/a.txt", "wb", **({} if "://" in place else {"auto_mkdir": True})) as stream:
        stream.write(b"1")
    with pytest.raises(DataError, match="not a Zarr store"):
        expand(place)
