"""Tasks of a run on a worker: each prepares the process, unpickles its call, and retries it if a disk failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dkernel.numerics.validation import silent_overflow
from dkernel.streaming.execution.base import Handle, resolve, retry
from dkernel.streaming.execution.payload import Payload
from dkernel.streaming.execution.process import Settings, call_prepared


@dataclass(frozen=True)
class Slot(Handle):
    """Stands in a call for value number `index` of those that its task needs."""

    index: int


def run_task(settings: Settings, payload: Payload, values: Sequence[Any]) -> Any:
    """The task of a call: it calls the function on its arguments, with the values of other tasks in their slots."""

    return call_prepared(settings, lambda: retry(partial(apply, payload, values), []))


def apply(payload: Payload, values: Sequence[Any]) -> Any:
    """Compute the value of a call."""
    function, args = payload.open()
    with silent_overflow():
        return function(*(resolve(arg, lambda slot: values[slot.index]) for arg in args))


def identity(value: Any) -> Any:
    """The value; the function of a call whose value others need."""
    return value
