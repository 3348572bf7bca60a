"""Scoring when things go wrong: kills under a watcher's eyes, sleeping writers, full disks, lost workers, errors."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dask
import pytest
from dask.delayed import Delayed

from dkernel.data.source import Unit
from dkernel.data.store import open_store
from dkernel.data.writers import atomic
from dkernel.errors import DataError
from dkernel.inference.score import write_scores
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor
from tests.inference.tables import ROWS, LinearModel, a_rejecting_source, a_source, read_table
from tests.processes import ROOT
from tests.streaming.execution import jobs

OUTPUTS = ("out.csv", "out", "out.npy", "out.parquet", "out.zarr")


def script(*arguments):
    command = [sys.executable, "-m", "tests.inference.score_faults", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_kills(record_property, folder, each, before, *names):
    """Nothing is lost or done twice, and what is there is as before or complete; a report for each output."""
    reports = script("kill", folder, each, before, *names)
    steps = sum(report["steps"] for report in reports)
    record_property("score", f"{steps - sum(len(report['wrong']) for report in reports)}/{steps}")
    for report in reports:
        assert report["wrong"] == report["reworked"] == []
        assert {*report["states"], *report["seen"]} == {"before", "complete"}
    return reports


SLOW = [(name, before) for name in OUTPUTS for before in ("new", "old") if (name, before) != ("out.csv", "new")]


@pytest.mark.parametrize(
    ("name", "before"), [("out.csv", "new"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
@pytest.mark.score("committed")
def test_a_kill_at_any_step_loses_nothing_and_shows_nothing_partial(tmp_path, name, before, record_property):
    (report,) = check_kills(record_property, tmp_path, 1, before, name)
    assert report["states"] == ["before", "complete"]
    # At least: three parts of three steps each, the manifest, the commit.
    assert report["steps"] > 3 * len(ROWS) + 5


@pytest.mark.parametrize("each", [20, pytest.param(2, marks=(pytest.mark.slow, pytest.mark.score("poller")))])
def test_a_watcher_sees_the_old_output_or_the_new_one(tmp_path, each, record_property):
    for report in check_kills(record_property, tmp_path, each, "old", *OUTPUTS):
        assert report["seen"] == ["before", "complete"]


@pytest.mark.parametrize("step", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4))])
def test_a_writer_that_slept_through_the_commit_adds_no_row(tmp_path, step):
    report = script("zombie", tmp_path, step)
    assert report["stopped"], "the writer has fewer steps than that"
    assert report["ended"] in (0, 3)
    assert report["same"]
    assert report["ids"] == list(range(len(report["ids"])))
    assert report["left"] == []


def check_full(folder, *limit):
    """On a disk without room nothing is visible; with room the output is complete, with so many parts of before."""
    room = folder / "room"
    report = script("disk", room, *limit)
    assert (report["code"], report["visible"]) == (75, [])
    assert "no room to write" in report["message"]
    assert (report["rows"], report["left"]) == (14, [])
    write_scores(LinearModel([0, 1]), a_rejecting_source(), folder / "ref.csv", SerialExecutor(), max_bad_rows=7)
    assert report["sha256"] == atomic.file_digest(folder / "ref.csv")[1]
    return report["reused"]


def test_a_file_that_may_not_grow_leaves_what_is_finished(tmp_path):
    (tmp_path / "room").mkdir()
    assert check_full(tmp_path, 330) == 5  # the parts fit, the whole does not


def test_a_disk_that_is_full_shows_nothing_partial(tmp_path):
    small = tmp_path / "room"
    small.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk is not allowed here")
    try:
        check_full(tmp_path)
    finally:
        subprocess.run(["umount", small], check=True)


class Vanishing(LinearModel):
    """Ends the first process that scores with it, in the middle of the task."""

    def __init__(self, classes, folder):
        super().__init__(classes)
        self.folder = str(folder)

    def scores(self, X):
        try:
            os.close(os.open(Path(self.folder) / "once", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().scores(X)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


@pytest.mark.cluster
@pytest.mark.parametrize("keys", [(), pytest.param(("id",), marks=pytest.mark.slow)], ids=["one folder", "divided"])
def test_a_worker_that_is_killed_while_it_scores_changes_no_byte(tmp_path, keys):
    source, _ = a_source(rows=((3, 2), (4,), (1, 0, 1), (2,), (7,)))
    folders = [tmp_path / name / "out" for name in ("a", "b")]
    for folder in folders:
        folder.parent.mkdir()
    write_scores(LinearModel([0, 1]), source, folders[0], SerialExecutor(), partition_by=keys)
    # Here a death is meant: the scheduler has its usual patience with tasks whose worker died.
    with dask.config.set({"distributed.scheduler.allowed-failures": 3}), connect(workers=2) as executor:
        write_scores(Vanishing([0, 1], tmp_path), source, folders[1], executor, partition_by=keys)
    assert (tmp_path / "once").exists()
    assert open_store(folders[0]).files().keys() == open_store(folders[1]).files().keys()
    parts = [[atomic.file_digest(path) for path in sorted(folder.rglob("part-*"))] for folder in folders]
    assert len(parts[0]) == (20 if keys else 5)  # rows, units
    assert parts[0] == parts[1]


def read(folder, name, blocks, error):
    """A unit that notes that it was read, and fails: for good, or twice."""
    jobs.note(folder, name)
    if error is DataError:
        raise DataError("in.csv, row 17: the file is damaged.")
    if error is not None and len(jobs.ran(folder, name)) <= 2:
        raise error("the disk sleeps")
    return blocks


def with_an_error(folder, last):
    """Four units that note in `folder` that they were read; the last one fails."""
    folder.mkdir()
    source, _ = a_source(rows=((2,), (3,), (1,), (4,)))
    units = []
    for i, unit in enumerate(source.units):
        key = f"reading-{i}-{folder}"
        graph = {**unit.task.dask, key: (read, str(folder), f"unit{i}", unit.task.key, last if i == 3 else None)}
        units.append(Unit(unit.rows, Delayed(key, graph), unit.name))
    return replace(source, units=tuple(units))


def test_an_error_of_the_last_block_is_told_once_and_not_tried_again(tmp_path, executor):
    source = with_an_error(tmp_path / "notes", DataError)
    with pytest.raises(DataError, match="row 17") as found:
        write_scores(LinearModel([0, 1]), source, tmp_path / "out", executor)
    assert str(found.value).count("row 17") == 1
    assert len(jobs.ran(tmp_path / "notes", "unit3")) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]


def test_a_disk_that_fails_twice_is_asked_again(tmp_path, executor):
    source = with_an_error(tmp_path / "notes", OSError)
    assert write_scores(LinearModel([0, 1]), source, tmp_path / "out", executor).rows == 10
    assert len(jobs.ran(tmp_path / "notes", "unit3")) == 3
    assert read_table(tmp_path / "out")["id"].tolist() == list(range(10))
