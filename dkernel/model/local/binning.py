"""Random binning: grids of random pitch and shift, whose shared bins estimate an ANOVA kernel.

Grid g divides feature j, if it uses it, into intervals of width δ_gj ~ Gamma(2, 1/γ_j) that begin at a uniform shift.
Two rows share an interval with probability E[max(0, 1 - |x_j - z_j| / δ)] = exp(-γ_j |x_j - z_j|). A grid uses feature
j with probability u_j, so two rows share the intervals of all features that it uses, a *bin*, with probability
K(x, z) = Π_j (1 - u_j + u_j exp(-γ_j |x_j - z_j|)) (README.md). With all u_j = 1 that is the Laplacian kernel (Rahimi
and Recht 2007, section 4).

A bin has a *code* of some bits, a multilinear hash of its interval numbers q_j (Dietzfelbinger 1996):
(b + Σ_j a_j q_j mod 2^32) >> (32 - bits), with random odd a_j. Two bins share a code with a probability of about
2^-bits. The tables of grids with different bits lie one after the other, from `starts` on.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32, I64, U32
from dkernel.numerics.loops import compile_loop, inner
from dkernel.numerics.random_streams import stream

BINNING_ROWS = 1024  # rows of a tile: one feature of these and the hashes of one grid stay in the L1 cache
GRIDS_TOGETHER = 16  # grids whose codes are computed before their coefficients are added: 2 MiB for 32,768 rows
LEAST_BITS = 6  # of a code: two bins of a small table meet in a 64th of the pairs, which adds a constant to the kernel
MOST_BITS = 24  # interval numbers of 8 bits still decide every bit of such a code
LAST_INTERVAL = np.float32(2**30)  # intervals from the origin; all rows beyond share the last one
MISSING_INTERVAL = np.uint32(2**31)  # the interval of a value that is not a number
EXACT: set[str] = set()  # a fused multiply-add would give a row on the edge of an interval another code than numpy does


@inner(EXACT)
def _hashes(X: Any, first: Any, last: Any, inverse: Any, shift: Any, multiplier: Any, offset: Any, h: Any) -> None:
    """Hash the bins of rows first, ..., last - 1, which are columns of X, in one grid."""
    h[:] = offset
    for j in range(X.shape[0]):
        a, b, m, x = inverse[j], shift[j], multiplier[j], X[j, first:last]
        if a == np.float32(0.0):
            continue
        for i in range(h.size):
            q = np.uint32(np.int32(np.floor(max(min(x[i] * a - b, LAST_INTERVAL), -LAST_INTERVAL))))
            h[i] += np.uint32((MISSING_INTERVAL if np.isnan(x[i]) else q) * m)


_GRIDS = "float32[:, ::1], float32[:, ::1], uint32[:, ::1], uint32[::1], uint32[::1]"


@compile_loop(f"void(float32[:, ::1], {_GRIDS}, uint32[:, ::1])", EXACT)
def _codes(X: Any, inverse: Any, shift: Any, multiplier: Any, offset: Any, bits: Any, out: Any) -> None:
    for g in range(out.shape[0]):
        dropped = np.uint32(32) - bits[g]
        for first in range(0, X.shape[1], BINNING_ROWS):
            last = min(first + BINNING_ROWS, X.shape[1])
            h = out[g, first:last]
            _hashes(X, first, last, inverse[g], shift[g], multiplier[g], offset[g], h)
            for i in range(h.size):
                h[i] >>= dropped


@compile_loop("void(uint32[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1])", EXACT)
def add_sums(codes: Any, starts: Any, values: Any, table: Any) -> None:
    """Add to table[starts[g] + code] the values of each row whose bin in grid g has that code, in place."""
    for g in range(codes.shape[0]):
        grid_sums = table[starts[g] : starts[g + 1]]
        if values.shape[1] == 1:
            for i in range(codes.shape[1]):
                grid_sums[codes[g, i], 0] += values[i, 0]
        else:
            for i in range(codes.shape[1]):
                for c in range(values.shape[1]):
                    grid_sums[codes[g, i], c] += values[i, c]


@compile_loop("void(uint32[:, ::1], int64[::1], int16[:, ::1], float32[:, ::1], float32[:, ::1])", EXACT)
def add_bin_scores(codes: Any, starts: Any, coef: Any, unit: Any, scores: Any) -> None:
    """Add to each row's scores the coefficients of its bins in their units, one grid after the other, in place."""
    for g in range(codes.shape[0]):
        grid_coef = coef[starts[g] : starts[g + 1]]
        if scores.shape[1] == 1:
            for i in range(codes.shape[1]):
                scores[i, 0] += np.float32(grid_coef[codes[g, i], 0]) * unit[g, 0]
        else:
            for i in range(codes.shape[1]):
                for c in range(scores.shape[1]):
                    scores[i, c] += np.float32(grid_coef[codes[g, i], c]) * unit[g, c]


