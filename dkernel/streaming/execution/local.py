"""The executors of this process: a plain loop, which is the specification, and threads."""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from typing import Any

from dask.delayed import Delayed, delayed
from dask.local import get_sync

from dkernel.data.compute import compute_by_threads
from dkernel.numerics.threads import usable_cores
from dkernel.numerics.validation import silent_overflow
from dkernel.streaming.execution.base import Call, Executor, Handle, LocalHandle, resolve, retry
from dkernel.streaming.machine import Machine

# Dask's schedulers are passed as functions: looking one up by its name imports distributed.


class SerialExecutor(Executor):
    """A for-loop in this thread. It defines the values that every other executor returns.

    Examples
    --------
    >>> run = SerialExecutor()
    >>> results, _ = run.compute([Call("pow-1", pow, (run.keep(3, "three"), 2)), Call("pow-2", pow, (2, 5))])
    >>> results
    [9, 32]
    """

    name = "serial"
    slots = 1

    def compute(
        self,
        calls: Sequence[Call],
        ahead: Sequence[Delayed] = (),
        read_on: Sequence[str | None] = (),  # noqa: ARG002 - there is one process
    ) -> tuple[list[Any], list[Handle]]:
        values = [retry(work, self.faults) for work in (*map(_bind, calls), *map(_bind_read, ahead))]
        return values[: len(calls)], [LocalHandle(value) for value in values[len(calls) :]]


class ThreadsExecutor(Executor):
    """Dask's threaded scheduler in this process; nothing has to be started.

    Parameters
    ----------
    n : number of threads; None for every core that this process may use
    memory_limit : bytes that the plan may use

    Examples
    --------
    >>> ThreadsExecutor(2).compute([Call("pow-1", pow, (3, 2)), Call("pow-2", pow, (2, 5))])
    ([9, 32], [])
    """

    name = "threads"
    slots = 1

    def __init__(self, n: int | None = None, memory_limit: int | None = None) -> None:
        super().__init__()
        self.slots = n or usable_cores()
        self.memory_limit = memory_limit

    def describe(self) -> Machine:
        limits = {} if self.memory_limit is None else {self.name: self.memory_limit}
        return Machine.here({self.name: self.slots}, limits, in_process=True)

    def compute(
        self,
        calls: Sequence[Call],
        ahead: Sequence[Delayed] = (),
        read_on: Sequence[str | None] = (),  # noqa: ARG002 - there is one process
    ) -> tuple[list[Any], list[Handle]]:
        # Each call is retried alone, so the results of the others stay.
        works = [partial(retry, _bind(call), self.faults) for call in calls]
        if all(len(unit.__dask_graph__()) == 1 for unit in ahead):
            # Dask would take milliseconds to find that no call depends on another.
            values = self._at_once([*works, *(partial(retry, _bind_read(unit), self.faults) for unit in ahead)])
        else:  # units of a collection may share tasks
            # Functions without arguments: Dask then has nothing to hash, copy or traverse.
            tasks = [
                delayed(work, name=f"run-{call.key}", traverse=False)(dask_key_name=call.key)
                for work, call in zip(works, calls, strict=True)
            ]
            read = partial(compute_by_threads, *tasks, *ahead, threads=self.slots, traverse=False)
            values = list(retry(read, self.faults))
        return values[: len(calls)], [LocalHandle(value) for value in values[len(calls) :]]

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        rest, begun = iter(calls), set[Future[Any]]()
        with ThreadPoolExecutor(self.slots) as pool:
            try:
                while True:
                    more = islice(rest, self.slots + 1 - len(begun))
                    begun |= {pool.submit(retry, _bind(call), self.faults) for call in more}
                    if not begun:
                        return
                    over, begun = wait(begun, return_when=FIRST_COMPLETED)
                    yield from [future.result() for future in over]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        with ThreadPoolExecutor(self.slots) as pool:
            futures = [pool.submit(call) for call in calls]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _value(handle: Any) -> Any:
    if not isinstance(handle, LocalHandle):
        raise TypeError(f"A {type(handle).__name__} belongs to another executor; this one made none like it.")
    return handle.value


def _bind(call: Call) -> Callable[[], Any]:
    return partial(_call, call.function, *(resolve(arg, _value) for arg in call.args))


def _bind_read(unit: Delayed) -> Callable[[], Any]:
    return partial(get_sync, dict(unit.__dask_graph__()), unit.key)


def _call(function: Callable[..., Any], *args: Any) -> Any:
    with silent_overflow():
        return function(*args)
