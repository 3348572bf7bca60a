"""Setup of the passes from the reservoir: preconditioner, step and warm start."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.execution.base import Executor, Handle
from dkernel.execution.local import ThreadsExecutor
from dkernel.features.base import MOST_DENSE, Coordinates
from dkernel.linear.preconditioner import Preconditioner, factorize, metric_root, ridge_for
from dkernel.linear.solvers.psgd import PSGD
from dkernel.numerics.random_streams import stream
from dkernel.numerics.threads import usable_cores
from dkernel.numerics.tiling import ROWS
from dkernel.problem.components import component_dtype, with_intercept
from dkernel.problem.finite_check import check_finite
from dkernel.problem.gram import Gram
from dkernel.problem.objective import (
    Coefficients,
    CovarianceProduct,
    LossStatistic,
    LossSums,
    Problem,
)
from dkernel.problem.reservoir_split import ReservoirSplit, part_of, pieces_of
from dkernel.problem.sizes import SAMPLE_FLOPS, flops_of, is_large
from dkernel.selection.landmark_selection import certificate
from dkernel.solving.sgd_round import SGD, SGDProblem, coefficients_of, mean_gradient
from dkernel.solving.sketch import CovarianceSum, features_of, sketch_covariance
from dkernel.streaming.kept_block import KeptBlock
from dkernel.streaming.reduction import R, Statistic
from dkernel.streaming.shares import Item, reduce

Array = NDArray[np.float64]

PATH = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""alpha="auto" looks at these on the sample."""
MIDDLE = PATH[len(PATH) // 2]  # where only one has room, and no choice has looked at any

# effective dimensions are at most this share of the columns; steps of few rows want fewer
LARGE_SHARE, SMALL_SHARE = 0.75, 0.5
# Of few data, which a polish reads as a whole, the Gram matrix is of two rows a component, where more are dear: 4,096
# components of california come to the same error with these as with 12,000 rows, in 9 CPU seconds in place of 14.
GRAM_ROWS, LEAST_GRAM_ROWS = 2, 8192
GRAM_LEAVES = 2  # the Gram matrix is summed in so few pieces since each holds D x D numbers, whose pages are dear
# The sample has so many rows for each effective dimension; without the tamed directions 16 are needed. A large source,
# whose sample is few rows a column, wants more dimensions of it: its passes can tell what is noise there.
TARGET, LARGE_TARGET = 8, 5
NEAR = 4  # the alphas of a large source are at most so many times ρ
# The path ends at so many times the alpha of the choice, or with the next alpha. More components mostly want the same
# or less, but an end at the choice's own leaves a smooth function of 2,000 rows 25 times the squared error.
ABOVE = 9.0
# Sums of float32 products have eigenvalues of 3e-9 to 1.2e-8 of the largest one below 0 where the true ones are nothing
# (128 to 2,048 cosines and sines, 8,192 and 12,288 rows).
ROUNDING = 2.0**-26
LEVERAGE_FLOPS, LEAST_HELD = 4e9, 500  # cost and least number of the rows that measure the leverage outside the sample
WARM_ROUNDS, WARM_EPOCHS = 16, 2  # the start on the sample takes so many
LARGE_ROUND, LARGE_EPOCHS = 2048, 1  # rows of a round, and epochs, where a pass follows that sees many more rows
SMALL_EPOCHS = 8  # a sample that is much of the data gets so many, since nothing else will teach what its rows can
DIRECTIONS, KRYLOV_STEPS, KEPT = 32, 3, 5 / 6  # the directions of the largest leverage are tamed
WIDE_DIRECTIONS = DIRECTIONS // 2  # very many columns have fewer, since each is a long vector
WIDE_HELD = 1000  # a sketch is measured on so many rows outside the sample: each costs all its columns
MOST_HEADS = 64  # alphas and outputs together; more are not read for the price of one
# A smaller holdout tells two alphas apart by luck, so the sample's choice stands. Where all rows are few, fits come
# nearer to their optima, and the losses of neighbours are apart on 250 rows.
ENOUGH_HOLDOUT, FEW_HOLDOUT = 1000, 250
SHARE = 0.25  # heads for noisy labels take this share of the step
FAR = 16.0  # heads for clean labels go this many steps with momentum
LITTLE_FLOPS = 1e9  # a smaller round of the start is done by the client: to ask a worker takes as long, some 20 ms
FEW_OUTPUTS, SOME_OUTPUTS = 4, 10  # with fewer outputs two more heads are cheap beside the columns, or one is


@dataclass(frozen=True, eq=False)
class SampleEvaluator:
    """Evaluator of the reservoir's rows: an executor, and names for its calls."""

    executor: Executor
    key: str
    problem: Problem
    coordinates: Coordinates

    def at_home(self, little: bool = False) -> "SampleEvaluator":
        """The evaluator of this process, with its own handles, if the work is `little` or `runs_on_client` says so."""
        here = little or runs_on_client(self.executor, is_wide(self.coordinates))
        slots = min(self.executor.slots, usable_cores())
        return replace(self, executor=ThreadsExecutor(slots)) if here and self.executor.name == "cluster" else self

    def coefficients(self, v: Array) -> Coefficients:
        """The value that workers get for v, (n + 1, heads)."""
        return coefficients_of(self.coordinates, v)

    def over(
        self, statistic: Statistic[Any, R], block: Handle, n: int, size: int, name: str, v: Array | None = None
    ) -> R:
        """The statistic of the n rows of a kept block."""
        return self.part(statistic, [(block, piece) for piece in pieces_of(n, size)], name, v)

    def part(self, statistic: Statistic[Any, R], items: Sequence[Item], name: str, v: Array | None = None) -> R:
        """The statistic of some pieces of kept blocks."""
        key = f"{self.key}-{name}"
        held = self.executor.keep(statistic, f"{self.key}-{type(statistic).__name__}")
        broadcast = None if v is None else self.executor.keep(self.coefficients(v), key)
        try:
            return reduce(self.executor, statistic, items, key, held=held, broadcast=broadcast)
        finally:
            self.executor.release([held] if broadcast is None else [held, broadcast])


@dataclass(frozen=True, eq=False)
class Prepared:
    """Solver and start of the passes, for the alphas that are left."""

    solver: PSGD
    start: Array
    facts: dict[str, float]
    certificate: dict[str, float] | None = None


def runs_on_client(executor: Executor, wide: bool) -> bool:
    """True if the work on the reservoir is done in this process: it has as many cores as the workers, or is all there
    is. The rows are here already, and a square of the columns takes longer to travel than to make."""
    return executor.name != "cluster" or (not wide and usable_cores() >= executor.slots)


def prepare(
    evaluator: SampleEvaluator, split: ReservoirSplit, alphas: Sequence[float], n: int, flops: float = 0.0,
    polished: bool = False,
) -> Prepared:  # fmt: skip
    """The preconditioners of these alphas, the safe step, and a start fitted to the sample.

    Parameters
    ----------
    n : rows of the source
    flops : of the fit
    polished : whether a polish of all rows follows the passes
    """
    problem, coordinates = evaluator.problem, evaluator.coordinates
    ground = _wide(evaluator, split, n) if is_wide(coordinates) else _dense(evaluator, split, n, flops, polished)
    rho = ground.rho
    alphas = _worth_trying(alphas, rho, n, len(split.sample.X))
    # One factor for all alphas of a large source: none of them is far above ρ.
    one = is_large(n, len(split.sample.X))
    ridges = [max(rho, *alphas) if one else max(rho, alpha) for alpha in alphas]
    made = ground.at(sorted(set(ridges)))
    base = min(made)
    made[base], largest = _tamed(evaluator, split, made[base])
    # A larger ridge makes P smaller in every direction: the bound of the base holds for it.
    made = {ridge: P if ridge == base else replace(P, largest=largest) for ridge, P in made.items()}
    preconditioners = [made[ridge] for ridge in ridges]
    outputs = problem.targets.outputs
    solver = PSGD(preconditioners, alphas, coordinates.metric, problem.loss, outputs)
    # The ridge solution on the sample costs two triangular solves, and is where the other losses' optima are near.
    start = np.concatenate([P.solve(ground.moment) for P in preconditioners], axis=1)
    turns = max(1, len(split.sample.X) // LARGE_ROUND)
    rounds, epochs = (turns, LARGE_EPOCHS) if one else (WARM_ROUNDS, WARM_EPOCHS)
    start = warm_start(evaluator, solver, start, split.sample, range(epochs), rounds)
    facts = {"rho": rho, "leverage": preconditioners[0].leverage, "largest": largest}
    return Prepared(solver, start, facts, ground.certificate)


@dataclass(frozen=True)
class _CovarianceEstimate:
    """Parts of the preconditioners of a fit.

    Parameters
    ----------
    rho : ridge that the sample allows
    moment : mean of features times targets over the sample, (n + 1, outputs)
    at : ridges, ascending -> the preconditioner of each; asked once, it leaves nothing of the ground
    certificate : of the landmarks, where its squares were there
    """

    rho: float
    moment: Array
    at: Callable[[Sequence[float]], dict[float, Preconditioner]]
    certificate: dict[str, float] | None = None


def is_wide(coordinates: Coordinates) -> bool:
    """True if a square of the coordinates has no room, so that a sketch of the sample must do."""
    return coordinates.n > MOST_DENSE and not isinstance(coordinates.basis, np.ndarray)


def _dense(
    evaluator: SampleEvaluator, split: ReservoirSplit, n: int, flops: float, polished: bool
) -> _CovarianceEstimate:
    problem, coordinates, large = evaluator.problem, evaluator.coordinates, is_large(n, len(split.sample.X))
    rows = len(split.sample.X)
    if polished and not large:
        rows = min(rows, max(LEAST_GRAM_ROWS, GRAM_ROWS * coordinates.n, int(SAMPLE_FLOPS / coordinates.n**2)))
    size = -(-rows // GRAM_LEAVES)
    sample = evaluator.executor.keep(split.sample, f"{evaluator.key}-sample")
    total = evaluator.over(Gram(problem, evaluator.executor.threads_each(GRAM_LEAVES)), sample, rows, size, "gram")
    evaluator.executor.release([sample])
    weight = max(total.weight, 1e-300)
    total.gram /= weight
    covariance, moment = in_coordinates(coordinates, total.gram), total.moment / weight
    moment = np.concatenate([coordinates.reduce(moment[:-1]), moment[-1:]])
    each, share = (LARGE_TARGET, LARGE_SHARE) if large else (TARGET, SMALL_SHARE)
    target = min(rows / each, share * len(covariance))
    metric, map, root, certified = coordinates.metric, problem.components.map, None, None
    if not isinstance(metric, float):
        root = metric_root(metric)
        if map.landmarks is not None and len(split.held.X):
            certified = certificate(map, problem.components.scaling.apply(split.held.X), flops, (metric, root))
    noise = ROUNDING if map.gram_dtype == "float32" else 0.0
    rho = ridge_for(covariance, metric, target, noise, stream(problem.seed, "trace"), root)
    return _CovarianceEstimate(rho, moment, lambda ridges: _factorized(evaluator, split, covariance, ridges), certified)


def _wide(evaluator: SampleEvaluator, split: ReservoirSplit, n: int) -> _CovarianceEstimate:
    """Estimate the covariance by a sketch of the first rows of the sample."""
    problem, rows = evaluator.problem, len(split.sample.X)
    sketch = sketch_covariance(evaluator.executor, evaluator.key, problem, evaluator.coordinates, split.sample)
    sample = evaluator.executor.keep(split.sample, f"{evaluator.key}-sample")
    moment = mean_gradient(evaluator.coordinates, evaluator.over(CovarianceSum(problem), sample, rows, 2048, "moment"))
    evaluator.executor.release([sample])
    share = LARGE_SHARE if is_large(n, rows) else SMALL_SHARE
    rho = sketch.ridge(min(sketch.weight / TARGET, share * len(sketch.values)), 0.0)
    held = sketch.project(features_of(problem, evaluator.coordinates, split.held.X[:WIDE_HELD]))
    return _CovarianceEstimate(rho, moment, lambda ridges: {ridge: sketch.at(ridge, held) for ridge in ridges})


def alpha_path(outputs: int, near: float | None = None) -> tuple[float, ...]:
    """The alphas that alpha="auto" looks at: fewer where each is many heads, and of very many that of the choice alone.

    Parameters
    ----------
    near : alpha that few components want; each that is far above it is a factor and heads for nothing

    Examples
    --------
    >>> alpha_path(1), alpha_path(1, 1e-7), alpha_path(26, 1e-8)
    ((1e-09, 1e-08, 1e-07, 1e-06, 1e-05, 0.0001, 0.001), (1e-09, 1e-08, 1e-07, 1e-06), (1e-09, 1e-06))
    >>> alpha_path(100, 1e-2), alpha_path(100, 1e-5), alpha_path(100)
    ((0.001,), (1e-05,), (1e-06,))
    """
    path = PATH[:: max(1, -(-len(PATH) * outputs // MOST_HEADS))]
    if len(path) == 1:
        return (min(PATH, key=lambda alpha: abs(np.log(alpha / (near or MIDDLE)))),)
    return path[: 1 + sum(alpha < ABOVE * near for alpha in path)] if near else path


def alpha_paths(
    best: int, alphas: Sequence[float], outputs: int, large: bool, holdout: int, exact: bool = False
) -> list[tuple[int, float]]:
    """Numbers of alphas, each with a share of the step, to go through the passes, around the sample's best alpha.

    Parameters
    ----------
    large : whether the source is. Of the sample's two epochs larger alphas are further on: what is fitted longer, or
        to many more rows, wants a smaller one (kin40k 10.8 -> 9.4 hundredths, 10,000 rows of covtype 22.2 -> 20.1 %)
    holdout : rows that will tell them apart
    exact : whether they go to their optima, of which the sample's start, that stops early, says little
    """
    if exact and holdout:
        return [(j, 1.0) for j in range(len(alphas))]
    several = holdout >= (ENOUGH_HOLDOUT if large else FEW_HOLDOUT)
    wanted = [(best - 1, 1.0)] if large else [(best, 1.0)]
    if several and outputs <= FEW_OUTPUTS:
        wanted += [(best - 2, 1.0), (best - 2, FAR), (best, SHARE)] if large else [(best - 1, 1.0), (best - 2, 1.0)]
    elif several and outputs <= SOME_OUTPUTS:
        wanted += [(best - 1, SHARE if large else 1.0)]
    return sorted({(min(max(j, 0), len(alphas) - 1), share) for j, share in wanted})


def _worth_trying(alphas: Sequence[float], rho: float, n: int, sample: int) -> Sequence[float]:
    """The alphas of the path that a source of n rows may want: with many rows none far above ρ, at which the sample
    alone can tell a fifth of its rows' worth of directions from noise."""
    if not is_large(n, sample) or len(alphas) == 1:
        return alphas
    few = [alpha for alpha in alphas if alpha <= NEAR * rho]
    return few or alphas[:1]


def _factorized(
    evaluator: SampleEvaluator, split: ReservoirSplit, covariance: Array, ridges: Sequence[float]
) -> dict[float, Preconditioner]:
    most = max(LEAST_HELD, int(LEVERAGE_FLOPS / len(covariance) ** 2))
    held = _held(evaluator, part_of(split.held, slice(most)))
    made: dict[float, Preconditioner] = {}
    for ridge in ridges:
        # A quarter of the rows is enough for all but the first, which most alphas share.
        rows = held if not made else held[: max(1, len(held) // 4)]
        made[ridge] = factorize(covariance, evaluator.coordinates.metric, ridge, rows, consumed=ridge == ridges[-1])
    return made


def in_coordinates(coordinates: Coordinates, gram: Array) -> Array:
    """The Gram matrix of columns and their 1, in the solver's coordinates."""
    if coordinates.basis is None:
        return gram
    n = coordinates.n
    out = np.empty((n + 1, n + 1))
    out[:n, :n] = coordinates.congruence(gram[:-1, :-1])
    out[:n, n] = out[n, :n] = coordinates.reduce(gram[:-1, -1])
    out[n, n] = gram[-1, -1]
    return out


def _held(evaluator: SampleEvaluator, block: Block) -> Array:
    F = with_intercept(evaluator.problem.components, block.X, component_dtype(evaluator.problem.components.map))
    if evaluator.coordinates.basis is None:
        return F
    return np.concatenate([evaluator.coordinates.reduce(F[:, :-1].T), F[:, -1:].T]).T


def _tamed(evaluator: SampleEvaluator, split: ReservoirSplit, P: Preconditioner) -> tuple[Preconditioner, float]:
    """P with the directions taken down in which rows that it has not seen are far larger than its sample's; and the
    largest eigenvalue before.

    Rayleigh-Ritz for L^{-1} S L^{-T}, S over the rows not seen, on the whole block Krylov space of a random start
    (Musco and Musco 2015): three products know the largest of it as well as four do that keep only the last. A step
    that does not know these eigenvalues diverges (covtype, 2,000 landmarks, squared loss: the largest is 4).
    """
    wide, n = is_wide(evaluator.coordinates), P.n
    q, steps = WIDE_DIRECTIONS if wide else DIRECTIONS, KRYLOV_STEPS
    if n <= q * steps:
        q, steps = n, 1
    basis, images = np.empty((n, q * steps)), np.empty((n, q * steps))
    block = stream(evaluator.problem.seed, "directions").standard_normal((n, q))
    rows = evaluator.executor.keep(split.unseen, f"{evaluator.key}-unseen")
    for step in range(steps):
        own, known = slice(step * q, (step + 1) * q), basis[:, : step * q]
        for _ in range(2):  # twice: what the first leaves may be nothing but rounding
            block = np.linalg.qr(block - known @ (known.T @ block))[0]
        basis[:, own] = block
        total = evaluator.over(
            CovarianceProduct(evaluator.problem),
            rows,
            len(split.unseen.X),
            2048,
            f"directions-{step}",
            P.half_transposed(block),
        )
        check_finite(evaluator.problem.components.map.kernel, "products of columns", total)
        total /= max(float(total[-1, 0]), 1e-300)
        block = images[:, own] = P.half(np.concatenate([evaluator.coordinates.reduce(total[:-2]), total[-2:-1]]))
    evaluator.executor.release([rows])
    values, rotation = np.linalg.eigh(0.5 * (basis.T @ images + images.T @ basis))
    # The first values of a Krylov space are near their eigenvalues. The later ones fall behind, and the next of them
    # says how large the rest is.
    kept = q if steps == 1 else round(KEPT * q)
    values, rotation = values[::-1], rotation[:, ::-1]
    large = values[:kept] > 1
    rest = max(1.0, float(values[min(kept, len(values) - 1)]))
    directions = basis @ rotation[:, :kept][:, large]
    return replace(P, largest=rest, directions=directions, values=values[:kept][large]), max(1.0, float(values[0]))


def warm_start(
    evaluator: SampleEvaluator, solver: PSGD, start: Array, rows: Block, epochs: range, rounds: int = WARM_ROUNDS
) -> Array:
    """Run the rounds of a pass over the sample, several epochs; the mean of the last one's second half is the start."""
    map = evaluator.problem.components.map
    flops = len(rows.X) * map.n_components * (flops_of(1, map.n_in, 1) + 4 * start.shape[1])
    evaluator = evaluator.at_home(flops <= rounds * LITTLE_FLOPS)
    pieces = pieces_of(len(rows.X), ROWS)
    turns = [list(turn) for turn in np.array_split(np.array(pieces, dtype=object), min(rounds, len(pieces)))]
    state, learned = solver.start(start), SGDProblem(evaluator.problem, evaluator.coordinates, [solver])
    kept = KeptBlock(evaluator.executor, rows, f"{evaluator.key}-sample")
    with kept as sample, SGD(sample, [learned], f"{evaluator.key}-warm") as sgd:
        for epoch in epochs:
            state = solver.start(state.v)
            order = stream(evaluator.problem.seed, "warm", epoch).permutation(len(turns))
            for done, i in enumerate(order):
                (state,), _ = sgd.round([state], turns[i], f"{epoch}-{done}", len(turns), 1 / (1 + epoch))
    return solver.candidates(state, len(turns))["average"] if epochs else start


def evaluate_candidates(evaluator: SampleEvaluator, block: Handle, n: int, v: Array, name: str) -> LossSums:
    """Loss and right answers on the n rows of a kept block, of each group of heads."""
    return evaluator.over(LossStatistic(evaluator.problem), block, n, 2048, name, v)
