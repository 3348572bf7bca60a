"""Cells as the local stage of a fit: partition, shuffle, the choice of width and ridge, and the fit of all cells."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.cost import CHOLESKY_SHARE, PAIR_FLOPS, Cost
from dkernel.features import Scaling
from dkernel.local.cell_machine import CellInputs, CellMachine
from dkernel.local.cells import GRADIENTS, METRIC_ROUNDS, SMOOTHNESS, CellSettings, learned_root
from dkernel.local.partition import grow_partitions
from dkernel.recipe import Recipe
from dkernel.selection.coordinate_search import Place, descend
from dkernel.selection.metric_learning import MOST_COLUMNS
from dkernel.solving.cell_fits import CellProblem, fit_cells, judge_settings
from dkernel.solving.cell_runs import RowRouter, SortedRows, run_dtype
from dkernel.solving.residual import Residual
from dkernel.streaming.survey import SurveyResult
from dkernel.training.result import LocalStage, best_stage

# Cells of 2,048, 4,096 and 8,192 rows leave 3.9, 3.4 and 3.7 % of covtype wrong (without overlap), and work grows with
# their square. Bands of half as many rows as a cell has take 3.20 to 2.66 %, as much as three partitions do.
CELL_ROWS = 4096
OVERLAP = 0.5  # the bands of a cell have this share of its rows
ROOM = 0.9  # cuts on the sample aim at this share of a cell's rows, since cells come out some percent larger or smaller
LEAST_SAMPLE = 128  # a cut leaves so many rows of the sample on each side, so cells have their share within a tenth
# Settings are tried on one cell of so many rows in some parts of the shuffle: it costs an eighth of a whole one.
TRIED, TRIED_ROWS = 4, 2048
# Widths and ridges are tried one after the other, from the middle outwards while the loss falls.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # each is ten times the one before
SIZES = (len(WIDTHS), len(RIDGES), len(SMOOTHNESS), 2)
MIDDLE = (2, 2)  # the width 1 and the ridge 1e-2 are tried first
# A rough kernel wants a smaller ridge than a smooth one, so each smoothness is judged with a ridge of its own. Then
# come the width, a metric of each cell's own and the ridge, until none of them gains.
FIRST, THEN = (1,), (0, 3, 1)
# Cells must win this share of the loss of the rows that settings are tried on, at the middle width, or "auto" leaves
# them out without more work. Further components are left out for some 1 % too.
LEAST_GAIN = 0.01
# The metric is learned on an eighth of the rows within these: of covtype 2,500 rows leave 3.7 %, 7,000 rows 3.5 %.
METRIC_ROWS = (2048, 8192)
METRIC_RIDGE = 1e-3  # as a share of k(x, x)
# local="auto", and cells that may learn the label itself, ask that none of these parameters is given, so that the whole
# machine is open.
OPEN = ("kernel", "gamma", "features", "landmarks", "rank", "n_components", "alpha", "solver", "patience")


def is_open(recipe: Recipe) -> bool:
    """True where the recipe leaves the whole machine to be chosen."""
    return all(getattr(recipe, name) == getattr(Recipe, name) for name in OPEN)


def learns_label(recipe: Recipe) -> bool:
    """True where cells are fitted to the label too, and the holdout chooses between them and those of the residual.

    The rows that the global stage has learned from tell nothing of it: their residuals are too small.
    """
    return recipe.local_stage == "cells" and is_open(recipe)


def cell_rows_of(recipe: Recipe) -> int:
    """Rows of a cell that a recipe asks for."""
    return CELL_ROWS if isinstance(recipe.cells.rows, str) else recipe.cells.rows


def overlap_of(recipe: Recipe) -> float:
    """Rows of the bands of a cell, as a share of its own."""
    return OVERLAP if isinstance(recipe.cells.overlap, str) else recipe.cells.overlap


def cell_cost(n: int, p: int, recipe: Recipe, outputs: int) -> Cost:
    """Needs of the cells.

    A task has a kernel matrix, in float64 where float32 does not do, and the rows of its part of the shuffle; the
    client has the rows of all cells and their coefficients, and before that the matrix of the rows that their metric is
    learned on.
    """
    overlap = 1 + overlap_of(recipe)
    m, small = (int(overlap * min(n, rows)) for rows in (cell_rows_of(recipe), TRIED_ROWS))
    largest = overlap * n / ceil(n / (ROOM * cell_rows_of(recipe)))  # cuts make equal cells
    partitions = recipe.cells.partitions
    held, row = int(n * overlap) * partitions, run_dtype(p, outputs).itemsize
    tried, fits = TRIED * sum(SIZES), 1 + learns_label(recipe)
    model = 4 * held * (p + outputs) + 4 * p * p * -(-n // cell_rows_of(recipe)) * partitions
    metric = metric_rows(n)
    pairs = fits * held * float(m) + METRIC_ROUNDS * float(metric) ** 2
    cubes = fits * (held * float(m) ** 2 + tried * float(small) ** 3) + METRIC_ROUNDS * float(metric) ** 3
    return Cost(
        "cells",
        CHOLESKY_SHARE * cubes / 3 + PAIR_FLOPS * pairs,
        readings=1,
        task_bytes=int(8 * largest**2 + 3 * row * 2 * largest),
        client_bytes=(1 + fits) * model,
        alone_bytes=8 * metric**2,
        model_bytes=model,
        scratch_bytes=held * row,
        checkpoint_bytes=fits * model,
    )


def metric_rows(n: int) -> int:
    """Rows that the metric is learned on.

    Examples
    --------
    >>> [metric_rows(n) for n in (1_000, 40_000, 1_000_000)]
    [1000, 5000, 8192]
    """
    return int(min(n, np.clip(n // 8, *METRIC_ROWS)))


def learned_metric(residual: Residual, inputs: CellInputs, rows: int) -> NDArray[np.float32]:
    """Root of the metric of the cells, (p, p), in which the targets change alike in all directions.

    Features that have one value in the sample do not count.
    """
    X = inputs(residual.sampled.X[:rows])
    spread = np.flatnonzero(X.std(axis=0) > 0)
    root = np.zeros((X.shape[1],) * 2, np.float32)
    root[spread, spread] = 1.0
    if len(X) > 1 and 1 < len(spread) <= MOST_COLUMNS:
        assert residual.sampled.y is not None
        targets, own = residual.problem.targets.of(residual.sampled.y[:rows]), np.ix_(spread, spread)
        root[own] = learned_root(np.ascontiguousarray(X[:, spread]), targets, METRIC_RIDGE, GRADIENTS)
    return root


def fit_cell_stage(
    residual: Residual,
    survey: SurveyResult,
    recipe: Recipe,
    n: int,
    callback: Callable[[dict[str, Any]], Any] | None = None,
) -> LocalStage:
    """Cut the rows into cells, choose width and ridge on a few, fit all of them, and keep them where they help.

    Parameters
    ----------
    n : rows
    """
    residual.run.progress.phase("prepare cells")
    moments, journal, outputs = survey.moments, residual.run.journal, residual.problem.targets.outputs
    scaling = Scaling.of("standard", moments.mean, moments.variance, survey.low, survey.high)
    inputs = CellInputs(scaling.shift, np.where(moments.variance > 0, scaling.factor, 0.0))
    root = journal.stage("cells-metric", lambda: learned_metric(residual, inputs, metric_rows(n)))
    limit, overlap = cell_rows_of(recipe), overlap_of(recipe)
    sample = inputs(residual.sampled.X)
    tree, numbers = grow_partitions(
        sample,
        root,
        ROOM * limit * max(1, len(sample)) / n,
        LEAST_SAMPLE,
        overlap,
        recipe.seed,
        recipe.cells.partitions,
    )
    router = RowRouter(residual.problem, residual.start, inputs, tree)
    rows = SortedRows(residual, router, numbers, f"{residual.key}-cells", n)
    mean_weight = 1.0 if residual.weight is None else residual.weight / n
    problem = CellProblem(residual.problem.loss, root, limit, overlap, recipe.seed, mean_weight, outputs)
    stages = [_fitted(residual, problem, rows, recipe.local != "auto", callback)]
    ended = any(line["parts"] == line["of"] for line in stages[0].history)
    if residual.alone and residual.judges and ended:
        mean = np.average(residual.sample.Y, axis=0, weights=residual.sample.weight).astype(np.float32)
        stages.append(_fitted(residual, replace(problem, start=mean), rows, True, callback))
    rows.close()
    return best_stage(stages)


def _fitted(
    residual: Residual,
    problem: CellProblem,
    rows: SortedRows,
    asked: bool,
    callback: Callable[[dict[str, Any]], Any] | None,
) -> LocalStage:
    """The cells of the residual, or of the label where the problem has a start, kept where the holdout gains."""

    def choose() -> tuple[float, float, float, int] | tuple[()]:
        rows.sort()
        residual.run.progress.phase(f"choose width and ridge of {problem.words}")
        return _chosen(residual, problem, rows, asked)

    chosen = residual.run.journal.stage(f"cells-settings{problem.suffix}", choose)
    if not chosen:
        why = f"none: a few cells of {TRIED_ROWS:,} rows win less than {LEAST_GAIN:.0%} of the loss of rows held out"
        return LocalStage(None, [], {}, why)
    settings = CellSettings(*chosen)
    fit = fit_cells(residual, problem, rows, settings, callback)
    unit = np.broadcast_to(np.asarray(residual.problem.targets.width, np.float64), (problem.outputs,))
    machine = CellMachine.of(rows.inputs, fit.tree, fit.cells, settings.nu, np.ascontiguousarray(unit))
    return _judged(residual, machine, fit.history, settings, problem.start)


def _judged(
    residual: Residual,
    machine: CellMachine,
    history: list[dict[str, Any]],
    settings: CellSettings,
    start: NDArray[np.float32] | None,
) -> LocalStage:
    """The stage with this machine, or without one where the holdout does not gain."""
    cells, rows = len(machine.ends), len(machine.Z)
    facts: dict[str, Any] = {"cells": cells, "rows": rows, "width": settings.width, "ridge": settings.ridge}
    facts |= {"smoothness": settings.nu, "rounds": settings.rounds}
    words = (
        f"{cells:,} cells of {rows / cells:,.0f} rows, width {settings.width:g}, ridge {settings.ridge:g}, smoothness "
        f"{settings.nu:g}"
    )
    own = machine.scores(residual.fit.split.holdout.X) / machine.unit
    scores = ((residual.holdout.scores if start is None else start) + own).astype(np.float32)
    if start is not None:
        words += ", of the label without components"
    return replace(LocalStage.judged(machine, history, facts, words, residual, scores), start=start)


def _chosen(
    residual: Residual, problem: CellProblem, rows: SortedRows, asked: bool
) -> tuple[float, float, float, int] | tuple[()]:
    """Width, ridge, smoothness and rounds of the smallest loss on the held-out rows of a few cells; nothing where
    nobody asked for cells and these win too little."""
    step = max(1, len(rows.numbers) // TRIED)
    parts = {part: rows.picked([part]) for part in list(range(step // 2, len(rows.numbers), step))[:TRIED]}
    small = replace(problem, limit=min(problem.limit, TRIED_ROWS))

    @cache
    def judged(place: Place) -> tuple[float, float]:
        key = rows.key + problem.suffix
        return judge_settings(residual.run.executor, small, rows.numbers, parts, CellSettings(*settings(place)), key)

    def settings(place: Place) -> tuple[float, float, float, int]:
        return WIDTHS[place[0]], RIDGES[place[1]], list(SMOOTHNESS)[place[2]], place[3]

    wanted = inf if asked else (1 - LEAST_GAIN) * judged((*MIDDLE, 0, 0))[1]
    found = lowest(lambda place: judged(place)[0], wanted)
    return settings(found) if judged(found)[0] <= wanted else ()


def lowest(loss: Callable[[Place], float], wanted: float = inf) -> Place:
    """Places of the width, the ridge, the smoothness and the rounds whose loss no step from them lowers.

    Parameters
    ----------
    wanted : loss that the middle width must have with the first smoothness, or the search ends there
    """
    starts = (descend(loss, (*MIDDLE, smoothness, 0), SIZES, FIRST) for smoothness in range(len(SMOOTHNESS)))
    best = next(starts)
    if loss(best) > wanted:
        return best
    best = min((best, *starts), key=loss)
    while (further := descend(loss, best, SIZES, THEN)) != best:
        best = further
    return best
