"""Names the rows on which a task of a reading ended its workers."""

from collections.abc import Container, Mapping, Sequence

import numpy as np
from dask.local import get_sync

from dkernel.data.failures import KilledCallError
from dkernel.data.source import Source
from dkernel.errors import ClusterError
from dkernel.numerics.resource_limits import format_bytes
from dkernel.streaming.execution.base import Call, Executor, Handle
from dkernel.streaming.shares import sum_nodes


class KillerSearch:
    """Search for the rows of a task that ended its workers.

    Parameters
    ----------
    groups : unit -> the units that one task reads with it
    """

    def __init__(self, executor: Executor, source: Source, groups: Mapping[int, range]) -> None:
        self.executor, self.source, self.groups = executor, source, groups
        # The units, or the parts of units that are joined, each with the number of its unit.
        self._parts = [(number, part) for number, unit in enumerate(source.units) for part in unit.parts or (unit,)]

    def explain(self, error: KilledCallError, calls: Sequence[Call], loaded: Mapping[Handle, int]) -> ClusterError:
        """The error with the rows that the call or the read works on; of a joined unit, of its first part.

        If the task read several units, each of them is read alone, and the one that fails again is named.

        Parameters
        ----------
        calls : those that the task may be
        loaded : handle of the blocks of each unit that is loaded -> its number
        """
        numbers = self._parts_read_by(error.key)
        for number in numbers if len(numbers) > 1 else ():
            task = self._parts[number][1].task
            try:
                self.executor.compute([Call(f"{task.key}-alone", get_sync, (dict(task.__dask_graph__()), task.key))])
            except KilledCallError as again:
                error, numbers = again, [number]
                break
        numbers = [*numbers, *self._parts_worked_on(error.key, calls, loaded)]
        return ClusterError(f"{self._describe(numbers)} {error}" if numbers else str(error))

    def _parts_in(self, units: Container[int]) -> list[int]:
        return [i for i, (unit, _) in enumerate(self._parts) if unit in units]

    def _parts_read_by(self, key: str) -> list[int]:
        """The parts of units, by number, that the task of this key reads."""
        first = next((i for i, (_, part) in enumerate(self._parts) if key.startswith(part.task.key)), None)
        if first is None:
            return []
        return self._parts_in(self.groups[self._parts[first][0]]) if "-to-" in key else [first]

    def _parts_worked_on(self, key: str, calls: Sequence[Call], loaded: Mapping[Handle, int]) -> list[int]:
        units = list[int]()
        for call in calls:
            if not key.startswith(call.key):
                continue
            if call.function is sum_nodes:
                units += [pieces[0].range.unit for _, lists in call.args[-1] for _, pieces in lists]
            else:
                units += sorted(loaded[item[0]] for item in call.args[-1] if item[0] in loaded)
        return [part for unit in units for part in self._parts_in((unit,))]

    def _describe(self, numbers: Sequence[int]) -> str:
        unit = self._parts[numbers[0]][1]
        first = sum(other.n_rows for _, other in self._parts[: numbers[0]])
        size = unit.n_rows * self.source.n_in * np.dtype(self.source.dtype).itemsize
        others = len(set(numbers)) - 1
        or_one = f", or one of {others} other parts that the same task reads," if others else ""
        return (
            f"{unit.name}, rows {first + 1:,} to {first + unit.n_rows:,} of the source (about {format_bytes(size)} "
            f"when they are read){or_one} cannot be worked on."
        )
