"""Grids as a machine: a table of coefficients for each grid of a `Binning`, fitted by joined rounds on a residual.

The score of a row is the sum over the grids of the coefficient of its bin: kernel ridge regression with the kernel that
the bins estimate, n_grids times over, where the objective is

    1/2 Σ_i n_i (r_i - Σ_g w_g[bin_g(i)])^2 + λ/2 Σ_g |w_g|^2,    λ = n_grids × ridge.

A round takes a group of grids. With sums s_g and weights n_g of the rows of each bin, one grid alone is best changed by
d_g = (s_g - λ w_g) / (n_g + λ). The grids of a group see the same rows, so their changes are joined: η minimises the
objective over w_g + η_g d_g, which takes the products F'F of the outputs F_ig = d_g[bin_g(i)], and F'r. F'r and the
diagonal of F'F follow from the tables exactly; what remains are correlations, which a sample of the rows tells as well
as all rows do. So a round is one reading of the rows and one small system.

Sums are integers: a residual is rounded to a multiple of 2^-k, with k chosen so that no sum can overflow. Integer sums
are the same in any order, whoever adds what.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32, F64, I64, U32
from dkernel.numerics.loops import compile_loop

GRID_GROUP = 16
"""Grids of a round: 16 are as good as one grid after the other, and 32 and 64 lag behind."""
TABLE_BITS = 16  # with 18 bits the error of covtype is 2.52 instead of 2.53 %, and no table fits the cache
COUNT_BITS = 20
"""Low bits of a packed sum that count its rows: a partial table has fewer than 2^20 rows."""


def bits_of(n: int) -> int:
    """Bits of a code: as many codes as rows, up to 2^TABLE_BITS.

    Examples
    --------
    >>> bits_of(100), bits_of(10_000), bits_of(10**6)
    (7, 14, 16)
    """
    return int(np.clip(np.ceil(np.log2(max(n, 1))), 4, TABLE_BITS))


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

    def unpack(self, table: I64, sums: I64) -> None:
        """Add a table of packed sums to sums and counts, int64 (n_grids, n_bins, 2), and make it 0."""
        _unpack(table, sums)

    @property
    def units(self) -> tuple[float, float]:
        """The units of a sum and of a weight in an unpacked table."""
        return 2.0**-self.digits, 1.0 if self.weight_digits is None else 2.0**-self.weight_digits


@compile_loop("void(int64[:, :, ::1], int64[:, :, ::1])", set())
def _unpack(table: Any, sums: Any) -> None:
    for g in range(table.shape[0]):
        for b in range(table.shape[1]):
            count = table[g, b, 0] & ((np.int64(1) << COUNT_BITS) - 1)
            sums[g, b, 0] += (table[g, b, 0] - count) >> COUNT_BITS
            sums[g, b, 1] += count
            table[g, b, 0] = 0


STEPS_TOGETHER = 8
"""Outputs of one walk over a table: as many sums of a bin as a line of the cache holds."""


@compile_loop("void(uint32[:, ::1], float64[:, :, ::1], int64, float64[::1], float64[:, ::1])", set())
def _outputs(codes: Any, d: Any, c: Any, root: Any, out: Any) -> None:
    for g in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[g, i] = d[g, codes[g, i], c] * root[i]


@compile_loop("void(float64[:, :, ::1], float64[:, ::1], int64, float32[:, :, ::1])", set())
def _step(d: Any, step: Any, first: Any, change: Any) -> None:
    for g in range(d.shape[0]):
        for b in range(d.shape[1]):
            for c in range(d.shape[2]):
                change[g, b, first + c] = np.float32(step[g, c] * d[g, b, c])


@compile_loop(
    "void(int64[:, :, ::1], int64, float64, float64, float32[:, :, ::1], float64, float64[:, :, ::1], "
    "float64[:, :, ::1])",
    set(),
)
def _minimisers(table: Any, first: Any, unit: Any, weight_unit: Any, coef: Any, ridge: Any, d: Any, sums: Any) -> None:
    """Write d_g of some outputs to `d`, and d'(s - λ w), d'd and d'Nd of each grid and output to `sums`."""
    last = table.shape[2] - 1
    sums[:] = 0.0
    for g in range(table.shape[0]):
        for b in range(table.shape[1]):
            n = weight_unit * table[g, b, last]
            for c in range(d.shape[2]):
                w = np.float64(coef[g, b, first + c])
                if table[g, b, last] == 0 and w == 0.0:
                    d[g, b, c] = 0.0
                    continue
                pull = unit * table[g, b, first + c] - ridge * w
                step = pull / (n + ridge)
                d[g, b, c] = step
                sums[0, g, c] += step * pull
                sums[1, g, c] += step * step
                sums[2, g, c] += step * step * n


def join_steps(coef: F32, table: I64, fixed: FixedPoint, ridge: float, sample: U32, weight: F64) -> F32:
    """The change of the coefficients of a group of grids in one round.

    Parameters
    ----------
    coef : w, float32 (n_grids of the group, n_bins, outputs)
    table : sums and weights of the bins, int64 (n_grids, n_bins, outputs + 1), see `FixedPoint.unpack`
    ridge : λ, above 0
    sample : codes of some rows in these grids, uint32 (n_grids, rows)
    weight : of these rows, float64 (rows,)

    Returns
    -------
    η_g d_g, float32, the shape of `coef`
    """
    change, outputs = np.empty_like(coef), coef.shape[2]
    root, F = np.sqrt(weight), np.empty(sample.shape)
    room = np.empty(coef.size // outputs * min(STEPS_TOGETHER, outputs))
    for first in range(0, outputs, STEPS_TOGETHER):
        several = min(STEPS_TOGETHER, outputs - first)
        d = room[: coef.size // outputs * several].reshape(*coef.shape[:2], several)
        sums = np.empty((3, len(coef), several))
        _minimisers(table, first, *fixed.units, coef, ridge, d, sums)
        steps = np.empty((len(coef), several))
        for c in range(several):
            moment, norm, energy = sums[:, :, c]
            _outputs(sample, d, c, root, F)
            correlation = F @ F.T
            seen = np.diag(correlation)
            scale = np.sqrt(np.divide(energy, seen, out=np.zeros(len(coef)), where=seen > 0))
            system = correlation * scale[:, None] * scale
            system[np.diag_indices_from(system)] = energy + ridge * norm
            steps[:, c] = scipy.linalg.lstsq(system, moment)[0]
        _step(d, steps, first, change)
    return change


GRID_LOOPS = (_unpack, _minimisers, _outputs, _step)
