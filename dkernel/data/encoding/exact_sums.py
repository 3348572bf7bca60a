"""Sums of floating-point numbers without rounding: the same in any order, and from any parts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F64

LIMB = 24  # bits of a limb: the limbs of 2**29 numbers are summed in float64 without rounding, of 2**39 in int64
# Exponent of the last limb: what is below 2**-960 is dropped, so that all scales are normal numbers.
LAST_EXPONENT = -40


@dataclass(frozen=True)
class ExactSums:
    """An array of sums, each as whole multiples of powers of 2**LIMB.

    Parameters
    ----------
    limbs : exponent -> whole numbers, 0 among the exponents; the sums are those of limbs[k] * 2**(LIMB * k)

    Examples
    --------
    >>> sums = ExactSums.of([(np.array([1e17, 1.0, 0.5]), np.array([0, 0, 1]))], (2,))
    >>> sums.merge(ExactSums.of([(np.array([-1e17]), np.array([0]))], (2,))).fractions().astype(float)
    array([1. , 0.5])
    """

    limbs: Mapping[int, NDArray[np.int64]]

    @classmethod
    def of(cls, terms: Iterable[tuple[F64, NDArray[np.int64] | None]], shape: tuple[int, ...]) -> "ExactSums":
        """The sums of numbers at positions in the flat array, None for the first; what is not finite is left out."""
        limbs = {0: np.zeros(shape, np.int64)}
        for values, positions in terms:
            finite = np.isfinite(values)
            rest = values.copy() if finite.all() else np.where(finite, values, 0.0)
            k = (int(np.frexp(np.abs(rest).max(initial=0.0))[1]) - 1) // LIMB
            while k >= LAST_EXPONENT and rest.any():
                whole = np.trunc(rest * 2.0 ** (-LIMB * k))
                sums = np.array([whole.sum()]) if positions is None else np.bincount(positions, whole, limbs[0].size)
                rest -= np.multiply(whole, 2.0 ** (LIMB * k), out=whole)
                limbs[k] = limbs.get(k, 0) + sums.astype(np.int64).reshape(shape)
                k -= 1
        return cls(limbs)

    def merge(self, other: "ExactSums") -> "ExactSums":
        """The sums of both, which have one shape."""
        return ExactSums({**self.limbs, **{k: self.limbs.get(k, 0) + limb for k, limb in other.limbs.items()}})

    def spread(self, shape: tuple[int, ...], positions: Any) -> "ExactSums":
        """These sums at some positions of another array, added where these are the same, 0 at the others."""
        limbs = {k: np.zeros(shape, np.int64) for k in self.limbs}
        flat = np.arange(limbs[0].size).reshape(shape)[positions].ravel()
        for k, limb in self.limbs.items():
            np.add.at(limbs[k].reshape(-1), flat, limb.ravel())
        return ExactSums(limbs)

    def take(self, positions: Any) -> "ExactSums":
        """The sums at some positions."""
        return ExactSums({k: limb[positions] for k, limb in self.limbs.items()})

    def sum(self) -> "ExactSums":
        """The sums over the first axis."""
        return ExactSums({k: limb.sum(axis=0) for k, limb in self.limbs.items()})

    def whole_numbers(self) -> NDArray[Any]:
        """The sums as an array of int, all times one power of 2."""
        low = min(self.limbs)
        return np.asarray(sum(limb.astype(object) * 2 ** (LIMB * (k - low)) for k, limb in self.limbs.items()), object)

    def fractions(self) -> NDArray[Any]:
        """The sums as an array of Fraction."""
        return np.asarray(self.whole_numbers() * Fraction(2) ** (LIMB * min(self.limbs)), object)


def exact_product(one: F64, other: F64 | None) -> list[F64]:
    """Two arrays whose sum is the product without rounding (Dekker 1971); the first array alone where other is None.

    That holds where the products are between 1e-290 and 1e300.

    Examples
    --------
    >>> high, low = exact_product(np.array([1 + 2.0**-30]), np.array([1 + 2.0**-30]))
    >>> high[0] == 1 + 2.0**-29, low[0] == 2.0**-60
    (np.True_, np.True_)
    """
    if other is None:
        return [one]
    with np.errstate(over="ignore", invalid="ignore"):
        product = one * other
        (a, b), (c, d) = _halves(one), _halves(other)
        return [product, ((a * c - product) + a * d + b * c) + b * d]


def _halves(values: F64) -> tuple[F64, F64]:
    """The upper and the lower 26 bits of each."""
    scaled = values * (2.0**27 + 1)
    upper = scaled - (scaled - values)
    return upper, values - upper
