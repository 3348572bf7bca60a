"""Gradients of f(x) = Σ_j a_j k(x, z_j), for kernels of a distance.

Of a radial kernel by its slope k' = ∂k/∂(‖x - z‖²): ∇f(x) = 2 Σ_j a_j k'(x, z_j) (x - z_j), two products of matrices.
Laplacian's by its signs, one column after the other. Kernels of another kind have none here, and say so.
"""

import math
from collections.abc import Callable
from functools import singledispatch

import numpy as np
import scipy

from dkernel.errors import UnsupportedError
from dkernel.kernels.algebra import Product, Scaled, Sum
from dkernel.kernels.base import Kernel
from dkernel.kernels.distances import squared_l2
from dkernel.kernels.radial import Cauchy, Matern, RationalQuadratic
from dkernel.kernels.stationary import Gaussian, Laplacian
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import stream

# Nearer than this share of its length a kernel with a corner at 0 counts as flat: its two sides cancel.
CORNER_LENGTH = 1e-6
MOST_OUTPUTS = 16  # outputs that have gradients of their own; more are combined at random
SLOPE_STRIP = 1024  # rows whose slopes exist at one time


def slopes(kernel: Kernel, X: F64, Z: F64) -> F64:
    """∂k(x, z) / ∂‖x - z‖² of every pair, float64 (n, m); never positive. UnsupportedError where k is not radial.

    Where the kernel has a corner at x = z (Exponential, Matern below 3/2) the slope there is taken as 0.

    Examples
    --------
    >>> slopes(Gaussian(gamma=0.5), np.array([[0.0]]), np.array([[0.0], [2.0]])).round(6)
    array([[-0.5     , -0.067668]])
    """
    return slope_rule(kernel)(X, Z)


def is_radial(kernel: Kernel) -> bool:
    """True if `slopes` knows the kernel; its lengths may still be words."""
    try:
        slope_rule(kernel)
    except UnsupportedError:
        return False
    return True


def has_gradient(kernel: Kernel) -> bool:
    """True if `gradients` knows the kernel; its lengths may still be words."""
    return isinstance(kernel, Laplacian) or is_radial(kernel)


def gradients(kernel: Kernel, X: F64, Z: F64, coef: F64) -> F64:
    """∇f_o(x_i) of f_o(x) = Σ_j coef_jo k(x, z_j), float64 (outputs, n, p). UnsupportedError as `slopes`.

    Examples
    --------
    >>> gradients(Gaussian(gamma=0.5), np.array([[1.0, 0.0]]), np.zeros((1, 2)), np.ones((1, 1))).round(4)
    array([[[-0.6065, -0.    ]]])
    """
    if isinstance(kernel, Laplacian):
        return _laplacian_gradients(-kernel._number * kernel._values(X, Z), X, Z, coef)
    S = slopes(kernel, X, Z)
    slope_sums = S @ coef
    return np.stack([2 * (slope_sums[:, o, None] * X - S @ (a[:, None] * Z)) for o, a in enumerate(coef.T)])


def _laplacian_gradients(K: F64, X: F64, Z: F64, coef: F64) -> F64:
    """Σ_j a_jo K_ij sign(x_i - z_j) of each column; those of two values, as of one-hot inputs, by one product."""
    out = np.empty((coef.shape[1], *X.shape))
    low, high = np.minimum(X.min(axis=0), Z.min(axis=0)), np.maximum(X.max(axis=0), Z.max(axis=0))
    is_high, landmark_is_high = high == X, high == Z
    two = (is_high | (low == X)).all(axis=0) & (landmark_is_high | (low == Z)).all(axis=0) & (low < high)
    for gradient, a in zip(out, coef.T, strict=True):
        above = K @ (a[:, None] * landmark_is_high[:, two])  # the sum over the landmarks of the high value
        gradient[:, two] = np.where(is_high[:, two], (K @ a)[:, None] - above, -above)
    for j in np.flatnonzero(~two):
        out[:, :, j] = ((K * np.sign(np.subtract.outer(X[:, j], Z[:, j]))) @ coef).T
    return out


def gradient_moment(kernel: Kernel, X: F64, Z: F64, coef: F64, seed: int = 0) -> F64:
    """Σ over rows and outputs of ∇f(x) ∇f(x)^T, f_o(x) = Σ_j coef_jo k(x, z_j); float64 (p, p).

    Parameters
    ----------
    X : rows (n, p);  Z : landmarks (c, p);  coef : (c, outputs)
    seed : of the random signs that combine the outputs where there are many

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> X, Z = np.array([[1.0, 0.0]]), np.zeros((1, 2))
    >>> gradient_moment(Gaussian(gamma=0.5), X, Z, np.ones((1, 1))).round(4)
    array([[0.3679, 0.    ],
           [0.    , 0.    ]])
    """
    coef = combined_outputs(coef, seed)
    total = np.zeros((X.shape[1],) * 2)
    for start in range(0, len(X), SLOPE_STRIP):
        for G in gradients(kernel, X[start : start + SLOPE_STRIP], Z, coef):
            total += G.T @ G
    return total


