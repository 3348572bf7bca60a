"""Workers from a batch system, each a job of its own, for one dkernel command that runs here.

    python deploy/jobqueue.py slurm --jobs 8 -- dkernel train train --label label --out model.safetensors \
        --checkpoint checkpoint --resume

The scheduler runs in this process. Jobs are submitted, replaced when they end before the command does, and cancelled
after it. The command is run again while it ends with 75, and goes on at its checkpoint; the exit status is its last.
Needs `pip install dask-jobqueue`. What sites differ in (queue, account, modules) goes into Dask's own configuration,
~/.config/dask/jobqueue.yaml, or into --directive.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

AGAIN = 75
TRIES = 20


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run a dkernel command on workers from a batch system.")
    parser.add_argument("system", choices=["slurm", "pbs"])
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="jobs, each one worker (4)")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="threads of a worker (1)")
    parser.add_argument("--memory", default="2GiB", metavar="SIZE", help="memory of a worker (2GiB)")
    parser.add_argument("--walltime", default="04:00:00", metavar="TIME", help="of a job (04:00:00)")
    parser.add_argument("--queue", metavar="NAME", help="queue or partition")
    parser.add_argument("--account", metavar="NAME")
    parser.add_argument("--directive", action="append", default=[], metavar="TEXT", help="one more line for the job")
    parser.add_argument("--logs", default="dkernel-run/jobs", metavar="DIR", help="of the jobs (dkernel-run/jobs)")
    parser.add_argument("command", nargs="+", help="after --: dkernel train, score or evaluate")
    return parser


def cluster_of(asked: argparse.Namespace) -> Any:
    """The cluster that the options describe; nothing is submitted yet."""
    import dask_jobqueue

    kinds = {"slurm": dask_jobqueue.SLURMCluster, "pbs": dask_jobqueue.PBSCluster}
    return kinds[asked.system](
        queue=asked.queue,
        account=asked.account,
        cores=asked.cores,
        processes=1,
        memory=asked.memory,
        walltime=asked.walltime,
        job_extra_directives=asked.directive,
        log_directory=asked.logs,
        # A worker leaves before its job is ended, and hands over what it holds.
        worker_extra_args=["--lifetime", f"{_seconds(asked.walltime) - 120}s", "--lifetime-stagger", "1m"]
        if _seconds(asked.walltime) > 600
        else [],
        # Not from the folder of the call, which a job has as its own.
        python=f"{sys.executable} -P",
    )


def _seconds(walltime: str) -> int:
    hours, minutes, seconds = (int(part) for part in walltime.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def run(command: list[str], cluster: Any, tries: int = TRIES) -> int:
    """The command on the cluster, again while it can go on; a SIGTERM for this process goes to it."""
    with tempfile.TemporaryDirectory(prefix="dkernel-") as folder:
        file = Path(folder) / "scheduler.json"
        file.write_text(f'{{"address": "{cluster.scheduler_address}"}}')
        for left in reversed(range(tries)):
            process = subprocess.Popen([*command, "--scheduler-file", str(file)])
            stopped: list[int] = []

            def stop(number: int, _: Any, process: Any = process, stopped: list[int] = stopped) -> None:
                stopped.append(number)
                process.send_signal(number)

            before = signal.signal(signal.SIGTERM, stop)
            code = process.wait()
            signal.signal(signal.SIGTERM, before)
            if code != AGAIN or stopped or not left:
                return code
    return AGAIN


def main() -> int:
    asked = options().parse_args()
    Path(asked.logs).mkdir(parents=True, exist_ok=True)
    with cluster_of(asked) as cluster:
        # Jobs that end are replaced, for as long as the command runs.
        cluster.adapt(minimum_jobs=asked.jobs, maximum_jobs=asked.jobs)
        return run(asked.command, cluster)


if __name__ == "__main__":
    sys.exit(main())
