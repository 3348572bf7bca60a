"""The driver of a job that was given to a cluster: a task that runs the job's command, and runs it again.

The command is a process of its own on the machine of a worker: `dkernel train` with the settings of the one that was
given, `--resume`, and the scheduler of that worker. So it has signals, exit codes and memory of its own. Where the
worker dies its pipe closes, which ends the process, and Dask runs the task again elsewhere: the command goes on from
its checkpoint. What is known of the job stands in its run record; beside that are its log, and while it is
being cancelled, a file that says so.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from dkernel.cli.exit_codes import AGAIN, GRACE
from dkernel.cli.options import config_text, named_files
from dkernel.cli.run_record import JOB, REMOTE_HEARTBEAT, Record, default_record
from dkernel.data.failures import PATIENCE
from dkernel.data.store import is_url, locate, write_whole
from dkernel.errors import DataError, DKernelError, mask_urls
from dkernel.leaves.jobs.follow import cancel_file, find_log, is_over, is_stale, read_record
from dkernel.streaming.execution.user_modules import UserModule

BY_SIGTERM = 143  # that of a command which SIGTERM stops
_RETRIES = 3  # times that a command is run again after exit code 75: its checkpoint goes on, and a cluster may be gone
_LOOK = 1.0  # seconds between two looks for the cancel file
_PAUSE = GRACE + 2.0  # seconds before a command is run again: a process of before has ended by then


@dataclass(frozen=True)
class ClusterJob:
    """A command for a cluster.

    Parameters
    ----------
    record : path or URL of its run record, which is also its name
    settings : the command's, as the text of a config file
    digest : of the settings that the command was given
    command : its words, for people
    modules : of --import
    dead_after : seconds without news after which it counts as dead; a cluster may take so long to miss a worker
    """

    record: str
    settings: str = field(repr=False)
    digest: str
    command: tuple[str, ...] = ()
    modules: tuple[UserModule, ...] = ()
    dead_after: float = PATIENCE

    def entry(self, retries_left: int) -> dict[str, Any]:
        """What the run record says of it, with the retries that are left."""
        return {"settings": self.digest, "retries_left": retries_left, "dead_after": self.dead_after}


def submit(ctx: click.Context, values: Mapping[str, Any], connection: Mapping[str, Any]) -> ClusterJob:
    """Give the command with these settings to the cluster, unless the job is there already."""
    from dkernel.streaming.execution.base import Call
    from dkernel.streaming.execution.connect import connect
    from dkernel.streaming.execution.user_modules import user_modules

    if not (values["scheduler"] or values["scheduler_file"]):
        raise click.UsageError("--detach gives the job to a cluster: give --scheduler or --scheduler-file too.", ctx)
    if values["checkpoint"] is None:
        raise click.UsageError(
            "--detach: give --checkpoint DIR too. Where the worker of the job dies, another goes on from there.", ctx
        )
    record = str(_absolute(default_record(values["out"], values["record"])))
    settings = config_text(ctx, {**values, **_driver_settings(ctx), "record": record})
    digest = hashlib.sha256(mask_urls(settings).encode()).hexdigest()
    words = tuple(map(mask_urls, sys.argv))
    job = ClusterJob(record, settings, digest, words, user_modules(), values["cluster_timeout"])
    with connect(**connection) as executor:
        executor.compute([Call(f"dkernel-begin-{uuid4().hex}", begin_job, (job,))])
        # Dask has one task of a key: of a job that is there already this changes nothing.
        key = f"dkernel-job-{hashlib.sha256(record.encode()).hexdigest()[:32]}"
        executor.hand_over(Call(key, drive, (job,)))
    return job


def _driver_settings(ctx: click.Context) -> dict[str, Any]:
    """Settings that the driver changes: paths are absolute, and the scheduler is that of its worker."""
    settings: dict[str, Any] = {}
    for param, use, paths in named_files(ctx):
        if paths and use != "module":
            settings[str(param.name)] = list(map(_absolute, paths)) if use == "data" else _absolute(paths[0])
    unset = ("scheduler", "scheduler_file")  # that of the worker is taken
    return {**settings, **dict.fromkeys(unset), "detach": False, "resume": True, "json": False, "progress": "log"}


def _absolute(path: Any) -> Any:
    return path if "://" in str(path) else os.path.join(os.getcwd(), path)


def begin_job(job: ClusterJob) -> None:
    """Enter a job in its run record, unless it is there already; runs on a worker, whose complaints the submitter sees.

    Raises
    ------
    DataError : the record cannot be written, or is that of a run with other settings that is not over
    """
    from dkernel.cli.outputs import check_writable

    check_writable("--record", job.record)
    known = read_record(job.record)
    if known is None or is_over(known) or is_stale(known):
        clear_cancel(job.record)
        record = Record()
        record.note(job=job.entry(_RETRIES))
        record.enter(job.record, "queued")
    elif known.get("job", {}).get("settings") != job.digest:
        raise DataError(
            f"{job.record}: a run with other settings is writing this record (process {known['pid']} on "
            f"{known['host']}). Wait for its end, cancel it with dkernel cancel, or choose another --out."
        )


def drive(job: ClusterJob) -> int:
    """Run the command of a job, and again while its exit code says so; runs on a worker. Returns the exit code."""
    from dkernel.data.compute import leave_pool
    from dkernel.streaming.execution.in_task import scheduler_of_task

    leave_pool()  # a worker with one thread has it for the tasks of the job
    with tempfile.TemporaryDirectory(prefix="dkernel-job-") as folder:
        address, certificates = scheduler_of_task()
        words = [*_command(job, folder), "--scheduler", address]
        for retries_left in range(_RETRIES, -1, -1):
            code = _run(job, words, certificates, folder, retries_left)
            if code != AGAIN or not retries_left or _is_cancelled(job, _PAUSE):
                break
    return _note_end(job, code)


def _command(job: ClusterJob, folder: str) -> list[str]:
    """The words of the command; its settings and modules are written to `folder`."""
    Path(folder, "job.toml").write_text(job.settings, encoding="utf-8")
    words = [sys.executable, "-P", "-c", "from dkernel.leaves.jobs.driver import command; command()", "train"]
    words += ["--config", str(Path(folder, "job.toml"))]
    for module in job.modules:
        if module.source is None:
            words += ["--import", module.name]
        else:
            path = Path(folder, Path(module.path).name)
            path.write_text(module.source, encoding="utf-8")
            words += ["--import", str(path)]
    return words


def _run(job: ClusterJob, words: list[str], certificates: Mapping[str, str], folder: str, retries_left: int) -> int:
    """Run the command once, until it ends or the job is cancelled."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DKERNEL_")}
    settings |= certificates
    settings[JOB] = json.dumps({**job.entry(retries_left), "command": job.command})
    log, pause = _Log(find_log(job.record), Path(folder, "log")), _poll_seconds(job)
    log.add(f"{datetime.now(UTC).isoformat(timespec='seconds')} on {platform.node()}\n")
    with open(log.here, "ab") as out:
        process = subprocess.Popen(words, cwd=folder, env=settings, stdin=subprocess.PIPE, stdout=out, stderr=out)
    with process:
        while (code := _wait(process, pause)) is None:
            log.copy()
            if _is_cancelled(job):
                process.terminate()
                code = _wait(process, _PAUSE)
                process.kill()
    log.copy()
    return AGAIN if code is None or code < 0 else code  # one that was killed goes on as well


