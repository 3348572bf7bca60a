"""Progress of a run: a bar on a terminal, lines in a log, JSON objects, or nothing.

Only a terminal gets control characters. Everything is written to stderr, since stdout is for the result.
"""

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from dkernel.errors import RecipeError, escape_controls, mask_urls, wrap_lines

PROGRESS_KINDS = ("auto", "bar", "log", "json", "none")
SHOW_EVERY, LOG_EVERY = 10.0, 60.0  # seconds between two objects of JSON; two lines of a log, whose first comes as soon
BAR_WIDTH = 20  # characters
# `format_progress` has a fixed place for these parts of a state; all others are figures, which follow with their names.
_PLACED_PARTS = ("phase", "pass", "rows", "total_rows", "seconds", "rows_per_second", "seconds_left", "planned_seconds")
# Groups of tasks as Dask's dashboard shows them, dkernel-survey and so on. Dask names a group by the words at the start
# of a key. Tasks that read are `dkernel-read` in every phase, and those of a prediction of a collection are
# `dkernel-predict`.
#
# Word in the name of a phase -> its group; the first word decides.
_GROUP_WORDS = {
    "survey": "survey",
    "cell": "cells",
    "grid": "grids",
    "choose": "choice",
    "candidate": "choice",
    "rung": "choice",
    "pass": "pass",
    "polish": "polish",
    "score": "score",
    "evaluate": "score",
    "finish": "score",
    "scratch": "read",
}


def phase_group(phase: str) -> str:
    """The group of a phase; phases that prepare the passes, or have no name of their own, are the setup.

    Examples
    --------
    >>> phase_group("pass 2/3"), phase_group("choose the width of grids"), phase_group("prepare"), phase_group("")
    ('pass', 'grids', 'setup', '')
    """
    name = next((group for word, group in _GROUP_WORDS.items() if word in phase), "setup")
    return name if phase else ""


