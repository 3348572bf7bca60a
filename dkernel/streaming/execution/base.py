"""Executors compute the calls of a round: in a plain loop, on the threads of this process, or on a Dask cluster.

The loop is the specification: every executor returns the same values as the loop, in the order of the calls. A call is
a pure function with its arguments, so it may run twice, on any worker. Large values are passed as handles: the blocks
of a unit that is read ahead, and the state that every call of a round needs.
"""

import errno
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, TypeVar

from dask.delayed import Delayed

from dkernel.errors import StoreError, UnsupportedError
from dkernel.streaming.machine import Machine

T = TypeVar("T")
RETRIES = 2  # an error that passes does so at once, or not soon
PAUSE = 0.25  # seconds before the first retry; the second waits twice as long


class Handle:
    """A handle to a value in this process (`LocalHandle`) or on the cluster; only its executor looks inside."""


@dataclass(frozen=True, eq=False)
class LocalHandle(Handle):
    """A handle to a value in this process."""

    value: Any


@dataclass(frozen=True)
class Item(Handle):
    """An item of the value of `whole`: `numbers` are its indices, from the outermost sequence inwards."""

    whole: Handle
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """function(*args), with a key made from the content of both; handles among the args become their values.

    Handles may also be inside tuples, lists and the values of dicts. `at` is the worker to run the call on, if that is
    there: `Executor.find_workers` finds the worker that has its values. None is any worker.

    Examples
    --------
    >>> from operator import add
    >>> from dkernel.streaming.execution.local import SerialExecutor
    >>> SerialExecutor().compute([Call("sum-1", add, (1, 2))])
    ([3], [])
    """

    key: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    at: str | None = None


def resolve(arg: Any, value: Callable[[Any], Any]) -> Any:
    """Replace every handle in `arg` by value(handle); an `arg` without handles is returned unchanged.

    If value(handle) is a handle itself, an item becomes an item of that handle.

    Examples
    --------
    >>> resolve((1, [LocalHandle(2), Item(LocalHandle((3, 4)), (1,))]), lambda handle: handle.value)
    (1, [2, 4])
    """
    if isinstance(arg, Item):
        whole = resolve(arg.whole, value)
        return Item(whole, arg.numbers) if isinstance(whole, Handle) else reduce(getitem, arg.numbers, whole)
    if isinstance(arg, Handle):
        return value(arg)
    if type(arg) in (tuple, list):
        items = [resolve(item, value) for item in arg]
        return arg if all(new is old for new, old in zip(items, arg, strict=True)) else type(arg)(items)
    if type(arg) is dict:
        return {name: resolve(item, value) for name, item in arg.items()}
    return arg


def may_pass(error: BaseException) -> bool:
    """True if a retry may help: for an error of a disk, a network or a store, but not for a missing file.

    Examples
    --------
    >>> may_pass(ConnectionResetError()), may_pass(StoreError("s3://b")), may_pass(FileNotFoundError())
    (True, True, False)
    """
    if not isinstance(error, OSError):
        return isinstance(error, StoreError)
    final = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
    return not isinstance(error, final) and error.errno not in (errno.ENAMETOOLONG, errno.ELOOP)


