"""The fault tests' common ground: three learners on small files, a plan of one fault, a run with a limit in time."""

import hashlib
import json
import os
import re
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from distributed.core import Status

from dkernel.data.opening import open_source
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.base import resolve
from dkernel.streaming.execution.cluster import ClusterExecutor
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import Plan as MemoryPlan
from tests.streaming.sources import rings, waves

ROWS = (700, 900, 300, 1100)
LEAST_LIMIT = 60

BASE = Recipe(
    solver="psgd",
    n_components=48,
    kernel="gaussian",
    metric="identity",
    gamma=0.15,
    scale="standard",
    alpha=1e-6,
    rounds=4,
    passes=1,
)
LEARNERS = {
    "fourier-squared": BASE.replace(features="fourier", loss="squared", task="regress"),
    "fourier-hinge": BASE.replace(features="fourier", loss="squared_hinge", task="classify"),
    "nystrom-hinge": BASE.replace(features="nystrom", loss="squared_hinge", task="classify"),
}
# The second call of the survey; those of the third of four rounds; of the judgement at the very end.
POINTS = {"survey": r"-survey-[1-9]\d*-", "round": r"-fit-pass-0-0-2-", "last": r"-pass-0-0-judge-"}


def write_files(folder):
    """Two labels, `ring` to classify by and `wave` to regress on, in one NPY file for each unit."""
    n = sum(ROWS)
    X, ring = rings(n)
    _, wave = waves(n)
    table = np.empty(n, [*((name, "f4") for name in "abcdef"), ("ring", "i8"), ("wave", "f8")])
    for j, name in enumerate("abcdef"):
        table[name] = X[:, j]
    table["ring"], table["wave"] = ring, wave
    for i, (stop, rows) in enumerate(zip(np.cumsum(ROWS), ROWS, strict=True)):
        np.save(folder / f"{i}.npy", table[stop - rows : stop])


def source_for(learner, folder):
    label, other = ("wave", "ring") if LEARNERS[learner].task == "regress" else ("ring", "wave")
    return open_source(str(folder), label=label, exclude=(other,))


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def digest(learner, data, executor, place):
    """sha256 of the model's file."""
    model = train(source_for(learner, data), LEARNERS[learner], executor).model
    model_file.save(model, place / "model.safetensors")
    return sha256(place / "model.safetensors")


def wait_until(event, seconds=LEAST_LIMIT):
    end = time.monotonic() + seconds
    while not event():
        assert time.monotonic() < end, "what the test waits for did not come"
        time.sleep(0.01)


def within(seconds, function):
    """What the function returns or raises, when it does so in time."""
    outcome = {}

    def run():
        try:
            outcome["value"] = function()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(f"a hang: nothing came in {seconds:.0f} seconds")
    assert time.monotonic() - began <= seconds
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def declare_dead(scheduler):
    """What the scheduler does once a worker's time-to-live is over, as soon as one has been silent for 5 seconds.

    A time-to-live of 5 seconds for the whole run would take workers for dead that a busy machine makes wait.
    """
    silent = 5.5
    wait_until(lambda: any(time.time() - worker.last_seen > silent for worker in list(scheduler.workers.values())))

    async def check():
        before, scheduler.worker_ttl = scheduler.worker_ttl, 5.0
        await scheduler.check_worker_ttl()
        scheduler.worker_ttl = before

    scheduler.loop.add_callback(check)


class Plan:
    """One folder for the faults of some workers (preload.py), one fault at a time."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "workers").mkdir()

    def set(self, action, match, kind="call", times=1, first=1):
        """From now on this fault, at the calls, states or reads whose key matches, and the counts begin anew."""
        for file in self.folder.iterdir():
            if file.is_file():
                file.unlink()
        staged = self.folder / "plan.new"
        staged.write_text(json.dumps({"action": action, "match": match, "kind": kind, "times": times, "first": first}))
        staged.rename(self.folder / "plan.json")

    def clear(self):
        self.set("none", "$^")

    @property
    def fired(self):
        return len(list(self.folder.glob("fired-*")))

    @property
    def workers(self):
        return {int(file.name) for file in (self.folder / "workers").iterdir()}

    def lines(self, kind, what="begin"):
        """(key, process) of each begin, or end, in order."""
        log = self.folder / "log"
        words = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(key, int(pid)) for said, of, key, pid in words if (said, of) == (what, kind)]


def ended(cluster):
    """Names of the workers that ended with their nannies."""
    return [name for name, nanny in cluster.workers.items() if nanny.status == Status.closed]


def settle(executor, seconds):
    """Two workers again: a new one also for a worker that ended with its nanny.

    What the executor knows of its workers is up to a second old: one that has just ended would count among the two.
    """
    cluster = executor.client.cluster

    def both():
        for name in ended(cluster):
            del cluster.workers[name]
        if len(cluster.workers) != 2:
            cluster.scale(2)
        there = executor.client.nthreads()
        return len(cluster.workers) == len(there) == 2 and executor.processes().keys() == there.keys()

    wait_until(both, seconds)


def holders(executor, handle):
    """Process numbers of the workers that have the value."""
    future = handle.ensure()
    future.result(timeout=LEAST_LIMIT)
    (addresses,) = executor.client.who_has([future]).values()
    return list(executor.client.run(os.getpid, workers=list(addresses)).values())


@contextmanager
def read_again(monkeypatch):
    """A source that is taken for too large to be held: the pass reads it again."""
    of = MemoryPlan.of
    with monkeypatch.context() as patch:
        patch.setattr(MemoryPlan, "of", lambda *args, **more: replace(of(*args, **more), keeps_rows=False))
        yield


@contextmanager
def only_copy_lost(point, monkeypatch):
    """Kill the worker with the only copy of what the calls of a point need, when they are about to be sent."""
    compute, killed = ClusterExecutor.compute, []

    def compute_and_kill(self, calls, ahead=(), read_on=()):
        reached = not killed and any(re.search(POINTS[point], call.key) for call in calls)
        if reached:
            handles = []
            resolve([arg for call in calls for arg in call.args], lambda handle: handles.append(handle) or handle)
            pid = next(found[0] for handle in handles if len(found := holders(self, handle)) == 1)
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)
        return compute(self, calls, ahead, read_on)

    with monkeypatch.context() as patch:
        patch.setattr(ClusterExecutor, "compute", compute_and_kill)
        yield killed
