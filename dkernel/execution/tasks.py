"""Tasks of a run in the worker: the process is prepared, the call is opened, and tried again where a disk failed."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from dkernel.execution.base import Handle, resolve, retried
from dkernel.execution.payload import Payload
from dkernel.execution.process import Settings, prepared
from dkernel.validation import silent_overflow


@dataclass(frozen=True)
class Slot(Handle):
    """Stands in a call for value number `index` of those that its task needs, or for an item of an item of that."""

    index: int
    numbers: tuple[int, ...] = ()

    def value(self, values: tuple[Any, ...]) -> Any:
        """The value that the slot stands for."""
        found = values[self.index]
        for number in self.numbers:
            found = found[number]
        return found


def run_task(settings: Settings, payload: Payload, *values: Any) -> Any:
    """The task of a call: its function on its arguments, among them values of other tasks in their slots."""
    return prepared(settings, lambda: retried(partial(apply, payload, *values), []))


def apply(payload: Payload, *values: Any) -> Any:
    """The value of a call."""
    function, args = payload.open()
    with silent_overflow():
        return function(*(resolve(arg, lambda slot: slot.value(values)) for arg in args))


def open_state(settings: Settings, payload: Payload) -> Any:
    """The task of a value that all calls of a round need: it can run again on any worker."""
    return prepared(settings, lambda: open_value(payload))


def open_value(payload: Payload) -> Any:
    """The value of a payload."""
    return payload.open()
