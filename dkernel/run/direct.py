"""Calls straight to the worker that has their blocks: a round then costs one or two milliseconds, not ten or twenty.

A task goes from the client to the scheduler, to a worker, back to the scheduler and to the client, which then asks the
worker for the value; of a short round that is the larger part, paid by the cores that could sum rows. Here the client
asks the worker itself. It runs the function of the call on its own copies of the blocks, in its own pool of threads:
the answer is that of the task. Nothing rests on it. What is not answered, since the worker has no such block, is gone,
slow, or cannot be reached from here, goes the way of all calls, as a task that Dask computes whatever happens.

Of a round of many calls the client asks a few workers, each of which asks some others: what a message costs is paid by
several at a time, and the coefficients leave the client once for each of the few.

A worker that would wait for the others is lent a block by one of them, and keeps it for the next rounds: the block of
a call that names a `lender`.
"""

import asyncio
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Waiting
from dataclasses import dataclass, replace
from typing import Any

from dkernel.errors import DKernelError
from dkernel.run.executors import Call, Handle, resolve
from dkernel.run.parcels import bytes_of
from dkernel.run.shares import BORROWED

__all__ = ["Direct", "Slot", "answers", "compute", "forgets"]

LONGEST = 5.0  # seconds of a round: where it takes longer its messages are nothing, and whoever looks sees its tasks
REACH = 2.0  # seconds to connect: Dask knocks at the address of a worker that is gone for half a minute
PATIENCE = 30.0  # seconds for an answer; after them the call is a task
RELAYED = 16  # calls of a round from which on they go by way of a few workers

_known: dict[str, dict[str, Any]] = {}
"""Run -> name -> value: what every call of a run needs, where Dask has no copy of it, is sent to a process once."""

_lent: dict[str, dict[str, asyncio.Future[Any]]] = {}
"""Run -> name -> block that another worker has lent this one, the last few."""


@dataclass(frozen=True)
class Slot(Handle):
    """Stands in a call for the value number `index` of those that it needs."""

    index: int


def _pickled(value: Any) -> Any:
    """What a message carries in one pickle, its arrays beside it: Dask's own way looks at every member for itself.

    `distributed` is imported where a cluster is used, and has no types.
    """
    return importlib.import_module("distributed.protocol.serialize").ToPickle(value)


def compute(key: str, function: Any, args: Sequence[Any], values: Sequence[Any]) -> Any:  # noqa: ARG001
    """What the task of this key would return; runs on a worker."""
    return function(*(resolve(arg, lambda slot: values[slot.index]) for arg in args))


async def _sent(pool: Any, worker: str, operation: str, message: Mapping[str, Any], patience: float | None) -> Any:
    """The reply of another process, for whose connection the pool does not wait long."""
    pool.reuse(worker, await asyncio.wait_for(pool.connect(worker), REACH))
    return await asyncio.wait_for(getattr(pool(worker), operation)(**message), patience)


@dataclass(frozen=True)
class Letter:
    """A call on its way.

    Parameters
    ----------
    at : the worker that is asked
    call : key, function, arguments, what is then made of its value and the helpers', and names of the values that all
        these stand for by number
    once : of these, those that are sent where a worker lacks them
    lends : of the others, the worker to fetch each from where `at` has none
    helpers : calls that `at` sends on, and whose values it waits for
    """

    at: str
    call: tuple[str, Any, Any, Any, list[str]]
    once: dict[str, Any]
    lends: dict[str, str]
    helpers: "tuple[Letter, ...]" = ()

    def message(self, run: str, new: Mapping[str, Any]) -> dict[str, Any]:
        """What the worker is sent."""
        # In one pickle, which has the coefficients once.
        return {"run": run, "calls": _pickled((self.call, self.helpers)), "new": _pickled(new), "lends": self.lends}


async def _delivered(pool: Any, run: str, letter: Letter, patience: float | None, find: Callable[[str], Any]) -> Any:
    """The result of a call that another worker answers, or None; `find` has what that worker lacks, or None."""

    async def send(new: Mapping[str, Any]) -> Any:
        return await _sent(pool, letter.at, "dkernel_call", letter.message(run, new), patience) or {}

    reply = await send({})
    # A copy that a task brought there may have gone since; then the run keeps one of its own there.
    new = {name: find(name) for name in reply.get("lacks", ())}
    if new and not any(value is None for value in new.values()):
        reply = await send(new)
    return reply.get("result")


