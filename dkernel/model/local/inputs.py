"""Inputs of a grid: centered numbers, and one category for each group of one-hot columns."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.numerics.array_types import F32
from dkernel.numerics.loops import compile_loop
from dkernel.numerics.validation import nearest_name

Groups = tuple[tuple[int, ...], ...]


@compile_loop("void(float32[:, :], float32[::1], int64[::1], float32[::1], float32[:, ::1])", set())
def _fill(X: Any, center: Any, row: Any, category: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if category[j] == np.float32(0.0):
                out[row[j], i] = X[i, j] - center[j]
            elif X[i, j] != np.float32(0.0):
                out[row[j], i] = category[j] if out[row[j], i] == np.float32(0.0) else -category[j]


@dataclass(frozen=True, eq=False)
class GridInputs:
    """The function from rows of features to rows of numbers and categories.

    Parameters
    ----------
    center : of the features, float64 (p,); subtracted in the dtype of the rows, before they become float32
    groups : for each group its features, of which a row has one that is not 0, its category; rows that have several, or
        none, are further categories
    """

    center: NDArray[np.float64]
    groups: Groups = ()

    @cached_property
    def numbers(self) -> NDArray[np.intp]:
        """The features that are in no group, in their order; the groups come after them."""
        return np.setdiff1d(np.arange(len(self.center)), [j for group in self.groups for j in group])

    @property
    def n_out(self) -> int:
        """The number of inputs: numbers and groups."""
        return len(self.numbers) + len(self.groups)

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """Mask of the outputs that are categories."""
        return np.arange(self.n_out) >= len(self.numbers)

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], F32]:
        """Row of the output of each feature, and the number of its category, 0 for a number."""
        row, category = np.zeros(len(self.center), np.int64), np.zeros(len(self.center), np.float32)
        row[self.numbers] = np.arange(len(self.numbers))
        for k, group in enumerate(self.groups):
            row[list(group)], category[list(group)] = len(self.numbers) + k, np.arange(1, len(group) + 1)
        return row, category

    def __call__(self, X: NDArray[np.floating]) -> F32:
        """The rows as columns, float32 (n_out, rows), of a block (rows, p)."""
        out = np.zeros((self.n_out, len(X)), np.float32)
        row, category = self._places
        if X.dtype == np.float32:
            _fill(X, self.center.astype(np.float32), row, category, out)
        else:
            centred = (X - np.where(category > 0, 0.0, self.center)).astype(np.float32)
            _fill(centred, np.zeros(len(row), np.float32), row, category, out)
        return out

    def spec(self) -> dict[str, Any]:
        """The groups, as JSON."""
        return {"groups": [list(group) for group in self.groups]}

    @classmethod
    def build(cls, spec: Mapping[str, Any], center: NDArray[np.float64]) -> "GridInputs":
        """Make the inputs that `spec` describes."""
        return cls(center, tuple(tuple(int(j) for j in group) for group in spec["groups"]))


def has_two_values(X: NDArray[np.floating]) -> NDArray[np.bool_]:
    """True for a column of at most two values, one of them 0."""
    return np.asarray(((X == 0) | (X.max(axis=0, initial=0.0) == X)).all(axis=0))


def one_hot_groups(
    X: NDArray[np.floating], known: Sequence[tuple[int, ...]] = (), made: Collection[int] = ()
) -> Groups:
    """Find groups of neighbouring columns of two values, one of them 0, of which a row of the sample has one at most.

    Parameters
    ----------
    known : groups that are known; the result has them too
    made : other columns that are in no group

    Examples
    --------
    >>> rows = np.array([[0.3, 1, 0, 0, 1], [0.1, 0, 1, 0, 1], [2.0, 0, 0, 1, 0]], np.float32)
    >>> one_hot_groups(rows)
    ((1, 2, 3), (4,))
    """
    # The column of a level that no row of the sample has is zero, and stays in its group.
    two_values = has_two_values(X)
    two_values[[*made, *(j for group in known for j in group)]] = False
    columns = np.flatnonzero(two_values)[:2000]  # at most, since every pair of columns is counted
    on = (X[:, columns] != 0).astype(np.float32)
    together = on.T @ on
    groups: list[list[int]] = []
    first = 0
    for k, j in enumerate(columns.tolist()):
        if groups and groups[-1][-1] == j - 1 and not together[k, first:k].any():
            groups[-1].append(j)
        else:
            groups.append([j])
            first = k
    return tuple(sorted([*known, *map(tuple, groups)]))


def named_groups(groups: Sequence[Sequence[str]], places: Mapping[str, int]) -> Groups:
    """Find the places of features by names or patterns.

    Parameters
    ----------
    places : name of a feature -> its place

    Examples
    --------
    >>> named_groups([["soil*"], ["a", "b"]], {"a": 0, "soil1": 1, "soil2": 2, "b": 3})
    ((1, 2), (0, 3))
    """
    remaining, positions = dict(places), []
    for group in groups:
        members = []
        for pattern in group:
            names = [name for name in remaining if fnmatchcase(name, pattern)]
            if not names:
                near = nearest_name(pattern, list(remaining))
                raise RecipeError(f"one_hot={pattern!r} is like no feature that is left.{near}")
            members += [remaining.pop(name) for name in names]
        positions.append(tuple(sorted(members)))
    return tuple(positions)


INPUT_LOOPS = (_fill,)