_add_to_wide = compile_loop("void(uint32[:, ::1], int64[::1], int16[:, ::1], float32[:, ::1], float64[:, ::1])", EXACT)(
    add_bin_scores._source
)


@compile_loop("void(uint32[:, ::1], uint8[::1], float64[:, :])", EXACT)
def _count_bins(codes: Any, seen: Any, out: Any) -> None:
    """Count the bins that half of the rows, and all of them, occupy in each grid."""
    for g in range(codes.shape[0]):
        seen[:] = 0
        count = 0
        for i in range(codes.shape[1]):
            if i == codes.shape[1] // 2:
                out[0, g] = count
            count += 1 - seen[codes[g, i]]
            seen[codes[g, i]] = 1
        out[1, g] = count


@dataclass(frozen=True)
class Binning:
    """Grids that divide the rows into bins.

    Parameters
    ----------
    inverse : 1 / δ, float32 (n_grids, p); 0 where a grid does not use a feature
    shift : where the intervals begin, in pitches, float32 (n_grids, p)
    multiplier, offset : of the hash, uint32 (n_grids, p) and (n_grids,)
    bits : of a code of each grid, uint32 (n_grids,)
    """

    inverse: F32
    shift: F32
    multiplier: U32
    offset: U32
    bits: U32

    @classmethod
    def draw(
        cls,
        gamma: float | NDArray[np.floating],
        n_in: int,
        n_grids: int,
        bits: int,
        seed: int = 0,
        used: NDArray[np.floating] | float = 1.0,
        categorical: NDArray[np.bool_] | None = None,
        first: int = 0,
    ) -> "Binning":
        """Draw grids; each depends on the seed and on its own number alone.

        Parameters
        ----------
        gamma : of all features, or of each, (n_in,); a feature of gamma 0 is not divided
        used : share of the grids that use a feature, of all or of each
        categorical : features that hold codes of categories: a grid that uses one parts all of these
        first : number of the first grid

        Examples
        --------
        >>> grids = Binning.draw(0.5, n_in=2, n_grids=3, bits=8)
        >>> grids.codes(np.zeros((5, 2), np.float32)).shape
        (3, 5)
        """
        inverse, shift = np.empty((2, n_grids, n_in), np.float32)
        multiplier, offset = np.empty((n_grids, n_in), np.uint32), np.empty(n_grids, np.uint32)
        for g in range(n_grids):
            random = stream(seed, "grids", first + g)
            inverse[g] = gamma / random.gamma(2.0, 1.0, n_in)
            shift[g] = random.uniform(size=n_in)
            numbers = random.integers(0, 2**32, n_in + 1, dtype=np.uint32)
            multiplier[g], offset[g] = numbers[:n_in] | np.uint32(1), numbers[n_in]
            left_out = random.uniform(size=n_in) >= used
            if categorical is not None:
                inverse[g, categorical], shift[g, categorical] = 1.0, 0.0
            inverse[g, left_out] = 0.0
        return cls(inverse, shift, multiplier, offset, np.full(n_grids, bits, np.uint32))

    @property
    def n_grids(self) -> int:
        """Number of grids."""
        return len(self.offset)

    @cached_property
    def starts(self) -> I64:
        """Place of the first bin of each grid among those of all, and the number of all, int64 (n_grids + 1,)."""
        return np.concatenate([[0], np.cumsum(1 << self.bits.astype(np.int64))])

    @property
    def n_bins(self) -> int:
        """Codes of all grids."""
        return int(self.starts[-1])

    def for_rows(self, X: F32, n: int, most: int) -> "Binning":
        """The grids with tables of twice the bins that n rows occupy, as a sample of these rows tells.

        Twice the rows occupy as many times the bins as all of the sample do beside half of it.

        Parameters
        ----------
        X : the sample, float32 (rows, p)
        most : bits of a code
        """
        wide = replace(self, bits=np.full_like(self.bits, most))
        bins, seen = np.zeros((2, self.n_grids)), np.empty(1 << most, np.uint8)
        for first in range(0, self.n_grids, GRIDS_TOGETHER):
            some = slice(first, first + GRIDS_TOGETHER)
            _count_bins(wide.take(some).codes(X), seen, bins[:, some])
        half, whole = np.maximum(bins, 1.0)
        n_bins = 2 * whole * (whole / half) ** max(0.0, np.log2(n / max(len(X), 1)))
        return replace(self, bits=np.clip(np.ceil(np.log2(n_bins)), LEAST_BITS, most).astype(np.uint32))

    def part(self, first: int, last: int) -> "Binning":
        """Grids first, ..., last - 1."""
        return self.take(slice(first, last))

    def take(self, some: slice | NDArray[np.integer]) -> "Binning":
        """Some of the grids."""
        return Binning(self.inverse[some], self.shift[some], self.multiplier[some], self.offset[some], self.bits[some])

    @cached_property
    def _parameters(self) -> tuple[Any, ...]:
        """The arguments of the compiled loop, which takes no array that is read-only (of a file mapped to memory)."""
        arrays = (self.inverse, self.shift, self.multiplier, self.offset, self.bits)
        return tuple(np.require(array, requirements=["C", "W"]) for array in arrays)

    def codes(self, X: F32, out: U32 | None = None) -> U32:
        """Code of the bin of each row in each grid; a row has the same codes alone and in any block.

        Parameters
        ----------
        X : float32 (rows, p), near enough to 0 for float32 to tell their intervals apart
        out : uint32 (n_grids, rows) to write into

        Returns
        -------
        uint32 (n_grids, rows)
        """
        out = np.empty((self.n_grids, len(X)), np.uint32) if out is None else out
        _codes(np.ascontiguousarray(X.T), *self._parameters, out)
        return out

    def add_scores(self, X: F32, coef: NDArray[np.int16], unit: F32, scores: NDArray[np.floating]) -> None:
        """Add to each row's scores the coefficients of its bins, one grid after the other, in place.

        Parameters
        ----------
        X : float32 (rows, p)
        coef : int16 (n_bins, n_outputs)
        unit : of the coefficients of each grid, float32 (n_grids, n_outputs)
        scores : float32 or float64 (rows, n_outputs)
        """
        X, add = np.ascontiguousarray(X.T).T, add_bin_scores if scores.dtype == np.float32 else _add_to_wide
        if (
            self.n_grids * len(X) <= GRIDS_TOGETHER * BINNING_ROWS
        ):  # few rows: the same sums by one call in place of many
            add(self.codes(X), self.starts, coef, unit, scores)
            return
        for first in range(0, self.n_grids, GRIDS_TOGETHER):
            part = self.part(first, first + GRIDS_TOGETHER)
            bins = slice(self.starts[first], self.starts[first + part.n_grids])
            add(part.codes(X), part.starts, coef[bins], unit[first : first + GRIDS_TOGETHER], scores)


BINNING_LOOPS = (_codes, add_sums, add_bin_scores, _count_bins)
