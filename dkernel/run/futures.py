"""Values on a cluster as this process holds them: asked for again when they are lost, let go of when it suits."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from dkernel.run.executors import Handle
from dkernel.run.parcels import INSIDE, Parcel, bytes_of

__all__ = ["Client", "Future", "Leaving", "Remote", "forget"]

Client = Any  # of distributed, which has no types and is imported only where a cluster is used
Future = Any

RELEASE_DELAY = 0.25


class Leaving:
    """Futures to let go of once the next round is on its way, or after a moment without one.

    The client sends at most one message in ten milliseconds: a release just before a submission would hold that back.
    """

    def __init__(self, client: Client) -> None:
        self._loop = client.loop
        self._futures: list[Future] = []

    def add(self, futures: Iterable[Future]) -> None:
        self._futures.extend(futures)
        self._loop.add_callback(self._loop.call_later, RELEASE_DELAY, self.go)

    def go(self) -> None:
        with suppress(IndexError):  # two threads may come here at once
            while True:
                self._futures.pop().release()


def forget(future: Future) -> None:
    """Release a future and wait until the client knows: its key can then be submitted afresh."""
    future.release()
    future.client.sync(asyncio.sleep, 0)  # the loop takes releases in their order


class Remote(Handle):
    """A value on the cluster, with the way to ask for it again should the scheduler have forgotten it.

    Parameters
    ----------
    kept : key and parcel of a value that this process has; it is sent with the first calls that need it
    at : the worker that was asked to make it, None for any
    """

    def __init__(
        self, submit: Callable[[], Future], future: Future | None = None, kept: tuple[str, Parcel] | None = None,
        at: str | None = None,
    ) -> None:  # fmt: skip
        self._submit, self.kept, self.at, self._inside = submit, kept, at, False
        self.future: Future | None = future or (None if kept else submit())

    def inside(self, calls: int) -> bool:
        """Whether the value is to travel in each of so many calls: it is small, and none before these needed it."""
        if self.kept is None or self.future is not None or self._inside:
            return False
        size = bytes_of(self.kept[1].value)
        self._inside = size is not None and size * calls <= INSIDE
        return self._inside

    def live(self) -> Future:
        """The future of the value, submitted again when it was cancelled or released."""
        if self.future is not None and self.future.cancelled():
            forget(self.future)
            self.future = None
        if self.future is None:
            self.future = self._submit()
        return self.future

    def leave(self) -> list[Future]:
        """The future, if there is one, no longer held here."""
        future, self.future = self.future, None
        return [] if future is None else [future]
