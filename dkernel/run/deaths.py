"""What a run learns of workers that ended, and of workers that were refused: told by them and by their nannies.

Both tell the scheduler, under one topic for each run; the client listens.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from signal import Signals
from typing import Any

from distributed import NannyPlugin

from dkernel.errors import ClusterError

__all__ = ["ExitNews", "KilledCallError", "Told", "told"]

MOST_SHOWN = 5


class KilledCallError(ClusterError):
    """A task ended every worker that ran it. `key` names it, for those who know which rows it reads."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key

    def __reduce__(self) -> Any:
        return type(self), (self.key, str(self))


class ExitNews(NannyPlugin):
    """Lets each nanny say how its worker's process ended; nobody else knows."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._before: Any = None

    def setup(self, nanny: Any) -> None:
        # A nanny passes this method to every process that it begins, and to the one that runs already it has.
        self._before = getattr(nanny, "_on_worker_exit_sync", None)
        if self._before is None:
            return

        def exited(code: int) -> None:
            with suppress(Exception):  # news; the worker is begun again with or without
                nanny.log_event(self.topic, {"worker": nanny.worker_address, "code": code})
            self._before(code)

        self._put(nanny, exited)

    def teardown(self, nanny: Any) -> None:
        if self._before is not None:
            self._put(nanny, self._before)

    def _put(self, nanny: Any, exited: Any) -> None:
        nanny._on_worker_exit_sync = exited
        if getattr(nanny, "process", None) is not None:
            nanny.process.on_exit = exited


class Told:
    """The news of one run, in the order of their coming; `hear` is called by Dask's own thread."""

    def __init__(self) -> None:
        self.exits: list[tuple[str, int]] = []
        self.refused: list[str] = []

    def hear(self, event: tuple[float, Any]) -> None:
        """One event of the topic."""
        _, news = event
        if "refused" in news:
            if news["refused"] not in self.refused:
                self.refused.append(news["refused"])
        else:
            self.exits.append((str(news["worker"]), int(news["code"])))

    def how_they_ended(self, deaths: int, seconds: float = 2.0) -> str:
        """How the last workers ended, as far as it is known; the news come a moment after the death."""
        deadline = time.monotonic() + seconds
        while len(self.exits) < deaths and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self.exits:
            return "how they ended is not known: they have no nannies"
        return ", ".join(f"{address} {_words(code)}" for address, code in self.exits[-min(deaths, MOST_SHOWN) :])


def _words(code: int) -> str:
    """What an exit code says.

    Examples
    --------
    >>> _words(3), _words(-9)
    ('exited with code 3', 'was killed by signal 9 (SIGKILL)')
    """
    if code >= 0:
        return f"exited with code {code}"
    name = ""
    with suppress(ValueError):
        name = f" ({Signals(-code).name})"
    return f"was killed by signal {-code}{name}"


@contextmanager
def told(address: str) -> Iterator[None]:
    """What Dask raises when it cannot reach its scheduler, as a ClusterError that says what to do."""
    from distributed.client import ClosedClientError

    try:
        yield
    except ClusterError:
        raise
    # RuntimeError: the client's event loop is closed.
    except (OSError, RuntimeError, ClosedClientError) as error:
        raise ClusterError(
            f"The scheduler at {address} does not answer ({type(error).__name__}: {error}). See that it runs and can "
            "be reached from here, and run the same command again."
        ) from error
