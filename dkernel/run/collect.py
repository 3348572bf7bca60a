"""The results of some calls on a cluster: waited for with a clock, mended where they were lost, or refused in words."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import CancelledError, wait
from itertools import islice
from typing import Any, TypeVar

from distributed import wait as wait_for
from distributed.scheduler import KilledWorker

from dkernel.errors import ClusterError
from dkernel.execution.process import RefusedWorkerError
from dkernel.run.deaths import KilledCallError
from dkernel.run.executors import PAUSE, RETRIES, Call, Handle, may_pass
from dkernel.run.futures import Future, forget
from dkernel.run.remote import TICK, ClusterExecutor

__all__ = ["Collection", "compute"]

T = TypeVar("T")
LOSSES = 5


class Collection:
    """The results of some calls: waits, repairs what was lost, and lets go of every future at the end."""

    def __init__(self, executor: ClusterExecutor) -> None:
        self.executor = executor
        self.calls: list[Call] = []
        self.futures: list[Future] = []
        self.interruptions = 0
        self.losses: list[int] = []
        self.retries: list[int] = []

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *exc: object) -> None:
        # Also what ends the other calls after an error: a task that nobody wants is forgotten.
        self.executor.let_go(self.futures)
        self.futures = []

    def begin(self, calls: Sequence[Call]) -> None:
        """Send them."""
        self.futures += self.executor.submit(calls)
        self.calls += calls
        self.losses += [0] * len(calls)
        self.retries += [0] * len(calls)

    def all(self) -> list[Any]:
        """The results of all calls that were begun, in their order."""
        return self._mended(lambda: self._gather(self.futures)) if self.futures else []

    def as_they_come(self, calls: Iterable[Call], room: int) -> Generator[Any]:
        """The results in the order of their coming; no more than `room` calls are begun before one is there."""
        rest = iter(calls)
        while True:
            self.begin(list(islice(rest, room - len(self.calls))))
            if not self.calls:
                return
            yield from self._mended(self._some)

    def _mended(self, attempt: Callable[[], T]) -> T:
        while True:
            try:
                return attempt()
            except ClusterError:
                raise
            except Exception as error:
                if self._repair(error):
                    continue
                if not isinstance(error, (OSError, CancelledError)):
                    raise
                self._wait_for_connection(error)

    def _some(self) -> list[Any]:
        """The values of the calls that have come to their end, at least one, which are then forgotten here."""
        self._awaited(self._first())
        over = {i for i, future in enumerate(self.futures) if future.done()}
        values = self._gather([self.futures[i] for i in sorted(over)])
        self.executor.let_go(self.futures[i] for i in over)
        for kept in (self.calls, self.futures, self.losses, self.retries):
            kept[:] = [item for i, item in enumerate(kept) if i not in over]
        return values

    async def _first(self) -> None:
        with self.executor.client.as_current():
            await wait_for(self.futures, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]

    def _gather(self, futures: Sequence[Future]) -> list[Any]:
        """The values of these; returns early with the first error. One transfer: each costs a round trip."""
        return list(self._awaited(self.executor.client.gather(list(futures), asynchronous=True)))

    def _awaited(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What it returns in the client's loop, unless there is no sign of life for too long."""
        waiting = asyncio.run_coroutine_threadsafe(coroutine, self.executor.client.loop.asyncio_loop)
        known, news = -1, time.monotonic()
        try:
            while True:
                wait([waiting], timeout=TICK)
                if waiting.done():
                    return waiting.result()
                finished = self.executor.finished() + sum(future.done() for future in self.futures)
                if finished != known:
                    known, news = finished, time.monotonic()
                self.executor.check_alive(
                    news, [c.key for c, f in zip(self.calls, self.futures, strict=True) if not f.done()]
                )
        finally:
            waiting.cancel()

    def _wait_for_connection(self, error: Exception) -> None:
        """No call has failed: it was the way to the results that did."""
        self.interruptions += 1
        self.executor.faults.append(f"the connection to the scheduler broke: {error}")
        address = self.executor.reach().scheduler.address
        if self.interruptions > LOSSES:
            raise ClusterError(
                f"The connection to the scheduler at {address} broke {self.interruptions} times ({error}). "
                "Run the same command again."
            ) from error
        time.sleep(TICK)

    def _repair(self, seen: Exception) -> bool:
        """Whether anything was broken that can be mended; what cannot be raises. `seen` is the first sign of it."""
        broken = [i for i, future in enumerate(self.futures) if future.status in ("error", "cancelled")]
        if broken and self.executor.disconnected():
            self._wait_for_connection(seen)
            self.executor.reconnected()
        for i in broken:
            if self.futures[i].cancelled():
                self._submit_again(i, seen)
            else:
                self._try_again(i)
        return bool(broken)

    def _try_again(self, i: int) -> None:
        call = self.calls[i]
        with self.executor.told():
            error = self.futures[i].exception(timeout=self.executor.patience)
        if isinstance(error, KilledWorker):
            raise self._killed(error) from None
        if isinstance(error, RefusedWorkerError):
            self.executor.refuse(error)
            self._submit_again(i, error)
            return
        if isinstance(error, ImportError) and self.executor.shared and self.executor.ask_new_workers():
            self._submit_again(i, error)
            return
        if error is not None and may_pass(error) and self.retries[i] < RETRIES:
            time.sleep(PAUSE * 2 ** self.retries[i])
            self.retries[i] += 1
            self.executor.faults.append(f"tried again after {type(error).__name__}: {error}")
            with self.executor.told():
                self.executor.client.retry([self.futures[i]])  # also what it waits for, if that is what failed
        else:
            raise error or ClusterError(f"The call {call.key!r} failed without a reason. Run the same command again.")

    def _killed(self, error: KilledWorker) -> KilledCallError:
        key, deaths = str(error.task), error.allowed_failures + 1
        return KilledCallError(
            key,
            f"The call {key!r} ended {deaths} worker(s), the last at {error.last_worker.address}; "
            f"{self.executor.how_they_ended(deaths)}. Most likely they have too little memory for it: give each worker "
            "more memory or fewer threads, or make the chunks smaller; look at the workers' logs, and run the same "
            "command again.",
        )

    def _submit_again(self, i: int, seen: Exception) -> None:
        key, address = self.calls[i].key, self.executor.address
        self.losses[i] += 1
        self.executor.faults.append(f"the call {key!r} was lost and submitted again: {seen}")
        if self.losses[i] > LOSSES:
            raise ClusterError(
                f"The call {key!r} was cancelled {self.losses[i]} times ({seen}). See what else uses the scheduler at "
                f"{address}, and run the same command again."
            ) from None
        forget(self.futures[i])
        [self.futures[i]] = self.executor.submit([self.calls[i]])


def compute(
    executor: ClusterExecutor, calls: Sequence[Call], meanwhile: Callable[[], list[Handle]]
) -> tuple[list[Any], list[Handle]]:
    """Results of the calls, those that a worker gave straight and those of tasks; what `meanwhile` begins."""
    start = time.monotonic()
    asked = executor.direct.ask(calls)
    with Collection(executor) as collection:
        collection.begin([call for i, call in enumerate(calls) if i not in asked])
        handles = meanwhile()
        tasks = iter(collection.all())
    found = [executor.direct.value(asked[i]) if i in asked else (next(tasks),) for i in range(len(calls))]
    with Collection(executor) as collection:
        collection.begin([call for call, value in zip(calls, found, strict=True) if value is None])
        tasks = iter(collection.all())
    if any(call.at is not None for call in calls):
        executor.direct.took(time.monotonic() - start)
    return [next(tasks) if value is None else value[0] for value in found], handles
