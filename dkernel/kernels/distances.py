"""Distances between the rows of two float64 blocks, the reference of the float32 tiles."""

from typing import Any

import numpy as np

from dkernel.numerics.array_types import F64
from dkernel.numerics.sparse_rows import SparseRows

DISTANCE_STRIP = 1 << 15  # values worked on at once: 256 KiB, inside L2
PAIR_ROWS = 32  # rows whose distances are summed at once: those of 1,000 others stay inside L2
PAIR_COLUMNS = 64  # of more, the distances of pairs come from one product of matrices, wrong in their last digits
PAIR_ROUNDING = 1e-12  # share of their mean under which such a square is a difference of rounding errors
DISTANCE_TOLERANCE = 1e-12  # share of the length by which the distances of a kernel may be wrong
NEAR_SHARE = 0.1  # a share of the length; nearer pairs are taken one by one


def _one_by_one(X: F64, Z: F64, metric: str) -> F64:
    from scipy.spatial.distance import cdist  # a sixth of a second, for what few fits need

    distances: F64 = cdist(X, Z, metric)
    return distances


def median_distance(X: Any, metric: str) -> float:
    """Median distance, "l1" or "l2", of all pairs of rows that differ; 1 where none do.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]), "l2")
    2.0
    """
    distances = _of_pairs(X, metric)
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0


def _of_pairs(X: Any, metric: str) -> F64:
    """Distances of all pairs of different rows, (n (n - 1) / 2,), in no order; those of equal rows are 0.

    Of few columns, and in "l1", they are those of SciPy's `pdist`, bit for bit: that is four times as quick, but its
    import alone takes a quarter of a second, and every fit wants a median.
    """
    if metric == "l2" and (isinstance(X, SparseRows) or X.shape[1] >= PAIR_COLUMNS):
        squares = squared_l2(X, X, np.inf)[np.triu_indices(len(X), 1)]
        rounding = PAIR_ROUNDING * squares.mean() if squares.size else 0.0
        return np.sqrt(np.where(squares > rounding, squares, 0.0))
    columns, lines = np.ascontiguousarray(X.T), []
    for start in range(0, len(X), PAIR_ROWS):
        sums = np.zeros((min(PAIR_ROWS, len(X) - start), len(X) - start))
        for column in columns:  # one after the other: a sum by numpy would take them in another order
            apart = column[start : start + PAIR_ROWS, None] - column[start:]
            sums += np.square(apart, out=apart) if metric == "l2" else np.abs(apart, out=apart)
        lines += [line[i + 1 :] for i, line in enumerate(sums)]
    distances = np.concatenate(lines) if lines else np.zeros(0)
    return np.sqrt(distances) if metric == "l2" else distances


def l1(X: F64, Z: F64) -> F64:
    """‖x - z‖₁ of every pair, (n, m)."""
    return _one_by_one(X, Z, "cityblock")


def squared_l2(X: F64, Z: F64, tolerance: float) -> F64:
    """‖x - z‖² of every pair, (n, m), with an absolute error of a few times `tolerance` at most.

    By ‖x‖² + ‖z‖² - 2⟨x,z⟩ after centring: one dgemm. What that cancels is of the order of ε(‖x‖² + ‖z‖²); rows for
    which it can exceed the tolerance are taken pair by pair instead. Whether a row is one of them depends on it and on
    Z alone, never on the rows beside it. With Z the very array X the result is exactly symmetric, its diagonal zero.
    """
    if isinstance(X, SparseRows):
        return _of_sparse(X, Z)
    same = X is Z
    center = Z.mean(axis=0)
    centred_x = X - center
    centred_z = centred_x if same else Z - center
    x2 = np.einsum("ij,ij->i", centred_x, centred_x)
    z2 = x2 if same else np.einsum("ij,ij->i", centred_z, centred_z)
    lossy = (x2 + z2.max()) * np.finfo(np.float64).eps > tolerance
    if same and lossy.any():
        lossy[:] = True
    if lossy.all():
        return _one_by_one(X, Z, "sqeuclidean")
    distances: F64 = centred_x @ centred_z.T
    rows = max(1, DISTANCE_STRIP // len(Z))
    for i in range(0, len(X), rows):
        strip = distances[i : i + rows]
        strip *= -2
        # The two norms are added to each other first: in this order element (i, j) rounds as element (j, i) does.
        strip += x2[i : i + rows, None] + z2
        np.maximum(strip, 0, out=strip)
    if lossy.any():
        distances[lossy] = _one_by_one(X[lossy], Z, "sqeuclidean")
    if same:
        np.fill_diagonal(distances, 0)
    return distances


def l2(X: F64, Z: F64, length: float, tolerance: float) -> F64:
    """‖x - z‖ of every pair, (n, m), with an absolute error of a few times `tolerance` lengths at most, also near 0.

    A square wrong by e makes a distance d wrong by e / 2d: what is near is taken again, pair by pair. With Z the very
    array X the result is exactly symmetric, its diagonal zero.
    """
    if isinstance(X, SparseRows):
        return np.sqrt(_of_sparse(X, Z))
    near = NEAR_SHARE * length
    distances = squared_l2(X, Z, tolerance * near * length)
    i, j = np.nonzero(distances < near * near)
    if len(i) > distances.size // 8:
        return _one_by_one(X, Z, "euclidean")
    for start in range(0, len(i), DISTANCE_STRIP):
        rows, columns = i[start : start + DISTANCE_STRIP], j[start : start + DISTANCE_STRIP]
        difference = X[rows] - Z[columns]
        distances[rows, columns] = np.einsum("ij,ij->i", difference, difference)
    return np.sqrt(distances, out=distances)


def _of_sparse(X: SparseRows, Z: SparseRows) -> F64:
    """‖x - z‖² of every pair of sparse rows: nothing is centred, and equal rows are at 0 to the bit.

    The error is some ε(‖x‖² + ‖z‖²).
    """
    distances = X @ Z.T
    distances *= -2
    distances += X.squares[:, None] + Z.squares
    return np.maximum(distances, 0, out=distances)
