"""Random binning: grids of random pitch and shift, whose shared bins estimate a Laplacian kernel.

Grid g divides feature j into intervals of width δ_gj ~ Gamma(2, 1/γ_j) that begin at a uniform shift. Two rows share an
interval with probability E[max(0, 1 - |x_j - z_j| / δ)] = exp(-γ_j |x_j - z_j|), so they share the intervals of all
features, a *bin*, with probability exp(-Σ_j γ_j |x_j - z_j|) (Rahimi and Recht 2007, section 4).

A bin has a *code* of `bits` bits, a multilinear hash of its interval numbers q_j (Dietzfelbinger 1996):
(b + Σ_j a_j q_j mod 2^32) >> (32 - bits), with random odd a_j. Two bins share a code with a probability of about
2^-bits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32, U32
from dkernel.numerics.loops import compile_loop, inner
from dkernel.numerics.random_streams import stream

BINNING_ROWS = 1024  # rows of a tile: one feature of these and the hashes of one grid stay in the L1 cache
GRIDS_TOGETHER = 16  # grids whose codes are computed before their coefficients are added: 2 MiB for 32,768 rows
MOST_BITS = 24  # interval numbers of 8 bits still decide every bit of such a code
LAST_INTERVAL = np.float32(2**30)  # intervals from the origin; all rows beyond share the last one
NO_NUMBER = np.uint32(2**32 - 1)  # of a bin without rows
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


_GRIDS = "float32[:, ::1], float32[:, ::1], uint32[:, ::1], uint32[::1], uint32"


@compile_loop(f"void(float32[:, ::1], {_GRIDS}, uint32[:, ::1])", EXACT)
def _codes(X: Any, inverse: Any, shift: Any, multiplier: Any, offset: Any, dropped: Any, out: Any) -> None:
    for g in range(out.shape[0]):
        for first in range(0, X.shape[1], BINNING_ROWS):
            last = min(first + BINNING_ROWS, X.shape[1])
            h = out[g, first:last]
            _hashes(X, first, last, inverse[g], shift[g], multiplier[g], offset[g], h)
            for i in range(h.size):
                h[i] >>= dropped


@compile_loop("void(uint32[:, ::1], int64[:, ::1], int64[:, :, ::1])", EXACT)
def add_sums(codes: Any, values: Any, table: Any) -> None:
    """Add to table[g, code] the values of each row whose bin in grid g has that code, in place."""
    for g in range(codes.shape[0]):
        if values.shape[1] == 1:
            for i in range(codes.shape[1]):
                table[g, codes[g, i], 0] += values[i, 0]
        else:
            for i in range(codes.shape[1]):
                for c in range(values.shape[1]):
                    table[g, codes[g, i], c] += values[i, c]


@compile_loop("void(uint32[:, ::1], float32[:, :, ::1], float32[:, ::1])", EXACT)
def add_bin_scores(codes: Any, coef: Any, scores: Any) -> None:
    """Add to each row's scores the coefficients of its bins, one grid after the other, in place."""
    for g in range(codes.shape[0]):
        if scores.shape[1] == 1:
            for i in range(codes.shape[1]):
                scores[i, 0] += coef[g, codes[g, i], 0]
        else:
            for i in range(codes.shape[1]):
                for c in range(scores.shape[1]):
                    scores[i, c] += coef[g, codes[g, i], c]


@compile_loop("void(uint32[:, ::1], uint32[::1], uint32[:, ::1], int64[::1])", EXACT)
def _number(codes: Any, number: Any, bins: Any, occupied: Any) -> None:
    for g in range(codes.shape[0]):
        number[:] = NO_NUMBER
        for i in range(codes.shape[1]):
            code = codes[g, i]
            if number[code] == NO_NUMBER:
                number[code] = np.uint32(occupied[g])
                bins[g, occupied[g]] = code
                occupied[g] += 1
            codes[g, i] = number[code]


