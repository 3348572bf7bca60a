"""Messages for the errors of a run on a cluster."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from dkernel.errors import ClusterError

T = TypeVar("T")


class KilledCallError(ClusterError):
    """A task ended every worker that ran it; `key` names the task."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key

    def __reduce__(self) -> Any:
        return type(self), (self.key, str(self))

    @classmethod
    def of(cls, error: Any, key: str | None = None) -> "KilledCallError":
        """Make the error from Dask's KilledWorker; `key` is the call, whose task may have another name."""
        key = key or str(error.task)
        return cls(
            key,
            f"The call {key!r} ended {error.allowed_failures + 1} worker(s), the last at {error.last_worker.address}. "
            "Most likely they have too little memory for it: give each worker more memory or fewer threads, or make "
            "the chunks smaller; look at the workers' logs, and run the same command again.",
        )


class RefusedWorkerError(ClusterError):
    """A worker cannot run the tasks of a run: it has other versions, or lacks a module of the user."""

    def __init__(self, worker: str, reason: str) -> None:
        super().__init__(reason)
        self.worker = worker

    def __reduce__(self) -> Any:
        return type(self), (self.worker, str(self))


def answer_in_time(function: Callable[[], T], seconds: float) -> T:
    """Call function() in a thread, and raise a TimeoutError if it takes longer.

    Dask's client has no timeout for most of its requests, or a timeout of a few seconds.

    Examples
    --------
    >>> answer_in_time(lambda: 42, 5.0)
    42
    """
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="dkernel-ask", daemon=True).start()
    if not wait([answer], seconds).done:
        raise TimeoutError(f"no answer in {seconds:.0f} seconds")
    return answer.result()
