"""Kernel columns of the kernels of a distance: squared distances by one sgemm, then a profile in place."""

from collections.abc import Callable

import numpy as np

from dkernel.kernels.landmark_columns.base import (
    COLUMN_BLOCK,
    LandmarkColumns,
    ScaledColumns,
    augment,
    choose_center,
    column_blocks,
    within,
)
from dkernel.numerics import tiling
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.fused.shapes import LOG2_E

# A float32 sgemm makes a squared distance wrong by this share of ‖x‖² + ‖z‖².
CANCELLED = 4e-7
FLOAT32_TOLERANCE = 1e-6  # a distance may be wrong by this share of the length
NODES_PER_UNIT = 2048  # a profile bends by less than 1e-7 between two
LARGEST_EXPONENT = 40  # exp(-40) is 4e-18
NODES = LARGEST_EXPONENT * NODES_PER_UNIT + 1  # both ends


class SquaredColumns(LandmarkColumns):
    """‖x - z‖² / length² of rows and landmarks, into a tile: the first half of every radial kernel.

    The product of (x, 1, ‖x‖²) and (-2z, ‖z‖², 1), after centring and division by the length. With `sharp`, pairs so
    near that their distance would be wrong by more than `tolerance` are taken again, one by one: a kernel with a cusp
    at 0 needs the distance, and the root of a rounded 0 is a thousandth. Which pairs depends on the row and on
    the landmarks, never on other rows.
    """

    def __init__(self, Z: F64, length: float, sharp: bool = False, tolerance: float = FLOAT32_TOLERANCE) -> None:
        self.n = Z.shape[0]
        self._inverse = np.float32(1 / length)
        self._center = choose_center(Z)
        centred = within((Z - self._center) / length)
        norms = np.einsum("ij,ij->i", centred, centred)
        near = np.ascontiguousarray(centred, np.float32)
        parts = [near[i : i + COLUMN_BLOCK] for i in range(0, self.n, COLUMN_BLOCK)]
        self._landmarks = []
        for i, rows in enumerate(parts):
            wide = np.ones((rows.shape[1] + 2, len(rows)), np.float32)
            np.multiply(rows.T, -2, out=wide[:-2])
            wide[-2] = norms[i * COLUMN_BLOCK :][: len(rows)]
            self._landmarks.append(wide)
        self._near = parts if sharp else []
        # A square wrong by e makes a distance d wrong by e / 2d.
        self._share = np.float32(CANCELLED / 2 / tolerance)

    def rows(self, X: F32) -> tuple[F32, F32 | None]:
        """The augmented rows (r, p + 2); and, with `sharp`, the rows that they were made of."""
        wide = augment(X, self._center, self._inverse)
        return wide, np.ascontiguousarray(wide[:, :-2]) if self._near else None

    def fill(self, rows: tuple[F32, F32 | None], first: int, out: F32) -> None:
        """One sgemm into the tile, and the near pairs again."""
        wide, scaled = rows
        block = first // COLUMN_BLOCK
        landmarks = self._landmarks[block][:, : out.shape[1]]
        np.matmul(wide, landmarks, out=out)
        if scaled is not None:
            from dkernel.numerics import elementwise  # compiles what no other kernel needs

            limits = self._share * wide[:, -1], self._share * landmarks[-2]
            elementwise.refine_squared(scaled, self._near[block][: out.shape[1]], *limits, out)


class DecayColumns(SquaredColumns):
    """(1 + b a + c a²) exp(-a), a = slope · ‖x - z‖ / length: Matern's for ν = 1/2, 3/2 and 5/2."""

    def __init__(
        self,
        Z: F64,
        length: float,
        slope: float,
        b: float,
        c: float,
        sharp: bool,
        tolerance: float = FLOAT32_TOLERANCE,
    ) -> None:
        super().__init__(Z, length / (slope * LOG2_E), sharp, tolerance)
        self._b, self._c = b / LOG2_E, c / LOG2_E**2

    def fill(self, rows: tuple[F32, F32 | None], first: int, out: F32) -> None:
        from dkernel.numerics import elementwise  # compiles what no other kernel needs

        super().fill(rows, first, out)
        elementwise.decay_inplace(out, self._b, self._c)


class RationalColumns(SquaredColumns):
    """(1 + ‖x - z‖² / length²)^-alpha."""

    def __init__(self, Z: F64, length: float, alpha: float) -> None:
        super().__init__(Z, length)
        self._alpha = alpha

    def fill(self, rows: tuple[F32, F32 | None], first: int, out: F32) -> None:
        super().fill(rows, first, out)
        np.maximum(out, 0, out=out)
        if self._alpha == 1:
            out += 1
            np.reciprocal(out, out=out)
            return
        np.log1p(out, out=out)  # not log(1 + s), which a large alpha would multiply the rounding of
        out *= np.float32(-self._alpha * LOG2_E)
        tiling.exp2_inplace(out)


class TabulatedColumns(SquaredColumns):
    """A profile of a = slope · ‖x - z‖ / length that no short formula gives: read from a table, linearly in between.

    The table ends at LARGEST_EXPONENT, where a profile that decays as exp(-a) is 0 in float32, and beyond it stays so.
    Between two of its NODES such a profile bends by less than 1e-7.
    """

    def __init__(self, Z: F64, length: float, slope: float, profile: Callable[[F64], F64], sharp: bool) -> None:
        super().__init__(Z, length * NODES_PER_UNIT**-1 / slope, sharp)
        self._table = profile(np.arange(NODES) / NODES_PER_UNIT).astype(np.float32)
        self._steps = np.diff(self._table, append=self._table[-1:])

    def fill(self, rows: tuple[F32, F32 | None], first: int, out: F32) -> None:
        """Squared distances, their roots as places in the table, and two readings for each."""
        super().fill(rows, first, out)
        np.clip(out, 0, np.float32(NODES - 1) ** 2, out=out)
        np.sqrt(out, out=out)
        node = out.astype(np.int32)
        out -= node
        out *= self._steps[node]
        out += self._table[node]


class CauchyProductColumns(ScaledColumns):
    """Π_j 1 / (1 + (x_j - z_j)² / length²)."""

    def __init__(self, Z: F64, length: float) -> None:
        super().__init__(Z, 1 / length)
        self._landmarks = column_blocks(((Z - self._center) / length).T)

    def fill(self, rows: F32, first: int, out: F32) -> None:
        from dkernel.numerics import elementwise  # compiles what no other kernel needs

        elementwise.cauchy_products(rows, self._landmarks[first // COLUMN_BLOCK], out)
