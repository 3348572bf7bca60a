"""Gives a model the conformity scores of new rows, in place of the rows that its fit left out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.division import groups_in, read_kept
from dkernel.data.source import Source
from dkernel.model.conformal import Conformal
from dkernel.model.model import Model
from dkernel.model.model_file import compute_digest
from dkernel.numerics.random_streams import row_hash
from dkernel.solvers.targets import Targets
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.labelled_rows import LabelledRows
from dkernel.streaming.progress import Progress
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.schedule import RowSlice
from dkernel.training.uncertainty import absolute_errors

MOST_ROWS = 2**16  # with this many rows the coverage of each of fifty groups is known to a few thousandths

Columns = tuple[NDArray[Any], ...]


def conformalize_model(
    model: Model, source: Source, executor: Executor, group: str | None = None, progress: Progress | None = None
) -> Model:
    """The model with the conformity scores of the labelled rows of a source, in place of those of its fit.

    Parameters
    ----------
    group : a column that the source keeps; intervals and sets may then be asked for by its values
    """
    if model.classes is not None:
        model.probabilities(np.zeros((1, len(model.intercept)), np.float32))  # refused before anything is read
    source = count_weighted(source, executor)
    key = f"dkernel-conformal-{compute_digest(model)[:16]}-{source.token}-{group}"
    table = read_once(source, _Scores(model, LabelledRows.of(source), group), executor, key, progress=progress)
    facts = {**model.facts, "conformal": {"rows": min(source.n_counted, MOST_ROWS), "of": "rows given"}}
    width = None if model.conformal is None else model.conformal.width
    return replace(model, conformal=replace(table, width=width), facts=facts)


@dataclass(frozen=True, eq=False)
class _Scores(Statistic[Columns, Conformal]):
    """Hash, weight, group and conformity scores of up to MOST_ROWS rows, those with the smallest hashes."""

    model: Model
    where: LabelledRows
    group: str | None

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> Columns:  # noqa: ARG002
        X, y, weight, name = self.where.parts(block, piece)
        hashes = row_hash(self.model.recipe.seed, "reservoir", piece.first, piece.n, piece.step)
        groups = np.zeros(piece.n, "U1")
        if self.group is not None:
            groups = groups_in(read_kept(block, piece.range.rows, piece.n), self.group)
        if block.weight is not None:
            counts = block.weight[piece.range.rows] > 0
            hashes, groups = hashes[counts], groups[counts]
        S, model = self.where.scores(self.model, X, name), self.model
        if model.classes is None:
            return hashes, weight, groups, absolute_errors(S, y) / model.width(X, S), np.zeros(len(y), np.intp)
        codes = Targets(model.classes).codes(y, name) if len(y) else np.zeros(0, np.intp)
        return hashes, weight, groups, 1.0 - model.probabilities(S)[np.arange(len(y)), codes], codes

    def merge(self, left: Columns, right: Columns) -> Columns:
        columns = tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
        order = np.argsort(columns[0], kind="stable")[:MOST_ROWS]
        return tuple(values[order] for values in columns)

    def finish(self, total: Columns) -> Conformal:
        _, weight, groups, scores, codes = total
        named = None if self.group is None else groups
        if self.model.classes is None:
            return Conformal.of_numbers(scores, weight.astype(np.float64), named)
        return Conformal.of(scores, weight.astype(np.float64), codes, named)