def combined_outputs(coef: F64, seed: int = 0) -> F64:
    """At most MOST_OUTPUTS combinations of the outputs by random signs s: E (Σ_o s_o ∇f_o)(...)^T is the sum."""
    if coef.shape[1] <= MOST_OUTPUTS:
        return coef
    signs = stream(seed, "outputs").integers(0, 2, (coef.shape[1], MOST_OUTPUTS)) * 2.0 - 1.0
    return coef @ (signs / np.sqrt(MOST_OUTPUTS))


def metric_root(moment: F64, diagonal: bool) -> F64:
    """M^{1/2} of a gradient moment, symmetric, or of its diagonal; scaled to a mean eigenvalue of M of 1."""
    if diagonal:
        moment = np.diag(np.diag(moment))
    scale = float(np.trace(moment)) / len(moment)
    if not scale > 0:
        return np.eye(len(moment))
    values, vectors = np.linalg.eigh(moment / scale)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(0.5 * (root + root.T))


SlopeRule = Callable[[F64, F64], F64]


@singledispatch
def slope_rule(kernel: Kernel) -> SlopeRule:
    """The function of (X, Z) that `slopes` calls; one for each class of kernels."""
    raise UnsupportedError(
        f"{kernel!r} is not a function of ‖x - z‖ alone, and has no slope. A learned metric needs Gaussian, "
        "Exponential, Matern, RationalQuadratic, Cauchy, or sums, products and multiples of these; or use "
        "metric='identity'."
    )


@slope_rule.register
def _(kernel: Gaussian) -> SlopeRule:
    if isinstance(kernel.gamma, tuple):
        raise UnsupportedError(
            f"{kernel!r} has a gamma for each column, which is a metric already: use one gamma, or metric='identity'."
        )
    return lambda X, Z: -kernel._number * kernel._values(X, Z)


@slope_rule.register
def _(kernel: Matern) -> SlopeRule:
    """d/da a^ν K_ν(a) = -a^ν K_{ν-1}(a), and a² = 2ν ‖x - z‖² / length²."""

    def rule(X: F64, Z: F64) -> F64:
        nu, length = kernel.nu, kernel._number
        a = np.sqrt(2 * nu * squared_l2(X, Z, 1e-12 * length * length)) / length
        near = a < CORNER_LENGTH
        a[near] = CORNER_LENGTH
        if nu in (0.5, 1.5):  # a^(ν-1) K_(ν-1)(a) is exp(-a) of these, and 1/a times that at 1/2
            out: F64 = np.exp(-a)
            if nu == 0.5:
                out /= a
        else:
            logs = (
                np.log(scipy.special.kve(abs(nu - 1), a))
                - a
                + (nu - 1) * np.log(a)
                + (1 - nu) * math.log(2)
                - scipy.special.gammaln(nu)
            )
            out = np.exp(logs)
        out *= -nu / length**2
        if nu <= 1:
            out[near] = 0.0
        return out

    return rule


@slope_rule.register
def _(kernel: RationalQuadratic) -> SlopeRule:
    def rule(X: F64, Z: F64) -> F64:
        out = kernel._square(X, Z)
        out /= 2 * kernel.alpha
        np.log1p(out, out=out)
        out *= -(kernel.alpha + 1)
        np.exp(out, out=out)
        out *= -0.5 / kernel._number**2
        return out

    return rule


@slope_rule.register
def _(kernel: Cauchy) -> SlopeRule:
    return lambda X, Z: -((1 / kernel._number) ** 2) * kernel._values(X, Z) ** 2


@slope_rule.register
def _(kernel: Scaled) -> SlopeRule:
    inner = slope_rule(kernel.kernel)
    return lambda X, Z: kernel.weight * inner(X, Z)


@slope_rule.register
def _(kernel: Sum) -> SlopeRule:
    rules = [slope_rule(member) for member in kernel.members]
    return lambda X, Z: np.sum([rule(X, Z) for rule in rules], axis=0)


@slope_rule.register
def _(kernel: Product) -> SlopeRule:
    rules = [slope_rule(member) for member in kernel.members]

    def rule(X: F64, Z: F64) -> F64:
        values = [member._values(X, Z) for member in kernel.members]
        out = np.zeros((len(X), len(Z)))
        for i, each in enumerate(rules):
            term = each(X, Z)
            for j, value in enumerate(values):
                if j != i:
                    term *= value
            out += term
        return out

    return rule
