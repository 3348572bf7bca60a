"""Scale and gamma, where they are left open: a grid judged on rows of the reservoir.

Every candidate is fitted by ridge regression on a few landmarks, the whole path of alpha from one Gram matrix, and
judged on other rows by the loss that is to be fitted. First on 512 columns, then the best again on up to 2,048, because
a larger map can use a larger gamma.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel.cells import number_columns, numbers_of
from dkernel.data.block import Block
from dkernel.features import Scaling
from dkernel.features.nystrom import NystromMap
from dkernel.kernels import Kernel, parse
from dkernel.linear.losses import Loss
from dkernel.recipe import Recipe
from dkernel.run.executors import Call, Executor, Handle
from dkernel.run.labels import Targets
from dkernel.run.survey import SurveyResult

__all__ = ["Candidate", "Chosen", "choose", "pair_median"]

GRID = tuple(2.0**k for k in range(-2, 7))
FIRST_COLUMNS, SECOND_COLUMNS = 512, 2048
MOST_ROWS, MOST_JUDGED = 8192, 4096
PATH = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel with numbers and the scaling before it; `factor` is its place in the grid, 1 for the median value."""

    kernel: Kernel
    scaling: Scaling
    factor: float


@dataclass(frozen=True, eq=False)
class Chosen:
    """The choice, and one line of what it was chosen from."""

    kernel: Kernel
    scaling: Scaling
    why: dict[str, str]


def choose(
    recipe: Recipe,
    survey: SurveyResult,
    rows: Block,
    targets: Targets,
    loss: Loss,
    columns: int,
    executor: Executor,
    key: str,
) -> Chosen:
    """Kernel and scaling with every "auto", "median" and "scale" replaced.

    Parameters
    ----------
    rows : of the reservoir, in the order of hashes
    columns : D of the fit to come
    """
    candidates = _candidates(recipe, survey, rows)
    if len(candidates) == 1:
        only = candidates[0]
        return Chosen(only.kernel, only.scaling, {})
    half = _Halves.of(rows)
    held = executor.keep(half, f"{key}-reservoir")
    first = _judged(executor, held, candidates, loss, targets, min(FIRST_COLUMNS, columns), f"{key}-first")
    order = np.argsort(first, kind="stable")
    best = [candidates[i] for i in order[:2]]
    if columns > FIRST_COLUMNS:
        best += [c for c in candidates if c.scaling is best[0].scaling and c.factor == 2 * best[0].factor][:1]
        best = list(dict.fromkeys(best))
        second = _judged(executor, held, best, loss, targets, min(SECOND_COLUMNS, columns), f"{key}-second")
    else:
        second = [first[i] for i in order[:2]]
    executor.release([held])
    winner = best[int(np.argmin(second))]
    why = {}
    if len({c.scaling.kind for c in candidates}) > 1:
        why["scale"] = f"{winner.scaling.kind}, of standard and global, judged on {len(half.X_judged):,} rows"
    if len({c.factor for c in candidates}) > 1:
        why["gamma"] = (
            f"{winner.factor:g} times the median value, of {len(GRID)} tried: loss {min(second):.4f} on "
            f"{len(half.X_judged):,} other rows"
        )
    return Chosen(winner.kernel, winner.scaling, why)


def _candidates(recipe: Recipe, survey: SurveyResult, rows: Block) -> list[Candidate]:
    kernel = parse(recipe.kernel)
    kinds: tuple[str, ...] = ("standard", "global") if recipe.scale == "auto" else (recipe.scale,)
    if rows.X.dtype.kind == "O" and recipe.scale == "auto":
        # Columns that have a kernel each share no unit; and where nothing is a number nothing is scaled.
        kinds = ("standard",) if number_columns(rows.X) else ("none",)
    moments = survey.moments
    scalings = [Scaling.of(kind, moments.mean, moments.variance, survey.low, survey.high) for kind in kinds]
    if np.allclose(scalings[0].factor, scalings[-1].factor, rtol=1e-3):  # data that were scaled before
        scalings = scalings[:1]
    grid = GRID if "auto" in {_word(recipe, word) for word in kernel.placeholders} else (1.0,)
    found = []
    for scaling in scalings:
        rule = _Gammas(recipe, survey, scaling, numbers_of(scaling.apply(rows.X[:1000])).astype(np.float64))
        found += [Candidate(kernel.bind(partial(rule.gamma, factor)), scaling, factor) for factor in grid]
    return found


