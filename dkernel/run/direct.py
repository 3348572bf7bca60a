"""Calls straight to the worker that has their blocks: a round then costs one or two milliseconds, not ten or twenty.

A task goes from the client to the scheduler, to a worker, back to the scheduler and to the client, which then asks the
worker for the value; of a short round that is the larger part, paid by the cores that could sum rows. Here the client
asks the worker itself. It runs the function of the call on its own copies of the blocks, in its own pool of threads:
the answer is that of the task. Nothing rests on it. What is not answered, since the worker has no such block, is gone,
slow, or cannot be reached from here, goes the way of all calls, as a task that Dask computes whatever happens.
"""

import asyncio
import importlib
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Waiting
from dataclasses import dataclass
from typing import Any

from dkernel.errors import DKernelError
from dkernel.run.executors import Call, Handle, resolve
from dkernel.run.parcels import bytes_of

__all__ = ["Direct", "Slot", "answers", "compute", "forgets"]

LONGEST = 5.0  # seconds of a round: where it takes longer its messages are nothing, and whoever looks sees its tasks
REACH = 2.0  # seconds to connect: Dask knocks at the address of a worker that is gone for half a minute
PATIENCE = 30.0  # seconds for an answer; after them the call is a task

_known: dict[str, dict[str, Any]] = {}
"""Run -> name -> value: what every call of a run needs, where Dask has no copy of it, is sent to a process once."""


@dataclass(frozen=True)
class Slot(Handle):
    """Stands in a call for the value number `index` of those that it needs."""

    index: int


def _serialized(value: Any) -> Any:
    """What a message carries as bytes; `distributed` is imported where a cluster is used, and has no types."""
    return importlib.import_module("distributed.protocol").to_serialize(value)


def compute(key: str, function: Any, args: Sequence[Any], values: Sequence[Any]) -> Any:  # noqa: ARG001
    """What the task of this key would return; runs on a worker."""
    return function(*(resolve(arg, lambda slot: values[slot.index]) for arg in args))


def answers(worker: Any) -> None:
    """Have a worker answer direct calls."""

    async def dkernel_call(
        run: str, call: tuple[str, Any, Any, Sequence[str]], new: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        if worker.status.name != "running":  # paused for its memory, or about to leave
            return None
        known = _known.setdefault(run, {})
        known.update(new)
        key, function, args, needed = call
        values = [known[name] if name in known else worker.data.get(name) for name in needed]
        lacks = [name for name, value in zip(needed, values, strict=True) if value is None]
        if lacks:
            return {"lacks": lacks}
        # The pool of its tasks: no more than its threads compute at a time, whoever asked them.
        pool, loop = worker.executors["default"], asyncio.get_running_loop()
        return {"result": _serialized(await loop.run_in_executor(pool, compute, key, function, args, values))}

    worker.handlers[dkernel_call.__name__] = dkernel_call


def forgets(run: str) -> None:
    """Have this process forget what a run sent once."""
    _known.pop(run, None)


class Direct:
    """The client's side.

    Parameters
    ----------
    run : name of the run, the same to all its workers
    """

    def __init__(self, client: Any, run: str) -> None:
        self.client = client
        # A cluster that follows its load would take workers without tasks away.
        self._shrinks = getattr(client.cluster, "_adaptive", None) is not None
        self.run = run
        self.failures = 0
        """How often a worker gave no answer: blocks may not be where they were."""
        self._seconds = math.inf

    def took(self, seconds: float) -> None:
        """So long the last calls took that named a worker."""
        self._seconds = seconds

    def ask(self, calls: Sequence[Call]) -> dict[int, "Waiting[Any]"]:
        """Number of a call -> its answer to come, a tuple of the value, or None; of those that can be asked for."""
        # The first round is one of tasks: it has each worker fetch what it lacks.
        if self._shrinks or self._seconds > LONGEST:
            return {}
        asked: dict[int, Waiting[Any]] = {}
        for i, call in enumerate(calls):
            message = self._message(call) if call.at is not None else None
            if message is not None:
                coroutine = self._answer(str(call.at), *message)
                asked[i] = asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)
        return asked

    def begin(self, call: Call) -> "Waiting[Any] | None":
        """The answer to come of a call that needs nothing but what this process keeps, however long it takes; None of
        another."""
        message = None if self._shrinks else self._message(call)
        if message is None or message[1].keys() != set(message[0][3]):
            return None
        coroutine = self._answer(str(call.at), *message, None)
        return asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)

    def _message(self, call: Call) -> tuple[tuple[str, Any, Any, list[str]], dict[str, Any]] | None:
        """The call and what goes with it the first time; None if something that it needs is nowhere yet."""
        needed: list[str] = []
        once: dict[str, Any] = {}
        whole = True

        def slot(handle: Any) -> Any:
            nonlocal whole
            if handle.kept is None:
                whole = whole and handle.future is not None and not handle.future.cancelled()
                name = handle.future.key if whole else ""
            else:
                name, value = handle.kept[0], handle.kept[1].value
                if bytes_of(value) is not None:  # of this round alone
                    return value
                once[name] = value
            needed.append(name)
            return Slot(len(needed) - 1)

        args = tuple(resolve(arg, slot) for arg in call.args)
        return ((call.key, call.function, args, needed), once) if whole else None

    @staticmethod
    def value(waiting: "Waiting[Any]") -> Any:
        """The answer, or None; does not wait for a client that is closed meanwhile."""
        try:
            return waiting.result(2 * PATIENCE)
        except (TimeoutError, CancelledError):
            return None

    async def _answer(
        self,
        worker: str,
        call: tuple[str, Any, Any, list[str]],
        once: dict[str, Any],
        patience: float | None = PATIENCE,
    ) -> Any:
        try:
            reply = await self._sent(worker, call, {}, patience)
            # A copy that a task brought there may have gone since; then this run keeps one of its own.
            if reply is not None and once.keys() >= set(reply.get("lacks", [""])):
                reply = await self._sent(worker, call, {name: once[name] for name in reply["lacks"]}, patience)
        except DKernelError:
            raise  # the function's own word, which would be the task's too
        except Exception:
            # Whatever it was, the same function runs again as a task, whose failures are told and mended.
            reply = None
        if reply is None or "result" not in reply:
            self.failures += 1
            return None
        return (reply["result"],)

    async def _sent(
        self, worker: str, call: tuple[str, Any, Any, list[str]], new: dict[str, Any], patience: float | None
    ) -> Any:
        pool = self.client.rpc
        pool.reuse(worker, await asyncio.wait_for(pool.connect(worker), REACH))
        message = {"run": self.run, "call": _serialized(call), "new": _serialized(new)}
        return await asyncio.wait_for(pool(worker).dkernel_call(**message), patience)
