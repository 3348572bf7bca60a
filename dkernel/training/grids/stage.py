"""Grids as the local stage of a fit: the choice of their width and ridge, and the fit of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.model.local.grid_machine import GridMachine
from dkernel.model.local.grids import GRID_GROUP, bits_of
from dkernel.model.local.inputs import GridInputs, Groups
from dkernel.model.local_settings import Grids
from dkernel.model.parameters import EFFORTS
from dkernel.model.recipe import Recipe
from dkernel.numerics.threads import usable_cores
from dkernel.solvers.budget import model_bytes_of
from dkernel.solvers.fit_problem import Callback
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import GRID_COLUMN_SECONDS, GRID_FLOPS, TABLE_FLOPS, Cost
from dkernel.streaming.repeated_reading import RepeatedReading
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.survey import SurveyResult
from dkernel.training.grids.fit import GridSettings, fit_grids, occupied_bins
from dkernel.training.grids.inputs import RELEVANCE_ROWS, category_groups, feature_names, find_groups, relevances
from dkernel.training.grids.settings import GRID_MIDDLE, GRID_RIDGES, best_grids, best_width, grid_gamma, grid_width
from dkernel.training.residual import Residual
from dkernel.training.selection.descent import Place
from dkernel.training.selection.stage_settings import RaceFindings, best_place
from dkernel.training.stage_result import LocalStage

GRID_ROWS = 2**30  # rows times grids of a sweep that n_grids="auto" asks for, some ten seconds of one core
# More gain little: of covtype 1,024, 2,048 and 4,096 have 2.37, 2.21 and 2.18 %. Fewer make a coarse kernel.
MOST_GRIDS, LEAST_GRIDS = 1024, 128
MOST_GRID_BYTES = 2**30  # bytes of the coefficients, which the client holds: of very many classes there are fewer grids
# Rows and grids that the width and the ridge are chosen on. 65,536 rows and 256 grids of covtype choose the width that
# is the best for 522,911 rows and 1,024 grids; all rows and 32 grids choose half of it.
TRIED_ROWS, TRIED_GRIDS = 2**16, 128
TRIED_PIECE = 4096  # rows of each of their pieces
MOST_NAMED = 8  # groups of features that a sentence names


def automatic_grids(n: int, effort: str = "normal") -> int:
    """Number of grids for n rows: some ten seconds of a core, 128 to 1,024 grids.

    A low effort has a quarter of the seconds, and a high one four times the seconds and the most grids.

    Examples
    --------
    >>> [automatic_grids(n) for n in (10_000, 2_000_000, 100_000_000)]
    [1024, 528, 128]
    >>> [automatic_grids(520_000, effort) for effort in ("low", "normal", "high")]
    [512, 1024, 4096]
    """
    wanted, most = int(EFFORTS[effort] * GRID_ROWS) // max(n, 1), int(max(EFFORTS[effort], 1.0) * MOST_GRIDS)
    return GRID_GROUP * int(np.clip(wanted, LEAST_GRIDS, most) // GRID_GROUP)


def grids_of(recipe: Recipe, sizes: Sizes, outputs: int) -> int:
    """Number of grids of a recipe, in whole groups; "auto" has no more than the model has room for."""
    n, wanted = sizes.n, recipe.settings(Grids).n_grids
    if isinstance(wanted, int):
        return GRID_GROUP * -(-wanted // GRID_GROUP)
    room = MOST_GRID_BYTES
    if recipe.max_model_size is not None:
        room = recipe.max_model_size - sizes.model_bytes(outputs)
    most = min(automatic_grids(n, recipe.effort), room // grid_bytes(1 << bits_of(n), outputs))
    return max(GRID_GROUP, most - most % GRID_GROUP)


def grids_within(residual: Residual, settings: GridSettings, room: int) -> int:
    """Number of grids that fit in a model of the default size, where a bin without rows has no coefficient.

    Parameters
    ----------
    room : bytes
    """
    bins, outputs = settings.binning.n_bins, residual.problem.targets.outputs
    if settings.n_grids * grid_bytes(bins, outputs) <= room:
        return settings.n_grids
    occupied = residual.run.journal.stage("grids-occupied", lambda: occupied_bins(residual, settings))
    fits = int(room / (4 * outputs * occupied + bins // 8))
    return min(settings.n_grids, max(GRID_GROUP, fits - fits % GRID_GROUP))


def tried_grids(recipe: Recipe, n: int, n_grids: int) -> int:
    """Number of grids that a width is tried on: fewer if the model has room for fewer, as its tables are large.

    Examples
    --------
    >>> tried_grids(Recipe(), 15_000, 1024), tried_grids(Recipe(), 15_000, 624)
    (128, 64)
    """
    if isinstance(recipe.settings(Grids).n_grids, int):
        return TRIED_GRIDS
    return max(GRID_GROUP, TRIED_GRIDS * n_grids // automatic_grids(n, recipe.effort) // GRID_GROUP * GRID_GROUP)


def grid_bytes(bins: int, outputs: int) -> int:
    """Most bytes of a grid in a model file: its coefficients and which bins have them."""
    return 4 * bins * outputs + bins // 8


def grid_cost(n: int, p: int, recipe: Recipe, outputs: int) -> Cost:
    """Cost of the grids.

    A task holds a packed table and the table of its sums, the client the tables of all tasks and all coefficients. A
    row has its scores; a row that is kept has its inputs, target, weight and codes of a group too. Before the grids
    the client holds the kernel matrix of the rows that relevances are learned on. After them it copies the
    coefficients of the bins that have rows into the model file, with a mask of these bins.
    """
    sizes, bins = Sizes.of(n, p, recipe), 1 << bits_of(n)
    grids = grids_of(recipe, sizes, outputs)
    tried, few = 6.0 * tried_grids(recipe, n, grids), min(n, TRIED_ROWS)
    rows, tables = float(n) * grids + tried * few, bins * float(grids) + tried * (1 << bits_of(few))
    coef, task = grids * bins * 4 * outputs, GRID_GROUP * bins * 8 * (2 * outputs + 2)
    model_bytes, counted = grids * grid_bytes(bins, outputs), 0
    if recipe.settings(Grids).n_grids == "auto" and recipe.max_model_size is None:
        room = model_bytes_of(recipe, n, p) - sizes.model_bytes(outputs)
        counted = int(model_bytes > room)  # a reading, of the bins that have rows
        model_bytes = min(model_bytes, max(room, GRID_GROUP * grid_bytes(bins, outputs)))
    copied = int(
        coef * (1.25 - exp(-n / bins))
    )  # a share exp(-n / bins) of the bins that a hash chooses has none of n rows
    return Cost(
        "grids",
        GRID_FLOPS * ((1 + outputs) / 2 * rows + 0.5 * counted * n * GRID_GROUP) + TABLE_FLOPS * outputs * tables,
        readings=grids // GRID_GROUP + counted,
        more_seconds=GRID_COLUMN_SECONDS * p * rows,
        task_bytes=task,
        result_bytes=task,
        row_bytes=4 * outputs,
        kept_bytes=4 * (p + outputs + 1 + GRID_GROUP),
        client_bytes=coef,
        alone_bytes=max(coef + min(copied, model_bytes), 12 * min(n, RELEVANCE_ROWS) ** 2),
        model_bytes=model_bytes,
    )


def check_groups(recipe: Recipe, source: Source) -> None:
    """Refuse groups of features that the source does not have."""
    groups = recipe.settings(Grids).one_hot
    if isinstance(groups, tuple):
        find_groups(source, groups)


def _in_words(groups: Groups, names: Sequence[str]) -> str:
    """The groups of several features in words, "a to c; x to y"."""
    several = [f"{names[group[0]]} to {names[group[-1]]}" for group in groups if len(group) > 1]
    more = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
    return "; ".join(several[:MOST_NAMED]) + more


def fit_grid_stage(
    residual: Residual,
    survey: SurveyResult,
    recipe: Recipe,
    callback: Callback,
    findings: RaceFindings,
) -> LocalStage:
    """Choose width and ridge on few grids, fit all of them, and keep them where they help."""
    residual.run.progress.phase("prepare grids")
    n, source, moments = residual.fit.sizes.n, residual.fit.reader.source, survey.moments
    groups = category_groups(source, residual.sampled.X, recipe.settings(Grids).one_hot)
    inputs = GridInputs(moments.mean, groups)

    def learn() -> NDArray[np.float64]:
        sample = residual.sampled
        assert sample.y is not None
        scaling = survey.scaling("standard")
        return relevances(sample.X, residual.problem.targets.of(sample.y), inputs, scaling, usable_cores())

    seen = residual.run.journal.stage("relevance", learn) if findings.relevances is None else findings.relevances
    sizes = replace(residual.fit.sizes, components=residual.problem.components.map.n_components)
    n_grids = grids_of(recipe, sizes, residual.problem.targets.outputs)
    rows, few = sum(piece.n for piece in residual.pieces), tried_grids(recipe, n, n_grids)
    place: Place = (len(seen) - 1, *GRID_MIDDLE[1:])
    tried = replace(residual, pieces=_some(residual.pieces))

    def settings(place: Place, grids: int, rows: int) -> GridSettings:
        gamma = grid_gamma(seen, inputs.categorical, place)
        return GridSettings(inputs, gamma, grids, bits_of(rows), GRID_RIDGES[place[2]], recipe.seed)

    if recipe.effort == "low" and rows > TRIED_ROWS and findings.place is not None:
        place = findings.place
    elif residual.judges:
        residual.run.progress.phase("choose the width of grids")
        place, loss = residual.run.journal.stage(
            "grids-width", lambda: _choose(tried, settings, len(seen), few, findings.place, recipe.effort)
        )
        before = residual.gain(residual.holdout.scores)[0]
        if rows <= TRIED_ROWS and loss >= before:
            why = f"none: {few} grids have a loss of {loss:.4g} instead of {before:.4g} on the holdout"
            return LocalStage(None, [], {"loss_before": before, "loss": loss}, why)
    wanted = settings(place, n_grids, n)
    if recipe.settings(Grids).n_grids == "auto" and recipe.max_model_size is None:
        room = model_bytes_of(recipe, n, sizes.p) - sizes.model_bytes(residual.problem.targets.outputs)
        n_grids = grids_within(residual, wanted, room)
        wanted = settings(place, n_grids, n)
    residual.run.progress.phase("grids", rows * n_grids // GRID_GROUP)
    fit = fit_grids(residual, wanted, "grids", callback)
    machine = GridMachine(inputs, wanted.gamma, recipe.seed, wanted.bits, fit.coef, residual.problem.targets.widths)
    width, ridge = grid_width(place), GRID_RIDGES[place[2]]
    facts: dict[str, Any] = {"grids": n_grids, "width": width, "ridge": ridge, "groups": len(inputs.groups)}
    words = f"{n_grids:,} grids of width {width:.3g}, ridge {ridge:g}"
    words += f", categories {named}" if (named := _in_words(groups, feature_names(source))) else ""
    return LocalStage.judge(machine, fit.history, facts, words, residual, fit.scores)


def _some(pieces: Sequence[RowSlice]) -> list[RowSlice]:
    """Pieces of together up to TRIED_ROWS rows, evenly spread over the source."""
    small = [part for piece in pieces for part in _cut(piece)]
    step = max(1, -(-sum(piece.n for piece in small) // TRIED_ROWS))
    return [replace(part, number=k) for k, part in enumerate(small[::step])]


def _cut(piece: RowSlice) -> list[RowSlice]:
    """Cut a piece into pieces of about TRIED_PIECE rows, which all have its number."""
    parts, place = -(-piece.n // TRIED_PIECE), piece.place
    ends = [piece.n * k // parts for k in range(parts + 1)]
    return [
        RowSlice(
            piece.number,
            replace(
                place, start=place.start + first * place.step, stop=min(place.stop, place.start + last * place.step)
            ),
            last - first,
            piece.first + first * piece.step,
            piece.step,
            piece.chunk,
        )
        for first, last in pairwise(ends)
    ]


def _choose(
    residual: Residual,
    settings: Callable[..., GridSettings],
    seen: int,
    grids: int,
    start: Place | None,
    effort: str,
) -> tuple[Place, float]:
    """Choose the settings of the smallest loss on the holdout with `grids` grids; return their place and the loss.

    Parameters
    ----------
    seen : rows of relevances
    start, effort : of `best_place`
    """
    rows = sum(piece.n for piece in residual.pieces)

    with RepeatedReading(residual.fit.reader, residual.pieces, f"{residual.key}-grids-tried") as reading:

        @cache
        def loss(place: Place) -> float:
            name = "grids-" + "-".join(map(str, place))
            return residual.gain(fit_grids(residual, settings(place, grids, rows), name, beside=reading).scores)[1]

        place = best_place(loss, start, best_width, lambda loss: best_grids(loss, GRID_MIDDLE, seen), effort)
        return place, loss(place)