def number_bins(codes: U32, n_bins: int) -> tuple[U32, list[U32]]:
    """Number the occupied bins of each grid as they come; return the numbers of rows and the codes of the bins.

    Few rows then need small tables.

    Parameters
    ----------
    codes : uint32 (n_grids, rows); they are replaced by the numbers of their bins
    n_bins : codes of a grid

    Examples
    --------
    >>> numbers, bins = number_bins(np.array([[7, 2, 7]], np.uint32), 8)
    >>> numbers.tolist(), [each.tolist() for each in bins]
    ([[0, 1, 0]], [[7, 2]])
    """
    bins, occupied = np.empty_like(codes), np.zeros(len(codes), np.int64)
    _number(codes, np.empty(n_bins, np.uint32), bins, occupied)
    return codes, [own[:k] for own, k in zip(bins, occupied.tolist(), strict=True)]


@dataclass(frozen=True)
class Binning:
    """Grids that divide the rows into bins.

    Parameters
    ----------
    inverse : 1 / δ, float32 (n_grids, p); 0 where a grid does not divide a feature
    shift : where the intervals begin, in pitches, float32 (n_grids, p)
    multiplier, offset : of the hash, uint32 (n_grids, p) and (n_grids,)
    bits : of a code
    """

    inverse: F32
    shift: F32
    multiplier: U32
    offset: U32
    bits: int

    @classmethod
    def draw(
        cls,
        gamma: float | NDArray[np.floating],
        n_in: int,
        n_grids: int,
        bits: int,
        seed: int = 0,
        categorical: NDArray[np.bool_] | None = None,
    ) -> "Binning":
        """Draw grids; each depends on the seed and on its own number alone.

        Parameters
        ----------
        gamma : of all features, of each, (n_in,), or of each in each grid, (n_grids, n_in); a feature of gamma 0 is not
            divided
        categorical : features that hold codes of categories: a grid parts all of these or none, so that two rows of
            different categories share a bin with probability exp(-gamma)

        Examples
        --------
        >>> grids = Binning.draw(0.5, n_in=2, n_grids=3, bits=8)
        >>> grids.codes(np.zeros((5, 2), np.float32)).shape
        (3, 5)
        """
        gamma = np.broadcast_to(np.asarray(gamma, np.float64), (n_grids, n_in))
        inverse, shift = np.empty((2, n_grids, n_in), np.float32)
        multiplier, offset = np.empty((n_grids, n_in), np.uint32), np.empty(n_grids, np.uint32)
        for g in range(n_grids):
            random = stream(seed, "grids", g)
            inverse[g] = gamma[g] / random.gamma(2.0, 1.0, n_in)
            shift[g] = random.uniform(size=n_in)
            numbers = random.integers(0, 2**32, n_in + 1, dtype=np.uint32)
            multiplier[g], offset[g] = numbers[:n_in] | np.uint32(1), numbers[n_in]
            parted = random.uniform(size=n_in) < -np.expm1(-gamma[g])
            if categorical is not None:
                inverse[g, categorical], shift[g, categorical] = parted[categorical], 0.0
        return cls(inverse, shift, multiplier, offset, bits)

    @property
    def n_grids(self) -> int:
        """Number of grids."""
        return len(self.offset)

    @property
    def n_bins(self) -> int:
        """Codes of a grid, 2^bits."""
        return 1 << self.bits

    def part(self, first: int, last: int) -> "Binning":
        """Grids first, ..., last - 1."""
        some = slice(first, last)
        return Binning(self.inverse[some], self.shift[some], self.multiplier[some], self.offset[some], self.bits)

    @cached_property
    def _parameters(self) -> tuple[Any, ...]:
        """The arguments of the compiled loop, which takes no array that is read-only (of a file mapped to memory)."""
        arrays = (self.inverse, self.shift, self.multiplier, self.offset)
        return *(np.require(array, requirements=["C", "W"]) for array in arrays), np.uint32(32 - self.bits)

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

    def add_scores(self, X: F32, coef: F32, scores: F32) -> None:
        """Add to each row's scores the coefficients of its bins, one grid after the other, in place.

        Parameters
        ----------
        X : float32 (rows, p)
        coef : float32 (n_grids, n_bins, n_outputs)
        scores : float32 (rows, n_outputs)
        """
        X = np.ascontiguousarray(X.T).T
        for first in range(0, self.n_grids, GRIDS_TOGETHER):
            last = first + GRIDS_TOGETHER
            add_bin_scores(self.part(first, last).codes(X), coef[first:last], scores)


BINNING_LOOPS = (_codes, add_sums, add_bin_scores, _number)
