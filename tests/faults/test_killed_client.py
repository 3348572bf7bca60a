"""A client that is killed leaves nothing on a cluster that others use: no plugin, no limit, no value, no refusal."""

import json

import pytest
from distributed import Client

from tests.faults import harness
from tests.faults.processes import PATIENCE, Command, Hand, options_for

pytestmark = pytest.mark.cluster


def plugins(dask_scheduler):
    """Names of the plugins that the scheduler has, and those that it gives to workers and nannies that join."""
    return sorted([*dask_scheduler.plugins, *dask_scheduler.worker_plugins, *dask_scheduler.nanny_plugins])


def known_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def state_of_process():
    """What a run changes in a worker process while it lives."""
    import logging

    from threadpoolctl import threadpool_info

    threads = sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
    return threads, logging.getLogger("distributed.worker").level


def test_a_killed_client_leaves_nothing_and_other_workers_can_join(data, tmp_path, monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    (tmp_path / "plan").mkdir()
    plan = harness.Plan(tmp_path / "plan")
    with Hand(tmp_path, plan) as hand, Client(json.loads(hand.file.read_text())["address"]) as client:
        client.run(__import__, "scipy.linalg")
        before = client.run_on_scheduler(plugins), client.run(state_of_process)
        plan.set("kill_other", harness.POINTS["round"])
        words = [*options_for("fourier-squared", data), "--scheduler-file", hand.file, "--out", tmp_path / "m"]
        command = Command(plan, *words, module="tests.faults.short_lease")
        (plan.folder / "victim").write_text(str(command.process.pid))
        ended = command.end(PATIENCE)
        assert ended[0] == -9, ended[1]
        assert plan.fired == 1
        harness.wait_until(lambda: client.run_on_scheduler(known_tasks) == 0, PATIENCE)
        harness.wait_until(lambda: client.run(state_of_process) == before[1], PATIENCE)
        assert client.run_on_scheduler(plugins) == before[0]

        (plan.folder / "old-numpy").touch()
        other = hand.start_workers(1)
        client.wait_for_workers(3, timeout=PATIENCE)
        assert client.submit(pow, 2, 5, workers=list(client.nthreads())[-1]).result(timeout=PATIENCE) == 32
        assert (len(client.nthreads()), other.poll()) == (3, None)
