"""What goes wrong around a scoring run, in processes of its own: a script of test_score_faults.py.

python -m tests.inference.score_faults kill FOLDER EACH old|new NAME...   kill before each so many steps, one watches
python -m tests.inference.score_faults zombie FOLDER STEP                 a writer that sleeps through a commit
python -m tests.inference.score_faults disk FOLDER [BYTES]                score with no room, then with room

The steps are the calls of the operating system that change what is on the disk; the run is killed before the first of
them, then before a later one, until one run ends by itself. After every kill the destination must be as before or
complete; the next run must complete it with the same bytes and score only what was not finished. The watcher must never
see anything else either.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import zarr  # noqa: F401 - the writers would import it again in every child

from dkernel.cli.exit_codes import exit_code
from dkernel.data.writers import atomic
from dkernel.data.writers.destination import Destination
from dkernel.errors import DKernelError
from dkernel.inference import score as scoring
from dkernel.inference.score_columns import Written
from dkernel.streaming.execution.local import SerialExecutor
from tests.inference.tables import ROWS, LinearModel, a_rejecting_source, a_source, read_table

PAUSE = 0.01


def before_step(step: int, act) -> None:
    """Call `act` before the `step`-th change of the disk by this process."""
    steps = 0

    def counted(function):
        def call(*args, **kwargs):
            nonlocal steps
            steps += 1
            if steps == step:
                act()
            return function(*args, **kwargs)

        return call

    for name in ("link", "replace", "rename", "fsync", "mkdir", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    atomic._exchange = counted(atomic._exchange)


def in_child(function, *args) -> int:
    """Call a function in a child process; the number of the child."""
    child = os.fork()
    if not child:
        try:
            function(*args)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    return child


def ended(child: int) -> int:
    """The exit status of a child that ends now."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def score(path: Path, kill_before: int, log: Path, shift: float = 0.0) -> None:
    """Score, and die before step `kill_before`; each part that is scored is a letter of the log."""
    before_step(kill_before, lambda: os._exit(9))
    score_part = scoring.score_part

    def logged(*args):
        with open(log, "a") as stream:
            stream.write("x")
        return score_part(*args)

    scoring.score_part = logged
    source, _ = a_source(text=path.suffix != ".npy")
    scoring.write_scores(LinearModel([0, 1], shift=shift), source, path, SerialExecutor(), overwrite=True)


def state(path: Path) -> str:
    return "-".join(map(str, atomic.file_digest(path))) if path.exists() else "absent"


def inode(path: Path) -> int | None:
    """The number of a file or folder, None where there is none."""
    return path.stat().st_ino if path.exists() else None


def watch(path: Path, seen: Path) -> None:
    """Note every state of the destination, every 10 ms, until `seen` has a file `stop`."""
    stop = False
    while not stop:
        stop = (seen / "stop").exists()
        try:
            before = inode(path)
            found = state(path)
            # Where it was exchanged meanwhile, files of the old folder were read and files of the new one.
            if inode(path) == before:
                (seen / found).touch()
        except FileNotFoundError:
            pass
        time.sleep(PAUSE)


def count_finished(folder: Path) -> int:
    return len(list(folder.glob(".*staging*/part-*")))