class Progress:
    """Shows phase, rows, rows/s, figures and time left of a run; thread-safe.

    A log has a line a minute at most, and one at the end of a phase that took a minute.

    Parameters
    ----------
    kind : "bar" | "log" | "json" | "none" | "auto"; "auto" and "bar" are a bar on a terminal, and a log elsewhere
    stream : the stream to write to; None for stderr
    shortest : seconds of a phase whose end a log tells

    Examples
    --------
    >>> with Progress("log", sys.stdout, clock=iter(range(0, 999, 50)).__next__) as progress:
    ...     progress.phase("train", 2_000_000)
    ...     progress.advance(500_000, round="8/32", loss=0.25)
    train: 500,000 of 2,000,000 rows (25 %), 10,000 rows/s, round 8/32, loss 0.25, 2 min 30 s left
    train: 500,000 of at most 2,000,000 rows in 100 s, 5,000 rows/s, round 8/32, loss 0.25
    """

    def __init__(
        self,
        kind: str = "auto",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        shortest: float = LOG_EVERY,
    ) -> None:
        if kind not in PROGRESS_KINDS:
            raise RecipeError(f"progress={kind!r} is unknown; there are {', '.join(PROGRESS_KINDS)}.")
        self._stream = stream or sys.stderr
        if kind in ("auto", "bar"):
            kind = "bar" if self._stream.isatty() else "log"
        self.kind = kind
        # Seconds between two looks: an eye can follow a bar that changes ten times a second.
        self._every = {"bar": 0.1, "json": SHOW_EVERY}.get(kind, 1.0)
        self._clock = clock
        self._lock = threading.RLock()
        self._name = ""
        self._total: int | None = None
        self._rows = 0
        self._began = self._shown = 0.0
        self._told = clock() + SHOW_EVERY - LOG_EVERY
        self._shortest = shortest
        self._planned = 0.0
        self._figures: dict[str, Any] = {}
        self._drawn = 0
        self._ended: dict[str, float] = {}
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    def phase(self, name: str, total_rows: int | None = None, **figures: Any) -> None:
        """Begin a new phase, over `total_rows` rows if their number is known, and end the phase before it."""
        with self._lock:
            self._end_phase()
            self._name, self._total, self._rows, self._figures = name, total_rows, 0, dict(figures)
            self._began = self._shown = self._clock()
            if self.kind == "json":
                self._object({"event": "phase", "phase": name, "total_rows": total_rows, **figures})
            elif self.kind == "bar":
                self._draw(0.0)

    def plan(self, seconds: float) -> None:
        """Say of phases without rows how many seconds they and all others that follow are planned to take."""
        self._planned = sum(self._ended.values()) + seconds

    def advance(self, rows: int = 0, **figures: Any) -> None:
        """Count `rows` more rows; figures (loss=0.3, accuracy=0.87, round="3/32") are shown until they change."""
        with self._lock:
            self._rows += rows
            self._figures.update(figures)
            now = self._clock()
            if now - self._shown >= self._every:
                self._show(now)

    @property
    def now(self) -> str:
        """Name of the phase that runs, "" before the first and after the last."""
        return self._name

    def state(self) -> dict[str, Any]:
        """State of the run: phase, rows, total_rows, seconds, rows_per_second, seconds_left, and its figures."""
        with self._lock:
            return self._state(self._clock() - self._began) if self._name else {}

    def seconds(self) -> dict[str, float]:
        """Phase -> its seconds so far, in the order in which the phases began."""
        with self._lock:
            return self._with_this(self._clock()) if self._name else dict(self._ended)

    def _with_this(self, now: float) -> dict[str, float]:
        before = self._ended.get(self._name, 0.0)
        return {**self._ended, self._name: round(before + now - self._began, 3)}

    def message(self, text: str) -> None:
        """Write a line of its own, above the bar if there is one."""
        text = mask_urls(text)
        with self._lock:
            if self.kind == "json":
                self._object({"event": "message", "text": text})
            elif self.kind != "none":
                self._erase()
                self._line(text)

    def close(self) -> None:
        """End the last phase and erase the bar."""
        self._stop.set()
        with self._lock:
            self._end_phase()
            self._name = ""
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None

    def __enter__(self) -> "Progress":
        if self.kind != "none" and self._clock is time.monotonic and self._ticker is None:
            self._stop.clear()
            self._ticker = threading.Thread(target=self._tick, name="dkernel-progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _tick(self) -> None:
        """Show the progress while nothing finishes for a long time."""
        every = 1.0 if self.kind == "bar" else self._every  # a bar that does not move still shows that time passes
        while not self._stop.wait(every / 4):
            with self._lock:
                now = self._clock()
                if self._name and not self._stop.is_set() and now - self._shown >= every:
                    self._show(now)

    def _show(self, now: float) -> None:
        self._shown = now
        state = self._state(now - self._began)
        if self.kind == "bar":
            self._draw(now - self._began)
        elif self.kind == "json":
            self._object({"event": "progress", **state})
        elif self.kind == "log" and now - self._told >= LOG_EVERY:
            self._told = now
            self._line(format_progress(state))

    def _end_phase(self) -> None:
        if not self._name:
            return
        now = self._clock()
        self._ended = self._with_this(now)
        state = self._state(now - self._began)
        if self.kind == "json":
            self._object({"event": "end", **state})
        elif self.kind != "none":
            self._erase()
            if state["seconds"] >= (self._shortest if self.kind == "log" else 0.05):
                self._line(format_progress(state, ended=True))

    def _state(self, seconds: float) -> dict[str, Any]:
        speed = self._rows / seconds if seconds > 0 else 0.0
        seconds_left = None
        if speed and self._total is not None:
            seconds_left = round(max(0, self._total - self._rows) / speed, 1)
        state = {"phase": self._name, "rows": self._rows, "total_rows": self._total, "seconds": round(seconds, 3)}
        if self._planned and not self._total:
            state["planned_seconds"] = round(self._planned, 1)
            seconds_left = round(max(0.0, self._planned - sum(self._ended.values()) - seconds), 1)
        return state | {"rows_per_second": round(speed, 3), "seconds_left": seconds_left, **self._figures}

    def _draw(self, seconds: float) -> None:
        width = shutil.get_terminal_size().columns - 1
        share = min(1.0, self._rows / self._total) if self._total else 0.0
        full = int(share * BAR_WIDTH)
        text = f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {format_progress(self._state(seconds))}"[:width]
        self._write("\r" + text.ljust(self._drawn))
        self._drawn = len(text)

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _line(self, text: str) -> None:
        self._write(wrap_lines(escape_controls(text)) + "\n")

    def _object(self, event: dict[str, Any]) -> None:
        self._write(json.dumps(event, default=str) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (BrokenPipeError, ValueError):  # nobody reads any more, which is no reason to end the run
            self.kind = "none"


def format_progress(state: Mapping[str, Any], ended: bool = False) -> str:
    """Format a `Progress.state`, of a phase that runs or has ended, as one line of text.

    Examples
    --------
    >>> format_progress({"phase": "survey", "rows": 500, "total_rows": 1000, "seconds": 2.0, "rows_per_second": 250.0,
    ...           "seconds_left": 2.0})
    'survey: 500 of 1,000 rows (50 %), 250 rows/s, 2.0 s left'
    >>> planned = {"seconds_left": 45.0, "planned_seconds": 60.0}
    >>> format_progress({"phase": "prepare", "rows": 0, "total_rows": None, "seconds": 12.0, **planned})
    'prepare: 12 s so far, 45 s left of about 60 s planned in all'
    >>> format_progress({})  # before the first phase
    'starting'
    """
    if not state:
        return "starting"
    done, total, seconds = state["rows"], state["total_rows"], state["seconds"]
    rows = f"{done:,}"
    if total is not None and (not ended or done != total):
        rows += f" of {'at most ' * ended}{total:,}"  # a phase may end early
    rows += " rows"
    if ended:
        rows += f" in {_duration(seconds)}"
    elif total:
        rows += f" ({done / total:.0%})".replace("%", " %")
    parts = [rows] if done or total else [f"done in {_duration(seconds)}" if ended else f"{_duration(seconds)} so far"]
    if done:
        parts.append(f"{state['rows_per_second']:,.0f} rows/s")
    parts += [f"{name} {_figure(name, value)}" for name, value in state.items() if name not in _PLACED_PARTS]
    if state.get("seconds_left") is not None and not ended:
        parts.append(_left(state["seconds_left"], state.get("planned_seconds")))
    return escape_controls(f"{state['phase']}: " + ", ".join(parts))


def _left(seconds: float, planned: float | None) -> str:
    if planned and not seconds:
        return f"longer than the {_duration(planned)} planned in all"
    return f"{_duration(seconds)} left" + (f" of about {_duration(planned)} planned in all" if planned else "")


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