class _Gammas:
    """What the words for a gamma stand for: of all columns, or of those that a part of the kernel looks at.

    Parameters
    ----------
    X : scaled rows, float64
    """

    def __init__(self, recipe: Recipe, survey: SurveyResult, scaling: Scaling, X: NDArray[np.float64]) -> None:
        self.recipe, self.survey, self.scaling, self.X = recipe, survey, scaling, X
        self.medians: dict[tuple[str, tuple[int, ...] | None], float] = {}

    def gamma(self, factor: float, metric: str, word: str, columns: Sequence[int] | None = None) -> float:
        """The number for a word; "auto" is `factor` times the median value."""
        asked = _word(self.recipe, word)
        if isinstance(asked, float):
            return asked
        if asked == "scale":
            p = self.X.shape[1] if columns is None else len(columns)
            return 1.0 / (p * _variance(self.scaling, self.survey, columns))
        median = self._median(metric, None if columns is None else tuple(columns))
        value = 1.0 / (2.0 * median**2) if metric == "l2" else 1.0 / median
        return value * factor if asked == "auto" else value

    def _median(self, metric: str, columns: tuple[int, ...] | None) -> float:
        if (metric, columns) not in self.medians:
            X = self.X if columns is None else np.ascontiguousarray(self.X[:, columns])
            self.medians[metric, columns] = pair_median(X, metric)
        return self.medians[metric, columns]


def _word(recipe: Recipe, word: str) -> str | float:
    """What fills a placeholder: the recipe's gamma for "auto", else what the kernel says itself."""
    return recipe.gamma if word == "auto" else word


def _variance(scaling: Scaling, survey: SurveyResult, columns: Sequence[int] | None) -> float:
    """Variance of all scaled numbers of some columns together, the `X.var()` of gamma="scale"."""
    some = slice(None) if columns is None else list(columns)
    mean = ((survey.moments.mean - scaling.shift) * scaling.factor)[some]
    variance = float(np.mean((survey.moments.variance * scaling.factor**2)[some]) + np.var(mean))
    return variance if variance > 0 else 1.0


def pair_median(X: NDArray[np.float64], metric: str) -> float:
    """Median distance of two different rows: of all pairs, without those at distance zero.

    Examples
    --------
    >>> pair_median(np.array([[0.0], [1.0], [3.0]]), "l2")
    2.0
    """
    from scipy.spatial.distance import pdist

    distances = pdist(X, "euclidean" if metric == "l2" else "cityblock")
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0


@dataclass(frozen=True, eq=False)
class _Halves:
    """Rows to fit on, the first of them as landmarks, and rows to judge on."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_judged: NDArray[Any]
    y_judged: NDArray[Any]

    @classmethod
    def of(cls, rows: Block) -> "_Halves":
        assert rows.y is not None
        judged = min(MOST_JUDGED, max(1, len(rows.X) // 3))
        fitted = min(MOST_ROWS, len(rows.X) - judged)
        end = judged + fitted
        return cls(rows.X[judged:end], rows.y[judged:end], rows.X[:judged], rows.y[:judged])


def _judged(
    executor: Executor,
    held: Handle,
    candidates: Sequence[Candidate],
    loss: Loss,
    targets: Targets,
    columns: int,
    key: str,
) -> list[float]:
    calls = [
        Call(f"{key}-{i}", judge, (candidate.kernel, candidate.scaling, held, loss, targets, columns))
        for i, candidate in enumerate(candidates)
    ]
    return executor.compute(calls)[0]


def judge(kernel: Kernel, scaling: Scaling, half: _Halves, loss: Loss, targets: Targets, columns: int) -> float:
    """The smallest mean loss over the path of alpha; runs on a worker."""
    X = scaling.apply(half.X)
    map = NystromMap(kernel, X[:columns])
    gram, moment = np.zeros((map.n_columns + 1,) * 2), np.zeros((map.n_columns + 1, targets.outputs))
    Y = targets.of(half.y)
    for start in range(0, len(X), 2048):
        F = _with_one(map.columns(X[start : start + 2048]))
        gram += F.T @ F
        moment += F.T @ Y[start : start + 2048]
    gram /= len(X)
    moment /= len(X)
    metric = map.coordinates().metric
    judged = _with_one(map.columns(scaling.apply(half.X_judged)))
    Y_judged = targets.of(half.y_judged)
    losses = []
    for alpha in PATH:
        A = gram.copy()
        A[:-1, :-1] += alpha * metric
        A[-1, -1] += 1e-12
        try:
            w = sl.cho_solve(sl.cho_factor(A, lower=True, overwrite_a=True), moment)
        except sl.LinAlgError:  # this alpha is too small for this kernel's spectrum
            continue
        losses.append(float(np.mean(loss.value(Y_judged, judged @ w))))
    return min(losses, default=np.inf)


def _with_one(K: NDArray[Any]) -> NDArray[np.float64]:
    return np.concatenate([K, np.ones((len(K), 1))], axis=1, dtype=np.float64)
