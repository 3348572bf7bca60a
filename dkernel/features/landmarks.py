"""Landmarks of a Nystrom map, chosen from a sample by one of five rules.

Every rule is a function of the sample, in its order, and of the seed. The sample is the reservoir, which neither chunks
nor workers change, so the landmarks are the same wherever a fit runs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError
from dkernel.features.nystrom import indefinite
from dkernel.kernels import Kernel
from dkernel.numerics.array_types import F64
from dkernel.numerics.layout import Layout
from dkernel.numerics.random_streams import stream
from dkernel.numerics.rows import contiguous, wide
from dkernel.numerics.tiling import PIECE_ROWS

RULES = ("uniform", "stratified", "kmeans", "leverage", "rpcholesky")

# Leverage scores: rows of the first, exact sample and of the one that measures the spectrum, and landmarks
# of each effective dimension.
EXACT_ROWS, SPECTRUM_ROWS, LANDMARKS_A_DIMENSION = 512, 2048, 4
MEMBERS_A_DIMENSION, LEAST_MEMBERS = 3, 200  # rows of a dictionary for each effective dimension, and at least


@dataclass(frozen=True, eq=False)
class Landmarks:
    """The landmarks, and where they come from.

    Parameters
    ----------
    points : Z, (c, p), of the sample's dtype
    rows : numbers of these rows in the sample, increasing; None where the points are no rows
    """

    points: NDArray[np.floating]
    rows: NDArray[np.intp] | None


def select_landmarks(
    rule: str, kernel: Kernel, X: NDArray[np.floating], n: int, seed: int = 0, classes: NDArray[np.intp] | None = None
) -> Landmarks:
    """n landmarks of a sample; all of its rows where it has no more than n.

    - uniform: the first n, of a sample in random order
    - stratified: the same within each class, classes with more than three times the rows of the rarest cut down to that
    - kmeans: centres of a k-means clustering (Zhang and Kwok 2010)
    - leverage: rows by approximate ridge leverage scores (Rudi, Calandriello, Carratino, Rosasco 2018)
    - rpcholesky: rows by randomly pivoted Cholesky, accelerated (Epperly, Tropp, Webber 2024)

    Parameters
    ----------
    kernel : without placeholders; only leverage and rpcholesky evaluate it
    X : (rows, p), scaled, in random order
    classes : number of the class of each row, for stratified

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> select_landmarks("rpcholesky", Gaussian(gamma=0.5), X, 10).points.shape
    (10, 2)
    """
    if rule not in RULES:
        raise RecipeError(f"landmarks={rule!r} is not valid. Possible: {' | '.join(RULES)}.")
    if n >= len(X):
        return Landmarks(X, np.arange(len(X)))
    if rule == "kmeans":
        return Landmarks(_centres(X, n), None)
    rows = _draw_by_class(classes, n) if rule == "stratified" else _BY_KERNEL[rule](kernel, X, n, seed)
    rows = np.sort(rows)
    return Landmarks(contiguous(X[rows]), rows)


def _draw_by_class(classes: NDArray[np.intp] | None, n: int) -> NDArray[np.intp]:
    if classes is None:
        raise DataError("landmarks='stratified' takes rows of every class, and there are no labels: pass y.")
    labels, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
    # A class gives at most three times the rows of the rarest one, and more where that leaves fewer rows than
    # landmarks.
    level = 3 * int(counts.min())
    while np.minimum(counts, level).sum() < n:
        level *= 2
    cut = np.minimum(counts, level)
    exact = n * cut / cut.sum()
    quota = np.floor(exact).astype(np.intp)
    quota[np.argsort(quota - exact, kind="stable")[: n - quota.sum()]] += 1
    return np.concatenate([np.flatnonzero(codes == k)[: quota[k]] for k in range(len(labels))])


def _centres(X: NDArray[np.floating], n: int) -> NDArray[np.floating]:
    """Lloyd's iteration from the first n rows; a centre without rows stays where it is."""
    Layout.of(X).require_numbers(
        "landmarks='kmeans'", "Use 'rpcholesky', 'leverage' or 'uniform', which choose existing rows."
    )
    # imports scipy.spatial, which takes a sixth of a second that every command would pay
    from scipy.cluster.vq import vq

    mean = X.mean(axis=0, dtype=np.float64)
    points = X - mean  # distances by scalar products lose no digits to a common offset
    centres = points[:n].copy()
    before = np.full(len(points), -1)
    for _ in range(10):  # further turns move the centres by little, and landmarks need no optimum
        nearest = np.concatenate(
            [vq(points[i : i + PIECE_ROWS], centres)[0] for i in range(0, len(points), PIECE_ROWS)]
        )
        if np.array_equal(nearest, before):
            break
        before = nearest
        order = np.argsort(nearest, kind="stable")
        used, first, count = np.unique(nearest[order], return_index=True, return_counts=True)
        centres[used] = np.add.reduceat(points[order], first, axis=0) / count[:, None]
    return np.ascontiguousarray(centres + mean, dtype=X.dtype)


