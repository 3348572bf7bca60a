"""Cells as the local stage of a fit: partition, shuffle, the choice of width and ridge, and the fit of all cells."""

from contextlib import closing
from dataclasses import replace
from functools import cache
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features import Scaling
from dkernel.leaves.cells.cell_machine import CellInputs, CellMachine
from dkernel.leaves.cells.cells import CELL_METRIC_ROUNDS, Cell, CellSettings, fit_cell, learn_root_of_cells
from dkernel.leaves.cells.fit import CellFitter, fit_cells, judge_settings
from dkernel.leaves.cells.parameters import Cells
from dkernel.leaves.cells.partition import grow_partitions
from dkernel.leaves.cells.rows import SortedRows, run_dtype
from dkernel.leaves.cells.settings import (
    CELL_ROWS,
    MIDDLE_CELLS,
    SIZES,
    best_cells_anywhere,
    cell_settings,
    cell_sizes,
    search_cells,
)
from dkernel.leaves.cells.update import update_cell_machine
from dkernel.losses.scoring import BY_LOSS
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.threads import usable_cores
from dkernel.streaming.cost import CHOLESKY_SHARE, PAIR_FLOPS, Cost
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.survey import SurveyResult
from dkernel.training.residual import Residual, ResidualRows
from dkernel.training.selection.descent import SettingIndex
from dkernel.training.selection.evaluation import FitValidationSplit, StageScores
from dkernel.training.selection.local_stage import Stage
from dkernel.training.selection.metric_learning import MOST_METRIC_COLUMNS
from dkernel.training.selection.race import MOST_RACE_ROWS
from dkernel.training.stage_result import StageResult

ROOM = 0.9  # cuts on the sample aim at this share of a cell's rows, since cells come out some percent larger or smaller
LEAST_SAMPLE = 128  # rows of the sample that a cut leaves on each side: so cells have their share within a tenth
# Parts of the shuffle that settings are tried on, and rows of a cell there: it costs an eighth of a whole one.
TRIED, TRIED_CELL_ROWS = 4, CELL_ROWS // 2
# Weight and losses if no row with a weight is held out: then all settings are alike, and worth a fit.
NO_ROWS = np.array([[1.0], [1.0], [0.0]])
METRIC_ROWS = 2048  # rows that the metric of cells is learned on, the fewest of a fit
# Limits of the rows that the metric is learned on, an eighth of all: on covtype 2,500 rows have an error of 3.7 %, and
# 7,000 rows 3.5 %.
CELL_METRIC_ROWS = (METRIC_ROWS, 8192)


