"""Running on a Dask cluster: any `Client`, workers that may die, and an error instead of a wait without end.

Everything is a pure task with a run_spec, so what dies with a worker is computed again: no scatter, no actors, no
queues. The client waits with a clock: when there are no workers or nothing finishes for `patience` seconds, it says so.
"""

import asyncio
import operator
import time
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from dask.delayed import Delayed

from dkernel.errors import ClusterError, DKernelWarning, UnsupportedError
from dkernel.execution.payload import Payload
from dkernel.execution.process import RefusedWorkerError, Settings, quiet_logs
from dkernel.execution.user_modules import carried, install
from dkernel.execution.versions import require_equal, versions
from dkernel.run.direct import Direct, Slot
from dkernel.run.executors import READY, Call, Executor, Handle, resolve
from dkernel.run.futures import Client, Future, Leaving, Remote
from dkernel.run.parcels import Parcel, apply, last_of, run_task, unpack, unwarned
from dkernel.run.readers import readers

__all__ = ["PATIENCE", "ClusterExecutor"]

PATIENCE = 300.0
TICK = 0.5


class ClusterExecutor(Executor):
    """Computes the calls on the workers of a `distributed.Client`, which stays the caller's to close.

    Parameters
    ----------
    client : a synchronous client; its cluster may grow, shrink and lose workers meanwhile
    patience : seconds without workers, or without anything finishing, before it gives up with a ClusterError
    shared : the cluster lives on after this run, so what was installed on the workers is taken off at the end
    """

    name = "cluster"

    def __init__(self, client: Client, patience: float = PATIENCE, shared: bool = True) -> None:
        if client.asynchronous:
            raise UnsupportedError(
                "dkernel waits for its results, which an asynchronous Client cannot do: "
                "pass Client(..., asynchronous=False)."
            )
        from dkernel.run.deaths import Told

        super().__init__()
        self.client = client
        self.patience = patience
        self.shared = shared
        self.address = client.scheduler.address
        self._handles: WeakSet[Remote] = WeakSet()
        self._leaving = Leaving(client)
        self._open = ExitStack()
        self._open.enter_context(quiet_logs())
        self._plugin = f"dkernel-{uuid4().hex}"
        self._news = Told()
        self.direct = Direct(client, self._plugin, shared)
        self._warned = 0
        self.settings = Settings(tuple(versions().items()), carried())
        self._asked: set[str] = set()
        self._refused: set[str] = set()
        self._connection: Any = None
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        return max(1, sum(self.processes().values()))

    @property
    def workers(self) -> int:  # type: ignore[override]
        return max(1, len(self.processes()))

    @property
    def memory_limit(self) -> int | None:  # type: ignore[override]
        """The smallest limit of a worker."""
        with self.told():
            found = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [int(worker["memory_limit"]) for worker in found if worker["memory_limit"]]
        return min(limits, default=None)

    def compute(self, calls: Sequence[Call], ahead: Sequence[Delayed] = ()) -> tuple[list[Any], list[Handle]]:
        from dkernel.run.collect import compute

        self._look_round()
        return compute(self, calls, partial(self.read, ahead))

    @property
    def moves(self) -> int:  # type: ignore[override]
        return self.direct.failures

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        from dkernel.run.collect import Collection
        from dkernel.run.errands import errands

        self._look_round()
        rest = iter(calls)
        without = [] if self.shared else (yield from errands(self, self.processes(), rest))
        with Collection(self) as collection:
            yield from collection.as_they_come(chain(without, rest), READY * self.slots)

    def places(self, handles: Sequence[Handle]) -> list[str | None]:
        mine = [self._mine(handle) for handle in handles]
        with self.told():
            found = self.reach().who_has([value.future for value in mine if value.future is not None])
        # What is not there yet will be where it was asked for.
        return [
            next(iter(found.get(value.future.key, ())), value.at) if value.future is not None else None
            for value in mine
        ]

    def keep(self, value: Any, key: str) -> Handle:
        parcel, name = Parcel(value), f"dkernel-state-{key}"

        def submit() -> Future:
            with unwarned():
                return self.reach().submit(unpack, parcel, key=name, pure=True, **self._wish())

        return self._remember(Remote(submit, kept=(name, parcel)))

    def at_hand(self, handles: Sequence[Handle]) -> list[Any] | None:
        kept = [self._mine(handle).kept for handle in handles]
        return None if None in kept else [parcel.value for _, parcel in kept if parcel is not None]  # type: ignore[misc]

    def pick(self, handle: Handle, item: int) -> Handle:
        whole = self._mine(handle)

        def submit() -> Future:
            unwanted = whole.future is None
            source = whole.live()
            key = f"{source.key}-item-{item}"
            part = self.reach().submit(operator.getitem, source, item, key=key, pure=True, **self._wish())
            if unwanted:
                self._leaving.add(whole.leave())
            return part

        return self._remember(Remote(submit))

    def release(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            self._leaving.add(self._mine(handle).leave())

    def close(self) -> None:
        for handle in list(self._handles):
            self._leaving.add(handle.leave())
        self._leaving.go()
        self._open.close()

    def submit(self, calls: Sequence[Call]) -> list[Future]:
        """The calls as futures, and what they need that is only here, in one message: a second waits 10 ms."""
        graph: dict[str, tuple[Any, ...]] = {}
        inside: dict[Handle, bool] = {}
        new: dict[str, Remote] = {}

        def add(call: Call) -> str:
            needed: list[Any] = []

            def slot(handle: Handle) -> Any:
                value = self._mine(handle)
                if handle not in inside:
                    inside[handle] = value.inside(len(calls))
                if value.kept is None or value.future is not None:
                    needed.append(value.live())
                elif inside[handle]:
                    return value.kept[1].value
                else:
                    name, parcel = value.kept
                    graph[name], new[name] = (unpack, parcel), value
                    needed.append(name)
                return Slot(len(needed) - 1)

            function, args = call.function, tuple(resolve(arg, slot) for arg in call.args)
            if call.then is not None:
                then = call.then[0], tuple(resolve(arg, slot) for arg in call.then[1])
                others = [Slot(i) for i, _ in enumerate(call.helpers, len(needed))]
                needed += map(add, call.helpers)
                function, args = last_of, (then, function, args, others)
            if self.shared:  # without a plugin the task prepares its process, and is unpickled after that
                graph[call.key] = (run_task, self.settings, Payload.of((function, args)), *needed)
            else:
                graph[call.key] = (apply, Parcel((function, args)), *needed)
            return call.key

        for call in calls:
            add(call)
        if not calls:
            return []
        with self.told(), unwarned():
            keys = [*(call.key for call in calls), *new]
            begun: list[Future] = self.reach().get(graph, keys, sync=False, **self._wish())
        for value, future in zip(new.values(), begun[len(calls) :], strict=True):
            value.future = future
        self._leaving.go()
        return begun[: len(calls)]

    def let_go(self, futures: Iterable[Future]) -> None:
        """Results that were gathered, or that nobody waits for any more."""
        self._leaving.add(futures)

    def finished(self) -> int:
        """How many of the values that it holds are there: a sign of life while calls wait for them."""
        return sum(handle.future is not None and handle.future.done() for handle in list(self._handles))

    def reach(self) -> Client:
        """The client, or a ClusterError when it has lost its scheduler for good."""
        if self.client.status not in ("running", "connecting"):
            raise ClusterError(f"The scheduler at {self.address} is gone. Run the same command again.")
        return self.client

    def check_alive(self, quiet_since: float, waiting: Sequence[str]) -> None:
        """A ClusterError when the scheduler is gone, or nothing has happened for `patience` seconds."""
        self.reach()
        quiet = time.monotonic() - quiet_since
        if quiet < self.patience:
            return
        raise ClusterError(
            f"{self._who_waits()} for {quiet:.0f} seconds; {len(waiting)} call(s) are waiting"
            + (f", the first is {waiting[0]!r}" if waiting else "")
            + f". See to the workers of {self.address} and run the same command again."
        )

    def _who_waits(self) -> str:
        try:
            workers = len(self.processes())
        except ClusterError:
            return f"The scheduler at {self.address} has not answered"
        refused = "".join(f" ({table})" for table in self._news.refused)
        if not workers:
            return f"There have been no workers{refused}"
        return f"None of the {workers} workers has finished anything"

    def threads_each(self, calls: int) -> int:  # noqa: ARG002 - the others of a worker have calls of their own
        return 1

    def processes(self) -> dict[str, int]:
        with self.told():
            return dict(self.client.nthreads(callback_timeout=10))

    def told(self) -> AbstractContextManager[None]:
        """Around what asks the scheduler: Dask's errors become a ClusterError."""
        from dkernel.run.deaths import told

        return told(self.address)

    def how_they_ended(self, deaths: int) -> str:
        """The last workers that ended, and how."""
        return self._news.how_they_ended(deaths)

    def disconnected(self) -> bool:
        """Whether the client has lost the connection on which this run was set up; it may have another by now."""
        return self.client.scheduler_comm is not self._connection

    def reconnected(self) -> None:
        """Wait until the client has found its scheduler again, and set that up: it may be another one that knows
        nothing; a ClusterError when it gives up."""
        while self.reach().status != "running":
            time.sleep(TICK)
        self._set_up()

    def _set_up(self) -> None:
        self._guard()
        self._connection = self.client.scheduler_comm
        with self.told():
            if not self.shared:
                self._install_plugins()
            if modules := carried():  # a scheduler unpickles the graphs that it is sent
                self.client.run_on_scheduler(install, modules)

    def _install_plugins(self) -> None:
        """On workers of this run's own alone: what a client that is killed leaves on a cluster of others stays."""
        from dkernel.run.deaths import ExitNews
        from dkernel.run.wishes import Forgotten
        from dkernel.run.worker import WorkerSetup

        self.client.subscribe_topic(self._plugin, self._news.hear)
        for plugin in (WorkerSetup(versions(), self._plugin), ExitNews(self._plugin), Forgotten()):
            self.client.sync(self._register, plugin, callback_timeout=self.patience)

    async def _register(self, plugin: Any) -> None:
        await self.client.register_plugin(plugin, name=self._plugin)

    def _guard(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError:
            raise ClusterError(
                f"The scheduler at {self.address} has no workers, and none came in {self.patience:.0f} seconds. "
                f"Start some: dask worker {self.address}"
            ) from None
        self.ask_new_workers()
        if self._refused:
            raise ClusterError("\n".join(self._news.refused))

    def ask_new_workers(self) -> bool:
        """Whether workers were found that this run cannot use."""
        before = len(self._refused)
        there = self.processes()
        new = set(there) - self._asked
        if new:
            with self.told():
                found = self.client.sync(self._ask_all, new)
            self._asked = {*found} | (self._asked & set(there))
            try:
                require_equal(versions(), found)
            except ClusterError as error:
                for worker, theirs in found.items():
                    if isinstance(theirs, BaseException) or dict(theirs) != versions():
                        self._refused.add(worker)
                self._news.refused.append(str(error))
        return len(self._refused) > before

    def refuse(self, error: RefusedWorkerError) -> None:
        """Send this worker no more calls."""
        if error.worker not in self._refused:
            self._refused.add(error.worker)
            self._asked.add(error.worker)
            self._news.refused.append(str(error))

    def _wish(self) -> dict[str, Any]:
        """Where tasks may run: anywhere, unless some workers were refused."""
        self._refused &= set(self.processes()) if self._refused else set()
        return {"workers": sorted(self._asked - self._refused)} if self._refused else {}

    async def _ask_all(self, workers: Iterable[str]) -> dict[str, Any]:
        """Versions of every worker, or why there are none: one that is stopped answers never."""

        async def ask(worker: str) -> Any:
            asked = self.client.run(versions, workers=[worker], on_error="return")
            try:
                return (await asyncio.wait_for(asked, self.patience))[worker]
            except TimeoutError:
                return TimeoutError(f"nothing in {self.patience:.0f} seconds. Is its process stopped?")

        asked = sorted(workers)
        return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))

    def _look_round(self) -> None:
        """Before calls are sent: find the scheduler again that was lost, and say which workers were refused."""
        if self.disconnected():
            self.reconnected()
        if self.shared:
            self.ask_new_workers()
        for table in self._news.refused[self._warned :]:
            self._warned += 1
            self.faults.append(table)
            warnings.warn(f"A worker that joined was refused. {table}", DKernelWarning, stacklevel=3)

    def read(self, ahead: Sequence[Delayed]) -> list[Handle]:
        """Handles of units whose reading begins."""
        begun: dict[int, Remote] = {}
        for at, numbers in readers(len(ahead), self._units_of_each() if ahead else {}).items():
            wish = self._wish() if at is None else {"workers": [at], "allow_other_workers": True}
            # Below the calls: a worker reads ahead when it has nothing better to do.
            futures = self.reach().compute([ahead[i] for i in numbers], priority=-1, **wish)
            for i, future in zip(numbers, futures, strict=True):
                begun[i] = self._remember(Remote(partial(self.client.compute, ahead[i], priority=-1), future, at=at))
        self._leaving.go()  # what they are to take the place of
        return [begun[i] for i in range(len(ahead))]

    def _units_of_each(self) -> dict[str, int]:
        """Worker -> units that it was asked to read and has still.

        Nothing in a cluster that others run: without a plugin in its scheduler (wishes.py), units whose workers have
        all gone would never be read.
        """
        if self.shared:
            return {}
        held = Counter(value.at for value in list(self._handles) if value.future is not None)
        return {worker: held[worker] for worker in self.processes()}

    def _remember(self, handle: Remote) -> Remote:
        self._handles.add(handle)
        return handle

    def _mine(self, handle: Handle) -> Remote:
        if not isinstance(handle, Remote):
            raise TypeError(f"A {type(handle).__name__} belongs to another executor; this one made none like it.")
        return handle
