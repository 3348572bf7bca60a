"""A worker killed while it holds rows or scores of a stage, or stores them; the model is the same."""

import os
import signal
from dataclasses import replace

import dask
import pytest

from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.training.planning.memory_plan import Plan
from tests.faults.conftest import CONFIG, PATIENCE
from tests.faults.harness import settle, wait_until
from tests.training.fits import CELLS, GRIDS, a_source, digest, fit
from tests.training.test_same_bytes import CASES, source

pytestmark = pytest.mark.cluster

# As many deaths as Dask allows a task by default; other tests want to see the first.
DEATHS = {name: value for name, value in CONFIG.items() if "failures" in name}


class Watched(Progress):
    """Calls a function when a phase begins."""

    def __init__(self, name, call):
        super().__init__("none")
        self.watched, self.call = name, call

    def phase(self, name, *args, **figures):
        super().phase(name, *args, **figures)
        if name == self.watched:
            self.call()


# Where the worker is killed -> the rows, the recipe, the phase or else the line of the history
PLACES = {
    "between rounds of grids": (a_source, GRIDS, None, lambda line: line.get("grids") == 16),
    "in the shuffle of cells": (a_source, CELLS, "sort rows to cells", None),
    "between cells": (a_source, CELLS, None, lambda line: line.get("parts") == 1),
    "between rounds of stored rows": (lambda: source("sorted"), CASES["sorted"][3], None, dict.__len__),
    "while rows are stored": (lambda: source("sorted"), CASES["sorted"][3], "store interleaved", None),
}
SLOW = ("between cells", "while rows are stored")


@pytest.fixture(scope="module")
def workers():
    with dask.config.set(DEATHS), connect(workers=2) as executor:
        yield executor


@pytest.mark.parametrize("place", [pytest.param(p, marks=pytest.mark.slow if p in SLOW else ()) for p in PLACES])
def test_a_worker_killed(place, workers, tmp_path, monkeypatch):
    rows, recipe, phase, reached = PLACES[place]
    expected = digest(fit(None, SerialExecutor(), source=rows(), recipe=recipe), tmp_path)
    stored = recipe is CASES["sorted"][3]
    if stored:
        plan = Plan.of
        monkeypatch.setattr(Plan, "of", lambda *args, **more: replace(plan(*args, **more), keeps_rows=False))
    settle(workers, PATIENCE)
    killed, before = [], len(workers.faults)

    def kill(line=None):
        if not killed and (line is None or (reached and reached(line))):
            killed.append(min(workers.client.run(os.getpid).values()))
            os.kill(killed[0], signal.SIGKILL)

    found = fit(None, workers, source=rows(), recipe=recipe, callback=kill, progress=Watched(phase, kill))
    lost = "is gone; what it had is computed again"
    wait_until(lambda: workers.processes() and any(lost in fault for fault in workers.faults[before:]), PATIENCE)
    assert len(killed) == 1
    assert not stored or found.chosen["order"].startswith("stored once on disk")
    assert digest(found, tmp_path) == expected
