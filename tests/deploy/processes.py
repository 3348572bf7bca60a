"""The programs of a deployment as real processes: on PATH, in groups of their own, ended with the test."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests import processes

RECIPE = ["--n-components", "32", "--gamma", "0.3", "--alpha", "1e-6", "--scale", "none"]
RECIPE += ["--kernel", "gaussian", "--metric", "identity"]
TRAIN = ["dkernel", "train", "train", "--label", "label", *RECIPE]
PROGRAMS = {"dkernel": "-m dkernel", "dask": "-m dask", "python": "", "python3": ""}
PATIENCE = 300


def run(*command, timeout=120, **more):
    """A program that has ended: its exit code and what it said."""
    words = [*map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout, **more)


def wait_until(event, what, seconds=PATIENCE, alive=()):
    """Wait for an event; fail when it does not come, or one of the processes that should bring it has ended."""
    end = time.monotonic() + seconds
    while not event():
        for process in alive:
            assert process.poll() is None, (
                f"{process.args} ended with {process.returncode} before: {what}\n{getattr(process, 'told', str)()}"
            )
        assert time.monotonic() < end, f"this did not come: {what}"
        time.sleep(0.02)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def write_data(folder, files=4, rows=4096, seed=0):
    """A folder of Parquet parts: two classes by a circle."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for i in range(files):
        X = rng.normal(size=(rows, 3)).astype(np.float32)
        table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": np.where((X**2).sum(1) < 2.4, 1, 0)})
        pq.write_table(table, folder / f"part-{i}.parquet")


def bin_folder(folder, programs=None):
    """A folder for PATH in which the programs are those of this interpreter; `programs` adds scripts by name."""
    folder.mkdir(parents=True, exist_ok=True)
    scripts = {name: f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n' for name, module in PROGRAMS.items()}
    for name, text in {**scripts, **(programs or {})}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def environment(bin=None, **more):
    """This environment, with the repository importable, the folder of programs first, and one BLAS thread each."""
    # Dask's settings are those of deploy/, not those that the tests run under (tests/conftest.py).
    found = processes.environment(OMP_NUM_THREADS="1").items()
    made = {name: value for name, value in found if not name.startswith("DASK_")}
    if bin is not None:
        made["PATH"] = os.pathsep.join([str(bin), made["PATH"]])
    return {**made, **{name: str(value) for name, value in more.items()}}


class Group:
    """Processes with one working folder and environment; all of them are gone when the block ends."""

    def __init__(self, folder: Path, env=None, prefix=()):
        self.folder, self.env, self.prefix = folder, env, list(prefix)
        self.running: list[subprocess.Popen] = []
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=120)

    def start(self, name, command, env=None, prefix=None):
        """Begin a program whose output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*(self.prefix if prefix is None else prefix), *map(str, command)], cwd=self.folder,
                env={**(self.env or environment()), **(env or {})}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        process.told = lambda: self.log(name)[-3000:]  # for a message
        self.running.append(process)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def run(self, name, command, expect=0, timeout=PATIENCE, **more):
        """Run a program to its end, which must be `expect` (None: any); returns the exit code."""
        code = self.start(name, command, **more).wait(timeout=timeout)
        assert expect is None or code == expect, f"{command}: exit code {code}\n{self.log(name)}"
        return code

    def alone(self, *options, data="train"):
        """The bytes of the model that one process makes of the same data."""
        (self.folder / "alone.model").unlink(missing_ok=True)
        self.run("alone", ["dkernel", "train", data, "--label", "label", *RECIPE, *options, "--out", "alone.model"])
        return (self.folder / "alone.model").read_bytes()


@contextmanager
def cluster(group, workers=2):
    """A scheduler and workers by `dask scheduler` and `dask worker`, gone when the block ends; yields their file."""
    file = group.folder / "scheduler.json"
    with Group(group.folder, group.env) as started:
        started.start("scheduler", ["dask", "scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", file])
        for i in range(workers):
            options = ["--nthreads", 1, "--no-dashboard", "--memory-limit", 0]
            started.start(f"worker-{i}", ["dask", "worker", "--scheduler-file", file, *options])
        yield file
    file.unlink(missing_ok=True)  # the next one is not that of a scheduler that is gone
