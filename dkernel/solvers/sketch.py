"""Parts of the preconditioner of very many columns: the sample, sketched on the workers. See
`solvers.lowrank_preconditioner`.

The range of the sketch is that of K Ω, K the kernel's own Gram matrix of the sample's rows, Ω random: rows of features
need not be multiplied with each other for it, and one product with K takes what is random out of the leading
directions (Halko, Martinsson and Tropp 2011). Every task makes some columns, of all rows of the sample.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features.base import Coordinates, in_tiles
from dkernel.features.block_coordinates import BLOCK_COLUMNS
from dkernel.model.model import ScaledComponents
from dkernel.numerics import tiling
from dkernel.numerics.array_types import F32
from dkernel.numerics.random_streams import stream
from dkernel.solvers.lowrank_preconditioner import Sketch
from dkernel.solvers.objective import Gradient, GradientSum, Objective
from dkernel.streaming.execution.base import Call, Executor
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice

SKETCH_ROWS = 8192  # rows of the sample that are sketched
RANK = 2048  # directions of the sketch, at most
MOST_SKETCH_BYTES = 2**30  # memory of the sketch, at most
SKETCH_STRIP = 1024  # rows of the kernel's Gram matrix that exist at one time

SKETCH_TASK = (
    4 * SKETCH_ROWS * (BLOCK_COLUMNS + 2 * RANK) + 4 * RANK * BLOCK_COLUMNS * 2 + 20 * SKETCH_STRIP * SKETCH_ROWS
)
"""Bytes of one task: its columns of the sample, or a strip of the kernel's Gram matrix with all of Ω."""
SKETCH_CLIENT = 3 * 4 * SKETCH_ROWS * RANK + 6 * 8 * RANK**2
"""Bytes of the client, beside the sketch."""

TileGroup = tuple[int, int, int]


