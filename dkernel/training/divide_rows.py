"""A holdout by groups or by time: the validation rows of a source, and the source without them.

A holdout by groups takes the groups with the smallest hashes of their names, until they have the share of the rows that
was asked for. So no group is on both sides, for any files, chunks and workers.

A holdout by time takes the rows later than the (1 - share) quantile of a uniform sample of the times, or later than the
last time before it if no row is later. So every held-out row is later than every row that is learned from.

Held-out rows are removed when they are read, so nothing is learned from them. At most 16,384 of them, a uniform sample,
are the validation rows.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.column_types import TIMES
from dkernel.data.division import HoldoutRule, groups_in, hash_groups, read_kept, times_in, without
from dkernel.data.encoding.text_values import parse_formats
from dkernel.data.group_words import group_words
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.model.recipe import Recipe
from dkernel.numerics.random_streams import row_hash
from dkernel.numerics.rows import contiguous, stack
from dkernel.solvers.sizes import MOST_HOLDOUT
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.schedule import RowSlice

MOST_GROUPS = 2**16  # groups with the smallest hashes that are counted; they include those of a holdout
MOST_TIMES = 2**16  # sampled times, which give a quantile to a few thousandths
MOST_SHARE = 0.5  # largest share of a holdout; with more rows than are learned from it is a mistake


def divide_source(source: Source, recipe: Recipe, executor: Executor) -> tuple[Source, Block, str]:
    """Return the source without the holdout of a recipe, the validation rows, and a text that describes them.

    Raises
    ------
    DataError
        for a column with missing values, one group or one time, and for a holdout of more than half of the rows
    """
    assert recipe.division is not None
    kind, column = recipe.division
    if not recipe.holdout:
        raise RecipeError(
            f"holdout=0 leaves no row out, and holdout_by={recipe.holdout_by!r} says which. Use one of them."
        )
    source = count_weighted(source, executor)
    key = f"dkernel-divide-{source.token}-{recipe.holdout_by}-{recipe.holdout:g}"
    form = parse_formats(recipe.formats).get(column, "")
    statistic: Statistic[Any, Any] = _Groups(column) if kind == "group" else _Times(column, recipe.seed, form)
    limit_of: Any = _limit_of_groups if kind == "group" else _limit_of_times
    limit, said = limit_of(read_once(source, statistic, executor, f"{key}-1"), recipe)
    rule = HoldoutRule(kind, column, limit, form)
    left_out, validation = read_once(source, _RowsLeftOut(rule, recipe.seed), executor, f"{key}-2")
    rows = sum(left_out.values())
    if rows > MOST_SHARE * source.n_rows:
        raise DataError(
            f"holdout_by={recipe.holdout_by!r} leaves out {rows:,} of {source.n_rows:,} rows, more than half: {said}. "
            "Use another column, or a smaller holdout."
        )
    remaining = {chunk: n - left_out.get(chunk, 0) for chunk, n in enumerate(source.chunk_rows)}
    source, becomes = without(source, rule, remaining), "a column that is no feature"
    if source.encoding is not None and source.encoding.kinds.get(column) in TIMES:  # of groups it is no feature
        encoding, places, values = source.encoding.hold(column, limit)
        validation.X[:, places] = values
        source, becomes = replace(source, encoding=encoding), "whose calendar is a feature; its trend ends before them"
    return source, validation, f"{rows:,} rows, {said}, {becomes}"


def mask_groups(groups: NDArray[Any], recipe: Recipe) -> NDArray[np.bool_]:
    """Return the mask (n,) of the rows that are held out for these groups (n,), as by `divide_source`."""
    if not recipe.holdout:
        raise RecipeError("holdout=0 leaves no row out, and groups say which. Use one of them.")
    hashes, inverse = hash_groups(group_words(groups))
    limit, said = _limit_of_groups(_count_rows(hashes, inverse), recipe)
    mask = (hashes <= np.uint64(limit))[inverse]
    if mask.sum() > MOST_SHARE * len(groups):
        raise DataError(
            f"groups leave out {mask.sum():,} of {len(groups):,} rows, more than half: {said}. Use smaller groups, or "
            "eval_set."
        )
    return np.asarray(mask)


def _limit_of_groups(groups: Mapping[int, int], recipe: Recipe) -> tuple[int, str]:
    total, what = groups[-1], "groups" if recipe.division is None else f"groups of {recipe.division[1]!r}"
    hashes = sorted(each for each in groups if each >= 0)
    if len(hashes) < 2:
        raise DataError(f"There is one group of rows, of {what}: at least two are needed, to leave one out.")
    rows = np.cumsum([groups[each] for each in hashes])
    n = min(int(np.searchsorted(rows, recipe.holdout * total)) + 1, len(hashes) - 1)
    more = "" if len(hashes) < MOST_GROUPS else " or more"
    return hashes[n - 1], f"{n:,} of {len(hashes):,}{more} {what}"


def _limit_of_times(times: NDArray[np.float64], recipe: Recipe) -> tuple[float, str]:
    moments, (_, column) = np.unique(times), recipe.division or ("", "")
    if len(moments) < 2:
        raise DataError(f"holdout_by={recipe.holdout_by!r}: the column {column!r} has one moment, and two are needed.")
    quantile = np.quantile(times, 1 - recipe.holdout, method="lower")
    limit = min(float(quantile), float(moments[-2]))
    return limit, f"the last by {column!r}"


@dataclass(frozen=True, eq=False)
class _Groups(Statistic[dict[int, int], dict[int, int]]):
    """Hash of a group -> number of its rows, for the groups with the smallest hashes; -1 -> all rows."""

    column: str

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> dict[int, int]:  # noqa: ARG002
        return _count_rows(*hash_groups(groups_in(read_kept(block, piece.range.rows, piece.n), self.column)))

    def merge(self, left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
        total = dict(Counter(left) + Counter(right))
        if len(total) <= 2 * MOST_GROUPS:
            return total
        return {each: total[each] for each in sorted(total)[: MOST_GROUPS + 1]}

    def finish(self, total: dict[int, int]) -> dict[int, int]:
        return {each: total[each] for each in sorted(total)[: MOST_GROUPS + 1]}


def _count_rows(hashes: NDArray[np.uint64], inverse: NDArray[np.intp]) -> dict[int, int]:
    """Hash of a group -> its rows, and -1 -> all rows, from the hash of each group and the group of each row."""
    counts = np.bincount(inverse, minlength=len(hashes)).tolist()
    return {-1: len(inverse), **dict(zip(hashes.tolist(), counts, strict=True))}


@dataclass(frozen=True, eq=False)
class _Times(Statistic[tuple[Any, ...], Any]):
    """A uniform sample of times: those of the rows whose numbers have the smallest hashes."""

    column: str
    seed: int
    form: str

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> tuple[Any, ...]:  # noqa: ARG002
        hashes = row_hash(self.seed, "reservoir", piece.first, piece.n, piece.step)
        return _smallest(
            hashes, times_in(read_kept(block, piece.range.rows, piece.n), self.column, self.form), most=MOST_TIMES
        )

    def merge(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        return _smallest(*(np.concatenate(parts) for parts in zip(left, right, strict=True)), most=MOST_TIMES)

    def finish(self, total: tuple[Any, ...]) -> Any:
        return total[1]


def _smallest(hashes: Any, *columns: Any, most: int) -> tuple[Any, ...]:
    """Return the rows with the smallest hashes, in the order of these."""
    order = np.argsort(hashes, kind="stable")[:most]
    return tuple(None if values is None else values[order] for values in (hashes, *columns))


_Counted = tuple[dict[int, int], tuple[Any, ...]]
"""Number of left-out rows of each chunk, and a uniform sample of them in the order of their hashes."""


@dataclass(frozen=True, eq=False)
class _RowsLeftOut(Statistic[_Counted, tuple[dict[int, int], Block]]):
    """The rows that a rule leaves out: their number in each chunk, and a sample of them."""

    rule: HoldoutRule
    seed: int

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> _Counted:  # noqa: ARG002
        rows = np.flatnonzero(self.rule.leaves_out(read_kept(block, piece.range.rows, piece.n)))
        hashes = row_hash(self.seed, "reservoir", piece.first, piece.n, piece.step)[rows]
        at = piece.range.rows
        X, y = block.X[at][rows], block.y[at][rows]  # type: ignore[index]
        weight = None if block.weight is None else block.weight[at][rows]
        if weight is not None:
            counts = weight > 0
            hashes, X, y, weight = hashes[counts], X[counts], y[counts], weight[counts]
        return {piece.chunk: len(rows)}, _smallest(hashes, X, y, weight, most=MOST_HOLDOUT)

    def merge(self, left: _Counted, right: _Counted) -> _Counted:
        rows = [None if a is None else stack([a, b]) for a, b in zip(left[1], right[1], strict=True)]
        return dict(Counter(left[0]) + Counter(right[0])), _smallest(*rows, most=MOST_HOLDOUT)

    def finish(self, total: _Counted) -> tuple[dict[int, int], Block]:
        counts, (_, X, y, weight) = total
        return counts, Block(contiguous(X), y, weight)
