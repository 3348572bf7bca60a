"""Connection of a client to its scheduler: requests that wait as long as the run, and keep-alive tasks."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar
from uuid import uuid4

from dkernel.errors import ClusterError
from dkernel.streaming.execution.failures import answer_in_time

PATIENCE = 300.0  # seconds: a node of a batch system starts in less
TICK = 0.5  # seconds between two looks at what a client waits for
MISSED = 2.0  # seconds without a scheduler after which that is said

T = TypeVar("T")


class Connection:
    """A `distributed.Client` whose requests are repeated if the scheduler is slow to answer.

    Parameters
    ----------
    patience : seconds after which it gives up with a ClusterError
    tell : is called with a line when the scheduler is gone, and when it is there again
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
        """The client, when it has its scheduler; a ClusterError when it has lost that for good."""
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
        """function(), a question to the scheduler, asked again until it is answered or `patience` is over."""
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
        """Forget these after the next tasks are sent, or in a moment.

        A client sends one message in ten milliseconds at most: a release just before a task would hold that back.
        """
        self._leaving.extend(futures)

    def release(self) -> None:
        """Release the futures that were given to `release_later`."""
        with self._releasing:
            _release_all(self._leaving)

    def stay_alive(self, where: Callable[[], dict[str, Any]]) -> None:
        """Send a task now and then while this process computes: an idle scheduler may close itself.

        Parameters
        ----------
        where : the workers that the run may use, as arguments of `Client.submit`
        """
        numbers = count()

        def submit() -> None:
            last: list[Any] = []
            while not self._closed.wait(1.5):  # seconds between two tasks that show the scheduler that the run lives
                with suppress(Exception):  # the call that waits for a result reports what is wrong
                    self.release()
                    _release_all(last)  # one that was meant for workers that have gone would wait for ever
                    key = f"dkernel-alive-{self.token}-{next(numbers)}"
                    last.append(self.client.submit(int, key=key, pure=False, **where()))
                    last[0].add_done_callback(_release_future)
            with suppress(Exception):  # the client may be closed
                _release_all(last)

        threading.Thread(target=submit, name="dkernel-alive", daemon=True).start()

    def close(self) -> None:
        """Forget everything; the client stays open."""
        self._closed.set()
        with suppress(Exception):  # the client may be closed
            self.release()


def _release_future(future: Any) -> None:
    future.release()


def _release_all(futures: list[Any]) -> None:
    while futures:
        futures.pop().release()