def kill(folder: Path, each: int, before: str, name: str) -> dict:
    """What was found after the kills of runs to one output, and what one who watched it saw."""
    log, place, seen = folder / "log", folder / "place", folder / "seen"
    (folder / "reference").mkdir(parents=True)
    seen.mkdir()
    ended(in_child(score, folder / "reference" / name, 0, log))
    complete = state(folder / "reference" / name)
    path = place / name

    def prepare():
        """The destination as it was before: without anything, or with the output of another model."""
        if before == "old":
            place.mkdir(exist_ok=True)
            ended(in_child(score, path, 0, log, 1.0))
        else:
            if place.exists():
                os.rename(place, folder / "gone")
                shutil.rmtree(folder / "gone")
            place.mkdir()

    prepare()
    known = {complete: "complete", state(path): "before"}
    watcher = in_child(watch, path, seen)
    report: dict = {"steps": 0, "wrong": [], "reworked": [], "states": []}
    try:
        for step in range(1, 10_000, each):
            status = ended(in_child(score, path, step, log))
            found = state(path)
            done = len(ROWS) if found == complete else count_finished(place)
            log.write_text("")
            again = ended(in_child(score, path, 0, log))
            left = [p.name for p in place.iterdir() if p.name not in (name, f".{name}.manifest.json")]
            report["states"].append(known.get(found, "partial"))
            if status not in (0, 9) or again != 0 or state(path) != complete or left:
                report["wrong"].append([step, status, again, state(path), left])
            if len(log.read_text()) != len(ROWS) - done:
                report["reworked"].append([step, done, len(log.read_text())])
            report["steps"] += 1
            if status == 0:
                break
            prepare()
    finally:
        (seen / "stop").touch()
        ended(watcher)
    report["states"] = sorted(set(report["states"]))
    return report | {"seen": sorted({known.get(p.name, "partial") for p in seen.iterdir() if p.name != "stop"})}


def zombie(folder: Path, step: int) -> dict:
    """A writer of part 0 stops before its `step`-th change of the disk, and goes on when the output is there."""
    path, source = folder / "out", a_source()[0]
    model = LinearModel([0, 1])
    rows = [sum(unit.rows) for unit in source.units]

    def write(staging, index):
        blocks = source.units[index].task.compute(scheduler="sync")
        tables = scoring.tables(model, blocks, Written(("score",)), source.kept)
        return staging.part_writer(index, rows[index]).write(tables)

    def sleep_and_write(staging):
        before_step(step, lambda: os.kill(os.getpid(), signal.SIGSTOP))
        try:
            write(staging, 0)
        except DKernelError:
            os._exit(3)

    with Destination(path).stage({"input": "1"}) as staging:
        child = in_child(sleep_and_write, staging)
        stopped = os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        staging.commit([write(staging, i) for i in range(len(rows))], ("id", "name", "score"))
    before = state(path)
    if stopped:
        os.kill(child, signal.SIGCONT)
    status = ended(child) if stopped else None
    left = sorted(p.name for p in folder.iterdir() if p != path)
    ids = read_table(path)["id"].tolist()
    return {"stopped": stopped, "ended": status, "same": state(path) == before, "ids": ids, "left": left}


def fill(full: Path) -> None:
    """Write until there is no room."""
    with open(full, "wb", buffering=0) as stream:
        try:
            while True:
                stream.write(np.zeros(4096, np.uint8).tobytes())
        except OSError:
            pass


def disk(folder: Path, limit: int | None = None) -> dict:
    """Score where there is no room (a file system that is full, or a limit for files), then where there is."""
    path, source, full = folder / "out.csv", a_rejecting_source(), folder / "filler"

    def write():
        return scoring.write_scores(LinearModel([0, 1]), source, path, SerialExecutor(), max_bad_rows=7)

    if limit is None:
        fill(full)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write()
        code = message = None
    except DKernelError as error:
        code, message = exit_code(error), str(error)
    visible = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".") and p != full)
    full.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    result = write()
    left = sorted(p.name for p in folder.iterdir() if "staging" in p.name)
    return {
        "code": code, "message": message, "visible": visible, "rows": result.rows, "reused": result.reused,
        "sha256": atomic.file_digest(path)[1], "left": left,
    }  # fmt: skip


if __name__ == "__main__":
    scoring.compute_digest = LinearModel.sum
    what, where, *rest = sys.argv[1:]
    values = [int(word) if word.isdigit() else word for word in rest]
    if what == "kill":
        each, before, *names = values
        result = [kill(Path(where) / name, each, before, name) for name in names]
    else:
        result = {"zombie": zombie, "disk": disk}[what](Path(where), *values)
    print(json.dumps(result))
