"""Scaling of the inputs: the affine map that stands before every feature map."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.cells import number_columns

__all__ = ["SCALINGS", "Scaling"]

SCALINGS = ("standard", "minmax", "global", "none")


@dataclass(frozen=True, eq=False)
class Scaling:
    """x -> ((x - shift) * factor) R: per column, and with a learned metric a linear map R behind.

    Parameters
    ----------
    kind : one of SCALINGS, for the record
    shift, factor : float64 (p,)
    rotation : R, float64 (p, p), or None for the identity

    Examples
    --------
    >>> scaling = Scaling("standard", np.array([1.0, 0.0]), np.array([2.0, 1.0]))
    >>> scaling.apply(np.array([[2.0, 3.0]])).tolist()
    [[2.0, 3.0]]
    """

    kind: str
    shift: NDArray[np.float64]
    factor: NDArray[np.float64]
    rotation: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        mean: NDArray[np.float64],
        variance: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> "Scaling":
        """The scaling of that kind for data of these moments, (p,) each.

        standard: every column to variance 1; minmax: to [0, 1]; global: one factor for all, to mean variance 1, which
        keeps the columns' own proportions (pixels); none: centred only, since no shift-invariant kernel sees a shift
        and float32 distances are more exact near the origin -- but dot products do see it, so none leaves the shift 0.
        A constant column is centred and its factor is 1: it carries nothing.
        """
        deviation = np.sqrt(variance)
        # A column that is constant up to rounding has no scale of its own: blowing its noise up would invent one.
        constant = deviation <= 1e-7 * np.maximum(np.abs(mean), np.abs(high - low))
        one = np.ones_like(mean)
        if kind == "none":
            return cls(kind, np.zeros_like(mean), one)
        if kind == "standard":
            return cls(kind, mean, np.where(constant, 1.0, 1.0 / np.where(constant, 1.0, deviation)))
        if kind == "minmax":
            width = np.where(constant, 1.0, high - low)
            return cls(kind, low.astype(np.float64), 1.0 / width)
        total = float(np.sqrt(np.mean(np.where(constant, 0.0, variance))))
        return cls(kind, mean, one / (total if total > 0 else 1.0))

    def apply(self, X: NDArray, dtype: str = "float32") -> NDArray[np.floating]:
        """The scaled block, C-contiguous (rows, p) of `dtype`; the difference is taken in the dtype of X.

        In a block of objects the columns of numbers are scaled, in float64, and the others are as they were.
        """
        if X.dtype.kind == "O":
            numbers = number_columns(X)
            scaled = X.copy()
            scaled[:, numbers] = (X[:, numbers].astype(np.float64) - self.shift[numbers]) * self.factor[numbers]
            return scaled
        # float32 rounds x - shift relative to |x|: a column with a large offset keeps what its own dtype can hold.
        shift = self.shift.astype(np.float64 if X.dtype == np.float64 else np.float32)
        # The factor of a column of subnormal numbers is larger than any float32.
        small = shift.dtype == np.float64 or self.factor.max(initial=0.0) <= np.finfo(np.float32).max
        scaled = (X - shift) * (self.factor.astype(shift.dtype) if small else self.factor)
        if self.rotation is not None:
            scaled = scaled @ self.rotation.astype(shift.dtype)
        return np.ascontiguousarray(scaled, dtype=dtype)

    def spec(self) -> dict[str, Any]:
        """What is not an array, as JSON."""
        return {"kind": self.kind}

    def arrays(self) -> dict[str, NDArray]:
        """What is an array."""
        rotation = {} if self.rotation is None else {"rotation": self.rotation}
        return {"shift": self.shift, "factor": self.factor, **rotation}

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "Scaling":
        """The scaling again, from `spec` and `arrays`."""
        return cls(str(spec["kind"]), arrays["shift"], arrays["factor"], arrays.get("rotation"))
