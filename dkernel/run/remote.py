"""Running on a Dask cluster: any `Client`, workers that may die, and an error instead of a wait without end.

Everything is a pure task with a run_spec, so what dies with a worker is computed again: no scatter, no actors, no
queues. The client waits with a clock: when there are no workers or nothing finishes for `patience` seconds, it says so.
"""

import asyncio
import operator
import queue
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dask.delayed import Delayed

from dkernel.errors import ClusterError, UnsupportedError
from dkernel.run.executors import PAUSE, RETRIES, Call, Executor, Handle, may_pass, resolve
from dkernel.run.versions import require_equal, versions

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["PATIENCE", "ClusterExecutor"]

PATIENCE = 300.0
TICK = 0.5
LOSSES = 5


class Parcel:
    """A value that Dask carries without looking into it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def unpack(parcel: Parcel) -> Any:
    """The task that holds a kept value: it can run again on any worker."""
    return parcel.value


def forget(future: "Future") -> None:
    """Release a future and wait until the client knows: its key can then be submitted afresh."""
    future.release()
    future.client.sync(asyncio.sleep, 0)  # the loop takes releases in their order


class Remote(Handle):
    """A value on the cluster, with the way to ask for it again should the scheduler have forgotten it."""

    def __init__(self, submit: "Callable[[], Future]", future: "Future | None" = None) -> None:
        self._submit = submit
        self.future: Future | None = future or submit()

    def live(self) -> "Future":
        """The future of the value, submitted again when it was cancelled or released."""
        if self.future is not None and self.future.cancelled():
            forget(self.future)
            self.future = None
        if self.future is None:
            self.future = self._submit()
        return self.future

    def drop(self) -> None:
        if self.future is not None:
            self.future.release()
            self.future = None


class ClusterExecutor(Executor):
    """Computes the calls on the workers of a `distributed.Client`, which stays the caller's to close.

    Parameters
    ----------
    client : a synchronous client; its cluster may grow, shrink and lose workers meanwhile
    patience : seconds without workers, or without anything finishing, before it gives up with a ClusterError
    """

    name = "cluster"

    def __init__(self, client: "Client", patience: float = PATIENCE) -> None:
        if client.asynchronous:
            raise UnsupportedError(
                "dkernel waits for its results, which an asynchronous Client cannot do: "
                "pass Client(..., asynchronous=False)."
            )
        from dkernel.run.worker import WorkerSetup, quiet_logs

        self.client = client
        self.patience = patience
        self.address = client.scheduler.address
        self._handles: WeakSet[Remote] = WeakSet()
        self._open = ExitStack()
        self._open.enter_context(quiet_logs())
        self._plugin = f"dkernel-{client.id}"
        try:
            self._guard()
            client.register_plugin(WorkerSetup(versions()), name=self._plugin)
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        return max(1, sum(self._threads().values()))

    def compute(self, calls: Sequence[Call], ahead: Sequence[Delayed] = ()) -> tuple[list, list[Handle]]:
        with _Collection(self, calls) as collection:
            handles = self._read(ahead)
            return collection.results(), handles

    def keep(self, value: Any, key: str) -> Handle:
        parcel = Parcel(value)

        def submit() -> "Future":
            with warnings.catch_warnings():
                # Dask advises to scatter what is large, but scattered data are lost with their worker.
                warnings.filterwarnings("ignore", message=".*[Ll]arge (graph|object)", category=UserWarning)
                return self.client.submit(unpack, parcel, key=f"dkernel-state-{key}", pure=True)

        return self._remember(Remote(submit))

    def pick(self, handle: Handle, item: int) -> Handle:
        whole = self._mine(handle)

        def submit() -> "Future":
            unwanted = whole.future is None
            source = whole.live()
            part = self.client.submit(operator.getitem, source, item, key=f"{source.key}-item-{item}", pure=True)
            if unwanted:
                whole.drop()
            return part

        return self._remember(Remote(submit))

    def release(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            self._mine(handle).drop()

    def close(self) -> None:
        for handle in list(self._handles):
            handle.drop()
        with suppress(Exception):  # a scheduler that is gone has no plugin either
            self.client.sync(self._unregister, callback_timeout=5)
        self._open.close()

    def submit(self, call: Call) -> "Future":
        """One call as a future, its handles as the futures that they stand for."""
        args = [resolve(arg, lambda handle: self._mine(handle).live()) for arg in call.args]
        return self.client.submit(call.function, *args, key=call.key, pure=True)

    def finished(self) -> int:
        """How many of the values that it holds are there: a sign of life while calls wait for them."""
        return sum(handle.future is not None and handle.future.done() for handle in list(self._handles))

    def check_alive(self, quiet_since: float, waiting: Sequence[str]) -> None:
        """A ClusterError when the scheduler is gone, or nothing has happened for `patience` seconds."""
        if self.client.status not in ("running", "connecting"):
            raise ClusterError(f"The connection to the scheduler at {self.address} is lost. Run the same command again.")
        quiet = time.monotonic() - quiet_since
        if quiet < self.patience:
            return
        raise ClusterError(
            f"{self._who_waits()} for {quiet:.0f} seconds; {len(waiting)} call(s) are waiting, the first is "
            f"{waiting[0]!r}. See to the workers of {self.address} and run the same command again."
        )

    def _who_waits(self) -> str:
        try:
            workers = len(self._threads())
        except OSError as error:
            return f"The scheduler at {self.address} has not answered ({type(error).__name__})"
        return "There have been no workers" if not workers else f"None of the {workers} workers has finished anything"

    def _threads(self) -> dict[str, int]:
        return self.client.nthreads(callback_timeout=10)

    def _guard(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError:
            raise ClusterError(
                f"The scheduler at {self.address} has no workers, and none came in {self.patience:.0f} seconds. "
                f"Start some: dask worker {self.address}"
            ) from None
        require_equal(versions(), self.client.run(versions, on_error="return"))

    def _read(self, ahead: Sequence[Delayed]) -> list[Handle]:
        # Below the calls: a worker reads ahead when it has nothing better to do.
        begun = self.client.compute(list(ahead), priority=-1) if ahead else []
        return [
            self._remember(Remote(lambda unit=unit: self.client.compute(unit), future))
            for unit, future in zip(ahead, begun, strict=True)
        ]

    def _remember(self, handle: Remote) -> Remote:
        self._handles.add(handle)
        return handle

    def _mine(self, handle: Handle) -> Remote:
        if not isinstance(handle, Remote):
            raise TypeError(f"A {type(handle).__name__} belongs to another executor; this one made none like it.")
        return handle

    async def _unregister(self) -> None:
        await self.client.unregister_worker_plugin(self._plugin, asynchronous=True)


class _Collection:
    """The results of some calls: waits, repairs what was lost, and lets go of every future at the end."""

    def __init__(self, executor: ClusterExecutor, calls: Sequence[Call]) -> None:
        self.executor = executor
        self.calls = calls
        self.values: dict[int, Any] = {}
        self.futures: dict[int, Future] = {}
        self.changed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.losses = [0] * len(calls)
        self.retries = [0] * len(calls)

    def __enter__(self) -> "_Collection":
        for i in range(len(self.calls)):
            self._submit(i)
        return self

    def __exit__(self, *exc: object) -> None:
        # Also what ends the other calls after an error: a task that nobody wants is forgotten.
        for future in self.futures.values():
            future.release()
        self.futures.clear()

    def results(self) -> list:
        news = time.monotonic()
        known = -1
        while len(self.values) < len(self.calls):
            changed = self._wait()
            if changed and self._take(changed):
                news = time.monotonic()
                continue
            if (finished := self.executor.finished()) != known:
                known, news = finished, time.monotonic()
            waiting = [call.key for i, call in enumerate(self.calls) if i not in self.values]
            self.executor.check_alive(news, waiting)
        return [self.values[i] for i in range(len(self.calls))]

    def _submit(self, i: int) -> None:
        self.futures[i] = self.executor.submit(self.calls[i])
        self._watch(i)

    def _watch(self, i: int) -> None:
        self.futures[i].add_done_callback(lambda _: self.changed.put(i))

    def _wait(self) -> list[int]:
        """Calls that something happened to, at least one unless a tick goes by."""
        changed = []
        with suppress(queue.Empty):
            changed.append(self.changed.get(timeout=TICK))
            while True:
                changed.append(self.changed.get_nowait())
        return [i for i in changed if i not in self.values]

    def _take(self, changed: list[int]) -> bool:
        ready = []
        for i in changed:
            status = self.futures[i].status
            if status == "finished":
                ready.append(i)
            elif status in ("error", "cancelled"):
                self._repair(i)
            else:  # lost with its worker, and on its way again
                time.sleep(0.05)
                self._watch(i)
        if ready:
            self._gather(ready)
        return bool(ready)

    def _gather(self, ready: list[int]) -> None:
        executor, client = self.executor, self.executor.client
        wanted = [self.futures[i] for i in ready]
        began = time.monotonic()
        try:
            values = client.sync(lambda: client.gather(wanted, asynchronous=True), callback_timeout=executor.patience)
        except Exception as error:
            executor.check_alive(began, [self.calls[i].key for i in ready])
            if all(future.status == "finished" for future in wanted) and not isinstance(error, OSError):
                raise
            # A worker went between the end of the call and now; what became of each result is in its status.
            for i in ready:
                self._count_loss(i, error)
                self._watch(i)
            return
        for i, value in zip(ready, values, strict=True):
            self.values[i] = value
            self.futures[i].release()

    def _repair(self, i: int) -> None:
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        call, error = self.calls[i], self.futures[i].exception(timeout=10)
        if isinstance(error, CancelledError):
            self._again(i, error)
        elif isinstance(error, KilledWorker):
            raise ClusterError(
                f"The call {call.key!r} ended {error.allowed_failures + 1} workers, the last at "
                f"{error.last_worker.address}. Most likely a worker has too little memory for it: give each worker more "
                "memory or fewer threads, look at the workers' logs, and run the same command again."
            ) from None
        elif error is not None and may_pass(error) and self.retries[i] < RETRIES:
            time.sleep(PAUSE * 2 ** self.retries[i])
            self.retries[i] += 1
            self.executor.client.retry([self.futures[i]])  # also what it waits for, if that is what failed
            self._watch(i)
        else:
            raise error or ClusterError(f"The call {call.key!r} failed without a reason. Run the same command again.")

    def _again(self, i: int, error: BaseException) -> None:
        if getattr(error, "reason", "") == "scheduler-connection-lost":
            raise ClusterError(
                f"The connection to the scheduler at {self.executor.address} is lost, and with it the call "
                f"{self.calls[i].key!r}. Run the same command again."
            ) from None
        self._count_loss(i, error)
        forget(self.futures[i])
        self._submit(i)

    def _count_loss(self, i: int, error: BaseException) -> None:
        self.losses[i] += 1
        if self.losses[i] > LOSSES:
            raise ClusterError(
                f"The result of the call {self.calls[i].key!r} was lost or cancelled {self.losses[i]} times ({error}). "
                f"See what else uses the scheduler at {self.executor.address}, and run the same command again."
            ) from None
