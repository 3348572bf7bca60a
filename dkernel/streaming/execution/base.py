"""Executors compute the calls of a round: in a plain loop, on the threads of this process, or on a Dask cluster.

The loop is the specification: every executor returns the values that it returns, in the order of the calls. A call is a
pure function with its arguments, so it may run twice, on any worker. Big values travel as handles: the blocks of a unit
that is read ahead, and the state that every call of a round needs.
"""

import errno
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, TypeVar

from dask.delayed import Delayed

from dkernel.errors import DKernelError, UnsupportedError
from dkernel.streaming.cost import THREADS_BASE, Cost

T = TypeVar("T")
RETRIES = 2  # trouble that passes does so at once or not soon
PAUSE = 0.25  # seconds before the first retry, twice that before the second


class Handle:
    """A handle to a value in this process (`Held`) or on the cluster; only its executor looks inside."""


@dataclass(frozen=True, eq=False)
class Held(Handle):
    """A handle to a value in this process."""

    value: Any


@dataclass(frozen=True)
class Item(Handle):
    """One item of the value that `whole` stands for, or an item of that, as the numbers say."""

    whole: Handle
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """function(*args), under a key made from the content of both; handles among the args become their values.

    Handles may also stand inside tuples, lists and the values of dicts. `at` is the worker to run it on while that is
    there, which has its values as `Executor.find_workers` says; None for any.

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
    """`arg` with value(handle) in the place of every handle; an `arg` without handles is passed on unchanged.

    Where value(handle) is a handle itself, an item becomes the item of that.

    Examples
    --------
    >>> resolve((1, [Held(2), Item(Held((3, 4)), (1,))]), lambda handle: handle.value)
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
    """True if trying again may help: trouble with a disk or a network, but not a file that is not there.

    Examples
    --------
    >>> may_pass(ConnectionResetError()), may_pass(FileNotFoundError()), may_pass(ValueError())
    (True, False, False)
    """
    final = (DKernelError, FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
    names = (errno.ENAMETOOLONG, errno.ELOOP)
    return isinstance(error, OSError) and not isinstance(error, final) and error.errno not in names


class Executor(ABC):
    """Interface of executors, which compute calls.

    `slots` is how many calls run at once. An executor is also a context manager that closes itself.
    """

    name: str
    in_process: bool = True
    """Whether the process of the client does the work."""
    base_bytes: tuple[int, int] = (THREADS_BASE, 0)
    """Bytes of a worker that does nothing, and of the client beside it."""
    memory_limit: int | None = None
    """Bytes of each of them, None without a limit."""
    client_memory_limit: int | None = None
    """Bytes that a plan may count on for the process of the client, None for those of its machine."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        """Faults that were recovered, in words, for the run record."""
        self.tell: Callable[[str], None] = lambda _: None
        """Is called with the words of a fault that whoever watches the run wants to know at once."""
        self.group: Callable[[], str] = str
        """Gives the name of what runs now, in the keys of its tasks on a cluster; "" for none."""

    @property
    @abstractmethod
    def slots(self) -> int: ...

    @abstractmethod
    def compute(
        self, calls: Sequence[Call], ahead: Sequence[Delayed] = (), read_on: Sequence[str | None] = ()
    ) -> tuple[list[Any], list[Handle]]:
        """Results of the calls in their order; the units `ahead` are begun meanwhile and returned as handles.

        `read_on` has the address of the worker that is to read each of them, None for any.
        """

    def as_they_come(self, calls: Iterable[Call]) -> Generator[Any]:
        """The results in the order of their coming; a call is taken from `calls` when a slot will soon be free.

        So neither the calls nor what they need has to be there at one time. Close it (contextlib.closing) where the
        results are not taken to the last.

        Examples
        --------
        >>> from dkernel.streaming.execution.local import SerialExecutor
        >>> list(SerialExecutor().as_they_come(Call(f"pow-{k}", pow, (2, k)) for k in range(4)))
        [1, 2, 4, 8]
        """
        for call in calls:
            yield self.compute([call])[0][0]

    @property
    def workers(self) -> int:
        """Processes that compute; 1 where this process does."""
        return max(1, len(self.processes()))

    def on_this_process(self) -> "Executor":
        """An executor of the threads of this process: itself, where it is one."""
        return self

    def prefers_client(self, large: bool) -> bool:  # noqa: ARG002 - no result travels
        """True if work on rows of this process, whose result may be large, is better done in it than by the workers."""
        return True

    def executor_for_local_rows(self, small: bool, large: bool) -> "Executor":  # noqa: ARG002 - it is of this process
        """The executor of work on rows of this process: that of its threads where that is better.

        Parameters
        ----------
        small : whether the work is little
        large : whether its result may be large
        """
        return self

    def received_bytes(self, n_bytes: int) -> int:  # noqa: ARG002 - a result is no copy
        """Bytes of the copies of results in this process, of one of n_bytes on each slot."""
        return 0

    @property
    def worker_threads(self) -> int:
        """Threads of each worker."""
        return max(1, self.slots // self.workers)

    def tasks_bytes(self, cost: Cost) -> tuple[int, int]:
        """Bytes of the tasks of a stage that work at one time: of a worker, and of the client beside workers."""
        if cost.shared_bytes is not None and self.memory_limit is None:
            return cost.shared_bytes(self.slots), 0
        return self.worker_threads * cost.task_bytes, 0

    def worker_peak(self, worker: Sequence[int], client: Sequence[int]) -> int:
        """Bytes of a worker in the largest phase, or where it is this process, beside those of the client's largest.

        A limit is compared with all that the tasks hold.
        """
        if self.memory_limit is not None:
            return max(worker)
        return max(own + of_client for own, of_client in zip(worker, client, strict=True)) - max(client)

    def fewer_slots(self, least: int) -> Iterator[int]:  # noqa: ARG002 - an idle thread saves nothing
        """Numbers of slots, from `least` upwards, that a fit may use in place of all."""
        return iter(())

    def leave_out_smaller(self, n_bytes: int) -> bool:  # noqa: ARG002 - all workers are alike
        """Use no worker that has a limit below this, where others remain; True if some are left out."""
        return False

    def find_workers(self, handles: Sequence[Handle]) -> list[str | None]:
        """The process that each value is in, or is to be made in; None where that is unknown or all are in this one."""
        return [None] * len(handles)

    def holders(self, units: Sequence[Delayed]) -> list[list[str]]:
        """The processes that have what the task of each unit needs, or most of it; none where no other has any."""
        return [[] for _ in units]

    def worker_memory(self) -> int | None:
        """Bytes of memory in use by the largest worker; None where this process computes, or nobody knows."""
        return None

    def threads_each(self, calls: int) -> int:
        """Threads that each of some calls at one time may take."""
        return max(1, self.slots // calls)

    def processes(self) -> dict[str, int]:
        """The threads of each process that calls may be sent to; nothing where all are computed in this one."""
        return {}

    @contextmanager
    def using(self, slots: int) -> Iterator[None]:  # noqa: ARG002 - to leave a thread of this process idle saves nothing
        """Send what is computed inside this block to workers with `slots` slots in all, and to no others."""
        yield

    @abstractmethod
    def keep(self, value: Any, key: str) -> Handle:
        """`value` made available to every call, once per process; `key` is made from its content."""

    @abstractmethod
    def leave(self, calls: Sequence[Call]) -> list[Handle]:
        """The results of the calls, left where they are computed, for other calls; nobody waits for them."""

    def hand_over(self, call: Call) -> None:
        """Give a call to the cluster for good: it runs, and again where its worker dies, when this client is gone."""
        raise UnsupportedError(f"{call.key}: a call can be given to a cluster alone, and {self.name} are none.")

    @abstractmethod
    def release(self, handles: Iterable[Handle]) -> None:
        """Forget these values: their memory is free once no call needs them."""

    def close(self) -> None:  # noqa: B027 - nothing to close is the usual case
        """Give back what the executor holds."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def retry(function: Callable[[], T], faults: list[str]) -> T:
    """function(), up to RETRIES times more where trouble with a disk or a network may pass."""
    for attempt in range(RETRIES):
        try:
            return function()
        except OSError as error:
            if not may_pass(error):
                raise
            faults.append(f"tried again after {type(error).__name__}: {error}")
            time.sleep(PAUSE * 2**attempt)
    return function()
