"""Clusters that close themselves, shrink with their load, or lose a worker as a run begins."""

import json
import os
import signal
import threading
import time
from contextlib import contextmanager

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from tornado.ioloop import PeriodicCallback

import dkernel
from dkernel import KernelClassifier, open_source
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.connect import connect
from tests.faults import harness
from tests.faults.processes import PATIENCE, Command, Hand, options_for

pytestmark = pytest.mark.cluster

IDLE = 3  # seconds; managed clusters have minutes


def test_an_idle_timeout_does_not_close_a_scheduler_in_use():
    with connect(workers=1, memory_limit=0, patience=PATIENCE) as executor:
        scheduler = executor.client.cluster.scheduler

        def begin():
            scheduler.idle_timeout = IDLE
            PeriodicCallback(scheduler.check_idle, 100).start()

        scheduler.loop.add_callback(begin)
        time.sleep(2.5 * IDLE)  # a factorization
        assert executor.compute([Call("pow", pow, (2, 5))])[0] == [32]


@contextmanager
def cluster_that_follows_its_load(minimum):
    with LocalCluster(n_workers=minimum, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        adaptive = cluster.adapt(minimum=minimum, maximum=2, interval="200ms", wait_count=2)
        yield cluster
        adaptive.stop()  # one that asks for a worker while the cluster closes leaves it open


def left_on(client):
    """The tasks and the workers of a cluster that follows its load."""
    return client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks, *dask_scheduler.workers])


# An adaptive cluster that asks for a worker while it closes says that it was left open: the process is the test's.
@pytest.mark.filterwarnings("ignore:unclosed cluster:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("minimum", [0, 1])
def test_a_cluster_that_follows_its_load_is_reached_by_its_address(minimum, data, serial, run, tmp_path):
    with cluster_that_follows_its_load(minimum) as cluster:
        with connect(scheduler=cluster.scheduler_address, patience=PATIENCE) as executor:
            found = harness.within(PATIENCE, lambda: harness.digest("nystrom-hinge", data, executor, tmp_path))
        with Client(cluster) as client:
            harness.wait_until(lambda: len(left_on(client)) == minimum, PATIENCE)
            cluster.adapt(
                minimum=minimum, maximum=1, interval="1s", wait_count=3
            )  # whose workers may be idle for some seconds
            shown = json.loads(run("doctor", "--json", "--scheduler", cluster.scheduler_address).stdout)
            assert len(shown["processes"]) == 3, shown["findings"]  # a worker, which none was there for an idle cluster
            harness.wait_until(lambda: len(left_on(client)) == minimum, PATIENCE)
    assert found == serial["nystrom-hinge"]


@pytest.mark.slow  # a worker process for each use
@pytest.mark.filterwarnings("ignore:unclosed cluster:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_without_workers_begins_some_for_every_use(data, run_to, tmp_path):
    rows = [str(path) for path in sorted(data.glob("*.npy"))]
    with cluster_that_follows_its_load(0) as cluster, Client(cluster) as client:

        def alone(function):
            """The value of a function that begins without workers, and ends without a trace of itself."""
            harness.wait_until(lambda: not left_on(client), PATIENCE)
            return harness.within(PATIENCE, function)

        model = KernelClassifier("gaussian", gamma=0.15, n_components=48, alpha=1e-6, local="none")
        alone(lambda: model.fit(open_source(rows, label="ring", exclude=["wave"])))
        X = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32), columns=list("abcdef"))
        dkernel.save(model, tmp_path / "m")
        predicted = alone(lambda: model.predict(dd.from_pandas(X, npartitions=4)).compute())
        assert (predicted == model.predict(X)).all()
        named = [*rows, "--exclude", "ring,wave", "--out"]
        alone(lambda: dkernel.score(model, rows, out=tmp_path / "python.npy", exclude=["ring", "wave"]))
        run_to("score", tmp_path / "m", *named, tmp_path / "alone.npy")
        options = ["--scheduler", cluster.scheduler_address]
        alone(lambda: run_to("score", tmp_path / "m", *named, tmp_path / "command.npy", *options))
        harness.wait_until(lambda: not left_on(client), PATIENCE)
    outs = {(tmp_path / f"{way}.npy").read_bytes() for way in ("python", "alone", "command")}
    assert len(outs) == 1


def test_a_worker_killed_in_the_first_seconds_of_a_run_changes_nothing(data, tmp_path):
    (tmp_path / "plan").mkdir()
    plan = harness.Plan(tmp_path / "plan")
    with Hand(tmp_path, plan) as hand, Client(json.loads(hand.file.read_text())["address"]) as client:
        pid = min(client.run(os.getpid).values())
        words = [*options_for("fourier-squared", data), "--scheduler-file", hand.file, "--out", tmp_path / "m"]
        command = Command(plan, *words)
        harness.wait_until(lambda: client.run_on_scheduler(clients) > 1, PATIENCE)
        os.kill(pid, signal.SIGKILL)
        assert command.end(PATIENCE) == (0, "")


def clients(dask_scheduler):
    return len([name for name in dask_scheduler.clients if name.startswith("Client")])


# test_faults.py stops a worker too.
@pytest.mark.parametrize("who", ["scheduler", pytest.param("worker", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_who_stands_still_for_a_while_is_waited_for(who, seconds, data, serial, tmp_path):
    (tmp_path / "plan").mkdir()
    plan = harness.Plan(tmp_path / "plan")
    with Hand(tmp_path, plan) as hand, connect(scheduler_file=str(hand.file), patience=PATIENCE) as executor:
        pid = hand.scheduler.pid if who == "scheduler" else min(executor.client.run(os.getpid).values())
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()
        found = harness.within(PATIENCE, lambda: harness.digest("fourier-squared", data, executor, tmp_path))
    assert found == serial["fourier-squared"]