class _Log:
    """The log of a job: a file of this machine, with what is there already, that is copied there when it has grown.

    Parameters
    ----------
    where : path or URL
    here : the file of this machine
    """

    def __init__(self, where: str, here: Path) -> None:
        self.where, self.here, self._copied = where, here, 0
        store, name = locate(where)
        with suppress(FileNotFoundError):
            here.write_bytes(store.read(name))

    def add(self, line: str) -> None:
        with open(self.here, "a", encoding="utf-8") as file:
            file.write(line)
        self.copy()

    def copy(self) -> None:
        content = self.here.read_bytes()
        if len(content) != self._copied:
            with suppress(OSError, DKernelError):  # the job counts more than the log of it
                write_whole(self.where, content)
                self._copied = len(content)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a process that ends within `seconds`, else None."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def _poll_seconds(job: ClusterJob) -> float:
    """Seconds between two looks for the cancel file."""
    return REMOTE_HEARTBEAT if is_url(job.record) else _LOOK


def _is_cancelled(job: ClusterJob, seconds: float = 0.0) -> bool:
    """Wait up to `seconds` for the cancel file; True if it is there."""
    end, (store, name) = time.monotonic() + seconds, locate(cancel_file(job.record))
    while True:
        with suppress(DKernelError):  # a store that does not answer now
            if store.has(name):
                return True
        if (remaining := end - time.monotonic()) <= 0:
            return False
        time.sleep(min(_poll_seconds(job), remaining))


def request_cancel(record: str) -> None:
    """Ask the driver of a job to end it."""
    write_whole(cancel_file(record), b"")


def clear_cancel(record: str) -> None:
    """Let a job go on, or begin again."""
    store, name = locate(cancel_file(record))
    store.remove(name)


def _note_end(job: ClusterJob, code: int) -> int:
    """Write to the record that the job was cancelled, or ended before its command could say so; the exit code."""
    record, end = read_record(job.record), dict[str, Any]()
    if record is not None and _is_cancelled(job) and record["status"] != "done":
        end = {"status": "cancelled", "exit_code": BY_SIGTERM, "error": "cancelled by dkernel cancel"}
    elif record is not None and not is_over(record):
        why = {"error": f"{find_log(job.record)} says why"} if code else {}
        end = {"status": "failed" if code else "done", "exit_code": code, **why}
    if end:
        write_whole(job.record, (json.dumps({**(record or {}), **end}, indent=2) + "\n").encode())
        code = end["exit_code"]
    clear_cancel(job.record)
    return code


def command() -> None:
    """Be the command of a job: it ends with the pipe of its driver, whose worker is gone then."""
    from dkernel.cli import main

    def end_with_driver() -> None:
        os.read(0, 1)  # not by sys.stdin, whose lock a thread may not have when Python ends
        os._exit(AGAIN)

    threading.Thread(target=end_with_driver, name="dkernel-driver", daemon=True).start()
    entry, words = json.loads(os.environ[JOB]), sys.argv[1:]
    sys.argv[:] = entry.pop("command")  # which says how to continue
    os.environ[JOB] = json.dumps(entry)
    main(args=words, prog_name="dkernel")
