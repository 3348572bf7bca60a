"""The width of intervals as a function of the row: where errors are large, intervals are wide."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.features import NystromMap
from dkernel.kernels import Gaussian
from dkernel.numerics import tiling
from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F64

# Rows that others are compared with, and their bytes, which are a small part of a model file.
WIDTH_LANDMARKS, MOST_WIDTH_BYTES = 64, 2**14
KNOTS = 8  # steps of the ranks of predictions
LEAST_ROWS = 200  # with fewer rows the coefficients of a width are noise
FOLDS = 5  # the width at a row is fitted to four fifths of the rows; fewer folds would leave fewer
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)  # in the unit of a mean over rows
LEAST_GAIN = 0.01  # of the mean log likelihood; with less the width is the same everywhere
SMALL = 0.1  # share of the median error that is added to all errors, so that the logarithm of a tiny one is no outlier
MOST = float(np.log(30.0))  # a width is at most 30 times the usual one


@dataclass(frozen=True, eq=False)
class LocalWidth(ArrayRecord):
    """w(x) = exp(a . k(x, Z) + b . h(s(x)) + c), for each target.

    k is a Gaussian of scaled rows and of a few rows Z that a fit left out, h bumps over the ranks of predictions: the
    error of a price grows with the price.

    Parameters
    ----------
    landmarks : Z, scaled, float32 (m, p); m is 0 for rows that are no numbers, or have too many
    gamma : of the Gaussian, float64 (1,)
    ranks : predictions at KNOTS equal steps of their rank, float64 (KNOTS, targets)
    coef : a, b and c, float64 (m + KNOTS + 1, targets)
    """

    landmarks: NDArray[np.float32]
    gamma: F64
    ranks: F64
    coef: F64

    def __call__(self, Z: NDArray[Any], S: F64) -> F64:
        """w (n, targets) of scaled rows (n, p) and their predictions (n, targets)."""
        m = len(self.landmarks)
        logarithms = np.zeros(S.shape)
        if m:
            logarithms += tiling.scores(self._map, Z, self.coef[:m], np.zeros(S.shape[1]))
        for j in range(S.shape[1]):
            logarithms[:, j] += np.einsum("ij,j->i", _bumps(S[:, j], self.ranks[:, j]), self.coef[m:-1, j])
        return np.asarray(np.exp(np.clip(logarithms, -MOST, MOST) + self.coef[-1]))

    @cached_property
    def _map(self) -> NystromMap:
        return NystromMap(Gaussian(gamma=float(self.gamma[0])), self.landmarks)

    def fits(self, n_in: int, targets: int) -> bool:
        """True if it is a width for this number of inputs and of targets."""
        Z, gamma, ranks, coef = self.landmarks, self.gamma, self.ranks, self.coef
        if any(array.dtype != np.float64 for array in (gamma, ranks, coef)) or Z.dtype != np.float32:
            return False
        shaped = Z.ndim == 2 and (not len(Z) or Z.shape[1] == n_in) and gamma.shape == (1,) and gamma[0] > 0
        return bool(shaped and ranks.shape == (KNOTS, targets) and coef.shape == (len(Z) + KNOTS + 1, targets))


def fit_width(Z: NDArray[Any] | None, S: F64, errors: F64, weight: F64) -> tuple[LocalWidth | None, F64]:
    """Fit a width; return it, or None if none gains, and its values at the rows, each by a fit to other rows.

    Logarithms of errors are regressed on k and h, with a ridge that is chosen by five folds. The width is the
    geometric mean of the folds' fits.

    Parameters
    ----------
    Z : scaled rows (n, p), in a random order; None for rows that are no numbers
    S, errors : predictions and their absolute errors, (n, targets)
    weight : (n,)

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(0, 1, size=(2000, 1))
    >>> errors = np.abs(np.random.default_rng(1).normal(size=(2000, 1))) * (0.1 + x)
    >>> width, _ = fit_width(x, np.zeros((2000, 1)), errors, np.ones(2000))
    >>> narrow, wide = width(np.array([[0.1], [0.9]]), np.zeros((2, 1)))[:, 0]
    >>> bool(3 < wide / narrow < 7)
    True
    """
    n, targets = S.shape
    ones = np.ones(S.shape)
    if n < LEAST_ROWS or not (errors.mean(axis=0) > 0).all():
        return None, ones
    landmarks, gamma = _landmarks(Z)
    ranks = np.quantile(S, np.linspace(0, 1, KNOTS), axis=0)
    shared = np.zeros((n, 0))
    if Z is not None and len(landmarks):
        shared = np.asarray(NystromMap(Gaussian(gamma=gamma), landmarks).components(Z), np.float64)
    fitted = [
        _fit(np.hstack([shared, _bumps(S[:, j], ranks[:, j]), np.ones((n, 1))]), errors[:, j], weight)
        for j in range(targets)
    ]
    if all(fit is None for fit in fitted):
        return None, ones
    flat = np.zeros(len(landmarks) + KNOTS + 1), ones[:, 0]
    coefs, widths = zip(*(fit or flat for fit in fitted), strict=True)
    width = LocalWidth(landmarks, np.array([gamma]), ranks, np.ascontiguousarray(np.stack(coefs, axis=1)))
    return width, np.stack(widths, axis=1)


def _landmarks(Z: NDArray[Any] | None) -> tuple[NDArray[np.float32], float]:
    """The first rows, and gamma by the median of their distances."""
    m = 0 if Z is None else min(WIDTH_LANDMARKS, len(Z), MOST_WIDTH_BYTES // (4 * max(Z.shape[1], 1)))
    if m < 2:
        return np.zeros((0, 0), np.float32), 1.0
    assert Z is not None
    rows = np.ascontiguousarray(Z[:m], np.float32)
    apart = np.sum((rows[:, None].astype(np.float64) - rows[None]) ** 2, axis=2)
    median = float(np.median(apart[np.triu_indices(m, 1)]))
    return rows, 1.0 / (2.0 * median) if median > 0 else 1.0


def _bumps(s: F64, ranks: F64) -> F64:
    """h (n, KNOTS): Gaussian bumps at KNOTS equal steps over the ranks of the predictions."""
    at = np.interp(s, ranks, np.arange(KNOTS))
    return np.asarray(np.exp(-0.5 * (at[:, None] - np.arange(KNOTS)) ** 2))


def _fit(F: F64, errors: F64, weight: F64) -> tuple[F64, F64] | None:
    """Fit coefficients of features whose last is 1; return them and the width at each row by the other folds.

    None without a gain.
    """
    floor = SMALL * float(np.median(errors)) or SMALL * float(errors.mean())
    t, fold = np.log(errors + floor), np.arange(len(F)) % FOLDS
    parts = [_normal_equations(F[fold == i], t[fold == i], weight[fold == i]) for i in range(FOLDS)]
    A, b = sum(part[0] for part in parts), sum(part[1] for part in parts)
    penalty, least, best = np.append(np.ones(F.shape[1] - 1), 0.0), np.inf, None
    for ridge in RIDGES:
        coefs = []
        for gram, right in parts:
            rest = A - gram
            coefs.append(np.linalg.solve(rest + np.diag(ridge * rest[-1, -1] * penalty + 1e-12), b - right))
        linear = np.empty(len(F))
        for i, coef in enumerate(coefs):
            some = F[fold == i]
            linear[fold == i] = np.clip(some[:, :-1] @ coef[:-1], -MOST, MOST) + coef[-1]
        surprise = np.average(linear, weights=weight) + np.log(np.average(errors * np.exp(-linear), weights=weight))
        if surprise < least:
            least, best = float(surprise), (np.mean(coefs, axis=0), np.exp(linear))
    return best if least < np.log(np.average(errors, weights=weight)) - LEAST_GAIN else None


def _normal_equations(F: F64, t: F64, weight: F64) -> tuple[F64, F64]:
    weighted = F * weight[:, None]
    return weighted.T @ F, weighted.T @ t
