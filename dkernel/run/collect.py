"""The results of some calls on a cluster: waited for with a clock, mended where they were lost, or refused in words."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, wait
from typing import Any

from distributed.scheduler import KilledWorker

from dkernel.errors import ClusterError
from dkernel.run.deaths import KilledCallError
from dkernel.run.executors import PAUSE, RETRIES, Call, may_pass
from dkernel.run.remote import TICK, ClusterExecutor, Future, forget

__all__ = ["Collection"]

LOSSES = 5


class Collection:
    """The results of some calls: waits, repairs what was lost, and lets go of every future at the end."""

    def __init__(self, executor: ClusterExecutor, calls: Sequence[Call]) -> None:
        self.executor = executor
        self.calls = calls
        self.futures: list[Future] = []
        self.interruptions = 0
        self.losses = [0] * len(calls)
        self.retries = [0] * len(calls)

    def __enter__(self) -> "Collection":
        self.futures = self.executor.submit(self.calls)
        return self

    def __exit__(self, *exc: object) -> None:
        # Also what ends the other calls after an error: a task that nobody wants is forgotten.
        self.executor.let_go(self.futures)
        self.futures = []

    def results(self) -> list[Any]:
        while True:
            try:
                return self._gather()
            except ClusterError:
                raise
            except Exception as error:
                if self._repair(error):
                    continue
                if not isinstance(error, (OSError, CancelledError)):
                    raise
                self._wait_for_connection(error)

    def _gather(self) -> list[Any]:
        """The values of all futures; returns early with the first error. One transfer: each costs a round trip."""
        client = self.executor.client
        gathering = asyncio.run_coroutine_threadsafe(
            client.gather(self.futures, asynchronous=True), client.loop.asyncio_loop
        )
        known, news = -1, time.monotonic()
        try:
            while True:
                wait([gathering], timeout=TICK)
                if gathering.done():
                    return list(gathering.result())
                finished = self.executor.finished() + sum(future.done() for future in self.futures)
                if finished != known:
                    known, news = finished, time.monotonic()
                self.executor.check_alive(
                    news, [c.key for c, f in zip(self.calls, self.futures, strict=True) if not f.done()]
                )
        finally:
            gathering.cancel()

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
