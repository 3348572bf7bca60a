"""Shapley values of the scores of rows: exact for products of kernels of single columns, else by permutations.

The game of a row x: a coalition S of columns is worth v(S) = the mean over background rows b of s(x_S, b_rest), the
score of b with the columns S of x. A column g of several inputs, such as a category, is one player.

Where s(x) = Σ_j α_j Π_g k_g(x_g, z_jg) + intercept, as of landmarks with a Gaussian, Laplacian or product Cauchy
kernel, the value of a column is Owen's integral (Multilinear extensions of games, 1972) of a polynomial:

    φ_g = mean_b Σ_j α_j (a_g - c_g) ∫_0^1 Π_{h≠g} (c_h + t (a_h - c_h)) dt,   a = k(x, z_j), c = k(b, z_j),

of degree groups - 1 in t, which Gauss and Legendre's rule of half as many nodes integrates exactly.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.features import NystromMap
from dkernel.kernels import Kernel
from dkernel.model.model import Model
from dkernel.numerics.array_types import F64
from dkernel.numerics.shapley import SHAPLEY_BLOCK, add_shapley
from dkernel.numerics.threads import MOST_THREADS, for_each, usable_cores

PAIRS = 2  # of a permutation and its reverse for each background row: two tell the error
SHAPLEY_BYTES = 2**28  # of the factors of background rows that are held at one time


def shapley_values(
    model: Model, X: NDArray[Any], background: NDArray[Any], seed: int = 0
) -> tuple[F64, F64, F64 | None]:
    """Values (n, columns, outputs) of the rows of a block (n, p), the mean score (outputs,) of background rows (b, p).

    And one standard error of each value, None where they are exact. They are of the scores before these are clipped,
    which are sums.

    Parameters
    ----------
    seed : of the permutations, where the values are not exact
    """
    groups = [list(places) for places in model.places.values()]
    base = model.unclipped_scores(background).mean(axis=0, dtype=np.float64)
    if _is_product(model):
        return _exact(model, X, background, groups), base, None
    values, errors = _sample(model, X, background, groups, seed)
    return values, base, errors


def _is_product(model: Model) -> bool:
    """True if the score is a sum of products of functions of single columns."""
    if model.local is not None or model.map.sparse or not isinstance(model.map, NystromMap) or model.map.objects:
        return False
    R = model.scaling.rotation
    return model.map.kernel.is_product and (R is None or not np.any(R - np.diag(np.diag(R))))


def _factors(kernel: Kernel, X: NDArray[Any], Z: NDArray[Any], groups: Sequence[list[int]]) -> F64:
    """k_g(x_g, z_g) of each row, group of columns and landmark, float64 (n, groups, m)."""
    return np.stack([kernel(X[:, g], Z[:, g]) for g in groups], axis=1)


def _exact(model: Model, X: NDArray[Any], background: NDArray[Any], groups: Sequence[list[int]]) -> F64:
    kernel, Z = model.map.kernel, np.asarray(model.map.landmarks, np.float64)
    rows, others = (model.scaling.apply(model.block(each), "float64") for each in (X, background))
    nodes, weights = np.polynomial.legendre.leggauss((len(groups) + 1) // 2)
    nodes, weights = (nodes + 1) / 2, weights / 2 / len(background)
    values = np.zeros((len(X), len(groups), model.coef.shape[1]))
    coef = np.ascontiguousarray(model.coef)
    step = max(1, SHAPLEY_BYTES // (8 * Z.shape[0] * len(groups)))
    for first in range(0, len(others), step):
        known = _factors(kernel, others[first : first + step], Z, groups)

        def add(i: int, known: F64) -> None:
            factors = _factors(kernel, rows[i : i + 1], Z, groups)[0]
            work = np.empty((3, len(groups) + 1, SHAPLEY_BLOCK))
            add_shapley(factors, known, coef, nodes, weights, work, values[i])

        for_each(partial(add, known=known), range(len(rows)), min(usable_cores(), MOST_THREADS))
    return values


def _sample(
    model: Model, X: NDArray[Any], background: NDArray[Any], groups: Sequence[list[int]], seed: int
) -> tuple[F64, F64]:
    """Values and errors: the columns of each background row become those of the row, in an order drawn and its reverse.

    The pairs of one background row differ by their orders alone, so their difference tells the error.
    """
    rng = np.random.default_rng(seed)
    ends = model.unclipped_scores(X).astype(np.float64)
    shape = (len(X), len(groups), ends.shape[1])
    values, squared = np.zeros(shape), np.zeros(shape)
    for row in background:
        start = np.broadcast_to(model.unclipped_scores(row[None]).astype(np.float64), ends.shape)
        samples = []
        for _ in range(PAIRS):
            order, changes = rng.permutation(len(groups)), np.zeros(shape)
            for walk in (order, order[::-1]):
                mixed, before = np.repeat(row[None], len(X), axis=0), start
                for position, g in enumerate(walk):
                    mixed[:, groups[g]] = X[:, groups[g]]
                    after = ends if position == len(groups) - 1 else model.unclipped_scores(mixed).astype(np.float64)
                    changes[:, g] += 0.5 * (after - before)
                    before = after
            samples.append(changes)
        values += np.mean(samples, axis=0)
        squared += np.var(samples, axis=0, ddof=1) / PAIRS
    return values / len(background), np.sqrt(squared) / len(background)
