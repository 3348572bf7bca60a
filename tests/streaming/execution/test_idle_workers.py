"""Workers that begin no task, as Dask has paused them or they are gone: a run says so, and does not wait for ever."""

import os
from contextlib import contextmanager
from math import prod

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from dkernel import KernelClassifier, save
from dkernel.data import compute
from dkernel.data.compute import dask_compute
from dkernel.errors import ClusterError
from dkernel.streaming.execution import cluster, workers
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.connect import ClusterExecutor
from tests.faults.harness import wait_until
from tests.streaming.sources import rings

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def client():
    """Two workers that pause at half of their memory limit."""
    with (
        dask.config.set({"distributed.worker.memory.pause": 0.5, "distributed.scheduler.allowed-failures": 0}),
        LocalCluster(2, threads_per_worker=1, memory_limit="6GiB", dashboard_address=":0", silence_logs=50) as started,
        Client(started) as client,
    ):
        yield client


def pause_at(share, dask_worker):
    dask_worker.memory_manager.memory_pause_fraction = share


@contextmanager
def paused(client):
    def have(status):
        return {facts["status"] for facts in client.scheduler_info(n_workers=-1)["workers"].values()} == {status}

    client.run(pause_at, 1e-6)
    wait_until(lambda: have("paused"))
    try:
        yield
    finally:
        client.run(pause_at, 0.5)
        wait_until(lambda: have("running"))


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    for module in (compute, cluster, workers):
        monkeypatch.setattr(module, "START", 0.2)
    monkeypatch.setattr(compute, "PATIENCE", 3.0)


def wait_in_executor(client, tell):
    with ClusterExecutor(client, patience=60.0, least=2, tell=tell) as executor:
        executor.patience = 3.0
        with paused(client):
            executor.compute([Call("product", prod, ((2, 3),))])


def wait_for_first_tasks(client, tell):
    with paused(client), ClusterExecutor(client, patience=3.0, tell=tell):
        pass


def wait_for_collection(client, tell, monkeypatch):
    monkeypatch.setattr(compute.LOG, "warning", tell)
    frame = dd.from_pandas(pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) % 2}), npartitions=2)
    with paused(client):
        KernelClassifier().fit(frame[["x"]], frame["y"])


@pytest.mark.parametrize("wait", [wait_in_executor, wait_for_first_tasks, wait_for_collection])
def test_paused_workers_are_told_of_and_end_a_run_that_waits_for_them(client, wait, monkeypatch):
    told = []
    with pytest.raises(ClusterError, match=r"has paused 2 of 2 workers .*Restart them .* more memory"):
        wait(client, told.append, *([monkeypatch] if wait is wait_for_collection else []))
    assert len([text for text in told if "has paused 2 of 2 workers" in text and "up to 3 seconds" in text]) == 1


def test_a_run_goes_on_when_its_workers_do(client):
    def resume(text):
        assert "has paused 2 of 2 workers" in text
        client.run(pause_at, 0.5)

    with ClusterExecutor(client, patience=60.0, tell=resume) as executor, paused(client):
        assert executor.compute([Call("product-again", prod, ((2, 5),))])[0] == [10]


def test_the_command_that_scores_files_ends_too(client, run, tmp_path):
    X, y = rings(400)
    np.save(tmp_path / "x.npy", X)
    save(KernelClassifier(gamma=1.0, n_components=8, local="none").fit(X, y), tmp_path / "m.st")
    at = ("--scheduler", client.scheduler.address, "--cluster-timeout", 3)
    with paused(client):
        done = run("score", tmp_path / "m.st", tmp_path / "x.npy", "--out", tmp_path / "s.npy", *at)
    assert done.exit_code == 75
    assert done.stderr.count("has paused 2 of 2 workers") == 2, done.stderr  # it waits, and it has waited


def test_a_plan_counts_the_memory_up_to_which_workers_begin_tasks(client):
    with ClusterExecutor(client, least=2) as executor:
        assert executor.describe().memory_limit == 3 * 2**30


def test_a_collection_that_ends_its_workers_is_an_error_of_dkernel(client):
    with pytest.raises(ClusterError, match=r"ended 1 worker.*more memory"):
        dask_compute(dask.delayed(os._exit)(1))
    wait_until(lambda: len(client.nthreads()) == 2, 60)
