"""The evaluation of a candidate: ridge regression on a few components, judged on other rows by the loss of the fit."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features import Drawing, Scaling
from dkernel.features.base import COMPONENT_STRIP
from dkernel.features.nystrom import NystromMap
from dkernel.kernels import Kernel
from dkernel.kernels.analysis.gradients import gradient_moment, is_radial
from dkernel.losses.losses import Loss
from dkernel.losses.metrics import paired_difference
from dkernel.model.model import ScaledComponents
from dkernel.numerics import linalg
from dkernel.numerics.array_types import F32, F64
from dkernel.solvers.gram import GramSum, sum_gram
from dkernel.solvers.sizes import pass_flops
from dkernel.solvers.targets import Targets
from dkernel.streaming.cost import COMPONENT64_FLOPS, L1_FLOPS
from dkernel.training.holdout_losses import judge_rows
from dkernel.training.selection.descent import until_worse

MOMENT_ROWS, MOMENT_PARTS = 4096, 2  # rows whose gradients are averaged, and parts of them for two threads
MOST_PLAIN = 4096  # most features, or rows, of the Gram matrix that judges a linear kernel
JUDGING_ALPHAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # alphas that judge a candidate, until the loss rises
MOST_ROBUST = 5.0  # deviations by quartiles at which targets of a robust loss are cut for the squares of a candidate
SQUARE_PARTS = 2  # parts of the rows; each has its own Gram matrix


@dataclass(frozen=True)
class Fidelity:
    """The fidelity of an evaluation: components (landmarks are the first rows), rows to fit on and rows to judge on.

    Parameters
    ----------
    halved : whether half of the landmarks are judged too
    """

    components: int
    rows: int
    judged: int
    halved: bool = False

    def within(self, components: int, split: "FitValidationSplit") -> "Fidelity":
        """Limit the fidelity to the components of a fit and to the rows of a split."""
        rows, judged = min(self.rows, len(split.X)), min(self.judged, len(split.X_judged))
        return replace(self, components=min(self.components, components, rows), rows=rows, judged=judged)

    def flops(self, kernel: Kernel, p: int, drawn: bool = False) -> float:
        """Predicted flops of a candidate: components in float64, their Gram matrix, a factorization for each alpha.

        Drawn components cost as much as in a pass.
        """
        c, rows = self.components, self.rows + self.judged
        value = (2.0 if is_radial(kernel) else L1_FLOPS) * p + COMPONENT64_FLOPS["choice"]
        components = pass_flops(rows, p, c) if drawn else rows * c * value
        return components + float(self.rows) * c * c + len(JUDGING_ALPHAS) * c**3 / 3


@dataclass(frozen=True, eq=False)
class FitValidationSplit:
    """Rows to fit on and rows to judge on, each with weights or none, the loss that judges, and the targets."""

    loss: Loss
    targets: Targets
    X: NDArray[Any]
    y: NDArray[Any]
    X_judged: NDArray[Any]
    y_judged: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    weight_judged: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, loss: Loss, targets: Targets, rows: Block, most: Fidelity) -> "FitValidationSplit":
        """Take a third of the rows to judge on and the others to fit on, as many as the fidelity asks for at most."""
        assert rows.y is not None
        judged = min(most.judged, max(1, len(rows.X) // 3))
        end = judged + min(most.rows, len(rows.X) - judged)
        w = rows.weight
        weights = (None, None) if w is None else (w[judged:end], w[:judged])
        return cls(loss, targets, rows.X[judged:end], rows.y[judged:end], rows.X[:judged], rows.y[:judged], *weights)

    def part(self, n: int, judged: int | None = None) -> "FitValidationSplit":
        """Return the first n rows to fit on, and the first ones to judge on; None for all of these."""
        weight = None if self.weight is None else self.weight[:n]
        weight_judged = None if self.weight_judged is None else self.weight_judged[:judged]
        rows = self.X[:n], self.y[:n], self.X_judged[:judged], self.y_judged[:judged]
        return FitValidationSplit(self.loss, self.targets, *rows, weight, weight_judged)

    def losses(self, scores: F32) -> F64:
        """Return the loss of each validation row."""
        return judge_rows(self.loss, self.targets.of(self.y_judged), scores)


@dataclass(frozen=True, eq=False)
class CandidateLoss:
    """The smallest mean loss over the path of alpha, and the coefficients (components, outputs) that have it.

    Parameters
    ----------
    intercept : float64 (outputs,)
    wrong : for several classes, the rows whose largest score is not that of their label
    losses : losses of the validation rows
    gain, error : the difference to the loss of half as many components, and its standard error; infinite if the
        fidelity is not halved
    """

    loss: float
    coef: NDArray[np.float64]
    alpha: float = 0.0
    intercept: NDArray[np.float64] | float = 0.0
    wrong: NDArray[np.bool_] | None = None
    losses: NDArray[np.float64] | None = None
    gain: float = np.inf
    error: float = np.inf


@dataclass(frozen=True, eq=False)
class StageScores:
    """Scores of a global stage that was fitted to some rows.

    Parameters
    ----------
    fitted : scores of these rows, float32 (rows, outputs)
    judged : scores of the validation rows, float32 (judged, outputs)
    """

    fitted: F32
    judged: F32


Over = Callable[..., Iterator[Any]]
IN_TURN: Over = map  # instead of the `map` of a pool of threads
Judged = tuple[CandidateLoss, F64 | None]  # result of one alpha, with the coefficients and the intercept


def evaluate_candidate(
    kernel: Kernel,
    scaling: Scaling,
    split: FitValidationSplit,
    fidelity: Fidelity,
    threads: int = 1,
    drawing: Drawing | None = None,
    plain: bool = False,
    near: float | None = None,
) -> CandidateLoss:
    """Fit and judge one candidate; runs on a worker. Threads do not change the bits; up to SQUARE_PARTS help.

    Components are drawn or those of landmarks, as in the fit.

    Parameters
    ----------
    near : best alpha of another candidate of this family, where the path begins; None for the whole path
    """
    split = split.part(fidelity.rows, fidelity.judged)
    loss, targets = split.loss, split.targets
    components = _components(kernel, scaling, split, fidelity.components, drawing, plain)
    map = components.map
    judged, Y_judged = components.with_intercept(split.X_judged, components.pass_dtype), targets.of(split.y_judged)
    nothing = CandidateLoss(np.inf, np.zeros((map.n_components, targets.outputs)))
    silent = partial(np.seterr, over="ignore", invalid="ignore")
    with (
        ThreadPoolExecutor(min(threads, SQUARE_PARTS), initializer=silent) as pool,
        np.errstate(over="ignore", invalid="ignore"),
    ):
        over = IN_TURN if threads == 1 else pool.map  # another thread would compute an alpha too many
        covariance, moment = _means(components, split, over)
        metric = np.zeros_like(covariance)
        of_map = map.coordinates().metric
        metric[:-1, :-1] = of_map * np.eye(map.n_components) if isinstance(of_map, float) else of_map

        def at(alpha: float) -> Judged:
            w = _ridge(covariance, metric, moment, alpha)
            if w is None:
                return nothing, None
            S = judged @ w
            losses = loss.judging_value(Y_judged, S)
            mean, losses = (
                _mean(losses, split.weight_judged),
                losses.reshape(len(losses), -1).mean(axis=1, dtype=np.float64),
            )
            several = targets.classes is not None and targets.outputs > 1
            wrong = S.argmax(axis=1) != Y_judged.argmax(axis=1) if several else None
            judged_loss = CandidateLoss(mean, w[:-1], alpha, w[-1], wrong, losses)
            return (judged_loss, w) if np.isfinite(mean) else (nothing, None)

        best, whole = _best_alpha(partial(over, at), near)
    if not fidelity.halved or map.n_components < 2 or whole is None:
        return best
    some = np.append(np.arange(map.n_components // 2), map.n_components)  # and the intercept
    square = np.ix_(some, some)
    half_of = _ridge(covariance[square], metric[square], moment[some], best.alpha)
    if half_of is None:
        return best
    assert best.losses is not None
    of_half = loss.judging_value(Y_judged, judged[:, some] @ half_of)
    gain, error = paired_difference(
        of_half.reshape(len(of_half), -1).mean(axis=1, dtype=np.float64), best.losses, split.weight_judged
    )
    return replace(best, gain=gain, error=error)


def _components(
    kernel: Kernel, scaling: Scaling, split: FitValidationSplit, components: int, drawing: Drawing | None, plain: bool
) -> ScaledComponents:
    if drawing is not None:
        return ScaledComponents(scaling, drawing.map(kernel, components))
    rows, p = len(split.X), split.X.shape[1]
    landmarks: NDArray[Any]
    if plain and p <= min(rows, MOST_PLAIN):
        landmarks = np.eye(p)  # with unit vectors the components of a linear kernel are the scaled features
    else:  # with more features than rows the best linear function is an expansion in the rows
        landmarks = scaling.apply(split.X[: rows if plain and rows <= MOST_PLAIN else components])
    return ScaledComponents(scaling, NystromMap(kernel, landmarks))


def candidate_scores(
    kernel: Kernel,
    scaling: Scaling,
    split: FitValidationSplit,
    result: CandidateLoss,
    fidelity: Fidelity,
    drawing: Drawing | None = None,
    plain: bool = False,
) -> StageScores:
    """Score the rows by a candidate that was fitted; runs on a worker."""
    split = split.part(fidelity.rows, fidelity.judged)
    components = _components(kernel, scaling, split, fidelity.components, drawing, plain)
    w = np.concatenate([result.coef, np.broadcast_to(result.intercept, (1, result.coef.shape[1]))])
    dtype = components.pass_dtype
    fitted, judged = (
        np.concatenate(
            [
                (components.with_intercept(X[i : i + COMPONENT_STRIP], dtype) @ w)
                for i in range(0, len(X), COMPONENT_STRIP)
            ]
        )
        for X in (split.X, split.X_judged)
    )
    return StageScores(fitted.astype(np.float32), judged.astype(np.float32))


def _best_alpha(over: Callable[[Sequence[float]], Iterator[Judged]], near: float | None) -> Judged:
    """Try smaller alphas from the one above `near` until the loss rises, and larger ones if the first is the best.

    An alpha that waits for a thread when the loss rises is not computed.
    """
    first = 0 if near not in JUDGING_ALPHAS else max(0, JUDGING_ALPHAS.index(near) - 1)
    best = min(until_worse(over(JUDGING_ALPHAS[first:]), _loss), key=_loss)
    if best[0].alpha == JUDGING_ALPHAS[first]:
        best = min(until_worse(chain([best], over(JUDGING_ALPHAS[:first][::-1])), _loss), key=_loss)
    return best


def _loss(judged: Judged) -> float:
    return judged[0].loss


def _ridge(covariance: F64, metric: F64, moment: F64, alpha: float) -> F64 | None:
    """Return coefficients and intercept; None if this alpha is too small for the spectrum of this kernel."""
    A = alpha * metric
    A += covariance
    A[-1, -1] += 1e-12
    try:
        return np.asarray(linalg.solve_here(A, moment))  # the solver of SciPy would hold the GIL
    except sl.LinAlgError:
        return None


def _means(components: ScaledComponents, split: FitValidationSplit, over: Over) -> tuple[F64, F64]:
    """Return means over rows of the products of components, and of components with targets, in SQUARE_PARTS."""
    # The products are in float32, as in the fit, if that takes a quarter of the time.
    dtype, Y, rows = components.pass_dtype, split.targets.of(split.y), len(split.X)
    if split.loss.robust:
        Y = np.clip(Y, -MOST_ROBUST, MOST_ROBUST)
    weight = None if split.weight is None else split.weight[:, None]

    def part(first: int, stop: int) -> GramSum:
        some = slice(first, stop)
        return sum_gram(components, split.X[some], Y[some], None if weight is None else weight[some], dtype)

    ends = [rows * i // SQUARE_PARTS for i in range(SQUARE_PARTS + 1)]
    total = reduce(GramSum.merge, over(part, ends, ends[1:]))
    total.gram /= total.weight
    return total.gram, total.moment / total.weight


def _mean(values: NDArray[Any], weight: NDArray[np.float64] | None) -> float:
    return float(np.mean(values) if weight is None else np.average(values.mean(axis=1), weights=weight))


def measure_gradient_moment(
    kernel: Kernel,
    scaling: Scaling,
    split: FitValidationSplit,
    coef: NDArray[np.float64],
    fidelity: Fidelity,
    seed: int,
    part: int,
) -> NDArray[np.float64]:
    """Return the gradient moment of a fitted candidate over one of MOMENT_PARTS parts of the rows, float64 (p, p)."""
    fitted = split.X[: fidelity.rows]
    # Landmarks are the first rows; each part scales only its own part of the others.
    X, Z = (
        scaling.apply(rows, "float64").astype(np.float64, copy=False)
        for rows in (fitted[-MOMENT_ROWS:][part::MOMENT_PARTS], fitted[: len(coef)])
    )
    return gradient_moment(kernel, X, Z, coef, seed)
