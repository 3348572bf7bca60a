"""Workers and clients killed while rows are sorted to cells, and while cells are fitted; the model is the same."""

import multiprocessing
import os
import signal

import dask
import pytest

from dkernel.execution.connect import connect
from dkernel.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from tests.faults.conftest import CONFIG
from tests.training.fits import digest, fit
from tests.training.test_cells import CELLS

pytestmark = pytest.mark.cluster


class Watched(Progress):
    """Calls a function when the rows are about to be sorted to cells."""

    def __init__(self, call):
        super().__init__("none")
        self.call = call

    def phase(self, name, *args, **figures):
        super().phase(name, *args, **figures)
        if name == "sort rows to cells":
            self.call()


@pytest.mark.parametrize("where", ["between cells", "in the shuffle"])
def test_a_worker_killed(where, tmp_path):
    # As many deaths as Dask allows a task by default; other tests want to see the first.
    failures = {name: value for name, value in CONFIG.items() if "failures" in name}
    killed = []
    with dask.config.set(failures), connect(workers=2) as executor:

        def kill():
            pids = executor.client.run(os.getpid)
            os.kill(min(pids.values()), signal.SIGKILL)
            killed.append(where)

        progress = Watched(kill if where == "in the shuffle" else lambda: None)
        told = (lambda line: kill() if line.get("parts") == 1 else None) if where == "between cells" else None
        found = fit(None, executor, recipe=CELLS, callback=told, progress=progress)
    assert killed == [where]
    assert digest(found, tmp_path) == digest(fit(None, SerialExecutor(), recipe=CELLS), tmp_path)


class Killed(Progress):
    """Kills this process once something of a phase is done."""

    def __init__(self, phase):
        super().__init__("none")
        self.last = phase

    def advance(self, rows=0, **figures):
        super().advance(rows, **figures)
        if self.state()["phase"] == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def _fit_until(phase, place):
    fit(place / "kept", recipe=CELLS, scratch=str(place / "scratch"), progress=Killed(phase))


@pytest.mark.parametrize("phase", ["sort rows to cells", pytest.param("cells", marks=pytest.mark.slow)])
def test_a_client_killed(phase, tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_fit_until, args=(phase, tmp_path))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    assert list((tmp_path / "scratch").rglob("cells-*.npy"))
    found = fit(tmp_path / "kept", recipe=CELLS, scratch=str(tmp_path / "scratch"))
    assert found.resumed
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()] == []
    assert digest(found, tmp_path) == digest(fit(None, SerialExecutor(), recipe=CELLS), tmp_path)
