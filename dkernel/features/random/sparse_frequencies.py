"""Frequencies of sparse rows: a tile draws those of its own features alone."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.features.random.projections import MOST_KEPT, Seeded
from dkernel.kernels import Kernel
from dkernel.numerics.random_streams import stream

SCATTERED = "scattered"
"""The sampling of sparse rows: independent, and each column's drawn alone."""

MOST_STRIP = 2**25  # bytes of the frequencies of the columns of some rows


class Scattered(Seeded):
    """Frequencies of sparse rows: those of each column of the data are a draw of their own, made where it occurs.

    Ω of p columns would be p m numbers, 4 GiB of 2^20 columns and 1,024 frequencies; a tile of rows needs those of its
    own columns alone. A process keeps the first MOST_KEPT bytes of them, so that what is common is drawn once, and
    draws the others again, to the same bits. Independent frequencies, for laws whose coordinates are.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> Scattered(Gaussian(gamma=0.5), 2**20, 8, 0).of_column(77).shape
    (8,)
    """

    arguments = ("kernel", "p", "m", "seed", "divisor")

    def __init__(self, kernel: Kernel, p: int, m: int, seed: int, divisor: float = 1.0) -> None:
        super().__init__(kernel, p, m, seed, SCATTERED, divisor)
        self._law = kernel.law(p)
        self._law.coordinate(1, stream(seed, "column", 0))  # refuses what has none that is drawn alone
        self._shared = self._law.shared(m, stream(seed, "shared")) / divisor
        self._kept: dict[int, NDArray[np.float64]] = {}

    @classmethod
    def draw(cls, kernel: Kernel, p: int, m: int, seed: int, sampling: str) -> "Scattered":
        """The frequencies, if `sampling` allows that each column is drawn alone."""
        if sampling not in ("auto", "iid"):
            raise UnsupportedError(
                f"sampling={sampling!r} draws all columns of the data together, and those of sparse rows are drawn "
                "where they occur. Use sampling='auto'."
            )
        return cls(kernel, p, m, seed)

    def of_column(self, j: int) -> NDArray[np.float64]:
        """Ω of one column of the data, (m,)."""
        frequencies = self._kept.get(j)
        if frequencies is None:
            frequencies = self._law.coordinate(self.m, stream(self.seed, "column", j)) * self._shared
            if 8 * self.m * (len(self._kept) + 1) <= MOST_KEPT:
                self._kept[j] = frequencies
        return frequencies

    def products(self, X: Any, dtype: str) -> NDArray[np.floating]:
        """Compute the products in strips of rows whose frequencies take at most MOST_STRIP bytes, or of one row."""
        out, most = np.zeros((len(X), self.m), dtype), max(1, MOST_STRIP // (8 * self.m))
        first = 0
        while first < len(X):
            stop = max(first + 1, int(np.searchsorted(X.starts, X.starts[first] + most, side="right")) - 1)
            part = X[first : min(stop, len(X))]
            columns, places = np.unique(part.indices, return_inverse=True)
            if len(columns):
                table = np.stack([self.of_column(int(j)) for j in columns]).astype(dtype, copy=False)
                shape = (len(part), len(columns))
                out[first:stop] = sp.csr_array((part.data.astype(dtype), places, part.starts), shape=shape) @ table
            first = stop
        return out

    def rows(self, X: NDArray) -> NDArray[np.float32]:
        """Compute all z of a tile at once: its columns are looked for once."""
        return np.asarray(self.products(X, "float32"))

    def fill(self, rows: NDArray[np.float32], first: int, out: NDArray[np.float32]) -> None:
        out[...] = rows[:, first : first + out.shape[1]]

    def part(self, first: int, width: int) -> NDArray[np.float64]:
        return np.stack([self.of_column(j)[first : first + width] for j in range(self.p)], axis=1)

    def divide(self, number: float) -> "Scattered":
        return Scattered(self.kernel, self.p, self.m, self.seed, self.divisor * number)