def _by_leverage(kernel: Kernel, X: NDArray[np.floating], n: int, seed: int) -> NDArray[np.intp]:
    """n rows without replacement, each next one with probability proportional to its leverage score."""
    first = X[: min(SPECTRUM_ROWS, max(EXACT_ROWS, 4 * n))]
    ridge = ridge_at(kernel, first, min(n, len(first)) / LANDMARKS_A_DIMENSION)
    scores = leverage_scores(kernel, X, ridge, seed)
    race = np.log(np.maximum(scores, 1e-300)) + stream(seed, "leverage").gumbel(size=len(X))
    return np.argsort(-race, kind="stable")[:n]


def ridge_at(kernel: Kernel, X: NDArray[np.floating], dimension: float) -> float:
    """The λ at which the effective dimension tr K (K + λ n I)^{-1} of these rows is `dimension`."""
    X = wide(X)
    values = np.maximum(sl.eigvalsh(kernel(X, X)) / len(X), 0.0)
    low, high = 1e-12 * values[-1], float(values.sum()) / dimension  # x / (x + λ) < x / λ: no solution is above
    for _ in range(60):
        ridge = float(np.sqrt(low * high))
        low, high = (ridge, high) if np.sum(values / (values + ridge)) > dimension else (low, ridge)
    return ridge


def leverage_scores(kernel: Kernel, X: NDArray[np.floating], ridge: float, seed: int = 0) -> F64:
    """Approximations of the ridge leverage scores [K (K + λ n I)^{-1}]_ii of all rows, (n,).

    Bottom up (Musco and Musco 2017; the estimate and its weights are those of Rudi and others 2018): the scores of the
    first rows are exact; a dictionary J of them, row i with probability p_i by its score, stands for the covariance in

        l(x) = (k(x, x) - k_J(x)^T (K_JJ + λ m diag(p))^{-1} k_J(x)) / λ,    the score being l(x) / m,

    of twice as many rows, and so on; at last a dictionary of all rows scores all of them again.

    Parameters
    ----------
    X : (n, p), in random order: its first m rows are a uniform sample
    ridge : λ
    """
    n, rng = len(X), stream(seed, "dictionaries")
    m = min(n, EXACT_ROWS)
    scores = _residuals(kernel, X[:m], X[:m], np.full(m, ridge * m)) / (ridge * m)
    while n > EXACT_ROWS:
        chance = np.minimum(1.0, max(MEMBERS_A_DIMENSION, LEAST_MEMBERS / max(scores.sum(), 1e-300)) * scores)
        members = np.flatnonzero(rng.random(m) < chance)
        last, of = m == n, min(n, 2 * m)
        scores = _residuals(kernel, X[:of], X[members], ridge * m * chance[members]) / (ridge * of)
        if last:
            break
        m = of
    return scores


