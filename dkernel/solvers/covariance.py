"""The covariance of the components on the sample, the preconditioners made of it, and where unseen rows exceed it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkernel.data.block import Block
from dkernel.features.base import MOST_DENSE, Coordinates
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import stream
from dkernel.solvers.certificate import certificate
from dkernel.solvers.finite_check import check_finite
from dkernel.solvers.fit_problem import SampledObjective
from dkernel.solvers.gram import Gram
from dkernel.solvers.objective import CovarianceProduct
from dkernel.solvers.preconditioner import Preconditioner, factorize, metric_factor, ridge_for
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.sgd_round import expand_coefficients, mean_gradient
from dkernel.solvers.sizes import FEWEST_SAMPLED, SAMPLE_FLOPS, passes_dominate
from dkernel.solvers.sketch import CovarianceSum, sketch_covariance, sketch_features

# Effective dimensions are at most this share of the columns; a small source needs fewer, as its steps have few rows.
LARGE_SHARE, SMALL_SHARE = 0.75, 0.5
# A polish reads all rows of a small source, so two rows a component are enough for its Gram matrix: 4,096 components of
# california have the same error as with 12,000 rows, in 9 CPU seconds in place of 14.
GRAM_ROWS = 2
GRAM_LEAVES = 2  # pieces of the Gram matrix: each has D x D numbers, and fresh pages for them cost seconds
# Rows of the sample for each effective dimension; without the damped directions 16 are needed. The sample of a large
# source has few rows a column, and may have more dimensions: the passes can tell there what is noise.
TARGET, LARGE_TARGET = 8, 5
# Sums of float32 products have eigenvalues of 3e-9 to 1.2e-8 of the largest one below 0 where the true ones are 0
# (128 to 2,048 cosines and sines, 8,192 and 12,288 rows).
COVARIANCE_ROUNDING = 2.0**-26
LEVERAGE_FLOPS, LEAST_UNSEEN = 4e9, 500  # cost and least number of rows that measure the leverage outside the sample
DIRECTIONS, KRYLOV_STEPS, KEPT = 32, 3, 5 / 6  # the directions of the largest leverage are damped
WIDE_DIRECTIONS = DIRECTIONS // 2  # very many columns have fewer, since each is a long vector
WIDE_UNSEEN = 1000  # rows outside the sample that a sketch is measured on: each costs all its columns


@dataclass(frozen=True)
class CovarianceEstimate:
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


def estimate_covariance(sampled: SampledObjective, n: int, flops: float, polished: bool) -> CovarianceEstimate:
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
    return CovarianceEstimate(rho, moment, lambda ridges: _factorize(sampled, covariance, ridges), certified)


def estimate_by_sketch(sampled: SampledObjective, n: int) -> CovarianceEstimate:
    """Estimate the covariance by a sketch of the first rows of the sample."""
    objective, coordinates, split, run = sampled.on_sample, sampled.coordinates, sampled.split, sampled.run
    rows = len(split.sample.X)
    sketch = sketch_covariance(run.executor, run.key, objective, coordinates, split.sample)
    with sampled.keep(split.sample, "sample") as sample:
        moment = mean_gradient(coordinates, sample.fold(CovarianceSum(objective), "moment"))
    share = LARGE_SHARE if passes_dominate(n, rows) else SMALL_SHARE
    rho = sketch.ridge(min(sketch.weight / TARGET, share * len(sketch.values)), 0.0)
    unseen = sketch.project(sketch_features(objective, coordinates, split.measured.X[:WIDE_UNSEEN]))
    return CovarianceEstimate(rho, moment, lambda ridges: {ridge: sketch.at(ridge, unseen) for ridge in ridges})


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
