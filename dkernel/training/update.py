"""Update of a model with new rows, without another fit to its old rows.

The scaling, the global stage and the settings of the local stage stay. New rows change the local stage by their
residuals: each cell learns the rows that fall into it, and grids make one more sweep over them. Old rows keep the grids
from moving: the residual of an old row is minus the change of its score.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.data.encoding.unseen import UnseenValues
from dkernel.data.source import Source
from dkernel.errors import DataError, MemoryBudgetError
from dkernel.model.local.base import LocalMachine
from dkernel.model.model import Model, ScaledComponents
from dkernel.numerics.resource_limits import format_bytes, format_limit
from dkernel.numerics.rows import stack
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.objective import Objective
from dkernel.solvers.targets import Targets
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.cost import CLIENT_BASE, THREADS_BASE, WORKER_BASE
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.labelled_rows import LabelledRows
from dkernel.streaming.progress import Progress
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.row_memory import loaded_row_bytes
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.survey import Survey
from dkernel.streaming.unseen_rows import WithUnseen
from dkernel.training.incremental import Stream, start_stream, update_stream, weight_classes
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.residual import ResidualRows
from dkernel.training.uncertainty import LeftOut, cut_to_judge, with_later_rows

ROWS_A_COMPONENT = 8  # fewest new rows per component of a model without a local stage: they make a preconditioner
ROW_COPIES = 4  # of the rows in a process: as they are read, joined, in their order, and a part of them that is learned
STAGE_BYTES = 160 * 2**20  # of the blocks of a sweep of a local stage
MOST_OLD = 2**18  # most old rows that keep grids from moving, a uniform sample in memory


def rows_in(
    source: Source, executor: Executor, model: Model, most: int | None = None, progress: Progress | None = None
) -> tuple[Block, UnseenValues]:
    """Return the rows of a source, or a uniform sample of them, in an order that does not depend on the files.

    Parameters
    ----------
    model : values that its training has not seen are counted, and a label that it had not is refused by its row
    most : rows of the sample, None for all rows
    """
    source = count_weighted(source, executor)
    n = source.n_counted
    _check_memory(model, executor, min(source.n_rows, most or source.n_rows), loaded_row_bytes(source))
    statistic: Any = Survey(0, n, min(n, most or n))
    if source.label is not None and model.classes is not None:
        statistic = KnownLabels(statistic, LabelledRows.of(source), Targets(model.classes))
    statistic = WithUnseen(statistic, model.reading)
    key = f"dkernel-update-rows-{source.token}-{most}"
    survey, unseen = read_once(source, statistic, executor, key, progress=progress)
    return survey.reservoir.part(slice(None)), unseen


def _check_memory(model: Model, executor: Executor, n: int, row_bytes: int) -> None:
    """Tell what n rows take in memory, in this process and in each worker; refuse them where there is less."""
    machine, alone = executor.describe(), model.local is None
    limit = machine.memory_limit or machine.most_bytes
    bases = [(THREADS_BASE if machine.in_process else CLIENT_BASE) + (not alone) * STAGE_BYTES]
    limits = [min(limit, machine.most_bytes) if machine.in_process else machine.most_bytes]
    if alone and not machine.in_process:  # the rounds are theirs
        bases, limits = [*bases, WORKER_BASE], [*limits, limit]
    needs = [base + ROW_COPIES * n * row_bytes for base in bases]
    executor.tell(f"memory: about {' here, '.join(map(format_bytes, needs))} {'each worker' if needs[1:] else 'here'}")
    for base, needed, most in zip(bases, needs, limits, strict=True):
        if needed > most:
            raise MemoryBudgetError(
                f"An update holds its rows in memory: {n:,} need about {format_bytes(needed)}, and there are "
                f"{format_bytes(most)}. Raise memory_limit to {format_limit(needed)}, give at most "
                f"{max(0, (most - base) // (ROW_COPIES * row_bytes)):,} rows at a time, or train again on all."
            )


def check_labels(targets: Targets, where: LabelledRows, block: Block, piece: RowSlice) -> None:
    """Refuse a label that training had not, of the rows of a piece that count, by its row."""
    _, y, _, name = where.parts(block, piece)
    if len(y):
        targets.codes(y, name)


@dataclass(frozen=True, eq=False)
class KnownLabels(Statistic[Any, Any]):
    """Another statistic of labelled rows, which refuses a label that training had not by its row."""

    inner: Statistic[Any, Any]
    where: LabelledRows
    targets: Targets

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> Any:
        check_labels(self.targets, self.where, block, piece)
        return self.inner.step(block, piece, broadcast)

    def merge(self, left: Any, right: Any) -> Any:
        return self.inner.merge(left, right)

    def finish(self, total: Any) -> Any:
        return self.inner.finish(total)


def update_model(model: Model, new: Block, executor: Executor, old: Block | None = None) -> Model:
    """Return the model after it has learned new rows.

    Parameters
    ----------
    new : rows that the model was not fitted to
    old : training rows without labels, all or a uniform sample, which keep grids from moving; or None

    Raises
    ------
    DataError
        for no rows, for labels that training had not, and for too few rows for a model without a local stage
    UnsupportedError
        for grids without old rows
    """
    assert new.y is not None
    if not len(new.X):
        raise DataError("There is no new row to learn from.")
    updates = model.facts.get("updates", 0) + 1
    with one_blas_thread():
        going = _start_rounds(model, new, executor) if model.local is None else None
        for rows in cut_to_judge(new, model.recipe.seed):
            counts, out = _count_classes(model, rows), LeftOut.score(model, rows)
            if model.local is None:
                assert going is not None
                going = update_stream(replace(going, model=model), rows, counts, executor)
                learned = going.model
            else:
                residual = _residual_rows(model, model.local, rows, counts)
                updated = LOCAL_STAGES[model.local.kind].update(model.local, model, residual, old, executor)
                learned = replace(model, local=updated, variance=None)
                old = None if old is None else Block(stack([old.X, rows.X]))
            facts = {**model.facts, "rows": model.facts["rows"] + len(rows.X), "updates": updates}
            if model.classes is not None:
                facts["counts"] = [round(counts[label]) for label in model.classes.tolist()]
            model = with_later_rows(replace(learned, facts=facts), out).with_labels(rows)
    return model


def _count_classes(model: Model, new: Block) -> dict[Any, float]:
    if model.classes is None:
        return {}
    assert new.y is not None
    codes = Targets(model.classes).codes(new.y)
    totals = np.bincount(codes, new.weight, minlength=len(model.classes)) + model.facts["counts"]
    return dict(zip(model.classes.tolist(), totals.tolist(), strict=True))


def _start_rounds(model: Model, new: Block, executor: Executor) -> Stream:
    least = ROWS_A_COMPONENT * model.map.n_components
    if len(new.X) < least:
        raise DataError(
            f"{len(new.X):,} new rows: a model of {model.map.n_components:,} components without a local stage learns "
            f"from {least:,} rows or more at a time. Collect more, or train again on all rows."
        )
    return start_stream(model, new, _count_classes(model, new), int(model.facts["rows"]), executor)


def _residual_rows(model: Model, machine: LocalMachine, new: Block, counts: Mapping[Any, float]) -> ResidualRows:
    unit = getattr(machine, "unit")  # noqa: B009 - both kinds have it
    center = model.intercept if model.classes is None else 0.0
    targets = Targets(model.classes, center, unit)
    loss = model.loss
    objective = Objective(ScaledComponents(model.scaling, model.map), loss, targets, seed=model.recipe.seed)
    objective = weight_classes(objective, model, counts)
    X, Y, weight, keep = objective.all_rows(new, RowSlice.whole(len(new.X)))
    S = replace(model, local=None).unclipped_scores(X).astype(np.float64)
    ones = np.ones(len(Y)) if weight is None else weight[:, 0].astype(np.float64)
    return ResidualRows(X[keep], Y[keep], ones[keep], ((S - center) / unit).astype(np.float32)[keep])
