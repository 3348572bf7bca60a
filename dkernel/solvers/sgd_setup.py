"""Setup of the passes from the reservoir: preconditioner, step and warm start."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from dkernel.data.block import Block
from dkernel.model.journal import Journal
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import stream
from dkernel.numerics.tiling import PIECE_ROWS, TILE_ROWS
from dkernel.solvers.alphas import alpha_path, alpha_paths, count_unfinished, worth_trying
from dkernel.solvers.covariance import damp_directions, estimate_by_sketch, estimate_covariance, needs_sketch
from dkernel.solvers.fit_problem import FitProblem, SampledObjective, Setup
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.sgd_round import PSGD, SGD, SGDHeads
from dkernel.solvers.sizes import pass_flops, passes_dominate
from dkernel.streaming.cost import ASK_SECONDS, SPEEDS
from dkernel.streaming.kept_block import cut_rows

Sampled = TypeVar("Sampled", bound=SampledObjective)

WARM_ROUNDS, WARM_EPOCHS = 16, 2  # rounds and epochs of the start on the sample
SMALL_EPOCHS = 8  # epochs of a sample that is much of the data
LITTLE_FLOPS = ASK_SECONDS * SPEEDS["global"]  # a smaller round of the start is done by the client


def _on_client(sampled: Sampled, small: bool = False) -> Sampled:
    """The problem with its work in this process, if that is `small` or workers would not be quicker."""
    executor = sampled.run.executor.executor_for_local_rows(small, large=not needs_sketch(sampled.coordinates))
    return replace(sampled, run=replace(sampled.run, executor=executor))


def load_or_prepare(sampled: SampledObjective, journal: Journal, step: str, compute: Callable[[], Setup]) -> Setup:
    """Return the result of `compute`, from the journal if it is there."""

    def parts() -> dict[str, Any]:
        setup = compute()
        solver = {name: getattr(setup.solver, name) for name in ("preconditioners", "alphas", "outputs", "shares")}
        return {f.name: getattr(setup, f.name) for f in fields(setup)} | {"solver": solver}

    stored = journal.step(step, parts)
    # Metric and loss are made again.
    solver = PSGD(metric=sampled.coordinates.metric, loss=sampled.objective.loss, **stored["solver"])
    return Setup(**{**stored, "solver": solver})


def prepare(
    sampled: SampledObjective, alphas: Sequence[float], n: int, flops: float = 0.0, polished: bool = False
) -> Setup:
    """Make the preconditioners of these alphas, the safe step, and a start that is fitted to the sample.

    Parameters
    ----------
    n : rows of the source
    flops : of the fit
    polished : whether a polish of all rows follows the passes
    """
    coordinates, rows = sampled.coordinates, len(sampled.split.sample.X)
    if needs_sketch(coordinates):
        estimate = estimate_by_sketch(sampled, n)
    else:
        estimate = estimate_covariance(sampled, n, flops, polished)
    rho = estimate.rho
    alphas = worth_trying(alphas, rho, n, rows)
    # One factor for all alphas of a large source: none of them is far above ρ.
    one = passes_dominate(n, rows)
    ridges = [max(rho, *alphas) if one else max(rho, alpha) for alpha in alphas]
    made = estimate.at(sorted(set(ridges)))
    base = min(made)
    made[base], largest = damp_directions(sampled, made[base])
    # A larger ridge makes P smaller in every direction: the bound of the base holds for it.
    made = {ridge: P if ridge == base else replace(P, largest=largest) for ridge, P in made.items()}
    preconditioners = [made[ridge] for ridge in ridges]
    objective = sampled.objective
    solver = PSGD(preconditioners, alphas, coordinates.metric, objective.loss, objective.targets.outputs)
    # The ridge solution on the sample costs two triangular solves, and is where the other losses' optima are near.
    start = np.concatenate([P.solve(estimate.moment) for P in preconditioners], axis=1)
    # One epoch, a piece a round, where a pass follows that sees many more rows.
    rounds, epochs = (max(1, rows // PIECE_ROWS), 1) if one else (WARM_ROUNDS, WARM_EPOCHS)
    start = warm_start(sampled, solver, start, range(epochs), rounds)
    facts = {"rho": rho, "leverage": preconditioners[0].leverage, "largest": largest}
    return Setup(solver, start, facts, estimate.certificate)


def prepare_fit(problem: FitProblem, flops: float, in_rounds: bool) -> Setup:
    """Make the setup of a fit, for the alphas that go through its passes.

    Parameters
    ----------
    flops : of the fit
    in_rounds : whether its solver updates after each round of a pass
    """
    outputs, sizes, problem = problem.objective.targets.outputs, problem.sizes, _on_client(problem)
    alphas = (float(problem.alpha),) if problem.alpha != "auto" else alpha_path(outputs, problem.near)
    setup = prepare(problem, alphas, sizes.n, flops, sizes.polish > 0)
    solver, best, path, below = setup.solver, 0, {}, 0
    unseen, sample, holdout = problem.split.unseen, problem.split.sample, len(problem.split.holdout.X)
    if len(solver.alphas) > 1:  # judged on rows that the sample does not hold
        losses = _losses(problem, unseen, setup.start, "unseen")
        path = {f"{a:g}": loss for a, loss in zip(solver.alphas, losses, strict=True)}
        best = int(np.argmin(losses))
        ended = best + 1 == len(alphas) < len(alpha_path(outputs))  # by the few components of the choice
        if ended and losses[best] > _losses(problem, unseen, np.zeros_like(setup.start), "unseen")[best]:
            return prepare_fit(replace(problem, near=None), flops, in_rounds)
        if best and sizes.polish and holdout:
            few = select_rows(sample, slice(len(unseen.X)))
            below = count_unfinished(_losses(problem, few, setup.start, "seen"), best)
    paths = alpha_paths(best, solver.alphas, outputs, sizes.large, holdout, below, not in_rounds)
    heads = np.concatenate([np.arange(j * outputs, (j + 1) * outputs) for j, _ in paths])
    solver, start = solver.only(paths), np.ascontiguousarray(setup.start[:, heads])
    if not sizes.large and sizes.polish < SMALL_EPOCHS:
        start = warm_start(problem, solver, start, range(WARM_EPOCHS, SMALL_EPOCHS))
    unfinished = setup.solver.alphas[best - below : best]
    return replace(setup, solver=solver, start=start, sample_path=path, unfinished=unfinished)


def _losses(problem: FitProblem, rows: Block, v: F64, name: str) -> list[float]:
    """The mean losses of each alpha on rows of the sample, or on others."""
    with problem.keep(rows, name) as block:
        sums = problem.losses(block, v, "alphas")
    return [float(loss) for loss in sums.loss / sums.weight]


def warm_start(sampled: SampledObjective, solver: PSGD, start: F64, epochs: range, rounds: int = WARM_ROUNDS) -> F64:
    """Run the rounds of a pass over the sample, several epochs; the mean of the last one's second half is the start."""
    objective, rows = sampled.on_sample, sampled.split.sample
    map = objective.components.map
    flops = len(rows.X) * map.n_components * (pass_flops(1, map.n_in, 1) + 4 * start.shape[1])
    sampled = _on_client(sampled, flops <= rounds * LITTLE_FLOPS)
    pieces = cut_rows(len(rows.X), TILE_ROWS)
    turns = [list(turn) for turn in np.array_split(np.array(pieces, dtype=object), min(rounds, len(pieces)))]
    state, learned = solver.start(start), SGDHeads(objective, sampled.coordinates, [solver])
    with sampled.keep(rows, "sample") as sample, SGD(sample, [learned], f"{sampled.run.key}-warm") as sgd:
        for epoch in epochs:
            state = solver.start(state.v)
            order = stream(objective.seed, "warm", epoch).permutation(len(turns))
            for done, i in enumerate(order):
                (state,), _ = sgd.round([state], turns[i], f"{epoch}-{done}", len(turns), 1 / (1 + epoch))
    return solver.candidates(state, len(turns))["average"] if epochs else start
