"""The run record: MODEL.run.json, what a run did and how it ended, written for failed runs too.

Not for bad data, though: those are mended and the command is run again, and the record of an older model stays true.

What may not stand in a model, because it differs between equal runs, stands here: command, times, host, paths, memory.
"""

import json
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dkernel.cli.exits import BAD_DATA, code_of
from dkernel.data.atomic import write_file
from dkernel.run.memory import PeakMemory
from dkernel.run.versions import versions

__all__ = ["Record", "plain"]


class Record:
    """What a run did so far; `with` it around the run, and its end is written whatever that is.

    Examples
    --------
    >>> record = Record()
    >>> with record.phase("train"):
    ...     record.note(rows=10)
    >>> record.facts["rows"], list(record.seconds)
    (10, ['train'])
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}

    def note(self, **facts: Any) -> None:
        """Remember these."""
        self.facts.update(facts)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the seconds of a phase, also of one that fails."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(time.perf_counter() - begin, 3)

    @contextmanager
    def written_beside(self, out: Path) -> Iterator["Record"]:
        """Write the record beside `out` when the block ends, however it ends but for bad data."""
        self.note(command=sys.argv, started=datetime.now(UTC).isoformat(), host=socket.gethostname())
        self.note(versions=versions(), status="done", exit_code=0)
        with PeakMemory(interval=0.5) as memory:
            try:
                with self.phase("total"):
                    yield self
            except BaseException as error:
                self.note(status="failed", exit_code=code_of(error), error=f"{type(error).__name__}: {error}")
                raise
            finally:
                self.note(peak_memory_bytes=memory.peak)
                if self.facts["exit_code"] != BAD_DATA:
                    # The run's own error, or its model, counts more than the record of it.
                    with suppress(OSError):
                        write_file(out.with_name(f"{out.name}.run.json"), self._text().encode())

    def summary(self) -> dict[str, Any]:
        """The record as JSON has it, without what is long."""
        short = {name: value for name, value in self.facts.items() if name not in ("command", "history", "plan")}
        found: dict[str, Any] = json.loads(json.dumps({**short, "seconds": self.seconds}, default=plain))
        return found

    def _text(self) -> str:
        return json.dumps({**self.facts, "seconds": self.seconds}, indent=2, default=plain) + "\n"


def plain(value: Any) -> Any:
    """What JSON can hold in place of a value of numpy or of a path."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else str(value)
