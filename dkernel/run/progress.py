"""What a run shows while it goes: a bar on a terminal, a line now and then in a log, objects for a machine, or nothing.

Only a terminal ever gets control characters. Everything goes to stderr: stdout belongs to the result.
"""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from dkernel.errors import RecipeError

__all__ = ["KINDS", "Progress"]

KINDS = ("auto", "bar", "log", "json", "none")
LOG_EVERY = 10.0
BAR_EVERY = 0.1
BAR_WIDTH = 20


class Progress:
    """Phase, rows, rows/s, figures and time left of a run; safe to call from several threads.

    Parameters
    ----------
    kind : "bar" | "log" | "json" | "none" | "auto": a bar on a terminal, else a log; a bar without a terminal is a log
    stream : where to; stderr when None
    every : seconds between two lines of "log" and "json"

    Examples
    --------
    >>> with Progress("log", sys.stdout, clock=iter(range(0, 99, 11)).__next__) as progress:
    ...     progress.phase("train", 2_000_000)
    ...     progress.advance(500_000, round="8/32", loss=0.25, accuracy=0.875)
    train: 500,000 of 2,000,000 rows (25 %), 45,455 rows/s, round 8/32, loss 0.25, accuracy 87.50 %, 33 s left
    train: 500,000 of 2,000,000 rows in 22 s, 22,727 rows/s, round 8/32, loss 0.25, accuracy 87.50 %
    """

    def __init__(
        self,
        kind: str = "auto",
        stream: TextIO | None = None,
        every: float = LOG_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if kind not in KINDS:
            raise RecipeError(f"progress={kind!r} is unknown; there are {', '.join(KINDS)}.")
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        if kind in ("auto", "bar"):
            kind = "bar" if self._terminal else "log"
        self.kind = kind
        self._every = BAR_EVERY if kind == "bar" else every
        self._clock = clock
        self._lock = threading.RLock()
        self._name = ""
        self._total: int | None = None
        self._rows = 0
        self._began = self._shown = 0.0
        self._figures: dict[str, Any] = {}
        self._drawn = 0

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """A new part of the run begins, over `total_rows` rows when it is known how many; it ends the one before."""
        with self._lock:
            self._end_phase()
            self._name, self._total, self._rows, self._figures = name, total_rows, 0, {}
            self._began = self._shown = self._clock()
            if self.kind == "json":
                self._object({"event": "phase", "phase": name, "total_rows": total_rows})
            elif self.kind == "bar":
                self._draw(0.0)

    def advance(self, rows: int = 0, **figures: Any) -> None:
        """`rows` more are done; figures (loss=0.3, accuracy=0.87, round="3/32") stay on show until they change."""
        with self._lock:
            self._rows += rows
            self._figures.update(figures)
            if self.kind == "none":
                return
            now = self._clock()
            if now - self._shown < self._every:
                return
            self._shown = now
            if self.kind == "bar":
                self._draw(now - self._began)
            elif self.kind == "json":
                self._object({"event": "progress", **self._state(now - self._began)})
            else:
                self._line(self._text(now - self._began))

    def message(self, text: str) -> None:
        """One line of its own, above a bar."""
        with self._lock:
            if self.kind == "json":
                self._object({"event": "message", "text": text})
            elif self.kind != "none":
                self._erase()
                self._line(text)

    def close(self) -> None:
        """End the last phase; nothing is left half drawn."""
        with self._lock:
            self._end_phase()
            self._name = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _end_phase(self) -> None:
        if not self._name or self.kind == "none":
            return
        seconds = self._clock() - self._began
        if self.kind == "json":
            self._object({"event": "end", **self._state(seconds), "seconds": round(seconds, 3)})
        else:
            self._erase()
            self._line(self._text(seconds, ended=True))

    def _state(self, seconds: float) -> dict[str, Any]:
        state = {"phase": self._name, "rows": self._rows, "total_rows": self._total}
        return state | {
            "rows_per_second": round(self._speed(seconds), 1),
            "seconds_left": self._left(seconds),
            **self._figures,
        }

    def _speed(self, seconds: float) -> float:
        return self._rows / seconds if seconds > 0 else 0.0

    def _left(self, seconds: float) -> float | None:
        speed = self._speed(seconds)
        if not speed or self._total is None:
            return None
        return round(max(0, self._total - self._rows) / speed, 1)

    def _text(self, seconds: float, ended: bool = False) -> str:
        rows = f"{self._rows:,}"
        if self._total is not None and (not ended or self._rows != self._total):
            rows += f" of {self._total:,}"
        rows += " rows"
        if ended:
            rows += f" in {_duration(seconds)}"
        elif self._total:
            rows += f" ({self._rows / self._total:.0%})".replace("%", " %")
        parts = [rows] if self._rows or self._total else ([f"done in {_duration(seconds)}"] if ended else [])
        if self._rows:
            parts.append(f"{self._speed(seconds):,.0f} rows/s")
        parts += [f"{name} {_figure(name, value)}" for name, value in self._figures.items()]
        left = self._left(seconds)
        if left is not None and not ended:
            parts.append(f"{_duration(left)} left")
        return f"{self._name}: " + ", ".join(parts)

    def _draw(self, seconds: float) -> None:
        width = shutil.get_terminal_size().columns - 1
        share = min(1.0, self._rows / self._total) if self._total else 0.0
        full = int(share * BAR_WIDTH)
        text = f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {self._text(seconds)}"[:width]
        self._write("\r" + text.ljust(self._drawn))
        self._drawn = len(text)

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _line(self, text: str) -> None:
        if not self._terminal:
            text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
        self._write(text + "\n")

    def _object(self, event: dict[str, Any]) -> None:
        self._write(json.dumps(event, default=str) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (BrokenPipeError, ValueError):  # nobody reads any more: no reason to end the run
            self.kind = "none"


def _figure(name: str, value: Any) -> str:
    if name in ("accuracy", "error") and isinstance(value, float):
        return f"{100 * value:.2f} %"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.5)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