class Executor(AbstractContextManager["Executor"]):
    """Interface of executors, which compute calls.

    `slots` is the number of calls that run at once. An executor is also a context manager that closes itself.
    """

    name: str

    def __init__(self) -> None:
        self.faults: list[str] = []
        """Faults that were recovered, in words, for the run record."""
        self.tell: Callable[[str], None] = lambda _: None
        """Called with the message of a fault that the user should see at once."""
        self.group: Callable[[], str] = str
        """Returns the name of the running phase for the keys of tasks on a cluster; "" for none."""

    @property
    @abstractmethod
    def slots(self) -> int: ...

    @abstractmethod
    def compute(
        self, calls: Sequence[Call], ahead: Sequence[Delayed] = (), read_on: Sequence[str | None] = ()
    ) -> tuple[list[Any], list[Handle]]:
        """Return the results of the calls in their order, and handles of the units `ahead`, which are read meanwhile.

        `read_on` has the address of the worker that is to read each unit, None for any worker.
        """

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        """Yield results as they are ready; a call is taken from `calls` when a slot will soon be free.

        So the calls and their arguments need not all be in memory at one time. Close the generator
        (contextlib.closing) if not all results are taken.

        Examples
        --------
        >>> from dkernel.streaming.execution.local import SerialExecutor
        >>> list(SerialExecutor().as_they_come(Call(f"pow-{k}", pow, (2, k)) for k in range(4)))
        [1, 2, 4, 8]
        """
        for call in calls:
            yield self.compute([call])[0][0]

    def executor_for_local_rows(self, small: bool, large: bool) -> "Executor":  # noqa: ARG002 - it is of this process
        """The executor for work on rows of this process: the threads of this process if they are faster.

        Parameters
        ----------
        small : whether the work is little
        large : whether its result may be large
        """
        return self

    def describe(self) -> Machine:
        """The workers that are there now, for a plan."""
        return Machine.here({self.name: self.slots}, {}, in_process=True)

    def leave_out(self, workers: Mapping[str, str]) -> None:
        """Send no more calls to these workers, and warn of each with the reason."""

    def find_workers(self, handles: Sequence[Handle]) -> list[str | None]:
        """The worker that has each value or will compute it; None if it is unknown, or without workers."""
        return [None] * len(handles)

    def holders(self, units: Sequence[Delayed]) -> list[list[str]]:
        """The workers that have most of the values that each unit needs; empty if no worker has any."""
        return [[] for _ in units]

    def worker_memory(self) -> int | None:
        """Bytes of memory that the largest worker uses; None if it is unknown, or without workers."""
        return None

    def threads_each(self, calls: int) -> int:
        """Threads that each call may take if `calls` calls run at one time."""
        return max(1, self.slots // calls)

    def processes(self) -> dict[str, int]:
        """The threads of each worker that calls may be sent to; empty without workers."""
        return {}

    @contextmanager
    def using(self, slots: int) -> Iterator[None]:  # noqa: ARG002 - an idle thread saves nothing
        """Compute calls inside this block only on workers with `slots` slots in all."""
        yield

    def keep(self, value: Any, key: str) -> Handle:  # noqa: ARG002 - a value at hand needs no key
        """Send `value` once to every process that needs it; `key` is made from its content."""
        return LocalHandle(value)

    @contextmanager
    def broadcast(self, value: Any, key: str) -> Iterator[Handle]:
        """Keep `value` until the block ends, also by an error; see `keep`."""
        handle = self.keep(value, key)
        try:
            yield handle
        finally:
            self.release([handle])

    def leave(self, calls: Sequence[Call]) -> list[Handle]:
        """Start the calls, and leave their results where they are computed; return handles for other calls."""
        return [LocalHandle(value) for value in self.compute(calls)[0]]

    def hand_over(self, call: Call) -> None:
        """Give a call to the cluster, which runs it, and again if its worker dies, even without this client."""
        raise UnsupportedError(f"{call.key}: a call can be given to a cluster alone, and {self.name} are none.")

    def release(self, handles: Iterable[Handle]) -> None:
        """Forget these values; their memory is freed when no call needs them."""

    def close(self) -> None:
        """Release all resources of the executor."""

    def __exit__(self, *exc: object) -> None:
        self.close()


def retry(function: Callable[[], T], faults: list[str]) -> T:
    """Call function(), up to RETRIES times more if an error of a disk or a network may pass."""
    for attempt in range(RETRIES):
        try:
            return function()
        except (OSError, StoreError) as error:
            if not may_pass(error):
                raise
            faults.append(f"tried again after {type(error).__name__}: {error}")
            time.sleep(PAUSE * 2**attempt)
    return function()
