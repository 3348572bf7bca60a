"""No file is written through a link, or under a name that others can foresee and put a link at.

Every file that Python opens for writing, in this process, is told by an audit hook, with the flags of the call.
"""

import gzip
import os
import re
import shutil
import sys
import threading

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from dkernel.data.writers.atomic import lock_file, staged_name
from tests.cli.conftest import FEATURES

opened: list[tuple[str, int]] = []
listens = threading.Event()


def hook(event, arguments):
    if event == "open" and listens.is_set() and isinstance(arguments[0], str | bytes | os.PathLike):
        opened.append((os.path.abspath(os.fsdecode(arguments[0])), arguments[2]))


@pytest.fixture
def writes(here):
    """The files of the working folder that were opened for writing, each with the flags."""
    if not hasattr(sys, "dkernel_hook"):
        sys.addaudithook(hook)  # for ever: a hook cannot be taken away
        sys.dkernel_hook = True
    opened.clear()
    listens.set()
    yield lambda: [
        (name, flags)
        for name, flags in opened
        if name.startswith(str(here)) and flags & os.O_ACCMODE and not os.path.isdir(name)
    ]
    listens.clear()


FIT = " ".join(["--label y", *FEATURES, "--baselines off --quiet"])
COMMANDS = {
    "train": f"train x.csv.gz {FIT} --out n --checkpoint c --report r.html --scratch s",
    "train memory": "train x.csv.gz --label y --exclude price,id,note --n-components 16 --quiet --out n",
    "score folder": "score m x.csv bad.csv --out s --done d --max-bad-rows 3 --keep id",
    "score keys": "score m x.csv --out s --partition-by y --allow-extra",
    "score parquet": "score m x.csv bad.csv --out s.parquet --max-bad-rows 3 --allow-extra",
    "score csv": "score m x.csv --out s.csv --allow-extra",
    "score zarr": "score m x.csv --out s.zarr --allow-extra",
    "score npy": "score m x.csv --out s.npy --write score --allow-extra",
    "evaluate": "evaluate m x.csv --allow-extra --record r.json --report r.html",
    "conformalize": "conformalize m x.csv --allow-extra --out n",
    "export": "export m --out m.onnx",
    "card": "show m --markdown --out card.md",
}


def is_safe(path, flags):
    """A new file, one whose name nobody knew, or one that is kept and is no link."""
    unknown = re.search(r"[.-][0-9a-f]{32}\b|/tmp\w{8}\b", path)
    return flags & os.O_EXCL or unknown or (flags & os.O_NOFOLLOW and not flags & os.O_TRUNC)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_file_is_new_or_is_opened_without_following_a_link(name, run_to, writes, data, model):
    shutil.copy(model, "m")
    csv.write_csv(pq.read_table(data / "test.parquet"), "x.csv")
    with open("x.csv", "rb") as plain, gzip.open("x.csv.gz", "wb") as packed:
        packed.write(plain.read())
    with open("bad.csv", "w") as bad, open("x.csv") as good:
        bad.writelines([*good.readlines()[:9], "word,1,2,in,1,1,x\n"])
    opened.clear()
    run_to(*COMMANDS[name].split())
    assert writes()
    assert [path for path, flags in writes() if not is_safe(path, flags)] == []


@pytest.mark.parametrize("place", ["c/.lock", ".n.run.json.tmp", ".s.staging-0", "n", "n.run.json"])
def test_a_file_that_a_link_points_to_stays(place, run, data, here):
    os.mkdir("c")
    (here / "precious").write_text("mine")
    os.symlink(here / "precious", place)
    done = run("train", data / "test.parquet", *FIT.split(), "--out", "n", "--checkpoint", "c", "--overwrite")
    assert (done.exit_code, "is a link" in done.output) == ((65, True) if place == "c/.lock" else (0, False))
    assert (here / "precious").read_text() == "mine"


@pytest.mark.usefixtures("here")
def test_scores_are_not_staged_in_the_folder_of_a_link(run, data, model, monkeypatch):
    os.mkdir("other")
    made = []
    mkdir = os.mkdir

    def first_a_link(path, *more):
        if ".staging-" in str(path) and not made:
            made.append(path)
            os.symlink("other", path)
        return mkdir(path, *more)

    monkeypatch.setattr(os, "mkdir", first_a_link)
    done = run("score", model, data / "new.parquet", "--exclude", "id", "--out", "s")
    assert (done.exit_code, "is a link" in done.output) == (65, True)
    assert made
    assert os.listdir("other") == []


@pytest.mark.parametrize("name", ["a", "a" * 250, "ä" * 120, "🐈" * 60])
def test_a_hidden_name_is_short_and_another_each_time(name, tmp_path):
    one, other = staged_name(name), staged_name(name)
    assert one != other
    (tmp_path / one).touch()
    assert len(os.fsencode(one)) <= 143


def test_a_lock_is_one_clients_and_cuts_nothing_off(tmp_path):
    (tmp_path / "lock").write_text("here")
    handle = lock_file(tmp_path / "lock")
    assert lock_file(tmp_path / "lock") is None
    assert (tmp_path / "lock").read_text() == "here"
    os.close(handle)
