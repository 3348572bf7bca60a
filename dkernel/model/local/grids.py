"""Grids as a machine: a table of coefficients for each grid of a `Binning`, fitted by groups to a residual.

The score of a row is the sum over the grids of the coefficient of its bin. A group of grids learns one residual r: with
sums s_b and weights n_b of the rows of bin b, each grid alone would best give its bins d_b = s_b / (n_b + ridge). Their
sum d(x) moves the scores by half of the step that is the best for the rows, <d, r> / 2 <d, d>: half, since the grids of
later groups see the same rows otherwise. <d, r> follows from the tables exactly, and <d, d> from a sample of the rows.
So a group takes one reading of the rows.

Sums are integers: a residual is rounded to a multiple of 2^-k, with k chosen so that no sum can overflow. Integer sums
are the same in any order, whoever adds what. Coefficients are whole numbers of 16 bits in a unit of their grid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.model.local.binning import Binning
from dkernel.numerics.array_types import F32, F64, I64
from dkernel.numerics.loops import compile_loop

GRID_GROUP, FEW_GRIDS, GROUPS = 64, 16, 8  # most grids of a group; fewer, where there are not so many groups
GROUP_BYTES = 2**27  # of the sums of a group: of many outputs it has fewer grids
TABLE_BITS = 13  # covtype has 1.71, 1.70 % with 16, 13 bits, made_events an AUC of .7501, .7496: rows in few bins count
LARGEST_COEF = 32_767  # in units of its grid
LEAST_TABLE_BITS = 9  # with many outputs
COUNT_BITS = 20
"""Low bits of a packed sum that count its rows: a partial table has fewer than 2^20 rows."""


def code_bits(n: int, outputs: int = 1) -> int:
    """Most bits of a code: as many codes as rows, up to 2^TABLE_BITS; of several outputs fewer, in place of grids.

    Examples
    --------
    >>> code_bits(100), code_bits(10_000), code_bits(10**6), code_bits(10**6, outputs=7), code_bits(10**6, outputs=100)
    (7, 13, 13, 10, 9)
    """
    most = max(LEAST_TABLE_BITS, TABLE_BITS - (outputs - 1).bit_length())
    return int(np.clip(np.ceil(np.log2(max(n, 1))), 4, most))


def group_size(n_grids: int, outputs: int, bits: int = TABLE_BITS) -> int:
    """Grids of a group, whose tables have room.

    Examples
    --------
    >>> [group_size(2048, outputs) for outputs in (1, 7, 26)], group_size(128, 1)
    ([64, 64, 64], 16)
    """
    room = GROUP_BYTES // (8 * (outputs + 1) << bits)
    most = min(max(FEW_GRIDS, n_grids // GROUPS), GRID_GROUP, 1 << max(0, room.bit_length() - 1))
    return min(n_grids, most)


@dataclass(frozen=True)
class FixedPoint:
    """Conversion of residuals and weights of rows to integers, and of tables of their sums back to numbers.

    For one output without weights the low bits of a sum hold the count of its bin: each row and grid reads and writes
    one word instead of two, and the table of a grid fits in half the cache. Several outputs have a word for the count:
    their tables are large, and a second table for packed sums would be fresh pages in every round.

    Parameters
    ----------
    bound : of a residual; one beyond it counts as this
    digits : k of the multiples of 2^-k that residuals times weights become
    weight_digits : the same of the weights, None for weights that are all 1
    """

    bound: float
    digits: int
    weight_digits: int | None = None

    @classmethod
    def of(cls, bound: float, weight: float | None = None) -> "FixedPoint":
        """The finest multiples whose sums cannot overflow.

        Parameters
        ----------
        bound : of a residual
        weight : of all rows together, None where each has the weight 1

        Examples
        --------
        >>> FixedPoint.of(1.0).digits, FixedPoint.of(1.0, 1e6).digits
        (22, 42)
        """
        size = int(np.ceil(np.log2(bound)))
        if weight is None:  # bits of a sum of 2^COUNT_BITS rows, beside their count and a sign
            return cls(bound, 62 - 2 * COUNT_BITS - size)
        total = int(np.ceil(np.log2(max(weight, 2.0**-60))))
        return cls(bound, 62 - size - total, 62 - total)

    def packs(self, outputs: int) -> bool:
        """True if the count of a bin is a part of its sum."""
        return outputs == 1 and self.weight_digits is None

    def rows(self, residual: NDArray[np.floating], weight: NDArray[np.floating] | None) -> I64:
        """What rows with these residuals add to their bins, int64 (rows, outputs + 1) or packed (rows, 1)."""
        r = np.clip(residual.astype(np.float64), -self.bound, self.bound)
        if self.weight_digits is None:
            values = np.rint(np.ldexp(r, self.digits)).astype(np.int64)
            return (values << COUNT_BITS) + 1 if self.packs(r.shape[1]) else np.insert(values, r.shape[1], 1, axis=1)
        assert weight is not None
        w = weight.astype(np.float64).reshape(-1, 1)
        return np.hstack([np.rint(np.ldexp(r * w, self.digits)), np.rint(np.ldexp(w, self.weight_digits))]).astype(
            np.int64
        )

    @property
    def units(self) -> tuple[float, float]:
        """The units of a sum and of a weight in an unpacked table."""
        return 2.0**-self.digits, 1.0 if self.weight_digits is None else 2.0**-self.weight_digits


@compile_loop("void(int64[:, ::1], int64[:, ::1])", set())
def unpack_sums(table: Any, sums: Any) -> None:
    """Add a table of packed sums to sums and counts, int64 (n_bins, 2), and make it 0."""
    for b in range(table.shape[0]):
        count = table[b, 0] & ((np.int64(1) << COUNT_BITS) - 1)
        sums[b, 0] += (table[b, 0] - count) >> COUNT_BITS
        sums[b, 1] += count
        table[b, 0] = 0


@compile_loop(
    "void(int64[:, ::1], int64[::1], float64, float64, float64, float64[:, ::1], float32[:, ::1], float64[:, ::1])",
    set(),
)
def _minimisers(
    table: Any, starts: Any, unit: Any, weight_unit: Any, ridge: Any, d: Any, largest: Any, moment: Any
) -> None:
    """Write d of each bin to `d`, its largest size in each grid to `largest`, and <d, r> of each grid to `moment`."""
    last = table.shape[1] - 1
    for g in range(starts.size - 1):
        for b in range(starts[g], starts[g + 1]):
            n = weight_unit * table[b, last]
            for c in range(last):
                pull = unit * table[b, c]
                d[b, c] = pull / (n + ridge)
                moment[g, c] += d[b, c] * pull
                largest[g, c] = max(largest[g, c], np.float32(abs(d[b, c])))


@compile_loop("void(float64[:, ::1], int64[::1], float32[:, ::1], int16[:, ::1])", set())
def _round(d: Any, starts: Any, unit: Any, coef: Any) -> None:
    for g in range(starts.size - 1):
        for b in range(starts[g], starts[g + 1]):
            for c in range(d.shape[1]):
                if unit[g, c] > 0:
                    coef[b, c] = np.int16(np.rint(d[b, c] / unit[g, c]))


@dataclass(frozen=True, eq=False)
class Tables:
    """The coefficients of some grids: unit x coef.

    Parameters
    ----------
    coef : int16 (n_bins, outputs)
    unit : float32 (n_grids, outputs)
    """

    coef: NDArray[np.int16]
    unit: F32

    @classmethod
    def rounded(cls, d: F64, starts: I64, largest: F32) -> "Tables":
        """The nearest to numbers (n_bins, outputs), of which `largest` is the largest size in each grid."""
        unit, coef = largest / np.float32(LARGEST_COEF), np.zeros(d.shape, np.int16)
        _round(d, starts, unit, coef)
        return cls(coef, unit)

    def plus(self, change: "Tables", starts: I64) -> "Tables":
        """The sum with a change of the same grids."""
        bins = np.diff(starts)
        d = np.zeros(self.coef.shape)
        for each in (self, change):
            d += each.coef * np.repeat(each.unit, bins, axis=0).astype(np.float64)
        largest = np.maximum.reduceat(np.abs(d), starts[:-1], axis=0)
        return Tables.rounded(d, starts, largest.astype(np.float32))

    @classmethod
    def joined(cls, parts: Sequence["Tables"]) -> "Tables":
        """The coefficients of all grids of several groups."""
        return cls(np.concatenate([part.coef for part in parts]), np.concatenate([part.unit for part in parts]))


def learn_group(
    grids: Binning, table: I64, fixed: FixedPoint, ridge: float, sample: F32, weight: F64, share: float = 0.5
) -> Tables:
    """The coefficients of a group of grids.

    Parameters
    ----------
    table : sums and weights of the bins, int64 (n_bins, outputs + 1), see `unpack_sums`
    ridge : in rows of weight 1, above 0
    sample : some rows, float32 (rows, p)
    weight : of these, float64 (rows,)
    share : of the best step of their sum
    """
    outputs = table.shape[1] - 1
    d, largest = np.empty((len(table), outputs)), np.zeros((grids.n_grids, outputs), np.float32)
    moment, sums = np.zeros((grids.n_grids, outputs)), np.zeros((len(sample), outputs), np.float32)
    _minimisers(table, grids.starts, *fixed.units, ridge, d, largest, moment)
    whole = Tables.rounded(d, grids.starts, largest)
    grids.add_scores(sample, whole.coef, whole.unit, sums)
    rows = fixed.units[1] * float(table[: grids.starts[1], outputs].sum())
    square = rows / weight.sum() * (weight @ sums.astype(np.float64) ** 2)
    step = share * np.divide(moment.sum(axis=0), square, out=np.zeros(outputs), where=square > 0)
    return Tables(whole.coef, (whole.unit * step).astype(np.float32))


GRID_LOOPS = (unpack_sums, _minimisers, _round)
