"""Workers that are killed while rows are sorted to cells, and while cells are fitted; the model is the same."""

import os
import signal

import dask
import pytest

from dkernel.execution.connect import connect
from dkernel.execution.local import SerialExecutor
from tests.faults.conftest import CONFIG
from tests.training.fits import digest, fit
from tests.training.test_cells import CELLS

pytestmark = pytest.mark.cluster


def test_a_worker_killed_between_cells(tmp_path):
    # As many deaths as Dask allows a task by default; other tests want to see the first.
    failures = {name: value for name, value in CONFIG.items() if "failures" in name}
    with dask.config.set(failures), connect(workers=2) as executor:

        def kill(line):
            if line.get("parts") == 1:
                pids = executor.client.run(os.getpid)
                os.kill(min(pids.values()), signal.SIGKILL)

        found = fit(None, executor, recipe=CELLS, told=kill)
    assert digest(found, tmp_path) == digest(fit(None, SerialExecutor(), recipe=CELLS), tmp_path)
