"""Incremental learning: rounds on each block, with the scaling, map and preconditioner of the first rows.

    v <- v - η P (g + λ M v)        a round: up to ROUND rows of a block, each used once

The answer is the mean of the iterates since the second last power of two of rounds, which is between the last half and
the last three quarters of them; a pass of known length has a similar mean. A fit to the first rows counts as many
rounds as its rows make. The result depends only on the blocks and their order.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features import NystromMap, Scaling
from dkernel.losses.losses import Loss, parse_loss
from dkernel.model.model import Model, ScaledComponents
from dkernel.model.recipe import Recipe, SettledRecipe
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import stream
from dkernel.numerics.sparse_rows import SparseRows
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import TILE_ROWS
from dkernel.solvers.finite_check import check_finite
from dkernel.solvers.fit_problem import FitRun, SampledObjective
from dkernel.solvers.objective import Objective
from dkernel.solvers.reservoir_split import ReservoirSplit, select_rows
from dkernel.solvers.sgd_round import PSGD, SGD, SGDHeads
from dkernel.solvers.sgd_setup import prepare
from dkernel.solvers.sizes import LEVERAGE_ROWS, MOST_SAMPLE
from dkernel.solvers.targets import Targets, center_robustly
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.versions import versions
from dkernel.streaming.kept_block import KeptBlock, cut_rows
from dkernel.streaming.progress import Progress
from dkernel.training.ask import digest_of_rows

ROUND = 1024  # rows of a round of partial_fit: with fewer rows a step would cost more than their components


@dataclass(frozen=True, eq=False)
class Stream:
    """State of incremental learning: the last iterate, and two sums of iterates whose mean is the answer.

    Parameters
    ----------
    model : model with the coefficients of that mean
    counts : sum of the weights of the rows of each class so far
    older, newer : sums of iterates, with the numbers of iterates; `newer` begins at a power of two of rounds
    history : number of rows of each round, and their loss before the round learned from them
    usual : see `SGDState`
    """

    model: Model
    objective: Objective
    solver: PSGD
    counts: Mapping[Any, float]
    rows: int
    v: F64
    older: tuple[F64, int]
    newer: tuple[F64, int]
    history: tuple[dict[str, float], ...] = ()
    usual: F64 | None = None


def start_stream(model: Model, block: Block, counts: Mapping[Any, float], rows: int, executor: Executor) -> Stream:
    """Start a stream from a model of `rows` rows; `block` has the rows of the preconditioner."""
    assert block.y is not None
    targets = Targets(model.classes)
    if model.classes is None:
        targets = _center(block.y.astype(np.float64), block.weight, model.loss)
    objective = Objective(ScaledComponents(model.scaling, model.map), model.loss, targets, seed=model.recipe.seed)
    objective = weight_classes(objective, model, counts)
    coordinates = model.map.coordinates()
    with one_blas_thread():
        run = FitRun(executor, f"dkernel-stream-{_digest(block)}", Progress("none"))
        sampled = SampledObjective(run, objective, coordinates, _split_rows(model.recipe.seed, block))
        solver = prepare(sampled, [float(model.recipe.alpha)], rows).solver
        inner: F64 = coordinates.within(model.coef / targets.width)
    v = np.concatenate([inner, (model.intercept[None] - targets.center) / targets.width])
    before = max(1, rows // ROUND)
    return Stream(model, objective, solver, counts, rows, v, (v * before, before), (np.zeros_like(v), 0))


def update_stream(state: Stream, block: Block, counts: Mapping[Any, float], executor: Executor) -> Stream:
    """Return the stream after a block, whose rows are shuffled by the seed and learned in rounds."""
    model, seed = state.model, state.model.recipe.seed
    objective = weight_classes(state.objective, model, counts)
    key = f"dkernel-stream-{_digest(block)}-{state.rows}-{hashlib.sha256(state.v.tobytes()).hexdigest()[:16]}"
    coordinates = model.map.coordinates()
    rows = select_rows(block, stream(seed, "stream", state.rows).permutation(len(block.X)))
    v, older, newer, history, usual = state.v, state.older, state.newer, list(state.history), state.usual
    pieces, of_round = cut_rows(len(rows.X), TILE_ROWS), ROUND // TILE_ROWS
    learned = SGDHeads(objective, coordinates, [state.solver])
    with (
        one_blas_thread(),
        KeptBlock(executor, rows, f"{key}-rows") as rows_there,
        SGD(rows_there, [learned], key) as sgd,
    ):
        for first in range(0, len(pieces), of_round):
            some = pieces[first : first + of_round]
            (after,), (total,) = sgd.round([PSGD.at_rest(v, usual)], some, f"{first}", 1)
            v, usual = after.v, after.usual
            newer = (newer[0] + v, newer[1] + 1)
            if newer[1] >= older[1]:
                older, newer = newer, (np.zeros_like(v), 0)
            history.append({"rows": total.n, "loss": float(total.loss[0] / max(total.weight, 1e-300))})
        mean = (older[0] + newer[0]) / (older[1] + newer[1])
        check_finite(model.map.kernel, "coefficients", mean)
        targets, n = objective.targets, state.rows + len(block.X)
        model = replace(
            model,
            coef=np.ascontiguousarray(coordinates.expand(mean[:-1]) * targets.width),
            intercept=mean[-1] * targets.width + targets.center,
            facts={**model.facts, "rows": n},
            variance=None,
        ).with_labels(block)
    return Stream(model, objective, state.solver, counts, n, v, older, newer, tuple(history), usual)


def constant_model(
    recipe: Recipe,
    columns: Sequence[str],
    label: str,
    rows: Block,
    scores: F64,
    classes: NDArray[Any] | None,
    facts: dict[str, Any],
) -> Model:
    """Make a model that gives all rows these scores (outputs,), for use before there are rows to learn from.

    Parameters
    ----------
    rows : rows so far; the first is a landmark with the coefficient 0, which shows the kind of rows
    """
    kernel = recipe.kernels[0].bind_columns(columns).bind(lambda *_: 1.0)
    settled = {"kernel": repr(kernel), "features": "nystrom", "n_components": 1, "landmarks": "uniform"}
    settled |= {"loss": parse_loss(recipe.loss).text, "alpha": 0.0, "polish": 0, "rounds": 1, "local": "none"}
    settled |= {"scale": "none", "metric": "identity", "calibration": "none"}
    p = 1 if isinstance(rows.X, SparseRows) else rows.X.shape[1]
    return Model(
        recipe=SettledRecipe(recipe.replace(**settled)),
        scaling=Scaling("none", np.zeros(p), np.ones(p)),
        map=NystromMap(kernel, rows.X[:1]),
        coef=np.zeros((1, len(scores))),
        intercept=scores,
        classes=classes,
        columns=columns,
        label=label,
        facts={"rows": len(rows.X), "components": 1, "versions": versions(), **facts},
    )


def with_classes(model: Model, classes: NDArray[Any]) -> Model:
    """Return the model with all these classes; a class that it has not seen gets the score of an unseen class."""
    seen = model.classes
    if seen is None or len(seen) == len(classes):
        return model
    recipe = SettledRecipe(model.recipe.replace(calibration="none"))  # that of fewer knows nothing of the others
    at = np.searchsorted(classes, seen)
    coef = np.zeros((len(model.coef), len(classes)))
    intercept = np.full(len(classes), model.loss.unseen_class_score(model.facts["rows"]))
    signs = np.array([-1.0, 1.0]) if len(seen) == 2 else np.ones(len(seen))
    coef[:, at], intercept[at] = model.coef * signs, model.intercept * signs
    return replace(
        model, recipe=recipe, coef=coef, intercept=intercept, classes=classes, calibration=None, conformal=None
    )


def _center(y: F64, weight: F64 | None, loss: Loss) -> Targets:
    """Return the targets of a regression, each centred and scaled by these rows."""
    center = np.average(y, axis=0, weights=weight)
    width = np.sqrt(np.average((y - center) ** 2, axis=0, weights=weight))
    targets = Targets(None, center, np.where(width > 0, width, 1.0))
    if loss.robust:
        targets = center_robustly(targets, y, weight)
    if y.ndim == 1:
        targets = replace(targets, center=float(targets.center), width=float(targets.width))
    return targets


def weight_classes(objective: Objective, model: Model, counts: Mapping[Any, float]) -> Objective:
    """Return the objective with the weights that the recipe gives to classes with these counts."""
    # A class without rows counts as one row: its weight would be infinite.
    known = {label: n or 1 for label, n in counts.items()}
    return replace(objective, class_weights=objective.targets.weigh_classes(model.recipe.class_weight, known))


def _split_rows(seed: int, block: Block) -> ReservoirSplit:
    order = stream(seed, "stream-roles").permutation(len(block.X))
    n_leverage = min(LEVERAGE_ROWS, max(1, len(order) // 10))
    sample = select_rows(block, order[n_leverage:][:MOST_SAMPLE])
    return ReservoirSplit(
        select_rows(block, order[:0]), select_rows(block, order[:n_leverage]), sample, sample, sample, sample, -1
    )


def _digest(block: Block) -> str:
    return hashlib.sha256(digest_of_rows(block).encode()).hexdigest()[:16]
