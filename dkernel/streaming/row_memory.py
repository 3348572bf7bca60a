"""Bytes of the rows of a source in the memory of workers, while they are read and between readings."""

from dataclasses import dataclass

import numpy as np

from dkernel.data.source import Source
from dkernel.numerics.packed_rows import OneHotGroups, packed_bytes
from dkernel.streaming.schedule import bundle_size
from dkernel.streaming.shares import MOST_UNEVEN

ROW_OVERHEAD = 16  # bytes of a row beside its numbers: its label and its weight, or its position
COPIES = 4  # units of other workers that a worker may hold beside its own
ROWS_SHARE = 0.4  # a source that is kept between passes may take this share of the workers' memory
SPARE = 1.1  # a source is kept only if this many times its bytes are free
PACKED = 0.5  # rows are packed between readings if that takes at most this share of their bytes


def loaded_row_bytes(source: Source) -> int:
    """Bytes of a row of a source in memory."""
    return source.row_bytes + ROW_OVERHEAD


def packed_groups(source: Source) -> OneHotGroups:
    """The groups of one-hot inputs that are held as codes between readings; empty where little would be saved."""
    groups = () if source.encoding is None or not source.layout.numeric else source.encoding.groups
    return groups if _packed_row_bytes(source, groups) <= PACKED * source.row_bytes else ()


def _packed_row_bytes(source: Source, groups: OneHotGroups) -> int:
    return packed_bytes(source.n_in, np.dtype(source.dtype).itemsize, groups)


def kept_row_bytes(source: Source) -> int:
    """Bytes of a row of a source that stays in memory between readings."""
    groups = packed_groups(source)
    return (_packed_row_bytes(source, groups) if groups else source.row_bytes) + ROW_OVERHEAD


@dataclass(frozen=True)
class RowMemory:
    """Bytes of the rows of a source.

    Parameters
    ----------
    n : rows
    whole : bytes of all rows between readings, with label and weight
    unit : bytes of the largest unit while it is read
    ahead : bytes of the units that may be in one worker at one time
    kept_ahead : the same of rows that stay in memory
    """

    n: int
    whole: int
    unit: int
    ahead: int
    kept_ahead: int

    @classmethod
    def of(cls, source: Source) -> "RowMemory":
        """Compute the bytes of a source.

        The next bundle is read while one is used, and one worker may read all units of both.
        """
        row, kept, units = loaded_row_bytes(source), kept_row_bytes(source), source.units
        unit = row * max((unit.n_rows for unit in units), default=0)
        ahead = unit * min(2 * bundle_size([unit.rows for unit in units], row), len(units))
        return cls(source.n_rows, kept * source.n_rows, unit, ahead, ahead // row * kept)

    @property
    def reading_bytes(self) -> int:
        """Bytes of a task that reads a unit: the rows as they were stored, and as a block."""
        return 2 * self.unit

    def kept_bytes(self, workers: int) -> int:
        """Bytes of the worker that has most rows of a source that is kept. It may have copies of units of other workers
        if some worker has no unit of a round.

        Examples
        --------
        >>> RowMemory(n=100, whole=1000, unit=10, ahead=20, kept_ahead=20).kept_bytes(workers=4)
        375
        """
        most = max(MOST_UNEVEN * self.whole, self.whole + workers * COPIES * self.unit)
        return int(min(self.whole, most / workers))

    def has_room(self, work: int, memory: int) -> bool:
        """True if the source may stay in memory beside the work, and some memory stays free.

        Examples
        --------
        >>> rows = RowMemory(n=10, whole=300, unit=10, ahead=20, kept_ahead=20)
        >>> [rows.has_room(work, memory=1000) for work in (500, 700)]
        [True, False]
        """
        return SPARE * self.whole + work < memory and self.whole < ROWS_SHARE * memory
