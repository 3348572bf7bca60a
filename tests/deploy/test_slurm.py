"""A real Slurm of one node: munge, slurmctld and slurmd of Debian's slurm-wlm, started here and ended with the test."""

import os
import pwd
import shutil
import socket

import pytest

from tests.deploy.places import DEPLOY
from tests.deploy.processes import (
    PATIENCE,
    RECIPE,
    Group,
    bin_folder,
    environment,
    free_port,
    run,
    wait_until,
    write_data,
)

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WORDS = ["train", "--label", "label", "--out", "model.safetensors", *RECIPE]
CONFIGURATION = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
SlurmUser=root
# More cores than the machine may have: what is tested is not its speed.
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The three daemons, and a folder with data to submit from."""
    programs = {
        name: shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") for name in ("munged", "slurmctld", "slurmd")
    }
    if None in programs.values() or os.geteuid():
        pytest.skip("no Slurm can be started here (apt install slurm-wlm; root)")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().split(".")[0]
    text = CONFIGURATION.format(host=host, folder=folder, control=free_port(), node=free_port())
    (folder / "slurm.conf").write_text(text)
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    env = environment(bin_folder(folder / "bin"), SLURM_CONF=folder / "slurm.conf", DKERNEL_RUN=folder / "run")
    write_data(folder / "train", files=2, rows=8192)
    with Group(folder, env) as group:
        munge = [programs["munged"], "--foreground", "--force", f"--key-file={folder}/key"]
        munge += [f"--socket={folder}/munge.socket"]
        files = [f"--{name}-file={folder}/munge.{name}" for name in ("log", "pid", "seed")]
        group.start("munged", [*munge, *files])
        wait_until((folder / "munge.socket").exists, "munge", alive=group.running)
        group.start("slurmctld", [programs["slurmctld"], "-D"])
        group.start("slurmd", [programs["slurmd"], "-D", "-N", host])
        wait_until(lambda: "idle" in ask(group, "sinfo", "-h", "-o", "%t"), "a node that is idle", alive=group.running)
        yield group
        ask(group, "scancel", "--user", pwd.getpwuid(os.geteuid()).pw_name)
        wait_until(lambda: not ask(group, "squeue", "-h"), "an empty queue")


def ask(group, *command):
    return run(*command, env=group.env).stdout.strip()


def state(group, job):
    return ask(group, "scontrol", "show", "job", job, "-o").split("JobState=")[-1].split()[0]


def submit(group, *words):
    group.run("sbatch", ["sbatch", "--parsable", *words])
    return group.log("sbatch").split()[-1]


def output(group, job):
    return "".join(path.read_text(errors="replace") for path in group.folder.glob(f"slurm-{job}*.out"))


def test_a_job_is_requeued_and_goes_on_to_the_same_bytes(slurm):
    more = ["--passes", "4", "--progress", "json"]
    # Slurm counts memory only where it is asked to; this one is not.
    job = submit(slurm, "--ntasks=3", "--mem-per-cpu=0", DEPLOY / "slurm/train.sbatch", *WORDS, *more)
    wait_until(lambda: '"phase": "pass 1/' in output(slurm, job), "the first pass")
    # What Slurm itself does before the end of the time: a signal for the batch script alone.
    ask(slurm, "scancel", "--batch", "--signal=TERM", job)
    wait_until(lambda: "back into the queue" in output(slurm, job), "the requeue")
    assert not (slurm.folder / "model.safetensors").exists()
    wait_until(lambda: "Restarts=1" in ask(slurm, "scontrol", "show", "job", job, "-o"), "the second begin")
    # Slurm holds a job back for two minutes after it was put into the queue again.
    ask(slurm, "scontrol", "update", f"JobId={job}", "StartTime=now")
    wait_until(lambda: state(slurm, job) in ("COMPLETED", "FAILED"), "the end of the job", seconds=3 * PATIENCE)
    assert state(slurm, job) == "COMPLETED", output(slurm, job)
    assert (slurm.folder / "model.safetensors").read_bytes() == slurm.alone(*more)


def test_workers_that_are_jobs_of_their_own(slurm):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    command = ["python", DEPLOY / "jobqueue.py", "slurm", "--jobs", "2", "--memory", "1GiB", "--directive=--mem=0"]
    slurm.run("jobqueue", [*command, "--", "dkernel", "train", *WORDS], timeout=3 * PATIENCE)
    assert (slurm.folder / "model.safetensors").read_bytes() == slurm.alone()
    wait_until(lambda: not ask(slurm, "squeue", "-h"), "an empty queue")
