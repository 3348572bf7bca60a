"""Scaling of the features: the map before every feature map, affine but for normal scores."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.features.normal_scores import NormalScores
from dkernel.numerics.fused.products import products
from dkernel.numerics.object_values import number_columns
from dkernel.numerics.sparse_rows import SparseRows

BY_RANKS = "quantile"  # the scaling whose numbers come from a sample, not from moments
SCALINGS = ("standard", "minmax", "global", "maxabs", BY_RANKS, "none")
SPARSE = ("none", "maxabs")
"""Scalings that keep 0, so that sparse rows stay sparse."""
FAR_DEVIATIONS = 1e4  # deviations from 0: float32 has three digits of a column's variation, and fewer beyond


@dataclass(frozen=True, eq=False)
class Scaling:
    """x -> ((z(x) - shift) * factor) R: per column, and with a learned metric a linear map R behind; z(x) is x, or its
    normal scores.

    Parameters
    ----------
    kind : one of SCALINGS, for the record
    shift, factor : float64 (p,); of sparse rows (1,) where one number is for all columns
    rotation : R, float64 (p, p), or None for the identity
    curves : z, None for the identity

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
    curves: NormalScores | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        mean: NDArray[np.float64],
        variance: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        *,
        free: bool = False,
        rounding: float = 1e-7,
        unscaled: NDArray[np.bool_] | None = None,
    ) -> "Scaling":
        """The scaling of that kind for data of these moments, (p,) each.

        standard: every column to variance 1; minmax: to [0, 1]; maxabs: to [-1, 1] with 0 where it was; global: one
        factor for all, to mean variance 1, which keeps the columns' own proportions (pixels); none: as it is. The first
        two and global centre: no shift-invariant kernel sees a shift and float32 distances are more exact near the
        origin; dot products do see it, so maxabs and none leave the shift 0 but of columns FAR_DEVIATIONS from 0,
        where the kernel sees none.
        A constant column is centred and its factor is 1: it carries nothing.

        Parameters
        ----------
        free : the kernel sees no shift
        rounding : of the rows, relative to the size of a column
        unscaled : columns that are centred as the others and keep their unit, bool (p,)
        """
        if unscaled is not None and unscaled.any():
            moments = (mean, variance, low, high)
            zeroed = [np.where(unscaled, 0.0, each) for each in moments]
            inner = cls.of(kind, zeroed[0], zeroed[1], zeroed[2], zeroed[3], free=free, rounding=rounding)
            if kind == "global" and not unscaled.all():
                rest = [each[~unscaled] for each in moments]
                factor = cls.of(kind, rest[0], rest[1], rest[2], rest[3], rounding=rounding).factor[0]
                inner = replace(inner, factor=np.full(len(mean), factor))
            centre = np.where(unscaled & (inner.kind not in ("none", "maxabs")), mean, inner.shift)
            return cls(kind, centre, np.where(unscaled, 1.0, inner.factor))
        deviation = np.sqrt(variance)
        # A column that is constant up to rounding has no scale of its own: blowing its noise up would invent one.
        constant = deviation <= rounding * np.maximum(np.abs(mean), np.abs(high - low))
        one = np.ones_like(mean)
        if kind in SPARSE:
            far = ~constant & (deviation < np.abs(mean) / FAR_DEVIATIONS)
            factor = one if kind == "none" else _reciprocals(np.maximum(np.abs(low), np.abs(high)))
            return cls(kind, np.where(far & free, mean, 0.0), factor)
        if kind == "standard":
            return cls(kind, mean, np.where(constant, 1.0, 1.0 / np.where(constant, 1.0, deviation)))
        if kind == "minmax":
            width = np.where(constant, 1.0, high - low)
            return cls(kind, low.astype(np.float64), 1.0 / width)
        total = float(np.sqrt(np.mean(np.where(constant, 0.0, variance))))
        return cls(kind, mean, one / (total if total > 0 else 1.0))

    @classmethod
    def of_quantiles(
        cls,
        X: NDArray[np.floating],
        weight: NDArray[np.float64] | None = None,
        *,
        rounding: float = 1e-7,
        unscaled: NDArray[np.bool_] | None = None,
    ) -> "Scaling":
        """The scaling of kind "quantile", by a sample of the rows: normal scores, each column to variance 1.

        Parameters
        ----------
        X, weight : the sample (n, p), and how often each row counts, (n,)
        rounding, unscaled : as in `of`
        """
        if X.dtype.kind == "O":
            raise RecipeError(
                "scale='quantile' needs the ranks of all columns, and columns of objects have none. Use "
                "scale='standard', which scales the columns of numbers beside them, or 'none'."
            )
        curves = NormalScores.of(X, weight, unscaled)
        Z = curves.apply(X)
        moments = [
            _compute_moments(z.astype(np.float64), weight) for z in Z.T
        ]  # a sample in float64 would be twice as large
        mean, variance = np.ascontiguousarray(np.array(moments).T)
        inner = cls.of("standard", mean, variance, Z.min(axis=0), Z.max(axis=0), rounding=rounding, unscaled=unscaled)
        return replace(inner, kind=BY_RANKS, curves=curves)

    @classmethod
    def of_sparse(cls, kind: str, largest: NDArray[np.floating]) -> "Scaling":
        """The scaling of that kind for sparse rows whose columns have these largest absolute values, (p,).

        Raises
        ------
        RecipeError
            for a kind that would make every 0 another number
        """
        if kind not in SPARSE:
            raise RecipeError(
                f"scale={kind!r} shifts the columns, and sparse rows of {len(largest):,} columns would become dense. "
                f"Use scale={' or '.join(map(repr, SPARSE))}, or 'auto', which chooses of these."
            )
        return cls(kind, np.zeros(1), np.ones(1) if kind == "none" else _reciprocals(largest.astype(np.float64)))

    def apply(self, X: NDArray, dtype: str = "float32") -> NDArray[np.floating]:
        """The scaled block, C-contiguous (rows, p) of `dtype`; the difference is taken in the dtype of X.

        In a block of objects the columns of numbers are scaled, in float64, and the others are as they were.
        """
        if X.dtype.kind == "O":
            numbers = number_columns(X)
            mixed = X.copy()
            mixed[:, numbers] = (X[:, numbers].astype(np.float64) - self.shift[numbers]) * self.factor[numbers]
            return mixed
        if isinstance(X, SparseRows):
            return self._of_sparse(X, dtype)
        # float32 rounds x - shift relative to |x|: a column with a large offset keeps what its own dtype can hold.
        rounded = self.in_dtype("float64" if X.dtype == np.float64 else "float32")
        if self.curves is not None:
            X = self.curves.apply(X)
        scaled: NDArray[Any] = (X - rounded.shift) * rounded.factor
        rotation: NDArray[Any] | None = rounded.rotation
        if rotation is not None:
            scaled = products(scaled, rotation)
        return np.ascontiguousarray(scaled, dtype=dtype)

    def in_dtype(self, dtype: str) -> "Scaling":
        """The scaling with the numbers that `apply` takes for rows of this dtype.

        The shift of a column far from 0, a year say, is rounded by more of its deviation than anything else in a score.
        """
        # The factor of a column of subnormal numbers is larger than any float32.
        small = dtype == "float64" or self.factor.max(initial=0.0) <= np.finfo(np.float32).max
        return replace(
            self,
            shift=self.shift.astype(dtype),
            factor=self.factor.astype(dtype) if small else self.factor,
            rotation=None if self.rotation is None else self.rotation.astype(dtype),
        )

    def _of_sparse(self, X: SparseRows, dtype: str) -> SparseRows:
        if self.kind == "none":
            return X.astype(dtype)
        small = X.dtype == np.float64 or self.factor.max(initial=0.0) <= np.finfo(np.float32).max
        factor = self.factor[X.indices]
        return X.with_data((X.data * (factor.astype(X.dtype) if small else factor)).astype(dtype, copy=False))

    def spec(self) -> dict[str, Any]:
        """The parts that are no arrays, as JSON."""
        return {"kind": self.kind}

    def arrays(self) -> dict[str, NDArray]:
        """The arrays."""
        rotation = {} if self.rotation is None else {"rotation": self.rotation}
        curves = {} if self.curves is None else self.curves.arrays()
        return {"shift": self.shift, "factor": self.factor, **rotation, **curves}

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "Scaling":
        """The scaling again, from `spec` and `arrays`."""
        kind = str(spec["kind"])
        curves = NormalScores.build(arrays) if kind == BY_RANKS else None
        return cls(kind, arrays["shift"], arrays["factor"], arrays.get("rotation"), curves)


def _compute_moments(z: NDArray[np.float64], weight: NDArray[np.float64] | None) -> tuple[float, float]:
    """Mean and variance."""
    mean = float(np.average(z, weights=weight))
    return mean, float(np.average(np.square(z - mean), weights=weight))


def _reciprocals(largest: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 over each, and 1 for a column of zeros, in its place: sparse rows may have a hundred million columns."""
    largest[~(largest > 0)] = 1.0
    return np.divide(1.0, largest, out=largest)