def _residuals(kernel: Kernel, X: NDArray[np.floating], members: NDArray[np.floating], ridges: F64) -> F64:
    """k(x, x) - k_J(x)^T (K_JJ + diag(ridges))^{-1} k_J(x) of every row; k(x, x) where J is empty."""
    out = np.array(kernel.diag(wide(X)), np.float64)
    if not len(members):
        return out
    J = wide(members)
    A = np.array(kernel(J, J), np.float64)
    A.flat[:: len(J) + 1] += np.maximum(ridges, 1e-13 * A.diagonal().max() * len(J))
    try:
        factor = sl.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    except sl.LinAlgError:
        raise indefinite(kernel) from None
    for i in range(0, len(X), PIECE_ROWS):
        K = kernel(wide(X[i : i + PIECE_ROWS]), J)
        half = sl.solve_triangular(factor, K.T, lower=True, check_finite=False)
        out[i : i + PIECE_ROWS] -= np.einsum("ij,ij->j", half, half)
    return np.maximum(out, 0.0)


def _by_pivoted_cholesky(kernel: Kernel, X: NDArray[np.floating], n: int, seed: int) -> NDArray[np.intp]:
    """Pivots drawn by the diagonal of the residual: many are proposed at once, and all but the right ones are rejected.

    The pivots have the law of those drawn one by one; the work is in matrix products. F F^T is the approximation so
    far, F float64 (rows, n).
    """
    X, rng = wide(X), stream(seed, "pivots")
    residual = np.array(kernel.diag(X), np.float64)
    if residual.min() < -1e-12 * np.abs(residual).max():  # rounding goes less far below 0
        raise indefinite(kernel)
    np.maximum(residual, 0.0, out=residual)
    enough = 1e-13 * float(residual.sum())
    F = np.zeros((len(X), n))
    pivots = np.empty(0, dtype=np.intp)
    while len(pivots) < n and float(residual.sum()) > enough:
        # A step of the accelerated pivoted Cholesky draws up to 128 rows.
        drawn = rng.choice(len(X), size=min(128, 2 * n), p=residual / residual.sum())
        mine = F[drawn, : len(pivots)]
        taken, factor = _accept(kernel(X[drawn], X[drawn]) - mine @ mine.T, residual[drawn], rng, n - len(pivots))
        if not len(taken):
            continue
        rows, done = drawn[taken], len(pivots)
        for i in range(0, len(X), PIECE_ROWS):
            strip = slice(i, i + PIECE_ROWS)
            G = kernel(X[strip], X[rows]) - F[strip, :done] @ F[rows, :done].T
            new = sl.solve_triangular(factor, G.T, lower=True, check_finite=False)
            F[strip, done : done + len(rows)] = new.T
            residual[strip] -= np.einsum("ij,ij->j", new, new)
        np.maximum(residual, 0.0, out=residual)
        pivots = np.concatenate([pivots, rows])
        residual[pivots] = 0.0
    if len(pivots) < n:  # nothing is left to choose by: any rows do
        pivots = np.concatenate([pivots, np.setdiff1d(np.arange(len(X)), pivots)[: n - len(pivots)]])
    return pivots


def _accept(H: F64, offered: F64, rng: np.random.Generator, most: int) -> tuple[NDArray[np.intp], F64]:
    """Proposals that are accepted, and the Cholesky factor of their part of H.

    Proposal i was drawn with its share of the diagonal before the others; with them as pivots H_ii is left of it, so it
    stands with probability H_ii / offered_i. H is used up.
    """
    L = np.zeros_like(H)
    taken: list[int] = []
    luck = rng.random(len(H))
    for i in range(len(H)):
        # Below the rounding of H nothing is left: the second of two equal proposals, say.
        if H[i, i] <= 1e-12 * offered[i] or luck[i] * offered[i] >= H[i, i]:
            continue
        column = H[i:, i] / np.sqrt(H[i, i])
        L[i:, len(taken)] = column
        H[i:, i:] -= np.outer(column, column)
        taken.append(i)
        if len(taken) == most:
            break
    places = np.array(taken, dtype=np.intp)
    return places, L[places, : len(taken)]


_Rule = Callable[[Kernel, NDArray[np.floating], int, int], NDArray[np.intp]]
_BY_KERNEL: dict[str, _Rule] = {
    "uniform": lambda kernel, X, n, seed: np.arange(n),  # noqa: ARG005
    "leverage": _by_leverage,
    "rpcholesky": _by_pivoted_cholesky,
}
