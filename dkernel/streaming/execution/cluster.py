"""Execution on a Dask cluster by ordinary tasks of any `Client`; workers may die.

Every task is a pure function with a run_spec, so Dask computes again what is lost with a worker. There is no scatter,
and there are no actors, queues or plugins. If there are no workers, or nothing finishes, for `patience` seconds, the
client raises an error instead of waiting for ever.
"""

import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice
from math import inf
from typing import Any

from dask.base import annotate, get_annotations
from dask.delayed import Delayed
from dask.local import get_sync

from dkernel.data.compute import LOG, lost_rows, refuse_asynchronous
from dkernel.data.failures import PATIENCE, START, KilledCallError, RefusedWorkerError, answer_in_time
from dkernel.errors import ClusterError, UnsupportedError
from dkernel.numerics.threads import usable_cores
from dkernel.streaming.execution.base import PAUSE, RETRIES, Call, Executor, Handle, Item, may_pass, resolve
from dkernel.streaming.execution.connection import TICK, Connection
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.execution.payload import Payload
from dkernel.streaming.execution.process import Settings, quiet_logs
from dkernel.streaming.execution.tasks import Slot, identity, run_task
from dkernel.streaming.execution.user_modules import user_modules
from dkernel.streaming.execution.values import Future, Remote, RemoteSet
from dkernel.streaming.execution.versions import versions
from dkernel.streaming.execution.workers import WorkerPool
from dkernel.streaming.machine import Machine

STUCK = 30.0  # seconds without results after which tasks that wait for a lost worker are given to others
READY = 3  # calls that are sent for each slot if results are taken as they come, so that no slot waits for its next
# Values of up to so many bytes in all are sent inside the calls of a round: a task of its own costs two more messages.
MESSAGE_BYTES = 2**20

Client = Any  # a type of distributed, which has no types and is imported only where a cluster is used


