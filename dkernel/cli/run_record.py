"""The run record, OUT.run.json: the progress and the end of a run, also of a failed one.

What may not stand in a model, because it differs between equal runs, stands here: command, times, host, paths, memory,
and of URLs no secret. While the run goes the record is renewed every few seconds, so that `dkernel watch` can follow it
from elsewhere. A run that failed beside an older output leaves that output's own record inside its own, as `before`.
"""

import hashlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dkernel.cli.exit_codes import AGAIN, Stopped, exit_code, public_name, start_collector
from dkernel.cli.memory_usage import PeakMemory
from dkernel.cli.say import say
from dkernel.data.store import is_url, locate, write_whole
from dkernel.errors import DKernelError, mask_urls
from dkernel.streaming.execution.versions import versions

JOB = "DKERNEL_JOB"  # the variable in which the driver of a job gives its command the entry `job` of the run record
HEARTBEAT = 2.0  # seconds between two renewals of a run record
DEAD_AFTER = 15 * HEARTBEAT  # seconds after its last renewal a run counts as dead
REMOTE_HEARTBEAT = DEAD_AFTER / 2  # where each renewal is an upload
_NOT_SETTINGS = ("config", "print_config", "dry_run", "json", "quiet", "verbose", "progress", "debug", "record")


class Record:
    """Record of a run, a context manager around the run, whose end it always writes.

    Examples
    --------
    >>> record = Record()
    >>> with record.phase("train"):
    ...     record.note(rows=10)
    >>> record.facts["rows"], list(record.seconds)
    (10, ['train'])
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.facts: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.progress: Any = None
        self.executor: Any = None
        """Executor whose workers are not processes of this tree."""
        settings = {name: value for name, value in (values or {}).items() if name not in _NOT_SETTINGS}
        text = mask_urls(json.dumps(settings, sort_keys=True, default=str))
        # First, for it tells a record from other JSON (data/paths.py).
        self.note(config_sha256=hashlib.sha256(text.encode()).hexdigest(), command=sys.argv)
        if JOB in os.environ:
            self.note(job=json.loads(os.environ[JOB]))

    def note(self, **facts: Any) -> None:
        """Add facts to the record."""
        self.facts.update(masked(facts))

    def measure_workers(self) -> None:
        """Note the memory of the largest worker of a cluster, if it is the most so far."""
        now = self.executor.worker_memory() if self.executor is not None else None
        if now is not None:
            self.note(worker_peak_memory_bytes=max(now, self.facts.get("worker_peak_memory_bytes", 0)))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the seconds of a phase, also of one that fails."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(time.perf_counter() - begin, 3)

    @contextmanager
    def write_to(self, where: str | Path | None) -> Iterator["Record"]:
        """Keep the record at `where` (a path or a URL, None for nowhere) until the block ends, however it ends."""
        self._begin(where, "running")
        with PeakMemory(interval=1.0) as memory, self._renew(where, memory):
            try:
                with self.phase("total"):
                    yield self
                self.note(status="done", exit_code=0)
                if not self.facts.get("skipped"):
                    self.facts.pop("before", None)  # the output is now of this run
            except BaseException as error:
                code = exit_code(error)
                status = "stopped" if isinstance(error, KeyboardInterrupt | Stopped) else "failed"
                if code == AGAIN and self.facts.get("job", {}).get("retries_left"):
                    status = "waiting"  # its driver runs it again
                self.note(status=status, exit_code=code)
                self.note(error=f"{public_name(error)}: {error}".removesuffix(": "))
                raise

    def enter(self, where: str | Path, status: str) -> None:
        """Write a record of a run that has not begun."""
        self._begin(where, status)
        self.note(updated=_now())
        self._write(where)

    def _begin(self, where: str | Path | None, status: str) -> None:
        self.note(status=status, exit_code=None, host=socket.gethostname(), pid=os.getpid())
        self.note(started=_now(), versions=versions(), faults=[])
        if (before := _before(where)) is not None:
            self.note(before=before)

    @contextmanager
    def _renew(self, where: str | Path | None, memory: PeakMemory) -> Iterator[None]:
        """Write the record now, every few seconds, and at the end."""
        stop = threading.Event()

        def renew(final: bool = False) -> None:
            self.note(peak_memory_bytes=memory.peak, updated=_now())
            self.measure_workers()
            if self.progress is not None:
                self.note(phases=self.progress.seconds(), **({} if final else {"progress": self.progress.state()}))
            self._write(where, final)

        def beat() -> None:
            while not stop.wait(REMOTE_HEARTBEAT if where is not None and is_url(where) else HEARTBEAT):
                renew()

        renew()
        thread = threading.Thread(target=beat, name="dkernel-record", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.facts.pop("progress", None)
            renew(final=True)

    def _write(self, where: str | Path | None, final: bool = True) -> None:
        if where is None:
            return
        content = (json.dumps({**self.facts, "seconds": dict(self.seconds)}, indent=2, default=plain) + "\n").encode()
        try:
            write_whole(where, content, durable=final)
        except (OSError, DKernelError) as error:  # the run's own error, or its output, counts more
            if final:
                say(f"warning: the run record {where} is not written: {error}", err=True)

    def write_report(self, path: str, write: Callable[..., None]) -> None:
        """Write a page about the run by `write(path, record=...)`.

        The result exists already, so an error here is reported and does not fail the run.
        """
        try:
            write(path, record=self.so_far())
            self.note(report=path)
        except Exception as error:
            self.note(report_error=f"{public_name(error)}: {error}")
            say(f"warning: the report {path} is not written, all else is: {error}", err=True)

    def so_far(self) -> dict[str, Any]:
        """The record at this moment, with the seconds of each phase."""
        if self.progress is not None:
            self.note(phases=self.progress.seconds())
        return {**self.facts, "seconds": dict(self.seconds)}

    def summary(self) -> dict[str, Any]:
        """The record as JSON, without its long entries."""
        long = ("command", "history", "plan", "sample_path", "before")
        short = {name: value for name, value in self.facts.items() if name not in long}
        short_record: dict[str, Any] = json.loads(json.dumps({**short, "seconds": self.seconds}, default=plain))
        return short_record


@contextmanager
def open_run(record: Record, values: Mapping[str, Any], connection: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Start the Progress and the Executor that the run options ask for, and note both in the record."""
    from dkernel.streaming.execution.connect import connect, find_dashboard
    from dkernel.streaming.progress import Progress

    start_collector()
    # The last phase ends with its work: a cluster takes a third of a second to close.
    shown = Progress("none" if values["quiet"] else values["progress"] or "auto")
    with connect(**connection, tell=shown.message) as executor, shown as progress:
        record.progress, executor.tell = progress, progress.message
        if values.get("scheduler") or values.get("scheduler_file"):  # other workers are processes of this tree
            record.executor = executor
        record.note(executor=executor.name)
        if (dashboard := find_dashboard(getattr(executor, "client", None))) is not None:
            record.note(dashboard=dashboard)
            progress.message(f"dashboard: {dashboard}")
        try:
            yield progress, executor
        finally:
            record.measure_workers()
            record.executor = None
            record.note(faults=list(executor.faults))


