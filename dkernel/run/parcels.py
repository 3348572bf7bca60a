"""What travels to a cluster beside the blocks: values that Dask carries without looking into them."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dkernel.execution.payload import Payload
from dkernel.execution.process import Settings, prepared
from dkernel.run.executors import resolve

__all__ = ["INSIDE", "Parcel", "apply", "bytes_of", "last_of", "run_task", "unpack", "unwarned"]

# Arrays that one round alone needs, the coefficients, travel inside its calls while all copies together are this small:
# as a task of their own they would cost two more messages before the first call can begin.
INSIDE = 2**20


class Parcel:
    """A value that Dask carries without looking into it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def unpack(parcel: Parcel) -> Any:
    """The task that holds a kept value: it can run again on any worker."""
    return parcel.value


def apply(parcel: Parcel, *values: Any) -> Any:
    """The task of a call: its function on its arguments, the values of the futures in their slots."""
    function, args = parcel.value
    return function(*(resolve(arg, lambda slot: values[slot.index]) for arg in args))


def last_of(then: Any, function: Callable[..., Any], args: Sequence[Any], others: Sequence[Any]) -> Any:
    """What a call with helpers makes of its own value and theirs."""
    return then[0](*then[1], [function(*args), *others])


@contextmanager
def unwarned() -> Iterator[None]:
    """Around what sends values: Dask advises to scatter large ones, but what is scattered is lost with its worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ll]arge (graph|object)", category=UserWarning)
        yield


def bytes_of(value: Any) -> int | None:
    """Of an array or a tuple of arrays; of anything else None.

    Examples
    --------
    >>> bytes_of((np.zeros(3), np.zeros(2, np.float32))), bytes_of("three")
    (32, None)
    """
    if isinstance(value, np.ndarray):
        return None if value.dtype.kind == "O" else value.nbytes
    if type(value) is tuple:
        sizes = [bytes_of(item) for item in value]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    return None


def run_task(settings: Settings, payload: Payload, *values: Any) -> Any:
    """The task of a call on a cluster that others use: it prepares its process itself."""
    return prepared(settings, lambda: apply(Parcel(payload.open()), *values))
