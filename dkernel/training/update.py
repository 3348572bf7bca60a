"""Update of a model with new rows, without another fit to its old rows.

The scaling, the global stage and the settings of the local stage stay. New rows change the local stage by their
residuals: each cell learns the rows that fall into it, and grids make one more sweep over them. Old rows keep the grids
from moving: the residual of an old row is minus the change of its score.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.data.encoding.unseen import UnseenValues
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.model.local.base import LocalMachine
from dkernel.model.model import Model, ScaledComponents
from dkernel.numerics.rows import stack
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.objective import Objective
from dkernel.solvers.targets import Targets
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.survey import Survey
from dkernel.streaming.unseen_rows import WithUnseen
from dkernel.training.incremental import Stream, start_stream, update_stream, weight_classes
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.residual import ResidualRows
from dkernel.training.uncertainty import LeftOut, cut_to_judge, with_later_rows

ROWS_A_COMPONENT = 8  # fewest new rows per component of a model without a local stage: they make a preconditioner
MOST_OLD = 2**18  # most old rows that keep grids from moving, a uniform sample in memory


def rows_in(
    source: Source, executor: Executor, encoding: Encoding | None, most: int | None = None
) -> tuple[Block, UnseenValues]:
    """Return the rows of a source, or a uniform sample of them, in an order that does not depend on the files.

    Parameters
    ----------
    most : rows of the sample, None for all rows
    encoding : encoding of the model; values that its training has not seen are counted
    """
    source = count_weighted(source, executor)
    n = source.n_counted
    statistic = WithUnseen(Survey(0, n, min(n, most or n)), encoding)
    survey, unseen = read_once(source, statistic, executor, f"dkernel-update-rows-{source.token}-{most}")
    return survey.reservoir.part(slice(None)), unseen


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
    # a sample of the rows has an order of its own
    codes = Targets(model.classes, model.recipe.positive).codes(new.y, lambda _: "the new rows")
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
    targets = Targets(model.classes, model.recipe.positive, center, unit)
    loss = model.loss
    objective = Objective(ScaledComponents(model.scaling, model.map), loss, targets, seed=model.recipe.seed)
    objective = weight_classes(objective, model, counts)
    X, Y, weight, keep = objective.all_rows(new, RowSlice.whole(len(new.X)))
    S = replace(model, local=None).unclipped_scores(X).astype(np.float64)
    ones = np.ones(len(Y)) if weight is None else weight[:, 0].astype(np.float64)
    return ResidualRows(X[keep], Y[keep], ones[keep], ((S - center) / unit).astype(np.float32)[keep])
