"""The sum of a reading, whose parts a journal stores, so that a run that is killed goes on with the next part."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Generic

from dkernel.errors import DKernelError
from dkernel.model.journal import Journal
from dkernel.streaming.reduction import S, TreeAccumulator


class JournaledSum(AbstractContextManager["JournaledSum[S]"], Generic[S]):
    """Sum of a reading. As a context manager it stores the last part after an error too.

    Parameters
    ----------
    least : least number of units of a part
    """

    def __init__(self, merge: Callable[[S, S], S], journal: Journal, name: str, least: float) -> None:
        self.journal, self.name, self.least = journal, name, least
        self.units = self.blocks = 0
        self._sum = TreeAccumulator(merge)
        # Nodes that are not in the sum yet, which would modify them before they are stored, and their units.
        self._nodes: list[tuple[int, S]] = []
        self._new = 0
        for part in journal.parts(name):
            # A part was stored twice if a signal came between its writing and its mark here.
            if part["first"] == self.units:
                self._take(part["units"], zip(part["levels"], part["sums"], strict=True))
                self._merge()

    def add(self, units: int, nodes: Iterable[tuple[int, S]]) -> None:
        """Add the sums of the next units' blocks: nodes of the tree with their levels, in order."""
        self._take(units, nodes)
        if self._new >= self.least:
            self._store()

    def total(self) -> S:
        """The sum over all units."""
        self._merge()
        return self._sum.total()

    def _take(self, units: int, nodes: Iterable[tuple[int, S]]) -> None:
        first = len(self._nodes)
        self._nodes += nodes
        self._new += units
        self.blocks += sum(1 << level for level, _ in self._nodes[first:])

    def _merge(self) -> None:
        for level, value in self._nodes:
            self._sum.add(value, level)
        self.units += self._new
        self._nodes, self._new = [], 0

    def _store(self) -> None:
        if self._new:
            levels, sums = ([node[i] for node in self._nodes] for i in (0, 1))
            part = {"first": self.units, "units": self._new, "levels": levels, "sums": sums}
            self.journal.add_part(self.name, part)
            self._merge()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # The error that ended the reading matters more; the parts before this one stay.
            with suppress(OSError, DKernelError):
                self._store()
