"""What the user names becomes files in a known order, or an error that says what is wrong."""

import os
import re
from functools import partial
from pathlib import Path
from typing import ClassVar

import dask.array as da
import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import dkernel
from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.data.writers.destination import Destination
from dkernel.errors import DataError, DKernelError, DKernelWarning


def names(found: list) -> list[str]:
    return [file.path.rsplit("/", 1)[-1] for file in found]


def make(folder: Path, *listed: str) -> None:
    for i, name in enumerate(listed):
        with open(folder / name, "wb") as file:
            np.save(file, np.full((1, 2), i))


def test_folders_and_globs_are_in_natural_order(tmp_path: Path) -> None:
    make(tmp_path, "part.10.npy", "part.2.npy", "part.1.npy", "_SUCCESS", ".part.0.npy.crc", "_part.npy")
    expected = ["part.1.npy", "part.2.npy", "part.10.npy"]
    assert names(expand(tmp_path)) == expected
    assert names(expand(f"{tmp_path}/*.npy")) == expected
    assert names(expand(f"file://{tmp_path}")) == expected
    source = open_source(tmp_path)
    assert source.X.compute(scheduler="sync")[:, 0].tolist() == [2, 1, 0]


def test_the_order_given_is_kept(tmp_path: Path) -> None:
    make(tmp_path, "b.npy", "a.npy")
    assert names(expand([tmp_path / "b.npy", str(tmp_path / "a.npy")])) == ["b.npy", "a.npy"]


def test_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    make(tmp_path, "a[1].npy")
    assert names(expand(tmp_path / "a[1].npy")) == ["a[1].npy"]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("tran.npy", r"tran\.npy: there is no such file.*Did you mean 'train\.npy'"),
        ("*.csv", "no file matches"),
        ("notes.txt", r"notes\.txt: the ending says no format.*\.parquet.*\.svmlight"),
        ("empty", "holds no data files"),
        ("nested", "holds folders"),
        ("a.parquet.gz", "the ending says no format"),
        ("nothere://x/a.npy", "cannot be used"),
        ("zzz", r"There are: 'a\.parquet\.gz', 'empty', 'nested', 'train\.npy'\.$"),
        (
            "zzz.parquet.gz",
            r"There are: 'a\.parquet\.gz', 'empty', 'nested', 'train\.npy'\.$",
        ),  # like in its ending alone
    ],
)
def test_names_that_lead_nowhere(tmp_path: Path, given: str, match: str) -> None:
    make(tmp_path, "train.npy", "notes.txt", "a.parquet.gz", ".hidden.npy")
    (tmp_path / ".git").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "nested" / "year").mkdir(parents=True)
    with pytest.raises(DataError, match=match):
        expand(given if "://" in given else str(tmp_path / given))
    with pytest.raises(DataError, match="No data were named"):
        expand([])


