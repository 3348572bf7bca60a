"""Setup of the passes from the reservoir: preconditioner, step and warm start."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from dkernel.data.block import Block
from dkernel.features.base import MOST_DENSE, Coordinates
from dkernel.model.journal import Journal
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import stream
from dkernel.numerics.tiling import PIECE_ROWS, TILE_ROWS
from dkernel.solvers.certificate import certificate
from dkernel.solvers.finite_check import check_finite
from dkernel.solvers.fit_problem import FitProblem, SampledObjective, Setup
from dkernel.solvers.gram import Gram
from dkernel.solvers.objective import CovarianceProduct
from dkernel.solvers.preconditioner import Preconditioner, factorize, metric_factor, ridge_for
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.sgd_round import PSGD, SGD, SGDHeads, expand_coefficients, mean_gradient
from dkernel.solvers.sizes import FEWEST_SAMPLED, SAMPLE_FLOPS, pass_flops, passes_dominate
from dkernel.solvers.sketch import CovarianceSum, sketch_covariance, sketch_features
from dkernel.streaming.cost import ASK_SECONDS, SPEEDS
from dkernel.streaming.kept_block import cut_rows

Sampled = TypeVar("Sampled", bound=SampledObjective)

ALPHA_PATH = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""alpha="auto" looks at these on the sample."""
MIDDLE_ALPHA = ALPHA_PATH[len(ALPHA_PATH) // 2]  # the only alpha if outputs are many and the choice has none

# Effective dimensions are at most this share of the columns; a small source needs fewer, as its steps have few rows.
LARGE_SHARE, SMALL_SHARE = 0.75, 0.5
# A polish reads all rows of a small source, so two rows a component are enough for its Gram matrix: 4,096 components of
# california have the same error as with 12,000 rows, in 9 CPU seconds in place of 14.
GRAM_ROWS = 2
GRAM_LEAVES = 2  # pieces of the Gram matrix: each has D x D numbers, and fresh pages for them cost seconds
# Rows of the sample for each effective dimension; without the damped directions 16 are needed. The sample of a large
# source has few rows a column, and may have more dimensions: the passes can tell there what is noise.
TARGET, LARGE_TARGET = 8, 5
NEAR_RHO = 4  # alphas of a large source are at most this many times ρ
# The path ends at the first alpha that is this many times the choice's. More components mostly need the same alpha or
# a smaller one, but a path that ends at the choice's own has 25 times the squared error of a smooth function (2,000
# rows).
ABOVE = 9.0
# Sums of float32 products have eigenvalues of 3e-9 to 1.2e-8 of the largest one below 0 where the true ones are 0
# (128 to 2,048 cosines and sines, 8,192 and 12,288 rows).
COVARIANCE_ROUNDING = 2.0**-26
LEVERAGE_FLOPS, LEAST_UNSEEN = 4e9, 500  # cost and least number of rows that measure the leverage outside the sample
WARM_ROUNDS, WARM_EPOCHS = 16, 2  # rounds and epochs of the start on the sample
SMALL_EPOCHS = 8  # epochs of a sample that is much of the data
DIRECTIONS, KRYLOV_STEPS, KEPT = 32, 3, 5 / 6  # the directions of the largest leverage are damped
WIDE_DIRECTIONS = DIRECTIONS // 2  # very many columns have fewer, since each is a long vector
WIDE_UNSEEN = 1000  # rows outside the sample that a sketch is measured on: each costs all its columns
MOST_HEADS = 64  # alphas times outputs; a round of more takes longer than one of a single head
# A smaller holdout cannot tell two alphas apart, so the sample's choice stands. Fits of a small source come nearer to
# their optima, and 250 rows tell the losses of neighbours apart.
ENOUGH_HOLDOUT, FEW_HOLDOUT = 1000, 250
SHARE = 0.25  # heads for noisy labels take this share of the step
MOMENTUM_STEPS = 16.0  # heads for clean labels go this many steps with momentum
LITTLE_FLOPS = ASK_SECONDS * SPEEDS["global"]  # a smaller round of the start is done by the client
FEW_OUTPUTS, SOME_OUTPUTS = 4, 10  # with fewer outputs two more heads are cheap beside the columns, or one is


def _on_client(sampled: Sampled, small: bool = False) -> Sampled:
    """The problem with its work in this process, if that is `small` or workers would not be quicker."""
    executor = sampled.run.executor.executor_for_local_rows(small, large=not needs_sketch(sampled.coordinates))
    return replace(sampled, run=replace(sampled.run, executor=executor))


def load_or_prepare(sampled: SampledObjective, journal: Journal, stage: str, compute: Callable[[], Setup]) -> Setup:
    """Return the result of `compute`, from the journal if it is there."""

    def parts() -> dict[str, Any]:
        setup = compute()
        solver = {name: getattr(setup.solver, name) for name in ("preconditioners", "alphas", "outputs", "shares")}
        return {f.name: getattr(setup, f.name) for f in fields(setup)} | {"solver": solver}

    stored = journal.stage(stage, parts)
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
    estimate = _wide(sampled, n) if needs_sketch(coordinates) else _dense(sampled, n, flops, polished)
    rho = estimate.rho
    alphas = _worth_trying(alphas, rho, n, rows)
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


def count_unfinished(seen: Sequence[float], best: int) -> int:
    """Number of alphas right below the best of the path, before one whose fit to the sample has come to its end.

    At its optimum a smaller alpha has a smaller loss on the rows that it is fitted to. A fit with a larger one is not
    there, so its loss on other rows says nothing of its alpha.

    Parameters
    ----------
    seen : loss of each alpha, in ascending order, on rows that it was fitted to

    Examples
    --------
    >>> count_unfinished([0.1, 0.2, 0.3, 0.4], 2), count_unfinished([0.1, 0.2, 0.4, 0.3], 3)
    (0, 1)
    """
    finished = [below for below in range(best) if seen[below] <= seen[best]]
    return best - 1 - max(finished, default=-1)


@dataclass(frozen=True)
class _CovarianceEstimate:
    """Parts of the preconditioners of a fit.

    Parameters
    ----------
    rho : ridge that the sample allows
    moment : mean of features times targets over the sample, (n + 1, outputs)
    at : ridges, ascending -> the preconditioner of each; call it once: it overwrites the covariance
    certificate : of the landmarks, where its squares were there
    """

    rho: float
    moment: F64
    at: Callable[[Sequence[float]], dict[float, Preconditioner]]
    certificate: dict[str, float] | None = None


def needs_sketch(coordinates: Coordinates) -> bool:
    """True if a square of the coordinates has no room, so that a sketch of the sample must do."""
    return coordinates.n > MOST_DENSE


def _dense(sampled: SampledObjective, n: int, flops: float, polished: bool) -> _CovarianceEstimate:
    objective, coordinates, split = sampled.on_sample, sampled.coordinates, sampled.split
    executor = sampled.run.executor
    rows = len(split.sample.X)
    large = passes_dominate(n, rows)
    if polished and not large:
        rows = min(rows, max(FEWEST_SAMPLED, GRAM_ROWS * coordinates.n, int(SAMPLE_FLOPS / coordinates.n**2)))
    with sampled.keep(select_rows(split.sample, slice(rows)), "gram-rows") as sample:
        gram = Gram(objective, executor.threads_each(GRAM_LEAVES))
        total = sample.fold(gram, "gram", size=-(-rows // GRAM_LEAVES))
    weight = max(total.weight, 1e-300)
    total.gram /= weight
    covariance, moment = in_coordinates(coordinates, total.gram), total.moment / weight
    moment = np.concatenate([coordinates.reduce(moment[:-1]), moment[-1:]])
    each, share = (LARGE_TARGET, LARGE_SHARE) if large else (TARGET, SMALL_SHARE)
    target = min(rows / each, share * len(covariance))
    metric, map, root, certified = coordinates.metric, objective.components.map, None, None
    if not isinstance(metric, float):
        root = metric_factor(metric)
        if map.landmarks is not None and len(split.leverage_rows.X):
            certified = certificate(
                map, objective.components.scaling.apply(split.leverage_rows.X), flops, (metric, root)
            )
    noise = COVARIANCE_ROUNDING if map.gram_dtype == "float32" else 0.0
    rho = ridge_for(covariance, metric, target, noise, stream(objective.seed, "trace"), root)
    return _CovarianceEstimate(rho, moment, lambda ridges: _factorize(sampled, covariance, ridges), certified)


def _wide(sampled: SampledObjective, n: int) -> _CovarianceEstimate:
    """Estimate the covariance by a sketch of the first rows of the sample."""
    objective, coordinates, split, run = sampled.on_sample, sampled.coordinates, sampled.split, sampled.run
    rows = len(split.sample.X)
    sketch = sketch_covariance(run.executor, run.key, objective, coordinates, split.sample)
    with sampled.keep(split.sample, "sample") as sample:
        moment = mean_gradient(coordinates, sample.fold(CovarianceSum(objective), "moment"))
    share = LARGE_SHARE if passes_dominate(n, rows) else SMALL_SHARE
    rho = sketch.ridge(min(sketch.weight / TARGET, share * len(sketch.values)), 0.0)
    unseen = sketch.project(sketch_features(objective, coordinates, split.measured.X[:WIDE_UNSEEN]))
    return _CovarianceEstimate(rho, moment, lambda ridges: {ridge: sketch.at(ridge, unseen) for ridge in ridges})


def alpha_path(outputs: int, near: float | None = None) -> tuple[float, ...]:
    """The alphas that alpha="auto" looks at: fewer with many outputs, and only the choice's own with very many.

    Parameters
    ----------
    near : best alpha of few components; alphas far above it cost a factor and heads, and do not win

    Examples
    --------
    >>> alpha_path(1), alpha_path(1, 1e-7), alpha_path(26, 1e-8)
    ((1e-09, 1e-08, 1e-07, 1e-06, 1e-05, 0.0001, 0.001), (1e-09, 1e-08, 1e-07, 1e-06), (1e-09, 1e-06))
    >>> alpha_path(100, 1e-2), alpha_path(100, 1e-5), alpha_path(100)
    ((0.001,), (1e-05,), (1e-06,))
    """
    path = ALPHA_PATH[:: max(1, -(-len(ALPHA_PATH) * outputs // MOST_HEADS))]
    if len(path) == 1:
        return (min(ALPHA_PATH, key=lambda alpha: abs(np.log(alpha / (near or MIDDLE_ALPHA)))),)
    return path[: 1 + sum(alpha < ABOVE * near for alpha in path)] if near else path


def alpha_paths(
    best: int,
    alphas: Sequence[float],
    outputs: int,
    large: bool,
    holdout: int,
    unfinished: int = 0,
    exact: bool = False,
) -> list[tuple[int, float]]:
    """Numbers of alphas, each with a share of the step, to go through the passes, around the sample's best alpha.

    Parameters
    ----------
    large : whether the source is. Larger alphas converge in fewer epochs, so a longer fit, or one of many more rows,
        needs a smaller alpha than the sample (kin40k 10.8 -> 9.4 hundredths, 10,000 rows of covtype 22.2 -> 20.1 %)
    holdout : rows that will tell them apart
    unfinished : alphas right below the best one that a polish has to finish
    exact : whether they go to their optima, of which the sample's start, that stops early, says little
    """
    if exact and holdout:
        return [(j, 1.0) for j in range(len(alphas))]
    several = holdout >= (ENOUGH_HOLDOUT if large else FEW_HOLDOUT)
    paths = [(best - 1, 1.0)] if large else [(best, 1.0)]
    if several and outputs <= FEW_OUTPUTS:
        paths += (
            [(best - 2, 1.0), (best - 2, MOMENTUM_STEPS), (best, SHARE)]
            if large
            else [(best - 1, 1.0), (best - 2, 1.0)]
        )
    elif several and outputs <= SOME_OUTPUTS:
        paths += [(best - 1, SHARE if large else 1.0)]
    paths += [(best - 1 - j, 1.0) for j in range(unfinished)]
    return sorted({(min(max(j, 0), len(alphas) - 1), share) for j, share in paths})


def _worth_trying(alphas: Sequence[float], rho: float, n: int, sample: int) -> Sequence[float]:
    """The alphas of the path that may win for a source of n rows: with many rows none that is far above ρ."""
    if not passes_dominate(n, sample) or len(alphas) == 1:
        return alphas
    few = [alpha for alpha in alphas if alpha <= NEAR_RHO * rho]
    return few or alphas[:1]


def _factorize(sampled: SampledObjective, covariance: F64, ridges: Sequence[float]) -> dict[float, Preconditioner]:
    most = max(LEAST_UNSEEN, int(LEVERAGE_FLOPS / len(covariance) ** 2))
    unseen = _reduce_components(sampled, select_rows(sampled.split.measured, slice(most)))
    made: dict[float, Preconditioner] = {}
    for ridge in ridges:
        # A quarter of the rows is enough for all but the first, which most alphas share.
        rows = unseen if not made else unseen[: max(1, len(unseen) // 4)]
        made[ridge] = factorize(covariance, sampled.coordinates.metric, ridge, rows, consumed=ridge == ridges[-1])
    return made


def in_coordinates(coordinates: Coordinates, gram: F64) -> F64:
    """The Gram matrix of columns and their 1, in the solver's coordinates."""
    if coordinates.basis is None:
        return gram
    n = coordinates.n
    out = np.empty((n + 1, n + 1))
    out[:n, :n] = coordinates.congruence(gram[:-1, :-1])
    out[:n, n] = out[n, :n] = coordinates.reduce(gram[:-1, -1])
    out[n, n] = gram[-1, -1]
    return out


def _reduce_components(sampled: SampledObjective, block: Block) -> F64:
    components, coordinates = sampled.objective.components, sampled.coordinates
    F = components.with_intercept(block.X, components.pass_dtype)
    if coordinates.basis is None:
        return F
    return np.concatenate([coordinates.reduce(F[:, :-1].T), F[:, -1:].T]).T


def damp_directions(sampled: SampledObjective, P: Preconditioner) -> tuple[Preconditioner, float]:
    """P, scaled down where unseen rows have a larger curvature than the sample, and the largest such curvature.

    Rayleigh-Ritz for L^{-1} S L^{-T}, S over the rows not seen, on the whole block Krylov space of a random start
    (Musco and Musco 2015): three products know the largest of it as well as four do that keep only the last. A step
    that does not know these eigenvalues diverges (covtype, 2,000 landmarks, squared loss: the largest is 4).
    """
    q, steps = WIDE_DIRECTIONS if needs_sketch(sampled.coordinates) else DIRECTIONS, KRYLOV_STEPS
    if P.n <= q * steps:
        q, steps = P.n, 1
    basis, images = _krylov_space(sampled, P, q, steps)
    values, rotation = np.linalg.eigh(0.5 * (basis.T @ images + images.T @ basis))
    # The first values of a Krylov space are near their eigenvalues. The later ones fall behind, and the next of them
    # says how large the rest is.
    n_kept = q if steps == 1 else round(KEPT * q)
    values, rotation = values[::-1], rotation[:, ::-1]
    large = values[:n_kept] > 1
    rest = max(1.0, float(values[min(n_kept, len(values) - 1)]))
    directions = basis @ rotation[:, :n_kept][:, large]
    return replace(P, largest=rest, directions=directions, values=values[:n_kept][large]), max(1.0, float(values[0]))


def _krylov_space(sampled: SampledObjective, P: Preconditioner, q: int, steps: int) -> tuple[F64, F64]:
    """A basis of the block Krylov space of L^{-1} S L^{-T} from q random vectors, and the products with it."""
    objective, coordinates, n = sampled.on_sample, sampled.coordinates, P.n
    basis, images = np.empty((n, q * steps)), np.empty((n, q * steps))
    block = stream(objective.seed, "directions").standard_normal((n, q))
    with sampled.keep(sampled.split.unseen, "unseen") as rows:
        for step in range(steps):
            columns, known = slice(step * q, (step + 1) * q), basis[:, : step * q]
            for _ in range(2):  # twice, since the first time may leave only rounding errors
                block = np.linalg.qr(block - known @ (known.T @ block))[0]
            basis[:, columns] = block
            coefficients = expand_coefficients(coordinates, P.half_transposed(block))
            total = rows.fold(CovarianceProduct(objective), f"directions-{step}", coefficients)
            check_finite(objective.components.map.kernel, "products of columns", total)
            total /= max(float(total[-1, 0]), 1e-300)
            block = images[:, columns] = P.half(np.concatenate([coordinates.reduce(total[:-2]), total[-2:-1]]))
    return basis, images


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