def open_model(values: Mapping[str, Any], record: Record) -> Any:
    """The model of a command, noted in the record with what the command reads and writes."""
    from dkernel.model import model_file

    record.note(paths=list(values["data"]), **{name: values[name] for name in ("model", "out") if name in values})
    model = model_file.load_model(values["model"])
    record.note(model_sha256=model_file.compute_digest(model))
    return model


def default_record(out: str | Path, named: str | None = None) -> str | Path:
    """Default path of the record of a run with this output."""
    if named:
        return named
    if is_url(out):
        return f"{str(out).rstrip('/')}.run.json"
    path = Path(out)
    return path.with_name(f"{path.name}.run.json") if path.name else path / "run.json"


def plain(value: Any) -> Any:
    """Convert a value of numpy, or a path, to one that JSON can hold."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else str(value)


def masked(value: Any) -> Any:
    """The value with every URL in it masked."""
    if isinstance(value, str):
        return mask_urls(value)
    if isinstance(value, list | tuple):
        return [masked(each) for each in value]
    return {masked(name): masked(each) for name, each in value.items()} if isinstance(value, dict) else value


def _before(where: str | Path | None) -> Any:
    """The record of the last run that completed the output there."""
    if where is None:
        return None
    store, name = locate(where)
    try:
        record = json.loads(store.read(name))
        return record if record["status"] == "done" and "before" not in record else record.get("before")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DKernelError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
