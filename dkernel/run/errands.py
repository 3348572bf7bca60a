"""Calls that nothing ties to each other, straight to the workers of a cluster that is this run's own.

A task costs the client, the scheduler and its worker ten milliseconds of the cores that could score, and which worker
gets it is Dask's to say: two that wait at one while the other has nothing to do are seen too late. Here the client asks
(direct.py), and every thread has one call under way and one that waits. Of a cluster that others own this would not do:
it may close, or give workers back, when for long there are no tasks.
"""

import time
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dkernel.run.executors import Call

if TYPE_CHECKING:
    from dkernel.run.remote import ClusterExecutor

__all__ = ["errands"]

LOOK = 0.5  # seconds between two looks whether there is a scheduler still


def errands(
    executor: "ClusterExecutor", threads: Mapping[str, int], calls: Iterable[Call]
) -> Generator[Any, None, list[Call]]:
    """The results in the order of their coming; returns the calls without an answer, after which none was taken.

    Parameters
    ----------
    threads : of each worker
    """
    rest, under_way = iter(calls), dict[Future[Any], tuple[str, Call]]()
    room = dict.fromkeys(threads, 1)  # until it has what all calls need
    without: list[Call] = []
    news = time.monotonic()
    try:
        while True:
            while not without and room and (place := max(room, key=lambda worker: room[worker])) and room[place] > 0:
                call = next(rest, None)
                if call is None:
                    break
                waiting = executor.direct.begin(replace(call, at=place))
                if waiting is None:
                    without.append(call)
                else:
                    under_way[waiting] = place, call
                    room[place] -= 1
            if not under_way:
                return without
            over, _ = wait(under_way, LOOK, FIRST_COMPLETED)
            executor.reach()
            news = time.monotonic() if over else news
            if time.monotonic() - news > executor.patience:  # a process that is stopped does not even hang up
                return [*without, *(call for _, call in under_way.values())]
            for waiting in over:
                place, call = under_way.pop(waiting)
                room[place] = threads[place] + 1 - sum(other == place for other, _ in under_way.values())
                found = executor.direct.value(waiting)
                if found is None:
                    without.append(call)
                else:
                    yield found[0]
    finally:
        for waiting in under_way:
            waiting.cancel()
