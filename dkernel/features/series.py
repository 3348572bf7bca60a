"""Kernels of the inner product as power series: k(x, z) = Σ a_N ⟨x, z⟩^N, and the algebra that keeps them so."""

from math import comb

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels import Kernel, Linear, Polynomial, Product, Scaled, Sum

__all__ = ["series_of", "shares"]


def series_of(kernel: Kernel) -> NDArray[np.float64] | None:
    """The coefficients a_0, a_1, ... of a kernel that is a finite power series of ⟨x, z⟩; None for any other.

    Examples
    --------
    >>> series_of(Polynomial(degree=2, c=1.0) + 3 * Linear()).tolist()
    [1.0, 5.0, 1.0]
    """
    if kernel == Linear():
        return np.array([0.0, 1.0])
    if isinstance(kernel, Polynomial):
        return np.array([comb(kernel.degree, N) * kernel.c ** (kernel.degree - N) for N in range(kernel.degree + 1)])
    if isinstance(kernel, Scaled):
        inner = series_of(kernel.kernel)
        return None if inner is None else kernel.weight * inner
    if not isinstance(kernel, Sum | Product):
        return None
    members = [series_of(member) for member in kernel.members]
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


def shares(series: NDArray[np.float64], least: int) -> NDArray[np.float64]:
    """The share of the columns that each degree of at least `least` gets, Σ = 1 or all zero.

    For rows of length 1 a sketch of degree N has a second moment of at most a_N² 3^N: shares in proportion to the
    square root make the variance of the sum least.
    """
    degrees = np.arange(len(series))
    wanted = np.where(degrees >= least, series * 3.0 ** (degrees / 2), 0.0)
    total = wanted.sum()
    return wanted / total if total > 0 else wanted
