"""Kernels of the inner product as power series, k(x, z) = Σ a_N ⟨x, z⟩^N, and the algebra that keeps them so."""

from math import comb, factorial

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels import Exp, Kernel, Linear, Polynomial, PowerSeries, Product, Scaled, Sum

MOST_DEGREE = 40  # 1 / 40! is 1e-48


def find_power_series(kernel: Kernel) -> NDArray[np.float64] | None:
    """The coefficients a_0, a_1, ... of a kernel that is a power series of ⟨x, z⟩; None for any other.

    An infinite series ends after MOST_DEGREE, where the terms of an exponential are 1e-47 and less.

    Examples
    --------
    >>> find_power_series(Polynomial(degree=2, c=1.0) + 3 * Linear()).tolist()
    [1.0, 5.0, 1.0]
    """
    if kernel == Linear():
        return np.array([0.0, 1.0])
    if isinstance(kernel, Polynomial):
        return np.array([comb(kernel.degree, N) * kernel.c ** (kernel.degree - N) for N in range(kernel.degree + 1)])
    if isinstance(kernel, Scaled):
        inner = find_power_series(kernel.kernel)
        return None if inner is None else kernel.weight * inner
    if isinstance(kernel, PowerSeries | Exp):
        inner = find_power_series(kernel.kernel)
        return None if inner is None else _compose(kernel, inner)
    if not isinstance(kernel, Sum | Product):
        return None
    members = [find_power_series(member) for member in kernel.members]
    total: NDArray[np.float64] | None = None
    for member in members:
        if member is None:
            return None
        if total is None:
            total = member
        elif isinstance(kernel, Product):
            total = np.convolve(total, member)
        else:
            n = max(len(total), len(member))
            total = np.pad(total, (0, n - len(total))) + np.pad(member, (0, n - len(member)))
    return total


def _compose(kernel: PowerSeries | Exp, inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_i a_i (inner)^i, up to MOST_DEGREE."""
    constant = 0.0
    if isinstance(kernel, Exp):
        constant, inner = inner[0], np.concatenate([[0.0], inner[1:]])
        factors = [1.0 / factorial(i) for i in range(MOST_DEGREE + 1)]
    else:
        factors = list(kernel.coefficients)
    total, power = np.zeros(MOST_DEGREE + 1), np.ones(1)
    for a in factors:
        total[: len(power)] += a * power
        power = np.convolve(power, inner)[: MOST_DEGREE + 1]
    total *= np.exp(constant)
    return total[: int(np.flatnonzero(total)[-1]) + 1]


def degree_shares(series: NDArray[np.float64], least: int) -> NDArray[np.float64]:
    """The share of the columns that each degree of at least `least` gets, Σ = 1 or all zero.

    For rows of length 1 a sketch of degree N has a second moment of at most a_N² 3^N: shares in proportion to the
    square root make the variance of the sum least.
    """
    degrees = np.arange(len(series))
    shares = np.where(degrees >= least, series * 3.0 ** (degrees / 2), 0.0)
    total = shares.sum()
    return shares / total if total > 0 else shares