class _Desk:
    """Where a worker answers, by messages that are named as its methods are."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker

    async def dkernel_call(
        self,
        run: str,
        calls: tuple[tuple[str, Any, Any, Any, Sequence[str]], Sequence[Letter]],
        new: Mapping[str, Any],
        lends: Mapping[str, str],
    ) -> dict[str, Any] | None:
        _known.setdefault(run, {}).update(new)
        reply = await self._reply(run, *calls, lends)
        return {"result": _pickled(reply["result"])} if reply is not None and "result" in reply else reply

    async def dkernel_lend(self, name: str) -> dict[str, Any]:
        return {"block": _pickled(self.worker.data[name])}

    async def dkernel_relay(self, run: str, letters: Sequence[Letter]) -> dict[str, Any]:
        async def reply(letter: Letter) -> Any:
            if letter.at != self.worker.address:
                return await self._passed_on(run, letter)
            return (await self._reply(run, letter.call, letter.helpers, letter.lends) or {}).get("result")

        found = await asyncio.gather(*map(reply, letters), return_exceptions=True)
        # What has no result here is asked for again by the client itself, which tells why.
        return {"results": _pickled([None if isinstance(one, BaseException) else one for one in found])}

    async def _reply(
        self,
        run: str,
        call: tuple[str, Any, Any, Any, Sequence[str]],
        helpers: Sequence[Letter],
        lends: Mapping[str, str],
    ) -> dict[str, Any] | None:
        """The result of a call, or what it lacks; None where it is not for this worker to answer."""
        if self.worker.status.name != "running":  # paused for its memory, or about to leave
            return None
        key, function, args, then, needed = call
        values = [self._held(run, name) for name in needed]
        for i, name in enumerate(needed):
            if values[i] is None and name in lends:
                values[i] = await self._borrowed(run, name, lends[name])
        lacks = [name for name, value in zip(needed, values, strict=True) if value is None]
        if lacks:
            return {"lacks": lacks}
        # The pool of its tasks: no more than its threads compute at a time, whoever asked them.
        pool, loop = self.worker.executors["default"], asyncio.get_running_loop()
        mine = loop.run_in_executor(pool, compute, key, function, args, values)
        if then is None:
            return {"result": await mine}
        own, *others = await asyncio.gather(mine, *(self._passed_on(run, letter) for letter in helpers))
        if any(other is None for other in others):
            return None  # the client has the call computed as a task, which needs no help
        last = (*then[1], [own, *others])
        return {"result": await loop.run_in_executor(pool, compute, key, then[0], last, values)}

    def _held(self, run: str, name: str) -> Any:
        known = _known.get(run, {})
        return known[name] if name in known else self.worker.data.get(name)

    async def _passed_on(self, run: str, letter: Letter) -> Any:
        """The value of a call that another worker answers, or None; what it lacks may be here."""

        def find(name: str) -> Any:
            return None if name in letter.lends else self._held(run, name)

        return await _delivered(self.worker.rpc, run, letter, PATIENCE / 2, find)

    async def _borrowed(self, run: str, name: str, lender: str) -> Any:
        lent = _lent.setdefault(run, {})
        asked = lent.pop(name, None) or asyncio.ensure_future(
            _sent(self.worker.rpc, lender, "dkernel_lend", {"name": name}, PATIENCE / 2)
        )
        lent[name] = asked  # the last is the one that is kept longest
        for other in list(lent)[:-BORROWED]:
            del lent[other]
        try:
            return (await asyncio.shield(asked))["block"]  # two threads may want the same
        except Exception:
            lent.pop(name, None)
            raise


def answers(worker: Any) -> None:
    """Have a worker answer direct calls."""
    desk = _Desk(worker)
    for answer in (desk.dkernel_call, desk.dkernel_lend, desk.dkernel_relay):
        worker.handlers[answer.__name__] = answer


def forgets(run: str) -> None:
    """Have this process forget what a run sent once."""
    _known.pop(run, None)
    _lent.pop(run, None)


def _by_one(calls: int) -> int:
    """How many of so many calls go by way of one worker."""
    return math.isqrt(calls) if calls >= RELAYED else 1


class Direct:
    """The client's side.

    Parameters
    ----------
    run : name of the run, the same to all its workers
    shared : the cluster is not this run's own: nobody is asked
    """

    def __init__(self, client: Any, run: str, shared: bool = False) -> None:
        self.client = client
        # A cluster that follows its load would take workers without tasks away; and where others use it its workers are
        # not set up to answer.
        self._shrinks = shared or getattr(client.cluster, "_adaptive", None) is not None
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
        letters = {i: letter for i, call in enumerate(calls) if call.at and (letter := self._letter(call)) is not None}
        asked: dict[int, Waiting[Any]] = {i: Waiting() for i in letters}
        order = sorted(letters, key=lambda i: letters[i].at)
        size = _by_one(len(order))
        groups = [order[first : first + size] for first in range(0, len(order), size)]
        told = self._all_told([[(letters[i], asked[i]) for i in group] for group in groups])
        asyncio.run_coroutine_threadsafe(told, self.client.loop.asyncio_loop)  # one, since to wake the loop takes long
        return asked

    def begin(self, call: Call) -> "Waiting[Any] | None":
        """The answer to come of a call that needs nothing but what this process keeps, however long it takes; None of
        another."""
        letter = None if self._shrinks else self._letter(call)
        if letter is None or letter.once.keys() != set(letter.call[-1]):
            return None
        return asyncio.run_coroutine_threadsafe(self._answer(letter, None), self.client.loop.asyncio_loop)

    def _letter(self, call: Call) -> Letter | None:
        """The call as it is sent; None if something that it needs is nowhere yet."""
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
        then = None if call.then is None else (call.then[0], tuple(resolve(arg, slot) for arg in call.then[1]))
        # What these lack the worker that asks them has.
        helpers = tuple(replace(found, once={}) for found in map(self._letter, call.helpers) if found is not None)
        if not whole or len(helpers) < len(call.helpers):
            return None
        lends = {name: call.lender for name in needed if name not in once} if call.lender is not None else {}
        return Letter(str(call.at), (call.key, call.function, args, then, needed), once, lends, helpers)

    @staticmethod
    def value(waiting: "Waiting[Any]") -> Any:
        """The answer, or None; does not wait for a client that is closed meanwhile."""
        try:
            return waiting.result(2 * PATIENCE)
        except (TimeoutError, CancelledError):
            return None

    async def _all_told(self, groups: Sequence[Sequence[tuple[Letter, "Waiting[Any]"]]]) -> None:
        await asyncio.gather(*map(self._told, groups), return_exceptions=True)

    async def _told(self, some: Sequence[tuple[Letter, "Waiting[Any]"]]) -> None:
        """Have these answered: one straight, several by way of the first's worker."""

        async def tell(letter: Letter, waiting: "Waiting[Any]", result: Any) -> None:
            try:
                waiting.set_result((result,) if result is not None else await self._answer(letter))
            except Exception as error:
                waiting.set_exception(error)

        try:
            results = await self._relayed([letter for letter, _ in some]) if len(some) > 1 else [None]
            await asyncio.gather(*(tell(*one, result) for one, result in zip(some, results, strict=True)))
        finally:
            for _, waiting in some:
                waiting.cancel()  # nothing to one that is done

    async def _relayed(self, letters: Sequence[Letter]) -> Sequence[Any]:
        """The result of each, None where the first's worker has none to tell."""
        sent = _pickled([replace(letter, once={}) for letter in letters])
        try:
            message = {"run": self.run, "letters": sent}
            reply = await _sent(self.client.rpc, letters[0].at, "dkernel_relay", message, PATIENCE)
        except Exception:  # as in `_answer`; each is asked for itself then
            return [None] * len(letters)
        results: Sequence[Any] = reply["results"]
        return results

    async def _answer(self, letter: Letter, patience: float | None = PATIENCE) -> Any:
        try:
            result = await _delivered(self.client.rpc, self.run, letter, patience, letter.once.get)
        except DKernelError:
            raise  # the function's own word, which would be the task's too
        except Exception:
            # Whatever it was, the same function runs again as a task, whose failures are told and mended.
            result = None
        if result is None:
            self.failures += 1
            return None
        return (result,)
