"""A scheduler, workers and clients as a user starts them: processes of their own, each with its own commands."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

from tests import processes
from tests.faults.harness import LEARNERS, wait_until
from tests.faults.preload import FOLDER

PATIENCE = 300
DASK = [sys.executable, "-m", "dask"]


@contextmanager
def start_cluster(place, *threads, **variables):
    """A scheduler and workers of so many threads without nannies: the scheduler's file, and all the processes."""
    file = place / "scheduler.json"
    words = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    commands = [["scheduler", "--port", "0"], *(["worker", "--no-nanny", "--nthreads", str(n)] for n in threads)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place}
    env = processes.environment(**variables)
    started = [subprocess.Popen([*DASK, *command, *words], env=env, **quiet) for command in commands]
    try:
        wait_until(file.exists, 120)  # beside other jobs a scheduler takes its time
        yield str(file), started
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(60)


class Hand:
    """A scheduler and two workers with nannies that follow a plan (preload.py); all gone when the block ends."""

    def __init__(self, place, plan):
        self.place, self.plan = place, plan
        self.file = place / "scheduler.json"
        self.started = []

    def __enter__(self):
        began = time.monotonic()
        self.file.unlink(missing_ok=True)
        options = ["--scheduler-file", str(self.file), "--host", "127.0.0.1"]
        try:
            self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", *options)
            self.start_workers(2)
            wait_until(lambda: self.file.exists() and self.file.read_text(), PATIENCE)  # it is empty at first
            with Client(json.loads(self.file.read_text())["address"], timeout=PATIENCE) as client:
                client.wait_for_workers(2, timeout=PATIENCE)
        except BaseException:
            self.__exit__()
            raise
        self.seconds = time.monotonic() - began
        return self

    def start_workers(self, number):
        """So many more, with nannies in one process."""
        options = ["--scheduler-file", str(self.file), "--host", "127.0.0.1", "--no-dashboard"]
        words = ["--nworkers", str(number), "--nthreads", "1", "--preload", "tests.faults.preload"]
        return self._start("worker", *words, *options)

    def _start(self, *words):
        process = subprocess.Popen(
            [*DASK, *words], env=environment(self.plan), cwd=self.place, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.started.append(process)
        return process

    def __exit__(self, *exc):
        for process in reversed(self.started):
            try:
                os.killpg(process.pid, signal.SIGKILL)  # a nanny and its worker
            except ProcessLookupError:
                continue  # it was the victim
            finally:
                process.wait(PATIENCE)
        self.started = []


def environment(plan):
    more = {FOLDER: str(plan.folder), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "3"}
    return processes.environment(**more)


def options_for(learner, data):
    """The command's words for a learner of harness.py; the files are the same."""
    recipe = LEARNERS[learner]
    label, other = ("wave", "ring") if recipe.task == "regress" else ("ring", "wave")
    words = ["train", *sorted(map(str, Path(data).glob("*.npy"))), "--label", label, "--exclude", other, "--quiet"]
    for name in ("features", "loss", "task", "kernel", "metric", "gamma", "n_components", "alpha", "scale", "solver"):
        words += [f"--{name.replace('_', '-')}", str(getattr(recipe, name))]
    return words


class Command:
    """`dkernel` in a process of its own; `module` stands in for it where a test puts something in between."""

    def __init__(self, plan, *words, module="dkernel"):
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)], env=environment(plan), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def end(self, seconds):
        """Exit status and stderr; TimeoutExpired, with the process killed, when it does not end in time."""
        try:
            _, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, errors