@pytest.mark.parametrize(
    ("ending", "match"),
    [
        ("zip", "an archive: unpack"),
        ("csv.lz4", "compressed in a way"),
        ("txt", "rename"),
        ("jsonl", "read_json"),
        ("xlsx", "as CSV"),
    ],
)
def test_a_file_of_another_well_known_kind_is_named(tmp_path: Path, ending: str, match: str) -> None:
    (tmp_path / f"a.{ending}").write_bytes(b"1")
    with pytest.raises(DataError, match=rf"the ending says no format that can be read.*{match}"):
        expand(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("name", ["pipe.csv", "pipe", "pipe.parquet"])
def test_a_pipe_is_refused_by_what_it_is(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="a pipe or a device, and data are read more than once"):
        expand(tmp_path / name)


@pytest.mark.parametrize("given", ["", "/*.csv"])
def test_a_text_of_no_bytes_among_others_is_a_part_without_rows(tmp_path: Path, given: str) -> None:
    for name in ("0.csv", "2.csv", "3.csv"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"0\.csv: the file is empty"):
        expand(f"{tmp_path}{given}")
    (tmp_path / "1.csv").write_text("a,y\n1,2\n")
    with pytest.warns(DKernelWarning, match=r"0\.csv: the file is empty \(0 bytes\)\. It is left out \(and 2 others\)"):
        assert names(expand(f"{tmp_path}{given}")) == ["1.csv"]
    with pytest.raises(DataError, match=r"0\.csv: the file is empty"):
        expand([tmp_path / "1.csv", tmp_path / "0.csv"])


def test_a_worker_with_another_working_folder_finds_the_file(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    (found,) = expand("a.csv")
    monkeypatch.chdir(tmp_path / "elsewhere")
    found.check()
    assert found.name == "a.csv"
    assert found.read(0, 1) == b"x"


def test_a_glob_enters_no_hidden_folder_that_it_does_not_name(tmp_path):
    for folder in ("day=1", "_temporary/0", ".spark/0", "day=1/_tmp"):
        (tmp_path / folder).mkdir(parents=True)
        make(tmp_path / folder, folder.strip("_.")[:3] + ".npy")
    assert names(expand(f"{tmp_path}/**/*.npy")) == ["day.npy"]
    assert names(expand(f"{tmp_path}/*/*.npy")) == ["day.npy"]
    assert names(expand(f"{tmp_path}/_temporary/*/*.npy")) == ["tem.npy"]


def test_files_of_equal_numbers_have_one_order(tmp_path, monkeypatch):
    make(tmp_path, "9.npy", "09.npy", "10.npy")
    for listed in (["9.npy", "10.npy", "09.npy"], ["09.npy", "9.npy", "10.npy"]):
        monkeypatch.setattr("os.listdir", lambda _, listed=listed: listed)
        assert names(expand(str(tmp_path))) == ["09.npy", "9.npy", "10.npy"]


def test_a_file_that_is_named_twice_is_told_of(tmp_path):
    make(tmp_path, "a.npy", "b.npy")
    for given in (["a.npy", "a.npy"], ["*.npy", "a.npy"], ["", "a.npy"], ["a.npy", "../" + tmp_path.name + "/a.npy"]):
        with pytest.warns(DKernelWarning, match=r"a\.npy: named more than once, and its rows are read as often"):
            expand([f"{tmp_path}/{name}" for name in given])
    (tmp_path / "link.npy").symlink_to(tmp_path / "a.npy")
    with pytest.warns(DKernelWarning, match=r"a\.npy: named more than once"):
        expand(str(tmp_path))


@pytest.mark.parametrize(
    "address", ["zip://x.csv::{}", "tar://*.csv::{}", "simplecache::zip://x.csv::{}", "zip://x.csv"]
)
@pytest.mark.parametrize("content", [None, b"", b"PK damaged"])
def test_an_address_in_an_archive_is_refused_whatever_the_archive_is(address, content, tmp_path):
    if content is not None:
        (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(DataError, match="an address in an archive: unpack it"):
        open_source(address.format(tmp_path / "a.zip"))


@pytest.mark.parametrize("address", ["reference://x.csv", "dir://x.csv", "zip://x.csv"])
def test_what_no_address_alone_opens_is_refused_at_each_door(address):
    for door in (open_source, Destination):
        with pytest.raises(DKernelError, match=r"this kind of address cannot be used|an address in an archive"):
            door(address)


@pytest.mark.parametrize("end", ["", "/", "//"])
@pytest.mark.parametrize("begin", ["{}", "memory://folders"])
def test_the_glob_of_a_message_can_be_given(begin, end, tmp_path):
    fsspec.filesystem("memory").pipe_file("/folders/in/a.csv", b"x\n1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x\n1\n")
    with pytest.raises(DataError) as refused:
        expand(begin.format(tmp_path) + end)
    found = re.search(r"by a glob, '(.*)'\.$", str(refused.value))[1]
    assert "//" not in found.removeprefix("memory://")
    assert names(expand(found)) == ["a.csv"]


@pytest.mark.parametrize(
    "given",
    [np.zeros((3, 2)), da.zeros((3, 2)), pd.DataFrame({"a": [1.0]}), dd.from_dict({"a": [1.0]}, 1), 3, None, [3]],
    ids=lambda given: type(given).__name__,
)
def test_rows_in_memory_are_no_files(given, tmp_path):
    machine = dkernel.KernelRegressor("linear").fit(np.eye(3), [1.0, 2.0, 3.0])
    for call in (dkernel.open_source, partial(dkernel.score, machine, out=tmp_path / "s.csv")):
        with pytest.raises(DataError, match=r"A \w+ is no file: .* fit, predict"):
            call(given)


class MarkingFileSystem(MemoryFileSystem):
    """Memory whose folders have an empty object of their own, as the console of S3 makes it."""

    protocol = "marking"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("marking://", "memory://", 1))

    def ls(self, path, detail=True, **options):
        found = super().ls(path, detail=True, **options)
        folder = self._strip_protocol(path)
        found += [{"name": f"{folder}/", "size": 0, "type": "file"}] * self.isdir(folder)
        return found if detail else [each["name"] for each in found]


fsspec.register_implementation("marking", MarkingFileSystem, clobber=True)
PLACES = ["{}", "memory://{}", "marking://{}"]


def put(place: str, name: str, content: bytes) -> None:
    """A file there, in its folder."""
    system, path = fsspec.core.url_to_fs(f"{place}/{name}")
    system.makedirs(os.path.dirname(path), exist_ok=True)
    system.pipe_file(path, content)


@pytest.fixture(params=PLACES)
def place(request, tmp_path):
    """An empty folder of a disk, or of a store."""
    return request.param.format(tmp_path)


ROWS = b"x,y\n1,2\n"


@pytest.mark.parametrize(
    ("files", "given"),
    [
        (["a.csv", "b.csv"], ""),
        (["k=1/a.csv", "k=2/b.csv"], ""),
        (["in/a.csv", "in/b.csv"], "/in"),
        (["in/a.csv", "in/b.csv"], "/*/*"),
    ],
)
def test_the_object_that_stands_for_a_folder_is_none_of_its_files(place, files, given):
    for name in files:
        put(place, name, ROWS)
    assert names(expand(f"{place}{given}")) == ["a.csv", "b.csv"]


@pytest.mark.parametrize("name", ["a[1].csv", "d[1]/x.csv", "what?.csv", "a*.csv"])
def test_a_name_that_is_there_wins_over_the_glob_that_it_is_too(place, name):
    put(place, name, ROWS)
    put(place, "a1.csv", ROWS)
    for given in (name, os.path.dirname(name) or name):
        assert names(expand(f"{place}/{given}")) == [os.path.basename(name)]
    assert open_source(f"{place}/{name}").n_rows == 1


BESIDE = ["_SUCCESS", ".a.csv.crc", "a.csv.crc", "a.csv.md5", "b.csv.tmp", "b.csv~", "b.csv._COPYING_", "k=1_$folder$"]
BESIDE += ["manifest", "a.manifest", "Thumbs.db", "desktop.ini", "README.md", "LICENSE", "b.csv.part", "b.csv.partial"]


@pytest.mark.parametrize("beside", BESIDE)
def test_what_other_tools_leave_beside_data_is_none(place, beside):
    put(place, "a.csv", ROWS)
    put(place, beside, b"1f3a")
    assert names(expand(place)) == ["a.csv"]


def test_an_empty_file_that_is_named_like_no_data_is_none(place):
    put(place, "a.csv", ROWS)
    put(place, "done", b"")
    assert names(expand(place)) == ["a.csv"]


@pytest.mark.parametrize(("folder", "inside"), [("", ""), ("k=1/", "**/")])
def test_what_may_be_data_is_refused_by_how_to_name_the_others(place, folder, inside):
    put(place, f"{folder}a.csv", ROWS)
    put(place, f"{folder}schema.json", b"{}")
    with pytest.raises(DataError, match=r"schema\.json: the ending says no format.*JSON.*If it is no data") as refused:
        expand(place)
    found = re.search(r"by a glob, '(.*)'\.$", str(refused.value))[1]
    assert found.endswith(f"{inside}*.csv")
    assert names(expand(found)) == ["a.csv"]


def test_a_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.csv").write_bytes(ROWS)
    machine = dkernel.KernelRegressor("linear").fit(np.eye(2), [1.0, 2.0])
    dkernel.save(machine, "~/m.st")
    assert dkernel.load("~/m.st").predict(np.eye(2)).shape == (2,)
    assert open_source("~/a.csv", scratch="~/copies").n_rows == 1
    assert Destination("~/s.csv").path == str(tmp_path / "s.csv")
    assert not Path("~").exists()
