"""What the user names becomes files in a known order, or an error that says what is wrong."""

import os
import re
from functools import partial
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.data import open_source
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
