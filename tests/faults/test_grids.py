"""A worker that is killed between rounds of grids takes the scores of its rows with it; the model is the same."""

import os
import signal

import dask
import pytest

from dkernel.execution.connect import connect
from dkernel.execution.local import SerialExecutor
from tests.faults.conftest import CONFIG
from tests.local_stages.test_local_stage import GRIDS
from tests.training.fits import digest, fit

pytestmark = pytest.mark.cluster


def test_a_worker_killed_between_rounds(tmp_path):
    # As many deaths as Dask allows a task by default; other tests want to see the first.
    failures = {name: value for name, value in CONFIG.items() if "failures" in name}
    with dask.config.set(failures), connect(workers=2) as executor:

        def kill(line):
            if line.get("grids") == 16:
                pids = executor.client.run(os.getpid)
                os.kill(min(pids.values()), signal.SIGKILL)

        found = fit(None, executor, recipe=GRIDS, callback=kill)
    assert digest(found, tmp_path) == digest(fit(None, SerialExecutor(), recipe=GRIDS), tmp_path)
