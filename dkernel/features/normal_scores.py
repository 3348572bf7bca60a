"""Normal scores: each column by the normal quantile of its rank, so that no column has outliers or a long tail."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F64

MOST_KNOTS = 256  # of a column: its ranks are exact to a five hundredth, and a model has 4 KiB of them
# Columns of so few values are levels: their distances mean what they say, and ranks would say how often they come.
FEW_VALUES = 16


@dataclass(frozen=True, eq=False)
class NormalScores(ArrayRecord):
    """z_j(x) = Φ⁻¹(r_j(x)) at the knots of column j, straight between two, and level beyond the first and the last.

    r_j(x) is the share of the rows below x, and half of those at x: Φ⁻¹ is the quantile function of N(0, 1). Columns
    without knots stay as they are.

    Parameters
    ----------
    knots, values : of all columns one after the other, float64 (m,): rising numbers x, and z there
    ends : where the knots of each column end, int64 (p,)
    """

    knots: F64
    values: F64
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, X: NDArray[np.floating], weight: F64 | None = None, unchanged: NDArray[np.bool_] | None = None) -> Self:
        """The scores of rows (n, p), a row counting as its weight says, by at most MOST_KNOTS of their numbers.

        Parameters
        ----------
        unchanged : columns that stay as they are, bool (p,), beside those of at most FEW_VALUES values

        Examples
        --------
        >>> x = np.arange(1000.0)[:, None] ** 3
        >>> NormalScores.of(x).apply(x[[0, 250, 500, 999]])[:, 0].round(1).tolist()
        [-3.3, -0.7, 0.0, 3.3]
        """
        none = np.zeros(0), np.zeros(0)
        curves = [none if unchanged is not None and unchanged[j] else _make_curve(x, weight) for j, x in enumerate(X.T)]
        ends = np.cumsum([len(knots) for knots, _ in curves]).astype(np.int64)
        knots, values = (np.concatenate([curve[i] for curve in curves]) for i in (0, 1))
        return cls(knots, values, ends)

    def apply(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """The scores of a block (rows, p), in its dtype; they are computed in float64."""
        Z = X.copy()
        for j, (first, end) in enumerate(zip([0, *self.ends[:-1]], self.ends, strict=True)):
            if first < end:
                Z[:, j] = np.interp(X[:, j], self.knots[first:end], self.values[first:end])
        return Z

    def fits(self, p: int) -> bool:
        """True if these are rising curves of p columns."""
        x, z, ends = self.knots, self.values, self.ends
        if not x.ndim == z.ndim == ends.ndim == 1 or ends.shape != (p,) or ends.dtype != np.int64 or x.shape != z.shape:
            return False
        if not x.dtype == z.dtype == np.float64 or ends[-1] != len(x) or (np.diff(ends, prepend=0) < 0).any():
            return False
        within = np.setdiff1d(np.arange(1, len(x)), ends)  # a knot and the one before it, of one column
        return bool((x[within] > x[within - 1]).all() and (z[within] > z[within - 1]).all())


def _make_curve(x: NDArray[np.floating], weight: F64 | None) -> tuple[F64, F64]:
    """Knots of a column at equal steps of its rank, and their normal scores."""
    numbers, inverse = np.unique(x.astype(np.float64), return_inverse=True)
    if len(numbers) <= FEW_VALUES:
        return np.zeros(0), np.zeros(0)
    count = np.bincount(inverse, weight, len(numbers))
    ranks = (np.cumsum(count) - count / 2) / count.sum()
    at = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], MOST_KNOTS)))
    return numbers[at], scipy.special.ndtri(ranks[at])
