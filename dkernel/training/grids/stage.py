"""Grids as the local stage of a fit: the search for their settings, and the fit of all of them."""

from dataclasses import replace
from math import exp

import numpy as np

from dkernel.data.block import Block
from dkernel.data.source import Source
from dkernel.losses.losses import Loss
from dkernel.model.local.binning import BINNING_LOOPS
from dkernel.model.local.grid_machine import GridMachine, GridSettings
from dkernel.model.local.grids import FEW_GRIDS, GRID_LOOPS, code_bits, group_size
from dkernel.model.local.inputs import INPUT_LOOPS, GridInputs
from dkernel.model.local_settings import Grids
from dkernel.model.model import Model
from dkernel.model.parameters import EFFORTS
from dkernel.model.recipe import Recipe
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.threads import usable_cores
from dkernel.solvers.budget import limit_model_bytes
from dkernel.solvers.sizes import Sizes
from dkernel.solvers.targets import Targets, residual_bound
from dkernel.streaming.cost import GRID_COLUMN_SECONDS, GRID_FLOPS, TABLE_FLOPS, Cost
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.survey import SurveyResult
from dkernel.training.grids.fit import fit_grids
from dkernel.training.grids.inputs import category_groups, find_groups
from dkernel.training.grids.search import STEPS, TRIED_GRIDS, GridRows, GridTrials, first_settings, search_settings
from dkernel.training.grids.update import update_grid_machine
from dkernel.training.residual import GROUP_SAMPLE, Residual, ResidualRows
from dkernel.training.selection.descent import SettingIndex
from dkernel.training.selection.evaluation import FitValidationSplit, StageScores
from dkernel.training.selection.local_stage import Stage, constant_scores
from dkernel.training.stage_result import StageResult

GRID_ROWS = 2**31  # rows times grids that n_grids="auto" asks for, about ten seconds of one core
MOST_GRIDS, LEAST_GRIDS = 2048, 256  # twice as many lower the loss by a fifth of a percent
MOST_GRID_BYTES = 2**29  # bytes of the coefficients, which the client holds: with many classes there are fewer grids
MORE_STEPS = 5  # steps of a search from the settings for the targets to those for the residual
SEARCHED = (STEPS + MORE_STEPS) * TRIED_GRIDS
# Rows that settings are tried on, and bytes of their inputs and of the rows that these are made of, of which a table of
# categories has many more; with large data the trials cost as much as the grids.
LEAST_TRIED_ROWS, MOST_TRIED_ROWS, TRIED_BYTES, SAMPLE_BYTES = 2**16, 500_000, 2**26, 2**28
RACE_GRIDS = 128  # grids of a fit in a race: if they grew with the rows, the curve would look too steep

GridShared = tuple[GridInputs, GridSettings, float, int]
"""What fits of grids share: their inputs, their settings, the bound of a residual, and the seed."""


def automatic_grids(n: int, effort: str = "normal") -> int:
    """Return the most grids for n rows: about ten seconds of a core, 256 to 2,048 grids.

    A low effort has a quarter of the seconds, and a high one four times the seconds and the most grids.

    Examples
    --------
    >>> [automatic_grids(n) for n in (10_000, 2_000_000, 100_000_000)]
    [2048, 1073, 256]
    >>> [automatic_grids(520_000, effort) for effort in ("low", "normal", "high")]
    [1032, 2048, 8192]
    """
    affordable, most = int(EFFORTS[effort] * GRID_ROWS) // max(n, 1), int(max(EFFORTS[effort], 1.0) * MOST_GRIDS)
    return int(np.clip(affordable, LEAST_GRIDS, most))


def limit_grids(recipe: Recipe, sizes: Sizes, outputs: int) -> int:
    """Return the most grids of a recipe; "auto" has no more than the client can hold."""
    n_grids = recipe.settings(Grids).n_grids
    if isinstance(n_grids, int):
        return n_grids
    most = MOST_GRID_BYTES // grid_bytes(1 << code_bits(sizes.n, outputs), outputs)
    return max(FEW_GRIDS, min(automatic_grids(sizes.n, recipe.effort), most))


def grid_bytes(bins: int, outputs: int) -> int:
    """Return the most bytes of a grid in a model file: its coefficients, the mask of their bins, and their units."""
    return (2 * bins + 4) * outputs + bins // 8 + 1


