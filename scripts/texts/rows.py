"""What the five texts share: a table of rows, pictures, CPU seconds, and the exponent of a cost or an error."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from picture import Picture
from threadpoolctl import threadpool_limits

SHORT = 0.02  # seconds; the clock of a process has steps of a millisecond or less


@dataclass(frozen=True)
class Row:
    """One line of a text.

    Parameters
    ----------
    place : title of the slide or section
    says : what stands there
    measured : what dkernel does
    holds : None where it cannot be measured here
    seconds : CPU seconds since the row before
    """

    place: str
    says: str
    measured: str
    holds: bool | None
    seconds: float


class Table:
    """The rows of one text; `small` for a look of some seconds."""

    def __init__(self, number: str, title: str, small: bool) -> None:
        self.number, self.title, self.small = number, title, small
        self.rows: list[Row] = []
        self.pictures: list[Picture] = []
        self._since = time.process_time()

    def row(self, place: str, says: str, measured: str, holds: bool | None) -> None:
        """Add a row; a row that cannot be measured here says why."""
        now = time.process_time()
        self.rows.append(Row(place, says, measured, None if holds is None else bool(holds), now - self._since))
        self._since = now


def seconds(function: Callable[[], object], times: int = 3) -> float:
    """The least CPU seconds of a call among some tries, with one BLAS thread; a try is many calls if they are short.

    A single try (`times=1`) is one call.
    """
    found = []
    with threadpool_limits(1):
        for _ in range(times):
            calls, start = 0, time.process_time()
            while not calls or (times > 1 and time.process_time() - start < SHORT):
                function()
                calls += 1
            found.append((time.process_time() - start) / calls)
    return max(min(found), 1e-9)


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y over log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def listed(values: Sequence[float], digits: int = 3) -> str:
    """Numbers with a comma between them."""
    return ", ".join(f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}" for value in values)


def smallest_eigenvalue(K: np.ndarray) -> float:
    """The smallest eigenvalue over the largest."""
    values = np.linalg.eigvalsh(0.5 * (K + K.T))
    return float(values[0] / values[-1])
