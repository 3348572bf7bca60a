"""Who computes a round: a plain loop, the threads of this process, or a Dask cluster (cluster.py).

The loop is the specification: every executor returns the values that it returns, in the order of the calls. A call is a
pure function with its arguments, so it may run twice, on any worker. Big values travel as handles: the blocks of a unit
that is read ahead, and the state that every call of a round needs.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from dask.base import compute
from dask.delayed import Delayed, delayed
from dask.local import get_sync
from dask.threaded import get as get_threaded

from dkernel.blas import usable_cores
from dkernel.errors import DKernelError

__all__ = ["READY", "Call", "Executor", "Handle", "Held", "SerialExecutor", "ThreadsExecutor", "may_pass", "resolve"]

T = TypeVar("T")
RETRIES = 2
READY = 3  # calls of a slot that are begun at a time where results are taken as they come: no slot waits for the next
PAUSE = 0.25

# Dask's schedulers are passed as functions: looking one up by its name imports distributed.


class Handle:
    """A value that is somewhere: in this process (`Held`) or on the cluster. Opaque to everyone but its executor."""


@dataclass(frozen=True, eq=False)
class Held(Handle):
    """A handle to a value in this process."""

    value: Any


@dataclass(frozen=True)
class Call:
    """function(*args), under a key made from the content of both; handles among the args become their values.

    Handles may also stand inside tuples, lists and the values of dicts. `at` is the process to run it in, which has its
    values as `Executor.places` told, None where that is not known or they are in several; `lender` the one that has
    them where `at` is to borrow them. Of a call with `helpers`, which other processes may run meanwhile, the value is
    what `then`, a function and its first arguments, makes of the list of its own and theirs.

    Examples
    --------
    >>> from operator import add
    >>> SerialExecutor().compute([Call("sum-1", add, (1, 2))])
    ([3], [])
    """

    key: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    at: str | None = None
    lender: str | None = None
    helpers: "tuple[Call, ...]" = ()
    then: tuple[Callable[..., Any], tuple[Any, ...]] | None = None


def resolve(arg: Any, value: Callable[[Any], Any]) -> Any:
    """`arg` with value(handle) in the place of every handle; whatever holds no handle is passed on untouched.

    Examples
    --------
    >>> resolve((1, [Held(2)]), lambda handle: handle.value)
    (1, [2])
    """
    if isinstance(arg, Handle):
        return value(arg)
    if type(arg) in (tuple, list):
        items = [resolve(item, value) for item in arg]
        return arg if all(new is old for new, old in zip(items, arg, strict=True)) else type(arg)(items)
    if type(arg) is dict:
        return {name: resolve(item, value) for name, item in arg.items()}
    return arg


def may_pass(error: BaseException) -> bool:
    """Whether trying again may help: trouble with a disk or a network, but not a file that is not there.

    Examples
    --------
    >>> may_pass(ConnectionResetError()), may_pass(FileNotFoundError()), may_pass(ValueError())
    (True, False, False)
    """
    final = (DKernelError, FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
    return isinstance(error, OSError) and not isinstance(error, final)


class Executor(ABC):
    """Computes calls; everything above it is the same whichever it is.

    `slots` is how many calls run at once. An executor is also a context manager that closes itself.
    """

    name: str
    workers: int = 1
    """Processes that compute; 1 where this process does."""
    memory_limit: int | None = None
    """Bytes of each of them, None where nobody has set a limit."""

    moves: int = 0
    """Grows when values were not where `places` had told."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        """What went wrong and was mended, in words, for the run record."""

    @property
    @abstractmethod
    def slots(self) -> int: ...

    @abstractmethod
    def compute(self, calls: Sequence[Call], ahead: Sequence[Delayed] = ()) -> tuple[list[Any], list[Handle]]:
        """Results of the calls in their order; the units `ahead` are begun meanwhile and returned as handles."""

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        """The results in the order of their coming; a call is taken from `calls` when a slot will soon be free.

        So neither the calls nor what they need has to be there at one time. Close it (contextlib.closing) where the
        results are not taken to the last.

        Examples
        --------
        >>> list(SerialExecutor().as_they_come(Call(f"pow-{k}", pow, (2, k)) for k in range(4)))
        [1, 2, 4, 8]
        """
        for call in calls:
            yield self.compute([call])[0][0]

    def places(self, handles: Sequence[Handle]) -> list[str | None]:
        """The process that each value is in, or is to be made in; None where nobody knows or all are in this one."""
        return [None] * len(handles)

    def threads_each(self, calls: int) -> int:
        """Threads that each of so many calls at one time may take."""
        return max(1, self.slots // calls)

    def processes(self) -> dict[str, int]:
        """The threads of each process that calls may be sent to; nothing where all are computed in this one."""
        return {}

    @abstractmethod
    def keep(self, value: Any, key: str) -> Handle:
        """`value` made available to every call, once per process; `key` is made from its content."""

    def at_hand(self, handles: Sequence[Handle]) -> list[Any] | None:  # noqa: ARG002
        """Their values, where calls run elsewhere and this process has them all; else None."""
        return None

    @abstractmethod
    def pick(self, handle: Handle, item: int) -> Handle:
        """Handle of item `item` of the tuple that `handle` stands for."""

    @abstractmethod
    def release(self, handles: Iterable[Handle]) -> None:
        """Forget these values: their memory is free once no call needs them."""

    def close(self) -> None:  # noqa: B027 - nothing to close is the usual case
        """Give back what the executor holds."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _LocalExecutor(Executor):
    """What the executors of this process share: a handle is the value itself."""

    def keep(self, value: Any, key: str) -> Handle:  # noqa: ARG002 - a value at hand needs no key
        return Held(value)

    def pick(self, handle: Handle, item: int) -> Handle:
        return Held(_value(handle)[item])

    def release(self, handles: Iterable[Handle]) -> None:
        """Nothing to do: the value goes with the last handle."""


