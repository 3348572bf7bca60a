"""Slurm and PBS: scripts that parse; jobs that run, are stopped and go on, by stand-ins that start real processes."""

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.deploy.places import DEPLOY, commands_in, names, refusal
from tests.deploy.processes import PATIENCE, RECIPE, Group, bin_folder, environment, run, wait_until, write_data

CHECKED = ["slurm/train.sbatch", "pbs/train.pbs", "jobqueue.py"]
STANDINS = ["sbatch", "qsub", "scancel", "qdel", "srun", "pbsdsh", "scontrol"]


@pytest.mark.parametrize("name", names(".sh", ".sbatch", ".pbs"))
def test_it_can_be_executed_and_its_commands_are_commands(name):
    assert os.access(DEPLOY / name, os.X_OK)
    for command in commands_in((DEPLOY / name).read_text()):
        words = [word for word in command if word not in ("$@", "${arguments[@]}", "$tls")]
        assert refusal([re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in words]) == ""


class Queue(Group):
    """A folder with data and the stand-ins on PATH; `submit` is sbatch or qsub."""

    def __init__(self, folder):
        self.state = folder / "queue"
        (self.state / "jobs").mkdir(parents=True)
        path = Path(__file__).parent / "standins.py"
        programs = {name: f'#!/bin/sh\nexec "{sys.executable}" "{path}" {name} "$@"\n' for name in STANDINS}
        env = environment(bin_folder(folder / "bin", programs), DKERNEL_RUN=folder / "run", QUEUE_STATE=self.state)
        super().__init__(folder, env)
        write_data(folder / "train", files=2, rows=8192)

    def __exit__(self, *error):
        for job in (self.state / "jobs").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                os.killpg(int((job / "pid").read_text()), signal.SIGKILL)
        super().__exit__(*error)

    @property
    def jobs(self):
        return len(list((self.state / "jobs").iterdir()))

    def output(self, number=1):
        log = self.state / f"{number}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def ended(self, number=1):
        pid = int((self.state / "jobs" / str(number) / "pid").read_text())
        return not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"

    def stop(self, number=1):
        """As a job system does near the end of time: a signal for the script alone."""
        os.kill(int((self.state / "jobs" / str(number) / "pid").read_text()), signal.SIGTERM)

    def has_checkpoint(self):
        folder = self.folder / "run" / "checkpoint"
        return folder.is_dir() and any(path.is_file() for path in folder.rglob("*"))


@pytest.fixture
def queue(tmp_path):
    with Queue(tmp_path) as queue:
        yield queue


WORDS = ["train", "--label", "label", "--out", "model.safetensors", *RECIPE]
PASSES = ["--passes", "4", "--progress", "json"]
SUBMIT = {
    "slurm": lambda words: ["sbatch", "--ntasks=2", DEPLOY / "slurm/train.sbatch", *words],
    "pbs": lambda words: ["qsub", "-v", f"DKERNEL_ARGUMENTS={' '.join(words)}", DEPLOY / "pbs/train.pbs"],
}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("system", SUBMIT)
def test_a_stopped_job_is_queued_again_to_the_same_bytes(system, queue):
    command, model = SUBMIT[system]([*WORDS, *PASSES]), queue.folder / "model.safetensors"
    queue.run("submit", command)
    wait_until(lambda: '"phase": "pass 1/' in queue.output(1), "the first pass")
    assert queue.has_checkpoint()
    queue.stop(1)
    wait_until(lambda: queue.ended(1), "the end of the job")
    assert not model.exists()
    if system == "slurm":  # the stand-in notes what Slurm would do; a job of PBS submits itself
        assert (queue.state / "requeued").read_text() == "requeue 1\n", queue.output(1)
        queue.run("submit", command)
    wait_until(lambda: queue.jobs == 2, "the second job")
    wait_until(lambda: queue.ended(2), "the end of the second job")
    assert model.read_bytes() == queue.alone(*PASSES), queue.output(2)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("system", SUBMIT)
def test_workers_that_are_jobs_of_their_own(system, queue):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    command = ["python", DEPLOY / "jobqueue.py", system, "--jobs", "2", "--memory", "1GiB", "--", "dkernel", "train"]
    queue.run("jobqueue", [*command, *WORDS])
    assert queue.jobs >= 1
    assert (queue.folder / "model.safetensors").read_bytes() == queue.alone()
    script = (queue.state / "jobs" / "1" / "script").read_text()
    assert "--memory-limit 1.00GiB" in script
    wait_until(lambda: all(queue.ended(n + 1) for n in range(queue.jobs)), "the end of the jobs")


def test_jobqueue_runs_a_command_again_while_it_can_go_on(tmp_path):
    """75 twice, then done; and a mistake at once."""
    script = (
        "import importlib.util, sys, types\n"
        f"spec = importlib.util.spec_from_file_location('jobqueue', {str(DEPLOY / 'jobqueue.py')!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "cluster = types.SimpleNamespace(scheduler_address='tcp://host:1')\n"
        "sys.exit(module.run(sys.argv[1:], cluster))\n"
    )
    count = tmp_path / "count"
    flaky = f'echo "$0 $2" >>{count}; test $(wc -l <{count}) -ge 3 || exit 75'
    assert run(sys.executable, "-c", script, "bash", "-c", flaky, timeout=PATIENCE).returncode == 0
    assert len(count.read_text().splitlines()) == 3
    assert run(sys.executable, "-c", script, "bash", "-c", "exit 65", timeout=PATIENCE).returncode == 65
