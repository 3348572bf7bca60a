"""The machine of one cell: kernel ridge or logistic regression on its rows, with a Matern kernel of |x R - z R|."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkernel.kernels import Matern
from dkernel.kernels.analysis.gradients import combined_outputs, metric_root
from dkernel.kernels.distances import median_distance
from dkernel.kernels.landmark_columns.radial import DecayColumns, SquaredColumns
from dkernel.leaves.cells.partition import CellTree, grow
from dkernel.losses.losses import Loss, parse_loss
from dkernel.numerics import linalg
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.fused.products import products
from dkernel.numerics.threads import for_each
from dkernel.numerics.tiling import TILE_COMPONENTS, scratch, wide_scores

CELL_STRIP = 256  # rows of the kernel matrix that are made at one time
SMOOTHNESS = {0.5: (1.0, 0.0, 0.0), 1.5: (3**0.5, 1.0, 0.0)}
"""Smoothness of a Matern kernel -> slope, b and c of (1 + b a + c a²) exp(-a), a = slope · distance / length."""
# A distance may be wrong by this share of the length, far below any ridge; to compute more pairs one by one would cost
# as much as to solve.
CELL_TOLERANCE = 1e-4
CELL_GRADIENTS = 2000  # rows at which gradients are averaged
CELL_METRIC_RIDGE = 1e-3  # of the machine whose gradients they are, as a share of k(x, x)
CELL_METRIC_ROUNDS = 3  # of a metric that is learned before there are cells: the third changes little
# Below this share of the length a distance counts as this share in the slope of smoothness 1/2, which grows as the
# inverse of the distance and is summed in float32.
LEAST_CELL_DISTANCE = np.float32(1e-3)
# Most steps of a loss that is not quadratic: covtype's log loss is 0.267 after 20, 0.286 after one, and
# 0.276 at the minimum. It takes fewer where the scores move by less than CELL_MOVED of their unit in root mean square:
# cells with squared hinge mostly two; 2, 3, 5 and 60 steps leave 9.77, 9.77, 9.79 and 9.79 % of 30,000 covtype rows.
CELL_STEPS, CELL_MOVED = 20, 3e-3
NEAR = 8  # old rows beside each new one whose coefficients an update changes
# A share of the trace that is added to their normal equations, in which rows that are hardly apart have nearly one
# column: far above the rounding of float64, far below a ridge.
NORMAL_ROUNDING = 1e-13
FEW = 4  # an update has few rows if it changes less than one in FEW of the coefficients of a cell


@dataclass(frozen=True)
class CellSettings:
    """Settings that all cells share.

    Parameters
    ----------
    width : length of the kernel, in median distances of the cell
    ridge : added to k(x, x) of a row of weight 1
    nu : smoothness of the kernel, one of SMOOTHNESS
    rounds : of each cell's own metric, learned on every other of its rows; 0 for that of all cells
    """

    width: float
    ridge: float
    nu: float = 0.5
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Cell:
    """f(x) = Σ_i coef_i k(x R, z_i), k = Matern(nu, length).

    Parameters
    ----------
    root : R, float32 (p, p)
    Z : the different rows, times R, float32 (m, p)
    coef : float32 (m, outputs)
    length, nu : of the kernel
    """

    root: F32
    Z: F32
    coef: F32
    length: float
    nu: float = 0.5

    def scores(self, X: NDArray[np.floating]) -> F64:
        """Scores (rows, outputs) of scaled rows, in float64; a row has the same alone and in any block.

        The landmarks as products want them are made anew: of all cells they would be more than the model.
        """
        if not len(self.Z):
            return np.zeros((len(X), self.coef.shape[1]))
        root, Z, kernel = self.root.astype(np.float64), self.Z.astype(np.float64), Matern(self.nu, self.length)

        def rows(X: NDArray[np.floating]) -> F64:
            return products(X.astype(np.float64), root)

        for columns in kernel.wide_columns(Z):
            return columns.scores(X, self.coef, rows)
        return wide_scores(lambda tile: kernel(rows(tile), Z), X, self.coef)


def pack_cells(cells: Sequence[Cell]) -> dict[str, NDArray[Any]]:
    """The arrays of some cells, one cell after the other; a root that all share is held once."""
    roots = np.stack([cell.root for cell in cells])
    return {
        "roots": roots[:1] if (roots == roots[0]).all() else roots,
        "Z": np.concatenate([cell.Z for cell in cells]),
        "coef": np.concatenate([cell.coef for cell in cells]),
        "ends": np.cumsum([len(cell.Z) for cell in cells]),
        "lengths": np.array([cell.length for cell in cells]),
    }


def unpack_cells(arrays: Mapping[str, NDArray[Any]], nu: float) -> list[Cell]:
    """The cells that `pack_cells` stored; their arrays are views."""
    Z, coef, ends, lengths = (arrays[name] for name in ("Z", "coef", "ends", "lengths"))
    roots = np.broadcast_to(arrays["roots"], (len(ends), *arrays["roots"].shape[1:]))
    starts = np.concatenate([[0], ends[:-1]])
    return [
        Cell(root, Z[start:end], coef[start:end], float(length), nu)
        for root, start, end, length in zip(roots, starts, ends, lengths, strict=True)
    ]


def typical_distance(Z: F32) -> float:
    """The median distance between 500 of the rows, which is near that of all rows."""
    return median_distance(Z[:: max(1, -(-len(Z) // 500))].astype(np.float64), "l2")


def merge_rows(Z: F32, weight: F64) -> tuple[F32, NDArray[np.intp], F64]:
    """Merge equal rows: the different rows in order, the place of each row among them, and the sums of the weights."""
    bits = np.ascontiguousarray(Z + np.float32(0.0)).view(np.dtype((np.void, 4 * Z.shape[1]))).ravel()  # -0 is 0
    _, first, inverse = np.unique(bits, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    inverse = rank[inverse.ravel()]
    return Z[first[order]], inverse, np.bincount(inverse, weight).astype(np.float64)


def relearn_root(cell: Cell, X: F32, threads: int = 1) -> F32:
    """Learn a metric from a cell: the root of the mean outer product of its gradients at some rows.

    It is scaled to a mean eigenvalue of 1. In this metric the function changes alike in all directions (Radhakrishnan
    and others 2024).
    """
    root = cell.root.astype(np.float64)
    moment = root @ _gradient_moment(cell, X @ cell.root, threads) @ root.T
    if not 0 < np.trace(moment) < np.inf:
        return cell.root
    return metric_root(moment, diagonal=False).astype(np.float32)


def learn_root(X: F32, Y: F32, ridge: float, gradients: int, rounds: int = CELL_METRIC_ROUNDS, threads: int = 1) -> F32:
    """Learn the root (p, p) of the metric in which kernel ridge regressions of rows change alike in all directions.

    Parameters
    ----------
    X : scaled rows (n, p);  Y : targets (n, outputs)
    ridge : a share of k(x, x)
    gradients : number of the first rows whose gradients are averaged
    rounds : of a fit and a new metric
    threads : that share each of them; their number changes no bit
    """
    root, start, weight = np.eye(X.shape[1], dtype=np.float32), np.zeros_like(Y), np.ones(len(X))
    for _ in range(rounds):
        cell = fit_cell(X, root, parse_loss("squared"), Y, start, weight, CellSettings(1.0, ridge), threads)
        root = relearn_root(cell, X[:gradients], threads)
    return root


def learn_root_of_cells(X: F32, Y: F32, threads: int, most_features: float = inf) -> F32:
    """Learn the root (p, p) of the metric of cells; it is 0 for features of one value.

    Parameters
    ----------
    X, Y, threads : as in `learn_root`
    most_features : with more features that differ in X the root is the identity of these
    """
    varied = np.flatnonzero(X.std(axis=0) > 0)
    root, block = np.zeros((X.shape[1],) * 2, np.float32), np.ix_(varied, varied)
    root[varied, varied] = 1.0
    if 1 < len(varied) <= most_features:
        rows = np.ascontiguousarray(X[:, varied])
        root[block] = learn_root(rows, Y, CELL_METRIC_RIDGE, CELL_GRADIENTS, threads=threads)
    return root


def _gradient_moment(cell: Cell, rows: F32, threads: int = 1) -> F64:
    """Σ over rows and outputs of ∇f(x) ∇f(x)^T up to a factor, by products in float32, float64 (p, p).

    ∇f(x) is that of Σ_j coef_j s_j (x - z_j), s_j = exp(-a) / a of smoothness 1/2 and exp(-a) of 3/2.
    """
    p, slope, coef = rows.shape[1], SMOOTHNESS[cell.nu][0], combined_outputs(cell.coef.astype(np.float64))
    columns = SquaredColumns(cell.Z.astype(np.float64), cell.length / slope)
    ones = np.concatenate([np.ones((len(cell.Z), 1)), cell.Z], axis=1)
    weighted = (coef[:, :, None] * ones[:, None]).reshape(len(coef), -1).astype(np.float32)
    firsts = range(0, len(rows), CELL_STRIP)
    moments = np.zeros((len(firsts), p, p))

    def strip(number: int) -> None:
        X, buffer = rows[firsts[number] :][:CELL_STRIP], scratch(CELL_STRIP * TILE_COMPONENTS)
        augmented, sums = columns.rows(X), np.zeros((len(X), weighted.shape[1]))
        for at in range(0, len(cell.Z), TILE_COMPONENTS):
            part = weighted[at : at + TILE_COMPONENTS]
            a = buffer[: len(X) * len(part)].reshape(len(X), len(part))
            columns.fill(augmented, at, a)
            np.sqrt(np.maximum(a, LEAST_CELL_DISTANCE**2, out=a), out=a)
            decay = np.exp(-a)
            sums += (decay / a if cell.nu == 0.5 else decay) @ part
        weight_sum, other = np.split(sums.reshape(len(X), -1, p + 1), [1], axis=2)
        G = (weight_sum * X[:, None] - other).reshape(-1, p)
        moments[number] = G.T @ G

    for_each(strip, range(len(firsts)), threads)
    total: F64 = moments.sum(axis=0)
    return total


def fit_cell(
    X: F32, root: F32, loss: Loss, Y: F32, S: F32, weight: F64, settings: CellSettings, threads: int | None = None
) -> Cell:
    """Fit the machine f of these rows, near the least Σ_i weight_i loss(Y_i, S_i + f(X_i)) + L/2 ridge |f|^2.

    L bounds the loss's second derivative. Each step minimises the quadratic bound of the loss at the scores of the step
    before, a kernel ridge regression of the same matrix; of a quadratic loss the first is exact. Others end where the
    scores hardly move.

    Parameters
    ----------
    X : scaled rows (n, p);  root : float32 (p, p)
    Y : targets (n, outputs);  S : scores that f is added to, (n, outputs)
    weight : positive (n,), a row of weight 2 counts as two
    threads : that share the kernel matrix and the blocks of its factor, whose number moves no bit; None for one factor
        without blocks
    """
    for _ in range(settings.rounds if len(X) > 1 else 0):
        half = fit_cell(X[::2], root, loss, Y[::2], S[::2], weight[::2], replace(settings, rounds=0))
        root = relearn_root(half, X[:: max(1, len(X) // CELL_GRADIENTS)])
    Z = products(X, root)  # a row that comes again has the same bits
    if not len(Z):
        return Cell(root, Z, np.zeros(Y.shape, np.float32), 1.0, settings.nu)
    length = settings.width * typical_distance(Z)
    Z, inverse, total = merge_rows(Z, weight)
    solve, ridge = _solver(Z, length, settings.nu, settings.ridge / total, threads)
    f = np.zeros((len(Z), Y.shape[1]))
    for _ in range(1 if loss.quadratic else CELL_STEPS):
        residual = -loss.derivative(Y, (S + f[inverse]).astype(np.float32)) / np.float32(loss.curvature)
        means = [np.bincount(inverse, weight * column) / total for column in residual.T]
        target = f + np.stack(means, axis=1)
        coef, before = solve(target), f
        f = target - ridge[:, None] * coef  # K coef, without K
        if np.sqrt(np.mean((f - before) ** 2)) < CELL_MOVED:
            break
    return Cell(root, Z, np.ascontiguousarray(coef, np.float32), length, settings.nu)


def update_cell(cell: Cell, loss: Loss, X: F32, Y: F32, S: F32, weight: F64, ridge: float) -> Cell:
    """Add new rows to a cell: nearly the fit to old and new rows, with the metric and length of the cell.

    An old row enters with the quadratic bound of its loss at its old score: the change g of the function minimises
    Σ_new weight loss(Y, S + f + g) + L/2 (Σ_old g² + ridge |g|²). Of squared loss and rows of weight 1 that is the fit
    of all rows, to their old targets and the new ones. Where new rows are few, g is a sum of kernels at them and at the
    old rows nearest to them alone.

    Parameters
    ----------
    X : new scaled rows (n, p);  Y, S, weight : as in `fit_cell`
    """
    old, new = len(cell.Z), products(X, cell.root)
    mass = np.concatenate([np.ones(old), weight])
    Z, inverse, total = merge_rows(np.concatenate([cell.Z, new]), mass)
    inverse, f = inverse[old:], S + cell.scores(X)
    least = _least_squares(cell, Z, np.unique(inverse), total, ridge)
    g, coef = np.zeros((len(Z), Y.shape[1])), np.zeros((len(Z), Y.shape[1]))
    for _ in range(1 if loss.quadratic else CELL_STEPS):
        pull = g[inverse] - loss.derivative(Y, (f + g[inverse]).astype(np.float32)) / np.float32(loss.curvature)
        target = np.stack([np.bincount(inverse, weight * column, len(Z)) / total for column in pull.T], axis=1)
        (coef, g), before = least(target), g
        if np.sqrt(np.mean((g - before) ** 2)) < CELL_MOVED:
            break
    coef[: len(cell.Z)] += cell.coef
    return replace(cell, Z=Z, coef=np.ascontiguousarray(coef, np.float32))


def _least_squares(
    cell: Cell, Z: F32, new: NDArray[np.intp], total: F64, ridge: float
) -> Callable[[F64], tuple[F64, F64]]:
    """A function of targets t (m, outputs) to coef and g = k(Z, Z) coef of the least Σ total (t - g)² + ridge |g|².

    Where `new` rows are few, coefficients are 0 but at them and at the old rows nearest to them: other old rows have
    hardly any, and the factor of a matrix of all rows takes nearly all seconds of an update.

    Parameters
    ----------
    Z : the different rows (m, p), times the root;  total : their weights (m,)
    new : places of the new ones
    """
    moving = _nearest(Z, new)
    if FEW * len(moving) > len(Z):
        solve, ridges = _solver(Z, cell.length, cell.nu, ridge / total)

        def by_all(target: F64) -> tuple[F64, F64]:
            coef = np.asarray(solve(target), np.float64)
            return coef, target - ridges[:, None] * coef

        return by_all
    K = Matern(nu=cell.nu, length=cell.length)(Z.astype(np.float64), Z[moving].astype(np.float64))
    normal = (K * total[:, None]).T @ K + ridge * K[moving]
    normal.flat[:: len(moving) + 1] += NORMAL_ROUNDING * np.trace(normal)
    solve_few = linalg.factor_matrix(normal)

    def by_few(target: F64) -> tuple[F64, F64]:
        coef = np.zeros_like(target)
        coef[moving] = solve_few(K.T @ (total[:, None] * target))
        return coef, K @ coef[moving]

    return by_few


def _nearest(Z: F32, new: NDArray[np.intp]) -> NDArray[np.intp]:
    """Places of the new rows, and of the NEAR rows nearest to each of them."""
    apart = np.einsum("ij,ij->i", Z, Z)[:, None] - 2 * Z @ Z[new].T  # squared distances, less the norms of the new ones
    return np.union1d(new, np.argpartition(apart, min(NEAR, len(Z) - 1), axis=0)[: NEAR + 1])


def divide_cell(cell: Cell, ridge: float, limit: float, overlap: float, seed: int) -> tuple[CellTree, list[Cell]]:
    """Cut a cell of more than `limit` rows into smaller ones; return their tree and the cells."""
    p = len(cell.root)
    identity = np.eye(p, dtype=np.float32)
    tree, visits, _ = grow(cell.Z, identity, limit, 1, overlap, seed)
    if len(visits) == 1:
        return tree, [cell]
    targets = replace(cell, root=identity).scores(cell.Z) + ridge * cell.coef
    parts = []
    for visit in visits:
        Z = np.ascontiguousarray(cell.Z[visit.rows])
        solve, _ = _solver(Z, cell.length, cell.nu, np.full(len(Z), ridge))
        parts.append(replace(cell, Z=Z, coef=np.ascontiguousarray(solve(targets[visit.rows]), np.float32)))
    # In float64: a product of float32 has other bits where an array of another process is not aligned.
    directions = (tree.directions.astype(np.float64) @ cell.root.T.astype(np.float64)).astype(np.float32)
    return replace(tree, directions=directions), parts


def _solver(
    Z: F32, length: float, nu: float, ridge: F64, threads: int | None = None
) -> tuple[Callable[[F64], NDArray[np.floating]], F64]:
    """The function B -> (K + diag(ridge))^-1 B and its ridge, in float32.

    Where that is not positive definite it is in float64, and where that is not either its ridge is larger.
    """
    K = _kernel_matrix(Z, length, nu, threads or 1)
    K[np.diag_indices_from(K)] += ridge.astype(np.float32)
    try:
        solve = linalg.factor_matrix(K, threads)
    except scipy.linalg.LinAlgError:
        del K
    else:
        return lambda B: solve(B.astype(np.float32)), ridge
    rows, kernel = Z.astype(np.float64), Matern(nu=nu, length=length)
    while True:
        K = np.empty((len(Z), len(Z)))
        for first in range(0, len(Z), CELL_STRIP):  # what makes a strip is small beside the matrix
            strip = slice(first, min(first + CELL_STRIP, len(Z)))
            K[strip, : strip.stop] = kernel(rows[strip], rows[: strip.stop])
        K[np.diag_indices_from(K)] = 1.0 + ridge
        try:
            return linalg.factor_matrix(K), ridge
        except scipy.linalg.LinAlgError:
            # Rounding leaves the matrix no Cholesky factor: a larger ridge gives it one.
            ridge = 10.0 * np.maximum(ridge, np.finfo(np.float64).eps)


def _kernel_matrix(Z: F32, length: float, nu: float, threads: int = 1) -> NDArray[Any]:
    """The lower triangle of k(Z, Z); what stands above it has no meaning."""
    n, sharp = len(Z), nu == 0.5
    columns = DecayColumns(Z.astype(np.float64), length, *SMOOTHNESS[nu], sharp=sharp, tolerance=CELL_TOLERANCE)
    K = np.empty((n, n), np.float32)

    def strip(first: int) -> None:
        buffer = scratch(CELL_STRIP * TILE_COMPONENTS)
        rows = columns.rows(Z[first : first + CELL_STRIP])
        stop = min(first + CELL_STRIP, n)
        for at in range(0, stop, TILE_COMPONENTS):
            width = min(TILE_COMPONENTS, n - at)
            tile = buffer[: (stop - first) * width].reshape(stop - first, width)
            columns.fill(rows, at, tile)
            K[first:stop, at : at + width] = tile

    for_each(strip, range(0, n, CELL_STRIP)[::-1], threads)  # the longest first
    K[np.diag_indices_from(K)] = 1.0
    return K
