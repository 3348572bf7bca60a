"""`dkernel train --detach`: a job that a cluster has outlives its client, and its worker; it can be followed and ended.

The job waits in its eighth round, by a module that it imports, until the test has done what it does to it.
"""

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest
from distributed import Client

from dkernel.cli import main
from dkernel.cli.exit_codes import AGAIN
from dkernel.leaves.jobs import driver
from dkernel.streaming.execution.local import SerialExecutor
from tests.cli.conftest import FEATURES
from tests.deploy.processes import Group, bin_folder, environment, wait_until

HOLDING = """
import pathlib, time
from dkernel.solvers import sgd
a_round, here = sgd.PSGDSolver._round, pathlib.Path({folder!r})
def wait(self, state):
    if state.done == 7:
        (here / "ready").touch()
        while (here / "hold").exists():
            time.sleep(0.05)
    return a_round(self, state)
sgd.PSGDSolver._round = wait
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """A scheduler and two workers of one thread; a worker that is killed does not come again."""
    folder = tmp_path_factory.mktemp("cluster")
    with Group(folder, environment(bin_folder(folder / "bin"))) as made:
        made.file = folder / "scheduler.json"
        made.start("scheduler", ["dask", "scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", made.file])
        for number in range(2):
            worker(made, number)
        yield made


def worker(group, number):
    options = ["--nthreads", 1, "--no-dashboard", "--memory-limit", 0, "--no-nanny", "--name", number]
    return group.start(f"worker-{number}", ["dask", "worker", "--scheduler-file", group.file, *options])


@pytest.fixture
def job(group, data, tmp_path):
    """The words of a job that waits in its eighth round while the file `hold` is there, and its name."""
    (tmp_path / "hold").touch()
    (tmp_path / "holding.py").write_text(HOLDING.format(folder=str(tmp_path)))
    words = ["dkernel", "train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", *FEATURES]
    words += ["--checkpoint", tmp_path / "c", "--import", tmp_path / "holding.py"]
    return [*words, "--scheduler-file", group.file, "--detach"]


def submit(group, job, expect=0):
    group.run(f"submit-{len(group.running)}", job, expect=expect)
    return group.log(f"submit-{len(group.running) - 1}")


def record(folder):
    return json.loads((folder / "m.run.json").read_text())


def tasks_left(group):
    """Keys on the scheduler that are of dkernel, without those that show an idle scheduler that somebody is there."""
    with Client(scheduler_file=str(group.file)) as client:
        keys = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
    return [key for key in keys if key.startswith("dkernel")]


@pytest.mark.cluster
def test_a_job_outlives_its_client_and_leaves_nothing(group, job, model, run_to, tmp_path):
    told = submit(group, job)
    assert told.splitlines()[0] == str(tmp_path / "m")
    wait_until((tmp_path / "ready").exists, "the eighth round")
    driving = [key for key in tasks_left(group) if key.startswith("dkernel-job-")]
    assert len(driving) == 1
    assert "running" in run_to("watch", tmp_path).stdout
    (tmp_path / "hold").unlink()
    run_to("watch", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    wait_until(lambda: "rows in" in (tmp_path / "m.log").read_text(), "the end of the log")
    assert "done" in run_to("watch", tmp_path).stdout
    wait_until(lambda: not tasks_left(group), "the end of the driver")
    assert record(tmp_path)["command"][1:] == list(map(str, job[1:])), "that of the user, not that of the driver"
    assert {path.name for path in tmp_path.iterdir()} == {"c", "holding.py", "m", "m.log", "m.run.json", "ready"}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "retired"])
def test_a_job_goes_on_elsewhere_when_its_worker_dies(group, job, model, run_to, tmp_path, number):
    submit(group, job)
    wait_until((tmp_path / "ready").exists, "the eighth round")
    child = psutil.Process(record(tmp_path)["pid"])
    os.kill(child.ppid(), number)
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the end of the command")
    (tmp_path / "hold").unlink()
    worker(group, len(group.running))
    run_to("watch", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    assert record(tmp_path)["resumed_from"] == "pass 1 round 4/30"
    assert (tmp_path / "m.log").read_text().count(f" on {os.uname().nodename}\n") == 2


@pytest.mark.cluster
@pytest.mark.slow
def test_a_job_is_cancelled_and_the_same_command_goes_on(group, job, model, run, run_to, tmp_path):
    submit(group, job)
    wait_until((tmp_path / "ready").exists, "the eighth round")
    other = submit(group, [*job, "--seed", 7], expect=65)
    assert "a run with other settings is writing this record" in " ".join(other.split())
    assert submit(group, job).splitlines()[0] == str(tmp_path / "m")
    told = run("cancel", tmp_path / "m")
    assert told.stdout == f"{tmp_path / 'm'}: cancelled, exit code 143\n"
    run_to("watch", tmp_path / "m", code=143)
    wait_until(lambda: not tasks_left(group), "the end of the driver")
    assert (tmp_path / "m.log").read_text().count(" on ") == 1, "one driver, though the job was submitted twice"
    assert f"To continue: dkernel {shlex.join(map(str, job[1:]))}" in (tmp_path / "m.log").read_text()
    (tmp_path / "hold").unlink()
    submit(group, job)
    run_to("watch", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    assert record(tmp_path)["resumed_from"] == "pass 1 round 7/30"


@pytest.mark.cluster
def test_a_job_that_fails_ends_with_its_exit_code(group, job, run_to, tmp_path):
    job[2] = tmp_path / "no such file.parquet"
    submit(group, job)
    done = run_to("watch", tmp_path / "m", code=65)
    assert "no such file or folder" in done.stdout
    wait_until(lambda: "no such file or folder" in (tmp_path / "m.log").read_text(), "the end of the log")
    assert run_to("cancel", tmp_path / "m").stdout == f"{tmp_path / 'm'}: failed, exit code 65\n"


@pytest.mark.cluster
def test_a_place_that_workers_cannot_write_to_is_refused(group, job, tmp_path):
    job[job.index("--out") + 1] = tmp_path / "no such folder" / "m"
    assert "the folder is not there" in submit(group, job, expect=65)


def test_a_submitter_needs_no_extra_of_the_data(run, monkeypatch):
    given = []
    cluster = SerialExecutor()
    monkeypatch.setattr(cluster, "compute", given.extend)
    monkeypatch.setattr(cluster, "hand_over", given.append)
    monkeypatch.setattr("dkernel.streaming.execution.connect.connect", lambda **_: cluster)
    for package in ("fsspec", "s3fs", "zarr", "h5py", "deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, package, None)
    words = ["s3://b/rows.zarr", "--label", "y", "--out", "s3://b/m", "--checkpoint", "s3://b/c"]
    done = run("train", *words, "--detach", "--scheduler", "tcp://host:1")
    assert done.stdout == "s3://b/m\n"
    assert [call.function for call in given] == [driver.begin_job, driver.drive]


def test_a_run_that_was_not_given_to_a_cluster_is_not_cancelled(run_to, tmp_path):
    (tmp_path / "m.run.json").write_text(json.dumps({"status": "running", "pid": 42, "host": "there"}))
    told = run_to("cancel", tmp_path / "m", code=65)
    assert "End process 42 on there by SIGTERM" in told.stderr


@pytest.mark.parametrize(
    ("codes", "cancelled", "end"),
    [([AGAIN, -9, 0], False, 0), ([AGAIN] * 3, False, AGAIN), ([65], False, 65), ([AGAIN], True, 143)],
    ids=["done", "given-up", "failed", "cancelled"],
)
def test_a_command_is_run_again_after_exit_code_75(codes, cancelled, end, monkeypatch, tmp_path):
    job = driver.ClusterJob(str(tmp_path / "m.run.json"), "", "")
    driver.begin_job(job)
    rest = iter(codes)

    class Ended:
        def __init__(self, *_, env, **__):
            left.append(json.loads(env["DKERNEL_JOB"])["retries_left"])
            self.code = next(rest)
            if cancelled:
                Path(driver.cancel_file(job.record)).touch()

        def wait(self, _):
            return self.code

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    left = []
    monkeypatch.setattr(driver.subprocess, "Popen", Ended)
    monkeypatch.setattr(driver, "_PAUSE", 0.0)
    monkeypatch.setattr(driver, "_command", lambda *_: [])
    monkeypatch.setattr("dkernel.streaming.execution.in_task.scheduler_of_task", lambda: ("tcp://none:1", {}))
    monkeypatch.setattr(driver, "_RETRIES", 2)
    assert driver.drive(job) == end
    assert left == [2, 1, 0][: len(codes)]
    assert next(rest, None) is None
    assert not Path(driver.cancel_file(job.record)).exists()
    # The command wrote nothing to the record, as one that its options or its output refuse.
    assert record(tmp_path)["status"] == ("cancelled" if cancelled else "failed" if end else "done")
    assert record(tmp_path)["exit_code"] == end


def test_the_settings_of_a_job_name_no_file_by_a_relative_path():
    names = {name: f"{name}.x" for name in ("out", "report", "checkpoint", "scratch", "eval_set", "data")}
    words = [f"--{name.replace('_', '-')}={file}" for name, file in names.items() if name != "data"]
    with main.get_command(None, "train").make_context("train", ["data.x", *words]) as ctx:
        settings = driver._driver_settings(ctx)
    assert {name: settings[name] for name in names} == {
        name: [os.path.abspath(file)] if name in ("data", "eval_set") else os.path.abspath(file)
        for name, file in names.items()
    }
