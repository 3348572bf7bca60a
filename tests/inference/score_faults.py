"""What goes wrong around a scoring run, each in a process of its own: a script of test_score_faults.py.

python -m tests.inference.score_faults poll FOLDER KILLS     kill at each of so many steps while another looks
python -m tests.inference.score_faults zombie FOLDER STEP    a writer that sleeps through the commit of another
python -m tests.inference.score_faults disk FOLDER [BYTES]   score with no room, then with room
"""

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

from dkernel.cli.exit_codes import exit_code
from dkernel.data.writers import atomic
from dkernel.data.writers.destination import Destination
from dkernel.data.writers.manifest import write_part
from dkernel.errors import DKernelError
from dkernel.inference import score as scoring
from dkernel.inference.score_columns import Written
from dkernel.streaming.execution.local import SerialExecutor
from tests.inference.score_kills import LinearModel, a_source, run, state
from tests.inference.test_score_rejects import a_rejecting_source

PAUSE = 0.01
NAMES = ("out", "out.csv", "out.zarr", "out.parquet")


def inode(path: Path) -> int | None:
    """The number of a file or folder, None where there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def look(path: Path, seen: Path) -> None:
    """Note every state of the destination, every 10 ms, until `seen` has a file `stop`."""
    known: set[str] = set()
    while True:
        stop = (seen / "stop").exists()
        before = inode(path)
        try:
            found = state(path)
        except FileNotFoundError:
            found = ""
        # Where it was exchanged meanwhile, files of the old folder were read and files of the new one: look again.
        if found and found not in known and inode(path) == before:
            known.add(found)
            (seen / found).touch()
        if stop:
            return
        time.sleep(PAUSE)


def poll(folder: Path, kills: int) -> dict:
    """Kill a run that replaces an old output before step 1, 2, ...; what a watcher of the destination saw."""
    report: dict = {"kills": 0, "wrong": []}
    per_name = -(-kills // len(NAMES))
    for name in NAMES:
        (folder / name).mkdir()
        reference, path, log = folder / name / "new" / name, folder / name / name, folder / name / "log"
        reference.parent.mkdir()
        run(reference, 0, log)
        run(path, 0, log, shift=1.0)
        allowed = {state(path), state(reference)}
        seen = folder / name / "seen"
        seen.mkdir()
        watcher = os.fork()
        if not watcher:
            look(path, seen)
            os._exit(0)
        killed, step, offset = 0, 1, 1
        while killed < per_name:
            if run(path, step, log):
                killed += 1
                step += max(1, 40 // per_name)
            else:  # that was after its last step: from the old output and the front again, at other steps
                run(path, 0, log, shift=1.0)
                offset += 1
                step = offset
            if state(path) not in allowed:
                report["wrong"].append([name, step, state(path)])
        report["kills"] += killed
        (seen / "stop").touch()
        os.waitpid(watcher, 0)
        report["wrong"] += [[name, p.name] for p in seen.iterdir() if p.name not in {*allowed, "stop"}]
        report[name] = len(list(seen.iterdir())) - 1
    return report


def zombie(folder: Path, step: int) -> dict:
    """A writer of part 0 stops before its `step`-th change of the disk, and goes on when the output is there."""
    path, source = folder / "out", a_source()[0]
    job = {"input": "1"}
    model = LinearModel([0, 1])

    def tables(index):
        blocks = source.units[index].task.compute(scheduler="sync")
        return scoring.tables(model, blocks, Written(("score",)), source.kept)

    destination = Destination(path)
    with destination.stage(job) as staging:
        rows = [sum(unit.rows) for unit in source.units]
        child = os.fork()
        if not child:
            steps = 0

            def stopping(function):
                def call(*args, **kwargs):
                    nonlocal steps
                    steps += 1
                    if steps == step:
                        os.kill(os.getpid(), signal.SIGSTOP)
                    return function(*args, **kwargs)

                return call

            for name in ("replace", "fsync", "unlink"):
                setattr(os, name, stopping(getattr(os, name)))
            try:
                write_part(staging.place(0, rows[0]), tables(0))
            except DKernelError:
                os._exit(3)
            os._exit(0)
        stopped = os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        parts = [write_part(staging.place(i, rows[i]), tables(i)) for i in range(len(rows))]
        staging.commit(parts, ("id", "name", "score"))
    before = state(path)
    ended = None
    if stopped:
        os.kill(child, signal.SIGCONT)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    import pandas as pd

    ids = pd.read_parquet(path)["id"].tolist()
    left = sorted(p.name for p in folder.iterdir() if p != path)
    return {"stopped": stopped, "ended": ended, "same": state(path) == before, "ids": ids, "left": left}


def disk(folder: Path, limit: int | None) -> dict:
    """Score where there is no room (a file system that is full, or a limit for files), then where there is."""
    path, source = folder / "out.csv", a_rejecting_source()
    model = LinearModel([0, 1])
    full = folder / "filler"
    scoring.compute_digest = lambda _: "model"  # type: ignore[assignment]
    if limit is None:
        with open(full, "wb", buffering=0) as stream:
            block = np.zeros(4096, np.uint8).tobytes()
            try:
                while True:
                    stream.write(block)
            except OSError:
                pass
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        scoring.write_scores(model, source, path, SerialExecutor(), max_bad_rows=7)
        code = 0
    except DKernelError as error:
        code, message = exit_code(error), str(error)
    visible = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".") and p != full)
    if limit is None:
        full.unlink()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    result = scoring.write_scores(model, source, path, SerialExecutor(), max_bad_rows=7)
    left = sorted(p.name for p in folder.iterdir() if "staging" in p.name)
    return {
        "code": code, "message": message, "visible": visible, "rows": result.rows, "reused": result.reused,
        "sha256": atomic.file_digest(path)[1], "left": left,
    }  # fmt: skip


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    if what == "poll":
        print(json.dumps(poll(Path(where), int(rest[0]))))
    elif what == "zombie":
        print(json.dumps(zombie(Path(where), int(rest[0]))))
    else:
        print(json.dumps(disk(Path(where), int(rest[0]) if rest else None)))
