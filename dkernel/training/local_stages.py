"""The local stage of a fit: a machine learns the residual of the global stage, and stays if it improves the holdout."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dkernel.data.source import Source
from dkernel.leaf_table import LEAF_OF_STAGE, has_leaf, load_leaf
from dkernel.losses.losses import parse_loss
from dkernel.model.recipe import Recipe
from dkernel.numerics.resource_limits import format_bytes
from dkernel.solvers.budget import limit_model_bytes, local_seconds
from dkernel.solvers.sizes import Sizes, pass_flops
from dkernel.streaming.cost import SCORE_SPEED, Cost
from dkernel.streaming.schedule import Partition, Schedule, join_rounds
from dkernel.training.grids.stage import GridStage
from dkernel.training.residual import Residual
from dkernel.training.selection.local_stage import Stage
from dkernel.training.selection.ways import is_open
from dkernel.training.stage_result import StageResult, best_stage

LOCAL_PIECE_ROWS = 32_768  # rows of a piece: the table of a grid stays in the cache for all of them
# Fewest rows of a holdout with which "auto" tries local stages: a twentieth of 3,000 rows. A race improves four of the
# public sets of 3,100 to 3,900 rows and makes none worse; with 900 to 1,400 rows a named stage raises the error
# (scripts/bench/CHOICES.md).
AUTO_HOLDOUT = 150
LOW_HOLDOUT = 3000  # the same for a low effort: with fewer rows a local stage and its race take half of the seconds
# Most bytes of the scores of all rows with "auto": one worker may have all rows, and has to stay within 1 GiB.
MOST_ROW_BYTES = 2**29


_OF_LEAVES = [load_leaf(leaf, "stage", leaf).LOCAL_STAGE for leaf in filter(has_leaf, LEAF_OF_STAGE.values())]
LOCAL_STAGES: dict[str, Stage] = {stage.settings.word: stage for stage in (GridStage(), *_OF_LEAVES)}
"""Word of a recipe -> its local stage."""


def learns_rest(word: str) -> bool:
    """True if few components are enough before the local stage of this word; False for "none" and "auto".

    Examples
    --------
    >>> learns_rest("cells"), learns_rest("none")
    (True, False)
    """
    return word in LOCAL_STAGES and LOCAL_STAGES[word].learns_rest


def local_cost(kind: str, source: Source, sizes: Sizes, recipe: Recipe, outputs: int) -> Cost:
    """Return the cost of a local stage, with the scores of the global stage before it, which budgets do not count."""
    groups = () if source.encoding is None else source.encoding.groups
    cost = LOCAL_STAGES[kind].cost(sizes.n, sizes.p, recipe, outputs, sum(len(group) - 1 for group in groups))
    scores = pass_flops(sizes.n, sizes.p, sizes.components) / SCORE_SPEED
    return replace(cost, more_seconds=cost.more_seconds + scores)


def local_costs(
    recipe: Recipe, source: Source, sizes: Sizes, others: Iterable[Cost], outputs: int
) -> tuple[dict[str, Cost], dict[str, str]]:
    """Return the costs of the local stages that a fit tries, and why "auto" does not try others.

    Parameters
    ----------
    others : costs of the other stages of the fit
    """
    kinds = [word for word in recipe.local_words(LOCAL_STAGES) if word in LOCAL_STAGES]
    costs = {kind: local_cost(kind, source, sizes, recipe, outputs) for kind in kinds}
    if recipe.local != "auto":
        return costs, {}
    if not tries_local(recipe, source, sizes.holdout or source.judged):
        return {}, {}
    room = limit_model_bytes(recipe, sizes.n, sizes.p) - sizes.model_bytes(outputs)
    tried: dict[str, Cost] = {}
    absent = {word: leaf for word, leaf in LEAF_OF_STAGE.items() if word not in LOCAL_STAGES}
    left = {word: f"this installation of dkernel is without its folder leaves/{leaf}" for word, leaf in absent.items()}
    for kind, cost in costs.items():
        most = local_seconds(recipe, [*others, *tried.values()], LOCAL_STAGES[kind].ends_early)
        if cost.seconds > most:
            left[kind] = f"{cost.seconds:.3g} s of one usual core are more than the {max(most, 0):.3g} that it may take"
        elif cost.row_bytes * sizes.n > MOST_ROW_BYTES:
            left[kind] = f"the scores of all rows take more than {format_bytes(MOST_ROW_BYTES)}"
        elif cost.model_bytes > room:
            left[kind] = (
                f"a model file has room for {format_bytes(room)}, and it may need {format_bytes(cost.model_bytes)}"
            )
        else:
            tried[kind] = cost
    return tried, {kind: f"not tried: {why}" for kind, why in left.items()}


def tries_local(recipe: Recipe, source: Source, holdout: int) -> bool:
    """True if "auto" tries local stages with so many rows of a holdout."""
    least = LOW_HOLDOUT if recipe.effort == "low" else AUTO_HOLDOUT
    fits = parse_loss(recipe.loss).smooth and source.layout.numeric
    return recipe.local == "auto" and is_open(recipe) and fits and holdout >= least


def fit_local(residual: Residual, stages: Mapping[str, Any]) -> StageResult:
    """Fit local stages and return the best; once the callback has said True, no other starts.

    Parameters
    ----------
    stages : word of each stage to try -> settings from which its search begins
    """
    tried: list[StageResult] = []
    for kind, setting in stages.items():
        if not (tried and residual.run.stopped.is_set()):
            tried.append(LOCAL_STAGES[kind].fit(residual, setting))
    return best_stage(tried)


def local_pieces(units: Sequence[tuple[int, ...]], rounds: Schedule) -> Partition:
    """Return the pieces of a source that a local stage reads: those of the rounds if it was shuffled on disk."""
    if rounds:
        return join_rounds(rounds)
    return Partition(units, [max(1, -(-n // LOCAL_PIECE_ROWS)) for rows in units for n in rows], strided=False)
