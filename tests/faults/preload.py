"""What the workers of the fault tests load at their start: it counts what they run, and does to them what a plan says.

Everything is on disk, in one folder that a variable names, so it outlives the workers: `log` has a line for the begin
and the end of every call, state and read; `workers/` a file for every process; `plan.json`, when it is there, says
at which call which fault comes, and a file `fired-<n>` that it came.
"""

import errno
import json
import os
import re
import signal
import time
from functools import wraps
from pathlib import Path

from distributed import get_worker

from dkernel.data import file_parts
from dkernel.streaming.execution import process, tasks
from dkernel.streaming.execution.versions import versions

FOLDER = "DKERNEL_TEST_FAULTS"
STEP = 64 * 2**20
LONGEST = 300


def folder():
    return Path(os.environ[FOLDER])


def note(*words):
    line = " ".join(map(str, (*words, os.getpid()))) + "\n"
    log = os.open(folder() / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, line.encode())  # one call: lines of several processes do not mix
    os.close(log)


def due(kind, key):
    """The plan, when this run of `key` is one for its fault: of a matching key, from its run number `first` on."""
    try:
        plan = json.loads((folder() / "plan.json").read_text())
    except FileNotFoundError:
        return None
    if plan["kind"] != kind or not re.search(plan["match"], key):
        return None
    begun = (folder() / "log").read_text().splitlines()
    if sum(line.startswith(f"begin {kind} {key} ") for line in begun) < plan["first"]:
        return None
    for number in range(plan["times"]):
        try:
            os.close(os.open(folder() / f"fired-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return plan
    return None


def wait_for(file):
    end = time.monotonic() + LONGEST
    while not (folder() / file).exists():
        assert time.monotonic() < end, f"{file} never came"
        time.sleep(0.01)


def kill(_):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_all(_):
    others = {int(file.name) for file in (folder() / "workers").iterdir()} - {os.getpid()}
    for pid in [*others, os.getpid()]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # of a fault before this one


def kill_other(_):
    """The process whose number is in the file `victim`, the client or the scheduler."""
    wait_for("victim")
    os.kill(int((folder() / "victim").read_text()), signal.SIGKILL)


def stop(_):
    os.kill(os.getpid(), signal.SIGSTOP)


def retire(worker):
    """What `dask worker --lifetime` does at the end of it."""
    worker.loop.add_callback(worker.close_gracefully)


def memory(_):
    """Take memory until the nanny ends this process."""
    taken, end = [], time.monotonic() + LONGEST
    while time.monotonic() < end:
        if len(taken) * STEP < 2 * 2**30:
            taken.append(bytearray(os.urandom(1)) * STEP)
        time.sleep(0.01)
    raise AssertionError("nobody minds how much memory is taken")


def abort(worker):
    def all_of_them():
        for comm in [*worker._comms, worker.batched_stream.comm]:
            comm.abort()

    worker.loop.add_callback(all_of_them)


def wait_for_another(_):
    (folder() / "begun").touch()
    wait_for("joined")


def no_space(_):
    """The error that the operating system gives when a disk is full."""
    try:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"0")
    except FileNotFoundError:  # not on every system
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/dev/full") from None


def no_read(_):
    raise OSError(errno.EIO, os.strerror(errno.EIO), "a file of the source")


# A fault of the process comes when the work of the call is done and its result is on nobody's way yet.
AFTER = {"kill", "kill_all", "stop", "abort", "kill_other"}
ACTIONS = {
    action.__name__: action
    for action in (
        kill, kill_all, kill_other, stop, retire, memory, abort, wait_for_another, no_space, no_read
    )
}  # fmt: skip


def counted(kind, function, name):
    """`function` with its begin and end noted, and the fault in it when one is due."""

    @wraps(function)
    def run(*args):
        worker = get_worker()
        key = name(worker, args)
        note("begin", kind, key)
        plan = due(kind, key)
        if plan and plan["action"] not in AFTER:
            ACTIONS[plan["action"]](worker)
        result = function(*args)
        if plan and plan["action"] in AFTER:
            ACTIONS[plan["action"]](worker)
        note("end", kind, key)
        return result

    return run


def key_of(worker, _):
    return worker.get_current_task()


def call_of(worker, _):
    """The call, whichever attempt at it this is; reads have a kind of their own."""
    return key_of(worker, _).split("-again-")[0]


def unit_of(_, args):
    file, part = args[0], args[1]
    return f"{Path(file.path).name}:{part.first_row}"


def dask_setup(worker):  # noqa: ARG001 - the name and its argument are Dask's
    (folder() / "workers" / str(os.getpid())).touch()
    if (folder() / "old-numpy").exists():
        process.versions = lambda: versions() | {"numpy": "0.9"}
    state, call = counted("state", tasks.apply, key_of), counted("call", tasks.apply, call_of)
    tasks.apply = lambda *args: (state if key_of(get_worker(), args).startswith("dkernel-state-") else call)(*args)
    file_parts.read_unit = counted("read", file_parts.read_unit, unit_of)