def choose_rank(columns: int, rows: int = SKETCH_ROWS) -> int:
    """Rows of the sketch: a quarter of those that are sketched, and no more than have room.

    Examples
    --------
    >>> choose_rank(100_000), choose_rank(500_000), choose_rank(50_000, rows=1000)
    (2048, 512, 250)
    """
    room = MOST_SKETCH_BYTES // (4 * columns) // 256 * 256
    return int(max(1, min(RANK, rows // 4, max(room, 256))))


def sketch_flops(columns: int, p: int) -> float:
    """Predicted flops of a sketch."""
    rank = choose_rank(columns)
    return SKETCH_ROWS**2 * (2.0 * p + 200 + 2.0 * rank) + columns * rank * (2.0 * SKETCH_ROWS + rank) + 10.0 * rank**3


def sketch_covariance(
    executor: Executor, key: str, objective: Objective, coordinates: Coordinates, sample: Block
) -> Sketch:
    """The sketch of the first rows of the sample, in slices of columns."""
    X, _, weight = objective.rows(sample, RowSlice.whole(min(SKETCH_ROWS, len(sample.X))))
    n = len(X)
    root = np.ones((n, 1), np.float32) if weight is None else np.sqrt(weight)
    rank = choose_rank(coordinates.n, n)
    ends = [(at, min(n, at + SKETCH_STRIP)) for at in range(0, n, SKETCH_STRIP)]
    with (
        executor.broadcast(objective.components, f"{key}-columns") as columns,
        executor.broadcast((X, root), f"{key}-sketched") as rows,
    ):
        strips = [
            Call(f"{key}-range-{at}", _make_strip, (columns, rows, (at, end), objective.seed, rank)) for at, end in ends
        ]
        Q = root * np.linalg.qr(np.concatenate(list(_in_waves(executor, strips))))[0]
        with executor.broadcast(np.ascontiguousarray(Q.T, dtype=np.float32), f"{key}-basis") as basis:
            calls = [
                Call(f"{key}-slice-{i}", _make_columns, (columns, rows, basis, groups))
                for i, groups in enumerate(cut_slices(objective.components.groups))
            ]
            slices = [_to_coordinates(coordinates, i, part) for i, part in enumerate(_in_waves(executor, calls))]
    slices.append(np.ascontiguousarray(Q.sum(axis=0, dtype=np.float64)[:, None], dtype=np.float32))
    assert isinstance(coordinates.metric, float)
    return Sketch.of(slices, coordinates.metric, float(np.sum(root**2, dtype=np.float64)))


def sketch_features(objective: Objective, coordinates: Coordinates, X: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    """Features of raw rows in the coordinates of a sketch, (width, rows), slice by slice."""
    for i, groups in enumerate(cut_slices(objective.components.groups)):
        F = in_tiles(objective.components, X, groups).astype(np.float64)
        yield _whiten(coordinates, i, F.T)
    yield np.ones((1, len(X)))


def cut_slices(groups: Sequence[TileGroup]) -> list[tuple[TileGroup, ...]]:
    """Neighbouring groups of tiles, of BLOCK_COLUMNS columns where these are the landmarks of a block.

    Examples
    --------
    >>> [[first for first, _, _ in part] for part in cut_slices([(i, 1, 512) for i in range(0, 3072, 512)])]
    [[0, 512, 1024, 1536], [2048, 2560]]
    """
    slices: list[list[TileGroup]] = []
    for group in groups:
        if not slices or group[0] + group[1] * group[2] - slices[-1][0][0] > BLOCK_COLUMNS:
            slices.append([])
        slices[-1].append(group)
    return [tuple(part) for part in slices]


def _make_strip(columns: ScaledComponents, rows: tuple[Any, F32], part: tuple[int, int], seed: int, rank: int) -> F32:
    """Make some rows of K Ω; runs on a worker."""
    X, root = columns.scaling.apply(rows[0]), rows[1]
    omega = root * stream(seed, "sketch").standard_normal((len(X), rank), dtype=np.float32)
    mine = slice(*part)
    return np.asarray(root[mine] * (columns.map.kernel(X[mine], X).astype(np.float32) @ omega), dtype=np.float32)


def _make_columns(columns: ScaledComponents, rows: tuple[Any, F32], basis: F32, groups: Sequence[TileGroup]) -> F32:
    """Make some columns of the sketch; runs on a worker."""
    return np.asarray(basis @ in_tiles(columns, rows[0], groups), np.float32)


@dataclass(frozen=True, eq=False)
class CovarianceSum(Statistic[GradientSum, GradientSum]):
    """The mean of features times targets: less the gradient of the squared loss at nothing."""

    objective: Objective

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> GradientSum:  # noqa: ARG002
        X, Y, weight = self.objective.rows(block, piece)
        R = Y if weight is None else Y * weight
        nothing = np.zeros((self.objective.components.map.n_components, Y.shape[1]), np.float32), np.zeros(Y.shape[1])
        G, g = tiling.accumulate(self.objective.components, X, *nothing, lambda S, start: R[start : start + len(S)])
        total = float(len(X)) if weight is None else float(weight.sum(dtype=np.float64))
        return GradientSum(G, g, total, len(X), np.zeros(1), np.zeros(1))

    def merge(self, left: GradientSum, right: GradientSum) -> GradientSum:
        return Gradient(self.objective).merge(left, right)


def _to_coordinates(coordinates: Coordinates, i: int, part: F32) -> F32:
    """Columns of the sketch in the coordinates w."""
    return np.ascontiguousarray(_whiten(coordinates, i, part.T.astype(np.float64)).T, dtype=np.float32)


def _whiten(coordinates: Coordinates, i: int, part: NDArray[np.float64]) -> NDArray[np.float64]:
    """The columns of slice i, one a row, in the coordinates w."""
    if coordinates.basis is not None:
        return coordinates.basis.T.of(i, part)
    assert isinstance(coordinates.metric, float)
    return np.asarray(part / np.sqrt(coordinates.metric))


def _in_waves(executor: Executor, calls: Sequence[Call]) -> Iterator[Any]:
    """The results of many calls: as many at once as keep the workers busy, so that few wait on the workers."""
    size = 2 * executor.slots  # tasks a slot whose results are on their way at one time
    for at in range(0, len(calls), size):
        yield from executor.compute(calls[at : at + size])[0]
