"""Several workers, and clients, killed while rows are sorted to cells and while cells are fitted; the model is the
same.
"""

import multiprocessing
import os
import signal
from contextlib import nullcontext

import dask
import pytest
from distributed import Client, LocalCluster

from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from tests.faults.conftest import PATIENCE
from tests.faults.harness import wait_until
from tests.faults.preload import abort
from tests.faults.test_clusters_of_others import clients
from tests.faults.test_killed_client import known_tasks, plugins
from tests.faults.test_killed_worker import DEATHS, Watched
from tests.training.fits import CELLS, digest, fit

pytestmark = pytest.mark.cluster

SORTING = "sort rows to cells"


@pytest.mark.slow
def test_three_workers_killed_one_after_the_other(tmp_path):
    killed = []
    with dask.config.set(DEATHS), connect(workers=3) as executor:

        def kill(line=None):
            if len(killed) < 3 and (line is None or line.get("parts")):
                pids = [nanny.pid for nanny in executor.client.cluster.workers.values()]
                killed.append(next(pid for pid in pids if pid and pid not in killed))
                os.kill(killed[-1], signal.SIGKILL)

        found = fit(None, executor, recipe=CELLS, callback=kill, progress=Watched(SORTING, kill))
    assert len(set(killed)) == 3
    assert digest(found, tmp_path) == digest(fit(None, SerialExecutor(), recipe=CELLS), tmp_path)


def break_connections(dask_worker):
    """Dask then ends the worker with its nanny, as after the sleep of a machine; nothing of Dask begins others."""
    abort(dask_worker)


def test_workers_that_dask_gives_up_are_replaced(tmp_path):
    with connect(workers=2) as executor:
        nannies = list(executor.client.cluster.workers.values())

        def end_all():
            executor.client.run(break_connections, on_error="ignore")
            wait_until(lambda: all(nanny.status.name == "closed" for nanny in nannies))

        found = fit(None, executor, recipe=CELLS, progress=Watched(SORTING, end_all))
        assert any("were given up by Dask" in fault for fault in executor.faults)
        wait_until(lambda: len(executor.processes()) == 2)
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


def _fit_until(phase, place, address=None):
    with connect(address) if address else nullcontext() as executor:
        fit(place / "kept", executor, recipe=CELLS, scratch=str(place / "scratch"), progress=Killed(phase))


def _killed(phase, place, address=None):
    """A client is killed in this phase, and leaves no rows: their files have no names."""
    process = multiprocessing.get_context("spawn").Process(target=_fit_until, args=(phase, place, address))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    assert list((place / "scratch").iterdir()) == []


def _resumed(place, executor=None):
    found = fit(place / "kept", executor, recipe=CELLS, scratch=str(place / "scratch"))
    assert found.resumed
    assert digest(found, place) == digest(fit(None, SerialExecutor(), recipe=CELLS), place)


@pytest.mark.parametrize("phase", [SORTING, pytest.param("cells", marks=pytest.mark.slow)])
def test_a_client_killed(phase, tmp_path):
    _killed(phase, tmp_path)
    _resumed(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("phase", [SORTING, "cells"])
def test_a_client_killed_on_a_cluster_that_goes_on(phase, tmp_path):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        before = client.run_on_scheduler(plugins)

        def nothing_is_left():
            return client.run_on_scheduler(known_tasks) == 0 and client.run_on_scheduler(clients) == 1

        _killed(phase, tmp_path, cluster.scheduler_address)
        wait_until(nothing_is_left, PATIENCE)
        with connect(cluster.scheduler_address) as executor:
            _resumed(tmp_path, executor)
        wait_until(nothing_is_left, PATIENCE)
        assert client.run_on_scheduler(plugins) == before