def grid_room(recipe: Recipe, sizes: Sizes, outputs: int) -> int | None:
    """Return the most bytes of the grids in a model file; None if the number of grids is given."""
    if isinstance(recipe.settings(Grids).n_grids, int):
        return None
    return limit_model_bytes(recipe, sizes.n, sizes.p) - sizes.model_bytes(outputs)


def tried_rows(n: int, p: int, inputs: int, grids: int) -> int:
    """Return the number of rows of p features that settings of grids with so many inputs are tried on.

    Examples
    --------
    >>> [tried_rows(n, 28, 28, automatic_grids(n)) for n in (16_512, 2_000_000, 100_000_000)]
    [16512, 500000, 500000]
    """
    paid = max(LEAST_TRIED_ROWS, n * grids // SEARCHED)
    return min(n, paid, MOST_TRIED_ROWS, TRIED_BYTES // (4 * inputs), SAMPLE_BYTES // (4 * p))


class GridStage(Stage):
    """Grids on the residual."""

    settings = Grids
    ends_early = True
    loops = (*INPUT_LOOPS, *BINNING_LOOPS, *GRID_LOOPS)

    def takes(self, loss: Loss) -> bool:
        """True if the loss can be smoothed."""
        return loss.smoothable

    def check(self, recipe: Recipe, source: Source) -> None:
        """Refuse also groups of features that the source does not have."""
        groups = recipe.settings(Grids).one_hot
        if isinstance(groups, tuple):
            find_groups(source, groups)
        super().check(recipe, source)

    def cost(self, n: int, p: int, recipe: Recipe, outputs: int, merged: int = 0) -> Cost:
        """Return the cost of the grids, with the search for their settings.

        A task holds a packed table and the table of its sums, the client the tables of all tasks and all coefficients.
        A row has its scores; a row that is kept has its inputs, target and weight too. After the grids the client
        copies the coefficients of the bins that have rows into the model file, with a mask of these bins.
        """
        sizes, bins, inputs = Sizes.of(n, p, recipe), 1 << code_bits(n, outputs), p - merged
        grids = limit_grids(recipe, sizes, outputs)
        group, few = group_size(grids, outputs, code_bits(n, outputs)), tried_rows(n, p, inputs, grids)
        rows, tables = float(n) * grids + float(SEARCHED) * few, bins * float(grids + SEARCHED)
        coef, task = grids * bins * 2 * outputs, group * bins * 8 * (outputs + 2)
        model_bytes, room = grids * grid_bytes(bins, outputs), grid_room(recipe, sizes, outputs)
        if room is not None:
            model_bytes = min(model_bytes, max(room, group * grid_bytes(bins, outputs)))
        # A share exp(-n / bins) of the bins that a hash chooses has no row.
        copied = int(coef * (1.25 - exp(-n / bins)))
        return Cost(
            "grids",
            GRID_FLOPS * (1 + outputs) / 2 * rows + TABLE_FLOPS * outputs * tables,
            readings=-(-grids // group) + (sizes.reservoir < min(n, few)),
            more_seconds=GRID_COLUMN_SECONDS * inputs * rows,
            task_bytes=task,
            result_bytes=task,
            row_bytes=4 * outputs,
            kept_bytes=4 * (inputs + outputs + 1),
            client_bytes=coef,
            alone_bytes=max(coef + min(copied, model_bytes), 4 * few * (p + inputs + 8 * outputs) + 3 * task),
            model_bytes=model_bytes,
        )

    def prepare(
        self, survey: SurveyResult, source: Source, recipe: Recipe, targets: Targets, rows: Block
    ) -> GridShared:
        """Return the inputs of the grids, their first settings, the bound of a residual, and the seed."""
        groups = category_groups(source, rows.X[:GROUP_SAMPLE], recipe.settings(Grids).one_hot)
        inputs = GridInputs(survey.moments.mean, groups)
        settings = first_settings(inputs, survey.scaling("standard"))
        return inputs, settings, residual_bound(targets, survey), recipe.seed

    def learn(self, split: FitValidationSplit, prepared: GridShared, threads: int) -> GridShared:
        """Learn the settings, without a global stage before the grids."""
        inputs, settings, bound, seed = prepared
        start = constant_scores(split, len(split.X))
        settings, _ = search_settings(_race_trials(split, start, prepared, threads), settings)
        return inputs, settings, bound, seed

    def try_(
        self,
        split: FitValidationSplit,
        rows: int,
        start: StageScores,
        shared: GridShared,
        setting: SettingIndex | None,  # noqa: ARG002 - the settings are those of all samples
    ) -> tuple[F64, None]:
        """Fit few grids to the residual of a global stage."""
        return split.losses(_race_trials(split.part(rows), start, shared).fit(shared[1], RACE_GRIDS)[0]), None

    def fit(self, residual: Residual, setting: GridSettings | None) -> StageResult:
        """Search settings on a sample, and fit groups of grids while the holdout improves; keep them if it does."""
        residual.run.progress.phase("prepare grids")
        problem, targets = residual.problem, residual.objective.targets
        source, recipe = problem.reader.source, problem.recipe
        inputs, settings, *_ = self.prepare(residual.survey, source, recipe, targets, residual.sampled)
        outputs = targets.outputs
        sizes = replace(problem.sizes, components=residual.objective.components.map.n_components)
        n_grids = limit_grids(recipe, sizes, outputs)
        if residual.judges:
            residual.run.progress.phase("search the settings of grids")
            gamma, odds, scores = residual.run.journal.step(
                "grids-settings", lambda: _search(residual, inputs, settings, n_grids, setting)
            )
            settings = GridSettings(gamma, odds, settings.ridge)
            before, after = residual.losses(residual.holdout.scores), residual.losses(scores)
            if after.mean >= before.mean or after.spoils_labels(before):
                why = f"none: few grids have a loss of {after.mean:.4g} instead of {before.mean:.4g} on the holdout"
                facts = {"loss_before": before.mean, "loss": after.mean}
                return StageResult(None, [], facts, why, setting=settings)
        rounds = -(-n_grids // group_size(n_grids, outputs, code_bits(sizes.n, outputs)))
        residual.run.progress.phase("grids", sum(piece.n for piece in residual.pieces) * rounds)
        room = grid_room(recipe, sizes, outputs)
        machine, scores, history = fit_grids(residual, inputs, settings, n_grids, room)
        n_fitted = machine.binning.n_grids
        used = float(np.count_nonzero(machine.binning.inverse) / n_fitted)
        facts = {"grids": n_fitted, "ridge": settings.ridge, "used": used, "groups": len(inputs.groups)}
        words = f"{n_fitted:,} grids of {used:.1f} of {inputs.n_out} inputs"
        return replace(StageResult.judge(machine, history, facts, words, residual, scores), setting=settings)

    def update(
        self,
        machine: GridMachine,
        model: Model,
        rows: ResidualRows,
        old: Block | None,
        executor: Executor,  # noqa: ARG002 - all rows are here
    ) -> GridMachine:
        """Make one more sweep over the new rows, in which old rows keep the grids from moving."""
        return update_grid_machine(machine, model, rows, old)


def _search(
    residual: Residual, inputs: GridInputs, first: GridSettings, n_grids: int, found: GridSettings | None
) -> tuple[F64, F64, F32]:
    """Search settings for the targets, and from there for the residual, from which alone a search learns less.

    Parameters
    ----------
    found : settings for the targets if these are known
    """
    rows = tried_rows(residual.problem.sizes.n, len(inputs.center), inputs.n_out, n_grids)
    trials = _trials(residual, inputs, rows)
    if found is None or residual.problem.recipe.constant_map:
        found, scores = search_settings(trials.alone(), first)
    if not residual.problem.recipe.constant_map:
        found, scores = search_settings(trials, found, MORE_STEPS)
    return found.gamma, found.used, scores


def _trials(residual: Residual, inputs: GridInputs, n: int) -> GridTrials:
    """Make short fits to a sample of the rows, judged by the holdout."""
    objective, weighted = residual.objective, residual.weight is not None
    fitted, judged = (
        GridRows(inputs(some.X), some.Y, some.scores, some.weight if weighted else None)
        for some in (residual.some(n), residual.holdout)
    )
    return GridTrials(objective.loss, residual.bound, inputs, objective.seed, fitted, judged, usable_cores())


def _race_trials(split: FitValidationSplit, start: StageScores, shared: GridShared, threads: int = 1) -> GridTrials:
    of, (inputs, _, bound, seed) = split.targets.of, shared
    rows = GridRows(inputs(split.X), of(split.y), start.fitted, split.weight)
    judged = GridRows(inputs(split.X_judged), of(split.y_judged), start.judged, split.weight_judged)
    return GridTrials(split.loss, bound, inputs, seed, rows, judged, threads)