class SerialExecutor(_LocalExecutor):
    """A for-loop in this thread: the definition of what every other executor returns.

    Examples
    --------
    >>> run = SerialExecutor()
    >>> results, _ = run.compute([Call("pow-1", pow, (run.keep(3, "three"), 2)), Call("pow-2", pow, (2, 5))])
    >>> results
    [9, 32]
    """

    name = "serial"
    slots = 1

    def compute(self, calls: Sequence[Call], ahead: Sequence[Delayed] = ()) -> tuple[list[Any], list[Handle]]:
        results = [_patiently(_closed(call), self.faults) for call in calls]
        read = [_patiently(partial(unit.compute, scheduler=get_sync), self.faults) for unit in ahead]
        return results, [Held(value) for value in read]


class ThreadsExecutor(_LocalExecutor):
    """Dask's threaded scheduler in this process; nothing to start.

    Parameters
    ----------
    n : threads; every core that this process may use when None
    memory_limit : bytes that the plan may count on

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

    def compute(self, calls: Sequence[Call], ahead: Sequence[Delayed] = ()) -> tuple[list[Any], list[Handle]]:
        if not ahead:  # a round: Dask would need milliseconds to see that nothing depends on anything
            return _patiently(partial(self._at_once, [_closed(call) for call in calls]), self.faults), []
        # A function without arguments: Dask then has nothing to hash, copy or look into.
        tasks = [delayed(_closed(call), name=f"run-{call.key}", traverse=False) for call in calls]
        units = [task(dask_key_name=call.key) for task, call in zip(tasks, calls, strict=True)]
        values = _patiently(
            partial(compute, *units, *ahead, scheduler=get_threaded, num_workers=self.slots, traverse=False),
            self.faults,
        )
        return list(values[: len(units)]), [Held(value) for value in values[len(units) :]]

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        rest, begun = iter(calls), set[Future[Any]]()
        with ThreadPoolExecutor(self.slots) as pool:
            try:
                while True:
                    # Retried each for itself: what the others have done stands.
                    more = islice(rest, self.slots + 1 - len(begun))
                    begun |= {pool.submit(_patiently, _closed(call), self.faults) for call in more}
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
    if not isinstance(handle, Held):
        raise TypeError(f"A {type(handle).__name__} belongs to another executor; this one made none like it.")
    return handle.value


def _closed(call: Call) -> Callable[[], Any]:
    own = partial(call.function, *(resolve(arg, _value) for arg in call.args))
    if call.then is None:
        return own
    function, args = call.then
    then = partial(function, *(resolve(arg, _value) for arg in args))
    parts: list[Callable[[], Any]] = [own, *map(_closed, call.helpers)]
    return lambda: then([part() for part in parts])


def _patiently(function: Callable[[], T], faults: list[str]) -> T:
    for attempt in range(RETRIES):
        try:
            return function()
        except OSError as error:
            if not may_pass(error):
                raise
            faults.append(f"tried again after {type(error).__name__}: {error}")
            time.sleep(PAUSE * 2**attempt)
    return function()
