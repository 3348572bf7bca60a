"""Workers killed while they store sorted rows, and while these are learned from; the model is the same."""

import os
import signal
from dataclasses import replace

import dask
import pytest

from dkernel.execution.connect import connect
from dkernel.execution.local import SerialExecutor
from dkernel.planning.memory_plan import Plan
from dkernel.streaming.progress import Progress
from dkernel.training.fit import train
from tests.faults.conftest import CONFIG, PATIENCE
from tests.faults.harness import wait_until
from tests.training.fits import digest
from tests.training.test_same_bytes import CASES, source

pytestmark = pytest.mark.cluster


class Watched(Progress):
    """Calls a function when the rows are about to be stored."""

    def __init__(self, call):
        super().__init__("none")
        self.call = call

    def phase(self, name, *args, **figures):
        super().phase(name, *args, **figures)
        if name == "store interleaved":
            self.call()


@pytest.mark.parametrize("where", ["between rounds", pytest.param("while rows are stored", marks=pytest.mark.slow)])
def test_a_worker_killed(where, tmp_path, monkeypatch):
    expected = digest(train(source("sorted"), CASES["sorted"][3], SerialExecutor()), tmp_path)
    plan, killed = Plan.of, []
    monkeypatch.setattr(Plan, "of", lambda *args, **more: replace(plan(*args, **more), kept=False))
    failures = {name: value for name, value in CONFIG.items() if "failures" in name}
    with dask.config.set(failures), connect(workers=2) as executor:

        def kill(_=None):
            if not killed:
                os.kill(min(executor.client.run(os.getpid).values()), signal.SIGKILL)
                killed.append(where)

        storing = where == "while rows are stored"
        progress, callback = Watched(kill if storing else lambda: None), None if storing else kill
        found = train(source("sorted"), CASES["sorted"][3], executor, progress=progress, callback=callback)
        lost = "is gone; what it had is computed again"
        wait_until(lambda: executor.processes() and any(lost in fault for fault in executor.faults), PATIENCE)
    assert killed == [where]
    assert found.chosen["order"].startswith("stored once on disk")
    assert digest(found, tmp_path) == expected
