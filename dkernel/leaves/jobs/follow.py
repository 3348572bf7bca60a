"""Follows a job by its run record, which the job renews every few seconds."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from dkernel.cli.run_record import DEAD_AFTER, HEARTBEAT
from dkernel.errors import ClusterError, DataError, StoreError

LOOK_EVERY = HEARTBEAT / 4  # a renewal is seen soon after it is made


def find_record(run: str) -> str:
    """The run record that is meant by its own name or by its output's.

    Examples
    --------
    >>> find_record("models/m.safetensors"), find_record("m.run.json")
    ('models/m.safetensors.run.json', 'm.run.json')
    """
    return run if run.endswith(".json") else f"{run.rstrip('/')}.run.json"


def find_runs(folder: str) -> list[str] | None:
    """The run records in a folder; None for the name of a run, whose record is beside it or may come.

    A URL is a folder if records are in it, or if it ends with a slash.
    """
    from dkernel.data.store import is_url, open_store

    if folder.endswith(".json"):
        return None
    if not is_url(folder) and (Path(find_record(folder)).is_file() or not Path(folder).is_dir()):
        return None
    store = open_store(folder)
    runs = [store.path(name) for name in store.names() if name.endswith(".run.json")]
    return None if is_url(folder) and not runs and not folder.endswith("/") else runs


def find_log(record: str) -> str:
    """The log of a job.

    Examples
    --------
    >>> find_log("/models/m.run.json"), cancel_file("/models/m.run.json")
    ('/models/m.log', '/models/m.cancel')
    """
    return f"{_stem(record)}.log"


def cancel_file(record: str) -> str:
    """The file whose presence asks the driver of a job to end it."""
    return f"{_stem(record)}.cancel"


def _stem(record: str) -> str:
    return record.removesuffix(".json").removesuffix(".run")


def is_over(record: Mapping[str, Any]) -> bool:
    """True if a run has ended, and is no job whose driver waits to run its command.

    Examples
    --------
    >>> is_over({"status": "failed"}), is_over({"status": "waiting"})
    (True, False)
    """
    return record.get("status") not in ("queued", "running", "waiting")


def is_stale(record: Mapping[str, Any]) -> bool:
    """True if a record has not been renewed for so long that a run which is not over has no process any more."""
    try:
        silent = datetime.now(UTC) - datetime.fromisoformat(record["updated"])
    except (KeyError, TypeError, ValueError):
        return True
    return silent.total_seconds() > dead_after(record)


def dead_after(record: Mapping[str, Any]) -> float:
    """Seconds without an update after which a run is dead; more for a job, which may wait, and start elsewhere."""
    return float(record.get("job", {}).get("dead_after", DEAD_AFTER))


def follow(where: str) -> Iterator[dict[str, Any]]:
    """Yield every new state of a record until the run has ended; the last one says how it ended.

    Raises
    ------
    DataError : there is no record, and none came within DEAD_AFTER seconds
    ClusterError : the record says that the run continues, and its process is gone or no longer renews the record
    """
    seen: dict[str, Any] = {}
    since = time.monotonic()
    while True:
        record = read_record(where)
        if record is not None and record != seen:
            seen, since = record, time.monotonic()
            yield seen
            if is_over(seen):
                return
            continue
        limit = dead_after(seen)
        if time.monotonic() - since > limit or (seen and _is_gone(seen) and read_record(where) == seen):
            raise _silence(where, seen, limit)
        time.sleep(LOOK_EVERY)


def read_record(where: str) -> dict[str, Any] | None:
    """The run record there; None where there is none yet."""
    from dkernel.data.store import locate

    try:
        store, name = locate(where)
        record = json.loads(store.read(name))
    except DataError:
        raise
    except (OSError, StoreError, ValueError, RecursionError):  # not there yet
        return None
    return _check(record, where) if isinstance(record, dict) and "status" in record else None


# Fields of a record that are read where they are there; its progress is read whole.
_FIELDS: dict[str, Any] = {
    "status": str,
    "exit_code": int | None,
    "host": str,
    "pid": int,
    "error": str,
    "model_sha256": str,
    "job": dict,
    "seconds": dict,
    "progress": dict,
}
_PROGRESS: dict[str, Any] = {"phase": str, "rows": int, "total_rows": int | None, "seconds": int | float}
_PROGRESS |= {"rows_per_second": int | float, "seconds_left": int | float | None}


def _check(record: dict[str, Any], where: str) -> dict[str, Any]:
    wrong = [name for name, kind in _FIELDS.items() if name in record and not _is_one(record[name], kind)]
    if not wrong and (progress := record.get("progress")):
        wrong = [name for name, kind in _PROGRESS.items() if not _is_one(progress.get(name, ()), kind)]
        wrong += ["planned_seconds"] * (not _is_one(progress.get("planned_seconds"), int | float | None))
    for name, inner in (("seconds", "total"), ("job", "dead_after")):
        if not wrong and not _is_one(record.get(name, {}).get(inner, 0.0), int | float):
            wrong = [name]
    if wrong:
        raise DataError(f"{where}: the run record is damaged: {wrong[0]!r} is missing or is not what dkernel writes.")
    return record


def _is_one(value: Any, kind: Any) -> bool:
    """True for a value of this kind; numbers are finite, and whole ones no larger than floats hold."""
    return isinstance(value, kind) and not (isinstance(value, int | float) and not abs(value) < 2**53)


def _is_gone(record: dict[str, Any]) -> bool:
    """True if the process ran on this machine and has ended; of other machines, and of jobs, nothing is known."""
    if "job" in record:  # whose driver begins another process
        return False
    pid = int(record.get("pid", 0))
    return record.get("host") == socket.gethostname() and not (pid < 2**31 and psutil.pid_exists(pid))


def _silence(where: str, seen: dict[str, Any], patience: float) -> ClusterError | DataError:
    if not seen:
        return DataError(
            f"{where}: there is no run record, and none came in {patience:g} seconds. Name the job's --out."
        )
    who = f"process {seen.get('pid')} on {seen.get('host')}"
    why = "is gone" if _is_gone(seen) else f"has not renewed its record for {patience:g} seconds"
    return ClusterError(
        f"{where}: the job is dead: {who} {why}; the last was at {seen.get('updated')}. Nothing partial is visible. "
        "Run its command again."
    )
