"""A partition of the rows into cells: a tree of cuts across directions in which rows spread, and a band about each cut.

A row belongs to one cell, and the rows in the band of a cut are learned from on both of its sides: at the walls of a
cell its machine would otherwise see one side only. Everything is a function of single rows, so a row has the same cell
alone and in any block.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F32
from dkernel.numerics.loops import compile_loop
from dkernel.numerics.random_streams import stream

OWN_CELL = np.float32(-1.0)
"""Depth in the bands of a row in its own cell; that of others is from 0, at the cut, to 1."""
FORK = np.array([1.0, 0.0, -1.0], np.float32)
"""Places of a cut whose band ends before it begins: all rows are on both sides, which are a partition each."""
DRAWS = 8  # directions that are tried where all rows have one value


@compile_loop("void(float32[:, ::1], int64[::1], float32[::1], float32[::1])", set())
def _project(X: Any, rows: Any, direction: Any, out: Any) -> None:
    # The sum of a row is in one order, whichever rows are beside it.
    for i in range(rows.size):
        total = np.float32(0.0)
        for j in range(X.shape[1]):
            total += X[rows[i], j] * direction[j]
        out[i] = total


def _values(X: F32, rows: NDArray[np.int64], direction: F32) -> F32:
    out = np.empty(len(rows), np.float32)
    _project(X, rows, direction, out)
    return out


@dataclass(frozen=True, eq=False)
class Visit:
    """The rows that a cell learns from.

    Parameters
    ----------
    rows : their places in the block
    depth : in the bands, float32; OWN_CELL for rows of the cell itself
    """

    rows: NDArray[np.int64]
    depth: F32

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Mask of the cell's own rows."""
        return self.depth < 0

    def within(self, side: NDArray[np.bool_], beyond: F32) -> "Visit":
        """The part of these rows on one side of a cut and in its band there; `beyond` is the depth of each row."""
        near = side | (beyond < 1)
        depth = np.where(side, self.depth, np.maximum(self.depth, beyond))
        return Visit(self.rows[near], depth[near].astype(np.float32))


@dataclass(frozen=True, eq=False)
class CellTree(ArrayRecord):
    """Cuts. Child c >= 0 of a cut is another cut, a child c < 0 is the cell -1 - c; without cuts there is one cell.

    Parameters
    ----------
    directions : float32 (cuts, p)
    places : of the lower end of the band, the cut, and the upper end, float32 (cuts, 3)
    children : int32 (cuts, 2), below the cut and from it on; those of a cut have larger numbers
    """

    directions: F32
    places: F32
    children: NDArray[np.int32]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.children) + 1

    def cells(self, X: F32) -> NDArray[np.int64]:
        """Number of the cell of each row (rows,)."""
        out = np.zeros(len(X), np.int64)
        todo = [(0 if len(self.children) else -1, np.arange(len(X)))]
        while todo:
            node, rows = todo.pop()
            if node < 0:
                out[rows] = -1 - node
            elif len(rows):
                below = _values(X, rows, self.directions[node]) < self.places[node, 1]
                todo += [(int(self.children[node, 0]), rows[below]), (int(self.children[node, 1]), rows[~below])]
        return out

    def visits(self, X: F32) -> Iterator[tuple[int, Visit]]:
        """Number of each cell and the rows of a block that it learns from, their bands included."""
        everyone = Visit(np.arange(len(X)), np.full(len(X), OWN_CELL))
        todo = [(0 if len(self.children) else -1, everyone)]
        while todo:
            node, visit = todo.pop()
            if node < 0:
                yield -1 - node, visit
            elif len(visit.rows):
                sides = _sides(_values(X, visit.rows, self.directions[node]), self.places[node])
                todo += [
                    (int(child), visit.within(*side)) for child, side in zip(self.children[node], sides, strict=True)
                ]

    def fits(self, p: int) -> bool:
        """True if the arrays agree, and every path from the root ends in a cell of its own."""
        cuts = len(self.children)
        if self.directions.shape != (cuts, p) or self.places.shape != (cuts, 3) or self.children.shape != (cuts, 2):
            return False
        inner = np.sort(self.children[self.children >= 0])
        leaves = np.sort(-1 - self.children[self.children < 0])
        later = (self.children < 0) | (self.children > np.arange(cuts)[:, None])
        whole = np.array_equal(inner, np.arange(1, max(cuts, 1))) and np.array_equal(leaves, np.arange(cuts + 1))
        return not cuts or bool(whole and later.all())

    def join(self, below: "list[CellTree]") -> "CellTree":
        """Put a tree in the place of each cell; cells are numbered in the order of these trees."""
        first = np.cumsum([0, *(tree.n_cells for tree in below)])
        at = len(self.children) + np.cumsum([0, *(len(tree.children) for tree in below)])

        def moved(child: int) -> int:
            if child >= 0:
                return child
            cell = -1 - child
            return int(at[cell]) if len(below[cell].children) else int(-1 - first[cell])

        children = [[moved(int(child)) for child in pair] for pair in self.children]
        parts = [np.array(children, np.int32).reshape(-1, 2)]
        for k, tree in enumerate(below):
            parts.append(np.where(tree.children >= 0, tree.children + at[k], tree.children - first[k]).astype(np.int32))
        return CellTree(
            np.concatenate([self.directions, *(tree.directions for tree in below)]),
            np.concatenate([self.places, *(tree.places for tree in below)]),
            np.concatenate(parts),
        )


