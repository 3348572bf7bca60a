"""Connection of a client to its scheduler, which repeats requests until they are answered and keeps it alive."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar
from uuid import uuid4

from dkernel.data.failures import answer_in_time
from dkernel.errors import ClusterError

TICK = 0.5  # seconds between two checks of the results that a client waits for
MISSED = 2.0  # seconds without a scheduler after which the user is told

T = TypeVar("T")


class Connection:
    """A `distributed.Client` whose requests are repeated if the scheduler is slow to answer.

    Parameters
    ----------
    patience : seconds after which it raises a ClusterError
    tell : called with a message when the scheduler is gone, and when it is there again
    """

    def __init__(self, client: Any, patience: float, tell: Callable[[str], None] = lambda _: None) -> None:
        self.client, self.patience, self.tell = client, patience, tell
        self.address = client.scheduler.address
        self.token = uuid4().hex[:12]
        """Name of the run in the keys of its own tasks."""
        self._leaving: list[Any] = []
        self._releasing = threading.Lock()
        self._closed = threading.Event()

    def reach(self) -> Any:
        """Return the client once it has its scheduler; raise a ClusterError if that is lost for good."""
        began, told = time.monotonic(), False
        while self.client.status == "connecting":
            if not told and time.monotonic() - began > MISSED:
                self.tell(f"the scheduler at {self.address} is gone; it is waited for up to {self.patience:.0f} s")
                told = True
            time.sleep(TICK / 5)
        if told and self.client.status == "running":
            self.tell(f"the scheduler at {self.address} is there again")
        if self.client.status != "running":
            raise ClusterError(f"The scheduler at {self.address} is gone. Run the same command again.")
        return self.client

    def ask(self, function: Callable[[], T]) -> T:
        """Call function(), a question to the scheduler, until it is answered or `patience` seconds are over."""
        deadline = time.monotonic() + self.patience
        while True:
            self.reach()
            try:
                return answer_in_time(function, max(TICK, deadline - time.monotonic()))
            # RuntimeError: the client's event loop is closed; CancelledError: the scheduler was lost meanwhile.
            except (OSError, RuntimeError, CancelledError) as error:
                if time.monotonic() < deadline and self.client.status in ("running", "connecting"):
                    time.sleep(TICK)
                    continue
                raise ClusterError(
                    f"The scheduler at {self.address} does not answer ({type(error).__name__}: {error}). See that it "
                    "runs and can be reached from here, and run the same command again."
                ) from error

    def release_later(self, futures: Iterable[Any]) -> None:
        """Release these after the next tasks are sent, or a second or two later.

        A client sends at most one message in ten milliseconds: a release just before a task would delay the task.
        """
        self._leaving.extend(futures)

    def release(self) -> None:
        """Release the futures that were given to `release_later`."""
        with self._releasing:
            _release_all(self._leaving)

    def stay_alive(self, where: Callable[[], dict[str, Any]]) -> None:
        """Send a small task regularly while this process computes, since an idle scheduler may close itself.

        Parameters
        ----------
        where : returns the workers that the run may use, as arguments of `Client.submit`
        """
        numbers = count()

        def submit() -> None:
            last: list[Any] = []
            while not self._closed.wait(1.5):  # seconds between two tasks that show the scheduler that the run lives
                with suppress(Exception):  # the call that waits for a result reports what is wrong
                    self.release()
                    _release_all(last)  # a task that is pinned to workers that are gone would wait for ever
                    key = f"dkernel-alive-{self.token}-{next(numbers)}"
                    last.append(self.client.submit(int, key=key, pure=False, **where()))
                    last[0].add_done_callback(lambda future: future.release())
            with suppress(Exception):  # the client may be closed
                _release_all(last)

        threading.Thread(target=submit, name="dkernel-alive", daemon=True).start()

    def close(self) -> None:
        """Release everything; the client stays open."""
        self._closed.set()
        with suppress(Exception):  # the client may be closed
            self.release()


def _release_all(futures: list[Any]) -> None:
    while futures:
        futures.pop().release()
