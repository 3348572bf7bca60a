"""The worker that reads each unit of rows that a cluster holds already: one that has them, where shares allow that."""

from collections.abc import Mapping, Sequence

MOST_UNEVEN = 1.5  # times its share that a worker reads: by copying no more a round is at most half as long again


def is_even(rows: Mapping[str | None, int], threads: Mapping[str, int]) -> bool:
    """True if no worker has more than MOST_UNEVEN times its share of the rows, and none are elsewhere.

    Parameters
    ----------
    rows, threads : of each worker

    Examples
    --------
    >>> is_even({"a": 30, "b": 20}, {"a": 1, "b": 1}), is_even({"a": 40, "b": 10}, {"a": 1, "b": 1})
    (True, False)
    """
    share = MOST_UNEVEN * sum(rows.values()) / max(1, sum(threads.values()))
    return all(n <= share * threads.get(worker or "", 0) for worker, n in rows.items())


def homes(
    rows: Sequence[int], holders: Sequence[Sequence[str]], threads: Mapping[str, int]
) -> tuple[list[str | None], list[int]]:
    """The worker to read each unit, and the numbers of the units that others have to copy for that.

    A unit is read where it is, until that worker would have more than MOST_UNEVEN times its share of the rows; what is
    left goes to those with the least.

    Parameters
    ----------
    rows : of each unit
    holders : the workers that have each unit; none where it is nowhere yet
    threads : of each worker

    Examples
    --------
    >>> homes([10] * 4, [["a"]] * 4, {"a": 1, "b": 1})
    (['a', 'a', 'a', 'b'], [3])
    >>> homes([10] * 4, [["a"], ["b"], ["a"], ["a"]], {"a": 1, "b": 1})
    (['a', 'b', 'a', 'a'], [])
    """
    held = dict.fromkeys(sorted(threads), 0)
    share = sum(rows) / max(1, sum(threads.values()))
    workers: list[str | None] = [None] * len(rows)
    left = []

    def load(worker: str, more: int) -> float:
        return (held[worker] + more) / threads[worker]

    for unit, n in enumerate(rows):
        there = [worker for worker in held if worker in holders[unit]]
        at = min(there, key=lambda worker: load(worker, n), default=None)
        if at is None or load(at, n) > MOST_UNEVEN * share:
            left.append(unit)
        else:
            workers[unit], held[at] = at, held[at] + n
    for unit in left:
        n = rows[unit]
        at = min(held, key=lambda worker: (load(worker, n), worker not in holders[unit]), default=None)
        if at is not None:
            workers[unit], held[at] = at, held[at] + n
    return workers, [unit for unit in left if holders[unit] and workers[unit] not in holders[unit]]