def _sides(values: F32, places: F32) -> tuple[tuple[NDArray[np.bool_], F32], tuple[NDArray[np.bool_], F32]]:
    """The rows on each side of a cut, and the depth of each row in its band."""
    low, cut, high = places
    if low > high:
        return ((np.ones(len(values), np.bool_), np.zeros(len(values), np.float32)),) * 2
    below = values < cut
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        over, under = (values - cut) / (high - cut), (cut - values) / (cut - low)
    # A band without width has no row.
    over, under = (np.where(np.isfinite(depth), depth, 2).astype(np.float32) for depth in (over, under))
    return (below, over), (~below, under)


def grow(
    X: F32,
    root: NDArray[np.floating],
    limit: float,
    least: int,
    overlap: float,
    seed: int,
    visit: Visit | None = None,
    number: int = 1,
) -> tuple[CellTree, list[Visit], list[int]]:
    """Grow a tree of equal cells of at most `limit` rows; return it, the visits of its cells, and their numbers.

    A node of m rows is for k = ceil(m / limit) cells and is cut so that floor(k / 2) of them are below: all cells of n
    rows have n / k. A node whose rows all have one value in DRAWS directions stays whole: its rows are equal.

    A direction is a random one times the covariance of the node's rows, so that cuts go across what is long. One
    partition is as good as by principal components, and another seed gives another partition.

    Parameters
    ----------
    X : rows (n, p);  root : of the metric (p, p): distances and spreads are those in it
    least : rows that both sides of a cut have
    overlap : rows of the bands that a cell is to have, as a share of its own
    visit : the rows that count, all where it is None
    number : of the node in its tree, from 1 at the root; those below it are 2 number and 2 number + 1. It decides the
        directions that are drawn
    """
    directions: list[F32] = []
    places: list[F32] = []
    children: list[list[int]] = []
    cells: list[Visit] = []
    numbers: list[int] = []
    root32 = np.ascontiguousarray(root, np.float32)

    def node(visit: Visit, number: int) -> int:
        cut = _cut(X, root32, visit, limit, least, overlap, seed, number)
        if cut is None:
            cells.append(visit)
            numbers.append(number)
            return -len(cells)
        direction, places_of_cut, sides = cut
        cut_number = len(children)
        directions.append(direction)
        places.append(places_of_cut)
        children.append([0, 0])
        children[cut_number] = [node(visit.within(*side), 2 * number + k) for k, side in enumerate(sides)]
        return cut_number

    node(visit or Visit(np.arange(len(X)), np.full(len(X), OWN_CELL)), number)
    tree = CellTree(
        np.array(directions, np.float32).reshape(-1, X.shape[1]),
        np.array(places, np.float32).reshape(-1, 3),
        np.array(children, np.int32).reshape(-1, 2),
    )
    return tree, cells, numbers


def grow_partitions(
    X: F32, root: NDArray[np.floating], limit: float, least: int, overlap: float, seed: int, partitions: int
) -> tuple[CellTree, list[int]]:
    """Grow a tree of several partitions of the rows; return it and the numbers of its cells, see `grow`."""
    numbers, children = [1], np.zeros((partitions - 1, 2), np.int32)
    for fork in range(partitions - 1):
        numbers[-1:] = [2 * numbers[-1], 2 * numbers[-1] + 1]
        children[fork] = -1 - fork, fork + 1
    children[-1:, 1] = -partitions
    forks = CellTree(np.zeros((partitions - 1, X.shape[1]), np.float32), np.tile(FORK, (partitions - 1, 1)), children)
    grown = [grow(X, root, limit, least, overlap, seed, number=number) for number in numbers]
    return forks.join([tree for tree, _, _ in grown]), [number for _, _, of_tree in grown for number in of_tree]


def _cut(
    X: F32, root: F32, visit: Visit, limit: float, least: int, overlap: float, seed: int, number: int
) -> tuple[F32, F32, Any] | None:
    """Cut a node: direction, places and sides of the cut; None if the node is a cell."""
    inside = visit.inside
    m = int(inside.sum())
    k = int(np.ceil(m / limit))
    if k < 2:
        return None
    # A sample of the node gives its covariance.
    spread = _covariance(X[visit.rows[inside][:: max(1, m // 4096)]] @ root)
    for draw in range(DRAWS):
        direction = root @ (spread @ stream(seed, "cells", number, draw).standard_normal(len(root))).astype(np.float32)
        values = _values(X, visit.rows, direction)
        mine = np.sort(values[inside])
        if mine[0] < mine[-1]:
            break
    else:
        return None
    cut = mine[m * (k // 2) // k]
    if cut == mine[0]:  # rows that are equal to the smallest one stay together
        cut = mine[mine > cut][0]
    below = int((mine < cut).sum())
    if min(below, m - below) < least:
        return None
    # Each level adds the same share, so that the cells have the overlap that was asked for.
    now = len(visit.rows) / m
    share = max(0.0, ((1 + overlap) / now) ** (1 / np.ceil(np.log2(k))) - 1)
    beyond = np.sort(values[values >= cut])
    before = np.sort(values[values < cut])[::-1]
    places = np.array([_end(before, share * len(beyond), cut), cut, _end(beyond, share * len(before), cut)], np.float32)
    return direction, places, _sides(values, places)


def _covariance(Z: F32) -> NDArray[np.float64]:
    """Covariance of the columns, scaled to trace 1 unless it is 0."""
    centred = Z - Z.mean(axis=0, dtype=np.float64)
    covariance: NDArray[np.float64] = centred.T @ centred
    return covariance / max(float(np.trace(covariance)), np.finfo(float).tiny)


def _end(values: F32, rows: float, cut: np.float32) -> np.float32:
    """The end of a band with `rows` of these values, which are sorted by their distance to the cut."""
    count = int(rows)
    if count == 0:
        return cut
    if count < len(values):
        return np.float32(values[count])
    last = values[-1]
    return np.nextafter(last + (last - cut) * np.float32(0.01), np.copysign(np.float32(np.inf), last - cut))
