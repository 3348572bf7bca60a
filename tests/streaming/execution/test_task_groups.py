"""Dask's dashboard shows what runs: groups of tasks by their keys; annotations of the caller hold."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split
from distributed import Client, LocalCluster

import dkernel
from dkernel import KernelClassifier
from dkernel.errors import UnsupportedError
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.connect import ClusterExecutor
from dkernel.streaming.progress import phase_group
from tests.streaming.execution import jobs
from tests.streaming.sources import rings

SERVANTS = {"dkernel-state", "dkernel-check", "dkernel-alive"}

pytestmark = pytest.mark.cluster

TASK_GROUPS = ("read", "survey", "choice", "setup", "pass", "polish", "grids", "cells", "score", "predict")


@pytest.fixture(scope="module")
def client():
    asked = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**asked, resources={"GPU": 1}) as cluster, Client(cluster) as client:
        yield client


def groups(client):
    """The groups of all tasks that the scheduler has had."""
    return client.run_on_scheduler(lambda dask_scheduler: {str(name) for name in dask_scheduler.task_prefixes})


def test_a_key_is_of_the_group_that_its_phase_says():
    for group in TASK_GROUPS:
        assert key_split(f"dkernel-{group}-(dkernel-1a2b3c-survey-0)") == f"dkernel-{group}"
    assert {phase_group(phase) for phase in ("survey", "choose alpha", "prepare", "pass 1/2", "polish", "finish")} == {
        "survey", "choice", "setup", "pass", "polish", "score"
    }  # fmt: skip


def test_fits_grids_cells_scores_and_predictions_have_groups_of_their_own(client, tmp_path):
    X, y = rings(4500)
    rows, labels = da.from_array(X, (1500, -1)), da.from_array(y, 1500)
    few = {"n_components": 32, "gamma": 0.2, "passes": 1, "random_state": 0}
    for local, alpha in (("none", "auto"), ("grids(n_grids=32)", 1e-4), ("cells", 1e-4)):
        model = KernelClassifier(local=local, alpha=alpha, **few).fit(rows, labels)
    KernelClassifier(local="none", alpha=1e-4, polish=1, **few).fit(rows, labels)
    model.predict(rows).compute()
    np.save(tmp_path / "rows.npy", X)
    dkernel.score(model, tmp_path / "rows.npy", tmp_path / "scores")
    found = {name for name in groups(client) if name.startswith("dkernel")}
    assert found - SERVANTS == {f"dkernel-{group}" for group in TASK_GROUPS}


def test_calls_go_in_one_message_and_what_the_caller_annotates_holds(client, monkeypatch):
    sent = []

    def spied(*args, **options):
        sent.append((len(options["key"]), dask.get_annotations()))
        return send(*args, **options)

    send = client.map
    monkeypatch.setattr(client, "map", spied)
    with dask.annotate(priority=7, resources={"GPU": 1}), ClusterExecutor(client) as executor:
        assert executor.compute([Call(f"square-{k}", pow, (k, 2)) for k in range(5)])[0] == [0, 1, 4, 9, 16]
    ((calls, seen),) = sent
    assert (calls, seen["priority"], seen["resources"]) == (5, 7, {"GPU": 1})


def test_resources_that_nobody_has_and_workers_of_the_caller_are_refused(client):
    with dask.annotate(resources={"TPU": 1}), pytest.raises(Exception, match=r"has the resources.*TPU"):
        ClusterExecutor(client, patience=1)
    worker = next(iter(client.scheduler_info()["workers"]))
    with dask.annotate(workers=[worker]), pytest.raises(UnsupportedError, match="where their rows are"):
        ClusterExecutor(client)


def test_the_group_of_an_executor_stands_before_the_key(client):
    with ClusterExecutor(client) as executor:
        executor.group = lambda: "pass"
        (value,), _ = executor.compute([Call("dot", jobs.dot, (np.ones(2), np.ones(2)))])
        assert value == 2
    assert "dkernel-pass" in groups(client)
