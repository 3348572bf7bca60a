"""Weights as numbers of rows: how many rows count, and for how many rows a weight of 1 does.

    Σ w >= n, the rows with w > 0      w rows each: copies of a row are a row of their number
    Σ w < n                            (Σ w)² / Σ w² rows in all: w and c w are the same weights

The first is of numbers of copies, the second of weights that only say how much a row matters beside others: shares,
inverse probabilities. It is decided here, before anything is fitted, so all that follows takes a weight for a number
of rows: priors of probabilities, standard errors, ridges of bins, counts of classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from dask.delayed import Delayed
from dask.local import get_sync

from dkernel.data.block import Block, no_weight
from dkernel.data.source import Source, Unit
from dkernel.numerics.array_types import F64
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.digits import check_digits, tells_rounding
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.survey import Survey

ROUNDING = 1e-6  # weights in float32 whose mean is 1 add up to their number of rows within it


@dataclass(frozen=True)
class CountedSource(Source):
    """A source whose weights are numbers of rows: the weights that were given, times `unit`."""

    unit: float = 1.0

    @classmethod
    def of(cls, source: Source, counted: int, unit: float) -> "CountedSource":
        """The source with this mark; its weights are in rows already."""
        return cls(**{**vars(source), "counted": counted, "unit": unit})


class WeightSums(Statistic[F64, F64]):
    """Number of rows with a weight above 0, the sum of the weights and of their squares."""

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> F64:  # noqa: ARG002
        weight = np.ones(piece.n) if block.weight is None else block.weight[piece.range.rows]
        return np.array([np.count_nonzero(weight), weight.sum(), weight @ weight])

    def merge(self, left: F64, right: F64) -> F64:
        return left + right


def rows_of_one(rows: float, total: float, squares: float) -> float:
    """The number of rows that a weight of 1 counts for, where so many rows have these sums of weights and squares.

    Examples
    --------
    >>> rows_of_one(3, 6.0, 14.0), rows_of_one(4, 1.0, 0.25)
    (1.0, 4.0)
    """
    return 1.0 if total >= rows * (1 - ROUNDING) else total / squares


def count_weighted(source: Source, executor: Executor) -> Source:
    """The source with its rows of positive weight counted and weights in rows, by one reading where it has weights.

    All sizes of a fit, the holdout's first of all, follow the rows that count. A row's role is decided by its hash
    alone, so their number has to be there before any role is given.
    """
    known = unit_of(source)
    if source.weight is None or (known is not None and source.counted is not None):
        return source
    n, total, squares = read_once(source, WeightSums(), executor, f"dkernel-survey-0-{source.token}").tolist()
    if not n:
        raise no_weight(source.n_rows)
    if known is not None:
        return replace(source, counted=int(n))
    unit = rows_of_one(n, total, squares)
    units = source.units if unit == 1 else tuple(_in_rows(each, unit) for each in source.units)
    return CountedSource.of(replace(source, units=units), int(n), unit)


def count_positive(source: Source, executor: Executor) -> int:
    """The number of its rows of positive weight, by one reading where it has weights."""
    if source.weight is None:
        return source.n_rows
    return int(read_once(source, WeightSums(), executor, f"dkernel-survey-0-{source.token}")[0])


def unit_of(source: Source) -> float | None:
    """What the weights of a source were multiplied by; None if they are as they were given."""
    return source.unit if isinstance(source, CountedSource) else None


def read_sample(source: Source, executor: Executor, most: int, seed: int = 0) -> Block:
    """Read the source once, and take up to `most` rows of positive weight with the smallest hashes."""
    n = source.n_counted
    key = f"dkernel-survey-1-{source.token}-{seed}-{most}"
    survey = read_once(source, Survey(seed, n, min(n, most), tells_rounding(source)), executor, key)
    check_digits(source, survey)
    return survey.reservoir.part(slice(None))


def _in_rows(unit: Unit, factor: float) -> Unit:
    """The unit with its weights times a factor; a unit of one task stays one."""
    graph, before = dict(unit.task.__dask_graph__()), unit.task.key
    key = f"{before}-times-{factor.hex()}"
    if len(graph) == 1:
        tasks: dict[Any, Any] = {key: (partial(_read_times, graph, before, factor),)}
    else:
        tasks = {**graph, key: (partial(_times, factor), before)}
    return replace(unit, task=Delayed(key, tasks))  # type: ignore[no-untyped-call]


def _read_times(graph: Mapping[Any, Any], key: Any, factor: float) -> tuple[Block, ...]:
    """The blocks of a unit of one task with their weights times a factor; runs on a worker."""
    return _times(factor, get_sync(dict(graph), key))


def _times(factor: float, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(block if block.weight is None else replace(block, weight=block.weight * factor) for block in blocks)
