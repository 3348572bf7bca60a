"""The local stage of a fit: grids on the residual of the global stage, kept where the holdout says that they help."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.features import Scaling
from dkernel.linear.losses import Loss
from dkernel.local.inputs import GridInputs, one_hot_groups
from dkernel.local.machine import GridMachine
from dkernel.persistence.journal import Journal
from dkernel.problem.objective import Coefficients, Problem
from dkernel.problem.reservoir_roles import ReservoirSplit, part_of
from dkernel.problem.targets import Targets
from dkernel.recipe import Recipe
from dkernel.selection.relevance import relevance
from dkernel.solving.grids import GROUP, GridContext, GridFit, GridSettings, fit_grids
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import Partition, RowSlice
from dkernel.streaming.survey import SurveyResult

__all__ = [
    "LocalStage", "automatic_grids", "bits_of", "check_local", "grid_context", "grid_pieces", "grids_of", "local_stage",
]  # fmt: skip

PIECE_ROWS = 32_768  # of a piece of a reading: the table of a grid stays in the cache for all of them
GRID_ROWS = 2**30  # rows times grids of a sweep that n_grids="auto" asks for: some ten seconds of one core
MOST_GRIDS, LEAST_GRIDS = 1024, 128  # more win little on covtype; fewer are a coarse kernel
MOST_BITS = 16  # with 18 covtype's error is 2.52 in place of 2.53 %, and no table fits the cache
SAMPLE = 16_384  # rows that tell the correlations of a group's grids
CATEGORY = 1.0  # gamma of a category: a grid parts all its levels with probability 1 - 1/e
# What is tried, on some of the rows and grids: the overall width, from the middle outwards while the loss falls, and
# the ridge of a grid. Of covtype 65,536 rows and 256 grids choose the width that 522,911 rows and 1,024 grids want; all
# rows and 32 grids choose one that is half of it.
TRIED_ROWS, TRIED_GRIDS = 2**16, 128
TRIED_PIECE = 4096  # rows of a piece of these
WIDTH, WIDER, STEPS = 1.0, 2.0, 3  # see above: the middle, its factor, and steps either way
RIDGES = (1e-2, 1e-1, 1.0)  # see above
LEAST_HOLDOUT = 50  # rows below which nothing is judged


@dataclass(frozen=True, eq=False)
class LocalStage:
    """What a local stage came to.

    Parameters
    ----------
    machine : None where it is left out
    history : a line for each round
    facts : JSON
    why : in words
    """

    machine: GridMachine | None
    history: list[dict[str, Any]]
    facts: dict[str, Any]
    why: str


def check_local(recipe: Recipe, loss: Loss, objects: bool, sparse: bool) -> None:
    """Refuse a local stage that there is not."""
    if recipe.local == "none":
        return
    if objects or sparse:
        rows = "sparse rows" if sparse else "columns of objects"
        raise UnsupportedError(
            f"local={recipe.local!r} divides features that are numbers, and these are {rows}. Use local='none'."
        )
    if not loss.smooth:
        other = "huber" if loss.regresses else "squared_hinge"
        raise UnsupportedError(
            f"local={recipe.local!r} needs a loss without kinks and loss={loss.text!r} has them. Use loss={other!r}, "
            "or local='none'."
        )


def automatic_grids(n: int) -> int:
    """Grids for n rows: as many as some ten seconds of a core pay for, within 128 and 1,024.

    Examples
    --------
    >>> [automatic_grids(n) for n in (10_000, 2_000_000, 100_000_000)]
    [1024, 528, 128]
    """
    return GROUP * int(np.clip(GRID_ROWS // max(n, 1), LEAST_GRIDS, MOST_GRIDS) // GROUP)


def grids_of(recipe: Recipe, n: int) -> int:
    """Grids that a recipe asks for, in whole groups."""
    asked = recipe.n_grids if isinstance(recipe.n_grids, int) else automatic_grids(n)
    return GROUP * max(1, -(-asked // GROUP))


def bits_of(n: int) -> int:
    """Bits of a code: as many codes as rows, up to 2^MOST_BITS.

    Examples
    --------
    >>> bits_of(100), bits_of(10_000), bits_of(10**6)
    (7, 14, 16)
    """
    return int(np.clip(np.ceil(np.log2(max(n, 1))), 4, MOST_BITS))


def grid_pieces(units: Sequence[tuple[int, ...]]) -> Partition:
    """The pieces of a source that grids read."""
    return Partition(units, [max(1, -(-n // PIECE_ROWS)) for rows in units for n in rows], strided=False)


def grid_context(
    problem: Problem, start: Coefficients, feed: BlockReader, pieces: Sequence[RowSlice], roles: ReservoirSplit,
    survey: SurveyResult, weight: float | None, key: str, progress: Any, journal: Journal,
) -> GridContext:  # fmt: skip
    """What all fits of grids share: groups of one-hot columns are found among the rows of a sample.

    Parameters
    ----------
    start : of the global stage
    weight : of all rows, None where each has the weight 1
    """
    sample = part_of(roles.fitted, slice(SAMPLE))
    inputs = GridInputs(survey.moments.mean, one_hot_groups(sample.X))
    bound = residual_bound(problem.targets, survey)
    return GridContext(
        problem, start, inputs, feed, pieces, sample, roles.holdout, weight, bound, key, progress, journal
    )


def relevances(context: GridContext, survey: SurveyResult) -> NDArray[np.float64]:
    """gamma of each input where the overall width is 1: relevance over deviation, and CATEGORY for groups."""
    inputs, sample, moments = context.inputs, context.sample, survey.moments
    scaling = Scaling.of("standard", moments.mean, moments.variance, survey.low, survey.high)
    X = scaling.apply(sample.X, "float64")[:, inputs.numbers].astype(np.float64, copy=False)
    gamma = np.full(inputs.n_out, CATEGORY)
    spread = X.std(axis=0) > 0
    numbers = np.zeros(len(inputs.numbers))
    assert sample.y is not None
    numbers[spread] = relevance(X[:, spread], context.problem.targets.of(sample.y).astype(np.float64))
    gamma[: len(numbers)] = numbers * scaling.factor[inputs.numbers]
    return gamma


def residual_bound(targets: Targets, survey: SurveyResult) -> float:
    """Of residuals over the bound of the curvature, some times the largest target; one farther off counts as that."""
    if targets.classes is not None:
        return 16.0
    assert survey.span is not None
    return 4.0 * max(1.0, float(np.abs((survey.span - targets.center) / targets.width).max()))


def local_stage(
    context: GridContext, survey: SurveyResult, recipe: Recipe, n: int,
    tell: Callable[[dict[str, Any]], Any] | None = None,
) -> LocalStage:  # fmt: skip
    """Choose width and ridge on few grids, fit all of them, and keep them where they help.

    Parameters
    ----------
    n : rows
    """
    context.progress.phase("prepare grids")
    gamma = context.journal.stage("relevance", lambda: relevances(context, survey))
    required = False
    n_grids = grids_of(recipe, n)
    judged = len(context.holdout.X) >= LEAST_HOLDOUT
    rows = sum(piece.n for piece in context.pieces)
    width, ridge = WIDTH, RIDGES[1]
    tried = replace(context, pieces=_some(context.pieces))
    categorical = context.inputs.categorical

    def settings(width: float, ridge: float, grids: int, rows: int) -> GridSettings:
        return GridSettings(np.where(categorical, gamma, gamma * width), grids, bits_of(rows), ridge, recipe.seed)

    if judged:
        context.progress.phase("choose the width of grids")
        width, ridge = context.journal.stage("grids-width", lambda: _chosen(tried, settings))
    context.progress.phase("grids", rows * n_grids // GROUP)
    fit = fit_grids(context, settings(width, ridge, n_grids, n), "grids", tell)
    unit = np.broadcast_to(np.asarray(context.problem.targets.width, np.float64), (fit.coef.shape[2],))
    machine = GridMachine(
        context.inputs, fit.settings.gamma, recipe.seed, fit.settings.bits, fit.coef, np.ascontiguousarray(unit)
    )
    facts: dict[str, Any] = {"grids": n_grids, "width": width, "ridge": ridge, "groups": len(context.inputs.groups)}
    words = f"{n_grids:,} grids of width {width:.3g}, ridge {ridge:g}"
    if judged:
        before, after, error = _compared(context, fit)
        facts |= {"loss_before": before, "loss": after}
        words += f": {after:.4g} in place of {before:.4g} on the holdout"
        if not required and not after < before - error:
            return LocalStage(None, fit.history, facts, f"none: {words} is no gain of more than one standard error")
    return LocalStage(machine, fit.history, facts, words)


def _some(pieces: Sequence[RowSlice]) -> list[RowSlice]:
    """Pieces of up to TRIED_ROWS rows, evenly spread over the source."""
    small = [part for piece in pieces for part in _cut(piece)]
    step = max(1, -(-sum(piece.n for piece in small) // TRIED_ROWS))
    return small[::step]


def _cut(piece: RowSlice) -> list[RowSlice]:
    """A piece in pieces of about TRIED_PIECE rows."""
    parts, place = -(-piece.n // TRIED_PIECE), piece.place
    ends = [piece.n * k // parts for k in range(parts + 1)]
    return [
        RowSlice(
            piece.number * (PIECE_ROWS // TRIED_PIECE + 1) + k,
            replace(
                place, start=place.start + first * place.step, stop=min(place.stop, place.start + last * place.step)
            ),
            last - first,
            piece.first + first * piece.step,
            piece.step,
            piece.chunk,
        )
        for k, (first, last) in enumerate(pairwise(ends))
    ]


def _chosen(context: GridContext, settings: Callable[..., GridSettings]) -> tuple[float, float]:
    """Width, and then the ridge, of the smallest loss on the holdout."""
    _, Y, weight, _ = context.rows_of(context.holdout)
    rows = sum(piece.n for piece in context.pieces)

    @cache
    def loss(step: int, ridge: float) -> float:
        fit = fit_grids(context, settings(WIDTH * WIDER**step, ridge, TRIED_GRIDS, rows), f"grids-{step}-{ridge}")
        return float(weight @ context.problem.loss.judged(Y, fit.scores).sum(axis=1, dtype=np.float64))

    best = 0
    for direction in (1, -1):
        while abs(best + direction) <= STEPS and loss(best + direction, RIDGES[1]) < loss(best, RIDGES[1]):
            best += direction
    return WIDTH * WIDER**best, min(RIDGES, key=lambda ridge: loss(best, ridge))


def _compared(context: GridContext, fit: GridFit) -> tuple[float, float, float]:
    """Loss on the holdout without and with the grids, and the standard error of the difference."""
    _, Y, weight, start = context.rows_of(context.holdout)
    judged, share = context.problem.loss.judged, weight / weight.sum()
    before, after = (judged(Y, S).sum(axis=1, dtype=np.float64) for S in (start, fit.scores))
    difference = after - before
    mean = float(share @ difference)
    error = float(np.sqrt(np.square(share) @ np.square(difference - mean)))
    return float(share @ before), float(share @ after), error