def metric_rows(n: int) -> int:
    """Return the number of rows that the metric is learned on.

    Examples
    --------
    >>> [metric_rows(n) for n in (1_000, 40_000, 1_000_000)]
    [1000, 5000, 8192]
    """
    return int(min(n, np.clip(n // 8, *CELL_METRIC_ROWS)))


class CellStage(Stage):
    """Cells on the residual."""

    settings = Cells
    learns_rest = True  # with 1,024 and 4,096 components before cells kin40k has .0490 and .0511 sd, in 22 and 32 CPU s

    def cost(self, n: int, p: int, recipe: Recipe, outputs: int, merged: int = 0) -> Cost:  # noqa: ARG002
        """Return the cost of the cells.

        A task has a kernel matrix, in float64 if float32 is not enough, and the rows of its part of the shuffle; the
        client has the rows of all cells and their coefficients, and before that the matrix of the rows that their
        metric is learned on.
        """
        limit, bands, partitions = cell_sizes(recipe)
        overlap = 1 + bands
        m, small = (int(overlap * min(n, rows)) for rows in (limit, TRIED_CELL_ROWS))
        cut = overlap * n / ceil(n / (ROOM * limit))  # cuts make equal cells
        largest = max(cut, min(n, MOST_RACE_ROWS))  # of the fit, or the one cell of a race
        stored, row = int(n * overlap) * partitions, run_dtype(p, outputs).itemsize
        tried = TRIED * sum(SIZES)
        model = 4 * stored * (p + outputs) + 4 * p * p * -(-n // limit) * partitions
        metric = metric_rows(n)
        pairs = stored * float(m) + CELL_METRIC_ROUNDS * float(metric) ** 2
        cubes = stored * float(m) ** 2 + tried * float(small) ** 3 + CELL_METRIC_ROUNDS * float(metric) ** 3
        return Cost(
            "cells",
            CHOLESKY_SHARE * cubes / 3 + PAIR_FLOPS * pairs,
            readings=1,
            task_bytes=int(8 * largest**2 + 3 * row * 2 * largest),
            client_bytes=2 * model,
            alone_bytes=8 * metric**2,
            model_bytes=model,
            scratch_bytes=stored * row,
            checkpoint_bytes=model,
        )

    def prepare(self, survey: SurveyResult, *_: Any) -> CellInputs:
        """Return the inputs of cells, which are standard scores. The root of the metric is 0 for a constant feature."""
        scaling = survey.scaling("standard")
        return CellInputs(scaling.shift, scaling.factor)

    def learn(self, split: FitValidationSplit, prepared: CellInputs, threads: int) -> tuple[CellInputs, F32]:
        """Learn the root of the metric; return it with the inputs."""
        X, Y = prepared(split.X[:METRIC_ROWS]), split.targets.of(split.y[:METRIC_ROWS])
        return prepared, learn_root_of_cells(X, Y, threads)

    def try_(
        self,
        split: FitValidationSplit,
        rows: int,
        start: StageScores,
        shared: tuple[CellInputs, F32],
        setting: SettingIndex | None,
    ) -> tuple[F64, SettingIndex]:
        """Fit one cell of all rows to the residual, with `setting`, or the best setting for half of the rows."""
        inputs, root = shared
        spread = np.flatnonzero(root.any(axis=0))
        if not len(spread):  # of constant inputs a cell is a constant, which the global stage has
            return split.losses(start.judged), setting or (*MIDDLE_CELLS, 0, 0)
        root = np.ascontiguousarray(root[np.ix_(spread, spread)])
        X, X_judged = (np.ascontiguousarray(inputs(block)[:, spread]) for block in (split.X[:rows], split.X_judged))
        Y = split.targets.of(split.y[:rows])
        weight = np.ones(rows) if split.weight is None else split.weight[:rows] / split.weight[:rows].mean()

        @cache
        def losses(setting: SettingIndex, n: int) -> F64:
            cell: Cell = fit_cell(X[:n], root, split.loss, Y[:n], start.fitted[:n], weight[:n], cell_settings(setting))
            return split.losses((start.judged + cell.scores(X_judged)).astype(np.float32))

        def mean_loss(setting: SettingIndex) -> float:
            return float(np.average(losses(setting, rows // 2), weights=split.weight_judged))

        best = setting or best_cells_anywhere(mean_loss)
        return losses(best, rows), best

    def fit(self, residual: Residual, setting: SettingIndex | None) -> StageResult:
        """Cut the rows into cells, choose settings on a few, fit all cells, and keep them if the holdout improves."""
        residual.run.progress.phase("prepare cells")
        n, recipe, journal = residual.problem.sizes.n, residual.problem.recipe, residual.run.journal
        survey = residual.survey
        scaling = survey.scaling("standard")
        inputs = CellInputs(scaling.shift, np.where(survey.moments.variance > 0, scaling.factor, 0.0))
        limit, overlap, partitions = cell_sizes(recipe)
        sample, learned = inputs(residual.sampled.X), metric_rows(n)

        def learn() -> NDArray[np.float32]:
            chosen = root_of_choice(residual.objective.components.scaling, inputs, sample)
            if chosen is not None:
                return chosen
            assert residual.sampled.y is not None
            Y = residual.objective.targets.of(residual.sampled.y[:learned])
            return learn_root_of_cells(sample[:learned], Y, usable_cores(), MOST_METRIC_COLUMNS)

        root = journal.step("cells-metric", learn)
        tree, numbers = grow_partitions(
            sample,
            root,
            ROOM * limit * max(1, len(sample)) / n,
            LEAST_SAMPLE,
            overlap,
            recipe.seed,
            partitions,
        )
        mean_weight = 1.0 if residual.weight is None else residual.weight / n
        # The rows of one cell cannot judge a ranking of all rows.
        loss = residual.objective.loss.judged_by(BY_LOSS)
        fitter = CellFitter(loss, root, limit, overlap, recipe.seed, mean_weight)
        with closing(SortedRows(residual, inputs, tree, numbers)) as rows:

            def choose() -> SettingIndex:
                rows.sort()
                residual.run.progress.phase("choose width and ridge of cells")
                return _choose(residual, fitter, rows, setting, recipe.effort)

            settings = cell_settings(journal.step("cells-settings", choose))
            machine, history = fit_cells(residual, fitter, rows, settings)
        return _judge(residual, machine, history, settings)

    def update(
        self,
        machine: CellMachine,
        model: Model,
        rows: ResidualRows,
        old: Block | None,  # noqa: ARG002 - cells keep their rows
        executor: Executor,
    ) -> CellMachine:
        """Let each cell learn the new rows that fall into it."""
        return update_cell_machine(machine, model, rows, executor)


def root_of_choice(scaling: Scaling, inputs: CellInputs, rows: F32) -> F32 | None:
    """Return the root of the metric that a choice has learned, for the inputs of cells; None without a full metric.

    Parameters
    ----------
    scaling : scaling of the global stage
    rows : inputs of cells, whose mean square the root keeps
    """
    if scaling.rotation is None or scaling.curves is not None:  # normal scores are other inputs
        return None
    used = inputs.factor > 0
    root = np.where(used, scaling.factor / np.where(used, inputs.factor, 1.0), 0.0)[:, None] * scaling.rotation
    moved = float(np.mean(np.square(rows @ root)))
    return np.asarray(root * np.sqrt(float(np.mean(np.square(rows))) / moved if moved else 1.0), np.float32)


def _judge(
    residual: Residual,
    machine: CellMachine,
    history: list[dict[str, Any]],
    settings: CellSettings,
) -> StageResult:
    """Return the stage with this machine, or without a machine if the holdout does not improve."""
    cells, rows = len(machine.ends), len(machine.Z)
    facts: dict[str, Any] = {"cells": cells, "rows": rows, "width": settings.width, "ridge": settings.ridge}
    facts |= {"smoothness": settings.nu, "rounds": settings.rounds}
    words = f"{cells:,} cells of {rows / cells:,.0f} rows, width {settings.width:g}, ridge {settings.ridge:g}, "
    words += f"smoothness {settings.nu:g}"
    of_cells = machine.scores(residual.problem.split.holdout.X) / machine.unit
    scores = (residual.holdout.scores + of_cells).astype(np.float32)
    return StageResult.judge(machine, history, facts, words, residual, scores)


def _choose(
    residual: Residual, fitter: CellFitter, rows: SortedRows, start: SettingIndex | None, effort: str
) -> SettingIndex:
    """Choose the setting with the smallest loss on validation rows of a few cells.

    Parameters
    ----------
    start, effort : as in `search_cells`
    """
    step = max(1, len(rows.numbers) // TRIED)
    parts = {part: rows.collect([part]) for part in list(range(step // 2, len(rows.numbers), step))[:TRIED]}
    small = replace(fitter, limit=min(fitter.limit, TRIED_CELL_ROWS))

    @cache
    def losses(setting: SettingIndex) -> F64:
        rows_and_losses = judge_settings(
            residual.run.executor, small, rows.numbers, parts, cell_settings(setting), rows.key
        )
        return rows_and_losses if rows_and_losses[0].any() else NO_ROWS

    def loss(setting: SettingIndex, row: int = 2) -> float:
        return float(np.average(losses(setting)[row], weights=losses(setting)[0]))

    before = inf if start is None or not residual.judges else loss(start, 1)
    return search_cells(loss, start, effort, before)


LOCAL_STAGE = CellStage()
