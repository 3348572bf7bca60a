"""Scoring when things go wrong: kills under a watcher's eyes, sleeping writers, full disks, errors."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from dask.delayed import Delayed

from dkernel.data import Unit
from dkernel.data.writers import atomic
from dkernel.errors import DataError
from dkernel.inference.score import write_scores
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from tests.inference.score_kills import LinearModel, a_source
from tests.inference.test_score import _stand_in, real_model  # noqa: F401 - a fixture of every test
from tests.inference.test_score_rejects import a_rejecting_source
from tests.streaming.execution import jobs

ROOT = Path(__file__).parents[2]


def script(*arguments):
    command = [sys.executable, "-m", "tests.inference.score_faults", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=(pytest.mark.slow, pytest.mark.score("poller")))])
def test_a_watcher_sees_the_old_output_or_the_new_one(tmp_path, kills, record_property):
    report = script("poll", tmp_path, kills)
    record_property("score", f"{report['kills'] - len(report['wrong'])}/{report['kills']}")
    assert report.pop("wrong") == []
    assert report.pop("kills") >= kills
    assert set(report.values()) <= {1, 2}, "only the old state, or both"


@pytest.mark.parametrize("step", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4))])
def test_a_writer_that_slept_through_the_commit_adds_no_row(tmp_path, step):
    report = script("zombie", tmp_path, step)
    assert report["stopped"], "the writer has fewer steps than that"
    assert report["ended"] in (0, 3)
    assert report["same"]
    assert report["ids"] == list(range(len(report["ids"])))
    assert report["left"] == []


def on_a_full_disk(folder, *limit):
    report = script("disk", folder, *limit)
    assert report["code"] == 75
    assert "no room to write" in report["message"]
    assert report["visible"] == []
    assert (report["rows"], report["left"]) == (14, [])
    return report


def expected(folder):
    write_scores(LinearModel([0, 1]), a_rejecting_source(), folder / "ref.csv", SerialExecutor(), max_bad_rows=7)
    return atomic.file_digest(folder / "ref.csv")[1]


def test_a_file_that_may_not_grow_leaves_what_is_finished(tmp_path):
    (tmp_path / "here").mkdir()
    # The parts fit, the whole does not.
    report = on_a_full_disk(tmp_path / "here", 330)
    assert report["reused"] == 5
    assert report["sha256"] == expected(tmp_path)


def test_a_disk_that_is_full_shows_nothing_partial(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        assert on_a_full_disk(small)["sha256"] == expected(tmp_path)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def reading(folder, name, blocks, error):
    """A unit that notes that it was read, and fails: for good, or twice."""
    jobs.note(folder, name)
    if error is DataError:
        raise DataError("in.csv, row 17: the file is damaged.")
    if error is not None and len(jobs.ran(folder, name)) <= 2:
        raise error("the disk sleeps")
    return blocks


def with_an_error(folder, last):
    source, _ = a_source(rows=((2,), (3,), (1,), (4,)))
    units = []
    for i, unit in enumerate(source.units):
        key = f"reading-{i}-{folder.name}"
        error = last if i == len(source.units) - 1 else None
        graph = {**unit.task.dask, key: (reading, str(folder), f"unit{i}", unit.task.key, error)}
        units.append(Unit(unit.rows, Delayed(key, graph), unit.place))
    return replace(source, units=tuple(units))


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadsExecutor(2)], ids=["serial", "threads"])
def test_an_error_of_the_last_block_is_told_once_and_not_tried_again(tmp_path, executor):
    (tmp_path / "notes").mkdir()
    with pytest.raises(DataError, match="row 17") as found:
        write_scores(LinearModel([0, 1]), with_an_error(tmp_path / "notes", DataError), tmp_path / "out", executor)
    assert str(found.value).count("row 17") == 1
    assert len(jobs.ran(tmp_path / "notes", "unit3")) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("executor", [SerialExecutor(), ThreadsExecutor(2)], ids=["serial", "threads"])
def test_a_disk_that_fails_twice_is_asked_again(tmp_path, executor):
    (tmp_path / "notes").mkdir()
    result = write_scores(LinearModel([0, 1]), with_an_error(tmp_path / "notes", OSError), tmp_path / "out", executor)
    assert result.rows == 10
    assert len(jobs.ran(tmp_path / "notes", "unit3")) == 3
    assert pd.read_parquet(tmp_path / "out")["id"].tolist() == list(range(10))


@pytest.mark.cluster
def test_the_same_on_a_cluster(tmp_path, two_workers):
    for last, name in ((DataError, "bad"), (OSError, "flaky")):
        (tmp_path / name).mkdir()
        source = with_an_error(tmp_path / name, last)
        if last is DataError:
            with pytest.raises(DataError, match="row 17"):
                write_scores(LinearModel([0, 1]), source, tmp_path / "out", two_workers)
            assert len(jobs.ran(tmp_path / name, "unit3")) == 1
        else:
            assert write_scores(LinearModel([0, 1]), source, tmp_path / "out", two_workers).rows == 10
            assert len(jobs.ran(tmp_path / name, "unit3")) == 3
