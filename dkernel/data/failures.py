"""Messages for the errors of a run on a cluster, and for workers that begin no task."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from dkernel.errors import ClusterError

PATIENCE = 300.0  # seconds: a node of a batch system starts in less
START = 10.0  # seconds of silence after which the user is told that workers are missing, slow to start or paused

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
    answer = ask_in_thread(function)
    if not wait([answer], seconds).done:
        raise TimeoutError(f"no answer in {seconds:.0f} seconds")
    return answer.result()


def ask_in_thread(function: Callable[[], T]) -> "Future[T]":
    """Call function() in a thread that no process waits for; return the future of its answer."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="dkernel-ask", daemon=True).start()
    return answer


def describe_paused(workers: Mapping[str, Mapping[str, Any]]) -> str:
    """Say which of these workers, as a scheduler describes them, Dask has paused and what to do; "" for none.

    Examples
    --------
    >>> print(describe_paused({"tcp://a:1": {"status": "paused"}, "tcp://b:1": {"status": "running"}})[:46])
    Dask has paused 1 of 2 workers (tcp://a:1): it
    """
    paused = sorted(worker for worker, facts in workers.items() if facts["status"] == "paused")
    more = f" and {len(paused) - 1} more" if len(paused) > 1 else ""
    return bool(paused) * (
        f"Dask has paused {len(paused)} of {len(workers)} workers ({''.join(paused[:1])}{more}): it begins no task "
        "where the memory in use is above distributed.worker.memory.pause of the limit. Restart them "
        "(Client.restart), with more memory or fewer threads each, or make the chunks smaller."
    )


def describe_idle(client: Any) -> str:
    """Say why no worker of a client begins a task: there is none, or none that Dask has not paused; "" if one does."""
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
    except (OSError, RuntimeError):  # no scheduler, or a closed client: what waits for an answer is told of it
        return ""
    if not workers:
        address = client.scheduler.address
        return f"The scheduler at {address} has no workers. Start some: dask worker {address}"
    return describe_paused(workers) if all(facts["status"] == "paused" for facts in workers.values()) else ""