class ClusterExecutor(Executor):
    """Computes the calls on the workers of a `distributed.Client`, which the caller closes.

    Parameters
    ----------
    client : a synchronous client; its cluster may grow, shrink and lose workers meanwhile
    patience : seconds without workers or results after which it raises a ClusterError
    least : workers to wait for at the start
    started : whether the workers were started for this run; their logs are quiet, and lost ones are replaced
    tell : called with the message for a longer wait for workers, or for workers that Dask has paused
    """

    name = "cluster"

    def __init__(
        self,
        client: Client,
        patience: float = PATIENCE,
        least: int = 1,
        started: bool = False,
        tell: Callable[[str], None] = LOG.warning,
    ) -> None:
        refuse_asynchronous(client)
        super().__init__()
        self.client, self.patience, self._warn = client, patience, tell
        self.address = client.scheduler.address
        self.settings = Settings(tuple(versions().items()), user_modules(), quiet=started)
        asked = get_annotations()
        if "workers" in asked:
            raise UnsupportedError(
                "dkernel chooses the workers of its tasks, where their rows are: dask.annotate(workers=...) cannot. "
                "Start workers with --resources, and annotate resources={...}."
            )
        self._priority, resources = asked.get("priority", 0), asked.get("resources") or {}

        self._connection = Connection(client, patience, lambda text: self.tell(text))
        self._workers = WorkerPool(
            self._connection, self.settings, self.faults, self._connection.tell, resources, least if started else 0
        )
        self._handles = RemoteSet(client)
        self._news = threading.Event()
        self._next_look = START  # seconds of silence after which paused workers are looked for
        self._open = ExitStack()
        self._open.enter_context(quiet_logs())
        self._connection.stay_alive(partial(self._workers.pin, None))  # some clusters start workers only for tasks
        try:
            self._workers.wait_for_workers(least, tell)
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        return max(1, sum(self.processes().values()))

    def describe(self) -> Machine:
        self._workers.known(0.0)
        while not (threads := self._workers.in_order()):
            self._workers.wait_for_workers(1, self.tell)
        memory = self._workers.memory
        used = min((memory[worker][1] for worker in threads if worker in memory), default=1.0)
        return replace(Machine.here(threads, self._limits(), in_process=False), used_share=used)

    def _limits(self) -> dict[str, int]:
        """The limit of each worker that has one: the part of its own limit up to which Dask begins tasks on it, or its
        share of the limit of its container."""
        workers = self._connection.ask(lambda: self.client.scheduler_info(n_workers=-1))["workers"]
        there = {address: workers[address] for address in self._workers.known() if address in workers}
        together = Counter(worker["host"] for worker in there.values())
        limits = {}
        for address, worker in there.items():
            most, used = self._workers.memory.get(address, (sys.maxsize, 1.0))
            own = int(used * worker["memory_limit"]) if worker["memory_limit"] else most // together[worker["host"]]
            limits[address] = min(most, own)
        return {address: limit for address, limit in limits.items() if limit < sys.maxsize}

    def leave_out(self, workers: Mapping[str, str]) -> None:
        for address, why in workers.items():
            self._workers.refuse(address, why)

    def executor_for_local_rows(self, small: bool, large: bool) -> Executor:
        here = small or Machine(self.processes(), cores=usable_cores()).prefers_client(large)
        return ThreadsExecutor(min(self.slots, usable_cores())) if here else self

    def worker_memory(self) -> int | None:
        with suppress(Exception):  # only shown to the user; the call that waits for results reports what is wrong
            workers = answer_in_time(lambda: self.client.scheduler_info(n_workers=-1), TICK)["workers"].values()
            return max((int(worker["metrics"].get("memory", 0)) for worker in workers), default=None)
        return None

    def threads_each(self, calls: int) -> int:  # noqa: ARG002 - the other threads of a worker have their own calls
        return 1

    def processes(self) -> dict[str, int]:
        return self._workers.used()

    @contextmanager
    def using(self, slots: int) -> Iterator[None]:
        before, self._workers.most = self._workers.most, slots
        try:
            yield
        finally:
            self._workers.most = before

    def find_workers(self, handles: Sequence[Handle]) -> list[str | None]:
        remotes = [self._remote(handle) for handle in handles]
        there = self.processes()
        unknown = [remote for remote in remotes if remote.future is not None and remote.at not in there]
        if unknown:
            futures: list[Future] = [remote.future for remote in unknown]
            holders = self._who_has(futures)
            for remote, future in zip(unknown, futures, strict=True):
                remote.at = min((worker for worker in holders.get(future.key, ()) if worker in there), default=None)
        return [remote.at for remote in remotes]

    def holders(self, units: Sequence[Delayed]) -> list[list[str]]:
        needs = [self._persisted_values(unit) for unit in units]
        futures = {future.key: future for some in needs for future in some}
        if not futures:
            return [[] for _ in units]
        self._wait_for(list(futures.values()))
        where = self._who_has(list(futures.values()))
        sizes = self._connection.ask(lambda: self.client.nbytes(list(futures), summary=False))
        largest = []
        for some in needs:
            bytes_there = Counter[str]()
            for key in {future.key for future in some}:
                bytes_there.update(dict.fromkeys(where.get(key, ()), sizes.get(key, 0)))
            largest.append(sorted(worker for worker, size in bytes_there.items() if size == max(bytes_there.values())))
        return largest

    def _who_has(self, futures: Sequence[Future]) -> Mapping[str, Sequence[str]]:
        """The workers that have each value; cancelled values have none, as all values when the scheduler is lost."""
        holders: Mapping[str, Sequence[str]] = self._connection.ask(
            lambda: self.client.who_has([future for future in futures if future.status != "cancelled"])
        )
        return holders

    def _persisted_values(self, unit: Delayed) -> list[Future]:
        """The values on the cluster that the caller has persisted and the unit needs; a ClusterError if one is lost."""
        kind = import_module("distributed").Future
        futures = [value for value in unit.__dask_graph__().values() if isinstance(value, kind)]
        if any(future.status == "cancelled" for future in futures):
            raise lost_rows(self.address)
        return futures

    def _wait_for(self, futures: Sequence[Future]) -> None:
        """Wait until these are computed, or nothing has happened for `patience` seconds; a later read tells why."""
        quiet, known = time.monotonic(), -1
        while (done := sum(future.done() for future in futures)) < len(futures):
            self._connection.reach()
            if done != known:
                quiet, known = time.monotonic(), done
            if time.monotonic() - quiet > self.patience:
                return
            time.sleep(TICK / 5)

    def compute(
        self, calls: Sequence[Call], ahead: Sequence[Delayed] = (), read_on: Sequence[str | None] = ()
    ) -> tuple[list[Any], list[Handle]]:
        self._workers.warn_of_refused()
        with self._send_all(calls) as works:
            handles = self._read(ahead, self._spread(len(ahead), read_on))
            try:
                self._connection.release()
                while True:
                    done = self._wait_for_calls(works, all_of_them=True)
                    values = self._gather(done)
                    if values is not None:
                        return values, handles
            except BaseException:
                self.release(handles)
                raise

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        self._workers.warn_of_refused()
        rest = iter(calls)
        with self._send_all(()) as works:
            while True:
                works += self._send(list(islice(rest, max(0, READY * self.slots - len(works)))), works)
                if not works:
                    return
                done = self._wait_for_calls(works, all_of_them=False)
                values = self._gather(done)
                if values is not None:
                    works[:] = [work for work in works if work not in done]
                    self._connection.release_later(work.future for work in done)
                    self._connection.release()
                    yield from values

    def keep(self, value: Any, key: str) -> Handle:
        payload, at = Payload.of((identity, (value,))), self._choose_worker(())

        def submit(attempt: int, at: str | None) -> Future:
            name = f"dkernel-state-{key.removeprefix('dkernel-')}-{self._connection.token}"
            return self._submit(payload, name, attempt, at)

        return self._handles.add(Remote(key, submit, at, value=value, payload=payload))

    def leave(self, calls: Sequence[Call]) -> list[Handle]:
        return [self._handles.add(work) for work in self._send(calls)]

    def hand_over(self, call: Call) -> None:
        payload = Payload.of((call.function, call.args))
        future = self._submit(payload, call.key, 0, call.at, priority=1)
        import_module("distributed").fire_and_forget(future)

    def release(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            self._connection.release_later(self._remote(handle).detach())

    def close(self) -> None:
        for handle in self._handles:
            self._connection.release_later(handle.detach())
        self._connection.close()
        self._open.close()

    # Sending of tasks.

    @contextmanager
    def _send_all(self, calls: Sequence[Call]) -> Iterator[list[Remote]]:
        """Send the calls as tasks; the block waits for their results, and they are released after it."""
        works: list[Remote] = []
        try:
            works += self._send(calls)
            yield works
        finally:  # also after an error: the scheduler ends tasks that have no reference
            self._connection.release_later(work.future for work in works if work.future is not None)

    def _choose_worker(self, works: Sequence[Remote]) -> str | None:
        """Choose a worker for a call that may run on any worker: None if all are used, so that Dask chooses, else the
        used worker with the fewest of these calls."""
        there = self.processes()
        if len(there) == len(self._workers.fit):
            return None
        busy = Counter(work.at for work in works)
        return min(there, key=lambda worker: busy[worker] / there[worker], default=None)

    def _send(self, calls: Sequence[Call], others: Sequence[Remote] = ()) -> list[Remote]:
        """Send these in one message: a message for each would take client, scheduler and workers twice as long.

        Parameters
        ----------
        others : calls that run already
        """
        works, payloads, names = list[Remote](), list[Payload](), [self._name(call.key) for call in calls]
        for call, name in zip(calls, names, strict=True):
            payload, needs = self._pack(call, len(calls))
            at = call.at or self._choose_worker([*others, *works])
            works.append(Remote(call.key, partial(self._submit_call, name, payload, needs), at, needs))
            payloads.append(payload)
        values = [[need.ensure() for need in work.needs] for work in works]
        futures = self._submit_all(list(zip(payloads, values, strict=True)), names, [work.at for work in works])
        for work, future in zip(works, futures, strict=True):
            work.future = future
            future.add_done_callback(self._hear)
        return works

    def _pack(self, call: Call, calls: int) -> tuple[Payload, list[Remote]]:
        """Make the payload of one of `calls` calls, and list the values that it needs."""
        needs: dict[Remote, int] = {}

        def slot(handle: Handle) -> Any:
            remote = self._remote(handle)
            if remote.payload is not None and remote.future is None and remote.payload.nbytes * calls <= MESSAGE_BYTES:
                return remote.value
            return Slot(needs.setdefault(remote, len(needs)))

        return Payload.of((call.function, tuple(resolve(arg, slot) for arg in call.args))), list(needs)

    def _name(self, key: str) -> str:
        """The name of a call's task.

        Dask names a group by the words at the start of the key. Each fit has its own names, since a client that gathers
        a value for two equal fits in threads gives both the same array, and a fit may modify its sum.
        """
        group = self.group()
        return f"dkernel-{group}-({key})-{self._connection.token}" if group else key

    def _submit_call(
        self, name: str, payload: Payload, needs: Sequence[Remote], attempt: int, at: str | None
    ) -> Future:
        over = [remote for remote in needs if remote.future is None]  # released already: needed for this call only
        future = self._submit(payload, name, attempt, at, values=[remote.ensure() for remote in needs])
        self._connection.release_later(value for remote in over for value in remote.detach())
        future.add_done_callback(self._hear)
        return future

    def _hear(self, _: Future) -> None:
        self._news.set()

    def _submit(
        self,
        payload: Payload,
        name: str,
        attempt: int,
        at: str | None,
        priority: int = 0,
        values: Sequence[Future] = (),
    ) -> Future:
        name = f"{name}-again-{attempt}" if attempt else name
        return self._submit_all([(payload, values)], [name], [at], priority)[0]

    def _submit_all(
        self,
        tasks: Sequence[tuple[Payload, Sequence[Future]]],
        names: Sequence[str],
        workers: Sequence[str | None],
        priority: int = 0,
    ) -> list[Future]:
        """Submit a task for each payload and the values that it needs, with its name and its worker."""
        if not tasks:
            return []
        pins = {name: self._workers.pin(at) for name, at in zip(names, workers, strict=True)}
        pinned = {name: pin.get("workers", []) for name, pin in pins.items()}
        others = {name: pin.get("allow_other_workers", False) for name, pin in pins.items()}
        with warnings.catch_warnings():
            # Dask advises to scatter large values, but scattered values are lost with their worker.
            warnings.filterwarnings("ignore", message=".*[Ll]arge (graph|object)", category=UserWarning)
            with self._annotate(priority), annotate(workers=pinned.get, allow_other_workers=others.get):
                settings, (payloads, values) = [self.settings] * len(tasks), zip(*tasks, strict=True)
                # Not pure, since the tasks have names: Dask would hash all their arguments.
                return list(
                    self._connection.reach().map(run_task, settings, payloads, values, key=list(names), pure=False)
                )

    def _annotate(self, priority: int) -> Any:
        """The caller's annotations, with the priority of a task among the tasks of the run."""
        resources = {"resources": self._workers.resources} if self._workers.resources else {}
        return annotate(priority=self._priority + priority, **resources)

    def _read(self, tasks: Sequence[Delayed], workers: Sequence[str | None]) -> list[Handle]:
        """Submit the tasks of a source with a low priority, so that a worker runs them when it has no calls.

        A single task gets a name of this run. The tasks of a collection keep their names, by which Dask knows its
        shuffles; if another run of this client has submitted such a task, it stays on the worker chosen there.
        """
        handles, alone = list[Remote](), dict[str, tuple[Remote, Payload]]()
        for task, at in zip(tasks, workers, strict=True):
            graph = dict(task.__dask_graph__())
            if len(graph) > 1:
                others = self._handles.of_others([task.key])
                handle = Remote(task.key, partial(self._compute, task), others[0].at if others else at)
                handle.ensure()
            else:
                payload, name = Payload.of((get_sync, (graph, task.key))), f"{task.key}-{self._connection.token}"
                handle = Remote(task.key, partial(self._submit, payload, name, priority=-1), at)
                alone[name] = handle, payload
            handles.append(self._handles.add(handle))
        payloads, at_first = [(payload, ()) for _, payload in alone.values()], [unit.at for unit, _ in alone.values()]
        futures = self._submit_all(payloads, list(alone), at_first, priority=-1)
        for (handle, _), future in zip(alone.values(), futures, strict=True):
            handle.future = future
        return list[Handle](handles)

    def _compute(self, task: Delayed, _: int, at: str | None) -> Future:
        self._persisted_values(task)
        with self._annotate(-1):
            return self._connection.reach().compute(task, **self._workers.pin(at))

    def _spread(self, units: int, chosen: Sequence[str | None]) -> list[str | None]:
        """Choose a worker for each unit: the chosen worker if it is there, else the worker with the fewest units for
        its threads."""
        threads = self.processes() if units else {}
        n_units = dict.fromkeys(sorted(threads), 0)
        for handle in self._handles:
            if handle.payload is None and handle.future is not None and handle.at in n_units:
                n_units[handle.at] += 1
        workers: list[str | None] = []
        for unit in range(units):
            at = chosen[unit] if chosen else None
            if at not in n_units:
                at = min(n_units, key=lambda worker: (n_units[worker] + 1) / threads[worker], default=None)
            if at is not None:
                n_units[at] += 1
            workers.append(at)
        # A worker that nobody has chosen reads neighbours, whose sums are few nodes of the tree.
        return workers if chosen else sorted(workers, key=str)

    def _remote(self, handle: Handle) -> Remote:
        if isinstance(handle, Item):
            return self._remote(handle.whole)
        if not isinstance(handle, Remote):
            raise TypeError(f"A {type(handle).__name__} belongs to another executor; this one made none like it.")
        return handle

    # Waiting for results.

    def _wait_for_calls(self, works: Sequence[Remote], all_of_them: bool) -> list[Remote]:
        """Wait until all calls have a value, or at least one has; cancelled calls are sent again meanwhile.

        Dask itself computes values again that are lost with their worker, if it can.
        """
        quiet, known = time.monotonic(), -1
        while True:
            self._news.clear()
            self._connection.reach()
            for work in works:
                if work.future.status == "error":
                    self._send_failed_again(work)
                elif work.future.status == "cancelled":
                    self._again(work, "it was cancelled, or the connection to the scheduler broke")
            done = [work for work in works if work.future.status == "finished"]
            if len(done) == len(works) or (done and not all_of_them):
                return done
            finished = len(done) + sum(h.future is not None and h.future.done() for h in self._handles)
            if finished != known:
                quiet, known = time.monotonic(), finished
            self._mend_stuck(works, quiet)
            self._check_alive(quiet, [work.key for work in works if work not in done])
            self._news.wait(TICK)

    def _gather(self, works: Sequence[Remote]) -> list[Any] | None:
        """Gather the values; None if some were lost after they were computed."""
        if not works:
            return []
        try:
            return list(answer_in_time(lambda: self.client.gather([work.future for work in works]), self.patience))
        except Exception as error:
            for work in works:
                if work.future.status == "finished":
                    self._count(work, f"its value did not arrive: {error}")
            time.sleep(TICK)
            return None

    def _send_failed_again(self, work: Remote) -> None:
        """Send a call again if its error may pass; raise an error that would come again."""
        error = self._connection.ask(work.future.exception)
        if error is None:
            return  # it was cancelled meanwhile, and will be sent again
        if type(error).__name__ == "KilledWorker":  # a name: distributed is imported only where a cluster is used
            sent = (part for part in (work, *self._handles) if part.future is not None)
            named = next((part for part in sent if str(part.future.key) == str(error.task)), None)
            raise KilledCallError.of(error, None if named is None else named.key) from None
        if isinstance(error, RefusedWorkerError):
            self._workers.refuse(error.worker, str(error))
            self._again(work, "its worker was refused")
        elif isinstance(error, ImportError) and self._workers.any_refused():
            self._again(work, f"its worker was refused: {error}")
        elif may_pass(error) and work.retries < RETRIES:
            time.sleep(PAUSE * 2**work.retries)
            work.retries += 1
            self.faults.append(f"tried again after {type(error).__name__}: {error}")
            try:
                self._connection.ask(lambda: self.client.retry([work.future]))  # also retries a value that it needs
            except KeyError:  # of a task of the graph that this client has no future of; states of others may be old
                self._again(work, "Dask cannot retry a part of a collection")
        else:
            raise error

    def _again(self, work: Remote, why: str) -> None:
        self._count(work, why)
        self._connection.release_later(work.detach())
        work.ensure()

    def _count(self, work: Remote, why: str) -> None:
        self.faults.append(f"the call {work.key!r} was sent again: {why}")
        work.count(why)

    def _mend_stuck(self, works: Sequence[Remote], quiet: float) -> None:
        """Give tasks that wait for lost workers to other workers.

        Dask does so itself while another worker runs. But a task that waits because there is no worker is given only to
        the worker that it was pinned to, which never comes back.
        """
        there = self._workers.known()
        if not there or not (self._workers.replaced or time.monotonic() - quiet > STUCK):
            return
        lost = self._stuck([*self._handles, *works], there)
        self._workers.replaced = False
        if not lost:
            return
        # A key keeps the worker that it was first pinned to while somebody holds it. So all keys are released before
        # any is sent again; the question to the scheduler makes the client send the releases first.
        self._connection.release_later(part.future for part in lost)
        self._connection.release()
        self._connection.ask(self.client.nthreads)
        for part in lost:
            part.detach()
        self._wait_for_other_runs({part.key for part in lost}, there)
        for work in lost.intersection(works):
            self._count(work, "its worker is gone")
        for handle in lost.difference(works):
            handle.count("its worker is gone")
        for work in works:
            if work in lost:
                work.ensure()

    def _wait_for_other_runs(self, keys: Container[str], there: Container[str]) -> None:
        """Wait until the other runs of this client have released these keys, as each run does that finds them stuck."""
        began = time.monotonic()
        while any(other.is_stuck(there) for other in self._handles.of_others(keys)):
            if time.monotonic() - began > self.patience:
                return
            self._connection.reach()
            time.sleep(TICK / 5)

    def _stuck(self, parts: Sequence[Remote], there: Container[str]) -> set[Remote]:
        """The tasks that wait for a worker that is gone, or need the value of such a task."""
        waiting = {part for part in parts if part.waits}
        if self._workers.replaced and self._workers.refused:
            return waiting  # each was pinned to workers that are gone, and to no others
        stuck: set[Remote] = set()
        # A lost value was perhaps sent to another worker than the one that had it, or in an earlier fit.
        more = {part for part in waiting if part.is_stuck(there)}
        while more:
            stuck |= more
            more = {part for part in waiting - stuck if stuck.intersection(part.needs)}
        return stuck

    def _check_alive(self, quiet_since: float, waiting: Sequence[str]) -> None:
        """Tell of paused workers if nothing has happened for START seconds; raise a ClusterError after `patience`."""
        quiet = time.monotonic() - quiet_since
        if quiet > self.patience:
            raise ClusterError(
                f"{self._workers.who_waits()} for {quiet:.0f} seconds; {len(waiting)} call(s) are waiting"
                + (f", the first is {waiting[0]!r}. " if waiting else ". ")
                + (self._workers.describe_paused() or f"Check the workers of {self.address}")
                + " Then run the same command again."
            )
        if quiet < START:
            self._next_look = START
        elif quiet > self._next_look:
            paused = self._workers.describe_paused()
            self._next_look = inf if paused else quiet + START
            if paused:
                self._warn(f"{paused} It is waited for up to {self.patience:.0f} seconds.")
