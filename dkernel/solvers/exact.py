"""`solver="exact"`: the optimum, for rows that are few enough to hold their Gram matrix.

Equal rows are one row with the sum of their weights, and rows stand in an order that only their content decides. So
everything that follows, whatever it chooses or draws, sees a row of weight k and k copies of it as the same: the model
files are equal. With Nystrom features every row is a landmark, unless fewer are asked for; none is held out. The
optimum is found in float64, to convergence: by Newton's method on the Gram matrix where all rows are landmarks, else by
the batch solvers; of losses with kinks by an interior-point method on the Gram matrix. Alpha is chosen by the loss on
rows left out of a fit.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.collections.rows import hold_block
from dkernel.data.source import Source
from dkernel.errors import RecipeError
from dkernel.features import FeatureMap, NystromMap
from dkernel.features.base import Coordinates
from dkernel.model.model import ScaledComponents
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import FEW_ROWS
from dkernel.numerics.array_types import F64
from dkernel.numerics.rows import contents
from dkernel.solvers.batch_methods import JUDGING_TOLERANCE, minimize
from dkernel.solvers.driver import OneStepState, Solver, SolverResult
from dkernel.solvers.finite_check import check_finite
from dkernel.solvers.interior_point import minimize_boxed
from dkernel.solvers.newton import Newton, Reached
from dkernel.solvers.objective import Objective, count_correct
from dkernel.solvers.preconditioner import metric_factor
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.sizes import Sizes, pass_flops
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.row_weights import CountedSource, count_weighted, read_sample, unit_of
from dkernel.streaming.schedule import RowSlice

MOST_GRAM_BYTES = 2**29  # bytes of the features, of which there are some copies

EXACT_ALPHAS = tuple(10.0**k for k in range(0, -10, -1))
"""alpha="auto" tries these downwards from BEGIN, and then upwards, while the loss falls."""
BEGIN = 1e-2  # the first alpha, if the choice of the kernel has no best alpha

ALIKE = 1.01  # a loss of up to this many times the smallest is as good
WORSE_ALPHAS = 2  # alphas in a row that are worse than the best so far end the search
EXACT_TOLERANCE, MOST_READINGS = 1e-9, 300  # of the last move of scores, and readings of the batch solvers
ERROR_SHARE = 3e-3  # a fit that judges ends when scores move by this share of the root mean square error, or less
JUDGED_ROWS, MOST_FOLDS, THIRD = 2048, 5, 3  # rows of all fits that judge an alpha, about; folds at most and at least
MOST_JUDGED = 3072  # rows that alphas are fitted and judged on
JUDGED_COMPONENTS = 1024  # landmarks of these fits, where not all rows are landmarks


def is_few(source: Source) -> bool:
    """True if the rows of a source can all be held, several times over."""
    return source.n_counted <= FEW_ROWS and source.n_counted * source.row_bytes <= MOST_GRAM_BYTES


def deduplicate(source: Source, recipe: Recipe, executor: Executor) -> Source:
    """The rows of a source of up to 4,096: each different one once, with the sum of its weights if these are not all 1.

    Raises
    ------
    RecipeError
        for more rows
    DataError
        where all weights are 0
    """
    source = count_weighted(source, executor)
    n = source.n_counted
    if n > FEW_ROWS:
        raise RecipeError(
            f"solver='exact' is for up to {FEW_ROWS:,} rows and the data have {n:,}. Use solver='psgd', or 'normal', "
            "'pcg' or 'lbfgs' for the exact optimum on fewer columns."
        )
    rows = _distinct(read_sample(source, executor, n))
    merged = hold_block(rows, source, recipe.dtype)
    return CountedSource.of(merged, merged.n_rows, unit_of(source) or 1.0)


def _distinct(rows: Block) -> Block:
    """Different rows in the order of a hash of their content, which is like a random order."""
    first: dict[bytes, int] = {}
    group = np.empty(len(rows.X), np.intp)
    for i, key in enumerate(_contents(rows)):
        group[i] = first.setdefault(key, i)
    weight = np.bincount(group, rows.weight, minlength=len(group))
    order = np.array([first[key] for key in sorted(first)])
    weight = weight[order]
    return Block(rows.X[order], None if rows.y is None else rows.y[order], None if (weight == 1).all() else weight)


def _contents(rows: Block) -> list[bytes]:
    """A hash of each row, of the ranks of its numbers and its label: no unit and no name of a class counts."""
    X, labels = rows.X, [] if rows.y is None else [rows.y.reshape(len(rows.y), -1)]
    numbers = isinstance(X, np.ndarray) and X.dtype.kind != "O"
    ranks = np.hstack([_ranks(part) for part in ([X] * numbers + labels)] or [np.zeros((len(X), 0), np.int64)])
    others = [b""] * len(X) if numbers else contents(X)
    return [hashlib.blake2b(x + r.tobytes(), digest_size=16).digest() for x, r in zip(others, ranks, strict=True)]


def _ranks(values: NDArray[Any]) -> NDArray[np.int64]:
    """The rank of each value among the different ones of its column."""
    columns = [np.unique(column, return_inverse=True)[1].astype(np.int64) for column in values.T]
    return np.stack(columns, axis=1) if columns else np.zeros(values.shape, np.int64)


class Exact(Solver[OneStepState]):
    """The optimum on all rows, in memory and deduplicated; their order does not matter."""

    phase = "exact"

    @classmethod
    def readings(cls, sizes: Sizes) -> int:  # noqa: ARG003
        return 1

    @classmethod
    def flops(cls, sizes: Sizes, outputs: int) -> float:  # noqa: ARG003
        n, D = float(sizes.n), sizes.components
        return pass_flops(sizes.n, sizes.p, D) + 2 * n * D**2 + 2.0 * D**3

    @classmethod
    def client_squares(cls, columns: int) -> int:  # noqa: ARG003
        return 9

    def start(self) -> OneStepState:
        return OneStepState()

    def plan(self, state: OneStepState) -> Callable[[], Any] | None:
        return self._optimum if state.result is None else None

    def advance(self, state: OneStepState, result: SolverResult) -> OneStepState:
        return replace(state, result=result, history=tuple(result.history), steps=1)

    def finish(self, state: OneStepState) -> SolverResult:
        assert state.result is not None
        return state.result

    def _optimum(self) -> SolverResult:
        problem, rows, progress = self.problem, self.problem.split.sample, self.problem.run.progress
        objective, coordinates = problem.on_sample, problem.coordinates
        if isinstance(coordinates.metric, np.ndarray):
            metric_factor(coordinates.metric)  # refuses a kernel that is none
        progress.phase("choose alpha" if problem.alpha == "auto" else "leave rows out")
        search = _AlphaSearch.of(objective, coordinates, rows)
        losses: dict[float, float] = {}
        if problem.alpha == "auto":
            search.search(problem.near)
            losses = search.losses
            check_finite(objective.components.map.kernel, "losses on rows that were left out", min(losses.values()))
            # The largest of equally good alphas has the smallest coefficients, and its optimum takes the fewest steps.
            least = ALIKE * min(losses.values())
            alpha = max(each for each, loss in losses.items() if loss <= least)
        else:
            alpha = float(problem.alpha)
            search.judge(alpha)
        progress.phase("solve")
        matrix = search.matrix if search.is_whole else _SplitRows.of(objective, coordinates, rows)
        found = matrix.optimum(alpha, EXACT_TOLERANCE, search.starts.get(alpha) if losses else None)
        v = found.v
        loss, right, weight, n = matrix.figures(matrix.F @ v, matrix.Y, matrix.weight)
        line = {"pass": 1, "round": 1, "rows": n, "loss": loss / weight, **objective.targets.merit(right, n)}
        history: list[dict[str, Any]] = [{**line, "steps": found.steps}]
        judged = search.figures[alpha] if losses else {}
        path = {f"{each:g}": value for each, value in losses.items()}
        if losses:
            history.append({"holdout": "exact", "iterate": "exact", "alpha": alpha, **judged, "path": path})
        facts = {
            "alpha": sorted(losses, reverse=True) or [alpha],
            "steps": found.steps,
            "moved": found.moved,
            "converged": found.moved <= EXACT_TOLERANCE,
        }
        left_out = search.left_out.get(alpha)
        return SolverResult(v, alpha, 1.0, self.phase, history, judged, {"exact": facts}, tried=path, left_out=left_out)


@dataclass(eq=False)
class _AlphaSearch:
    """The loss of each alpha on rows that were left out of a fit, and that fit.

    A third of many rows is left out once: the first one, which the choice of kernel and metric judged and did not fit.
    Of fewer rows up to five parts are left out one after the other.

    Parameters
    ----------
    matrix : the rows that are looked at
    is_whole : whether these are all rows, with all landmarks
    components : how many all landmarks, or other components, are
    part : of each row that is looked at, the number of the fit that is made without it
    folds : rows of each fit, and the rows that it is made without
    fold_starts : where the next fit of each fold begins, and the tolerance that it begins with
    losses : mean, on rows that a fit was made without;  figures : of all of these rows
    starts : of the fit of all rows
    left_out : of alphas that are as good as the best so far, see `SolverResult`
    """

    objective: Objective
    matrix: "_SplitRows"
    is_whole: bool
    components: int
    part: NDArray[np.intp]
    folds: list[tuple["_SplitRows", tuple[F64, F64, F64]]]
    fold_starts: list[tuple[F64 | None, float]]
    losses: dict[float, float] = field(default_factory=dict)
    figures: dict[float, dict[str, float]] = field(default_factory=dict)
    starts: dict[float, F64] = field(default_factory=dict)
    left_out: dict[float, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, whole: Objective, coordinates: Coordinates, rows: Block) -> "_AlphaSearch":
        """The search of an objective on some of the rows, with some of the landmarks where they are many."""
        n_rows = len(rows.X)
        rows, objective = _first_rows(rows, whole)
        n = len(rows.X)
        objective = objective if _is_expansion(objective, rows.X) else _with_few_landmarks(objective)
        if objective is not whole:
            coordinates = objective.components.map.coordinates()
        matrix = _SplitRows.of(objective, coordinates, rows)
        k = min(max(JUDGED_ROWS // n, 1), MOST_FOLDS, n)
        part = np.arange(n) % k if k >= THIRD else np.arange(n) * THIRD // n
        folds = [matrix.halves(part == i) for i in range(k)]
        is_whole, components = objective is whole and n == n_rows, whole.components.map.n_components
        # The factor of a quadratic loss serves all steps: a fit to the end is no longer than one that judges.
        tolerance = EXACT_TOLERANCE if objective.loss.quadratic else JUDGING_TOLERANCE
        return cls(objective, matrix, is_whole, components, part, folds, [(None, tolerance)] * k)

    def judge(self, alpha: float) -> None:
        """Fit this alpha without each part of the rows, and judge it by them."""
        sums, fits = [], []
        for i, (_, (G, *of_rows)) in enumerate(self.folds):
            v = self._fit_without(i, alpha)
            sums.append(self.matrix.figures(G @ v, *of_rows))
            fits.append(self._of_all_components(v, self.part != i))
        if self.matrix.expands:
            self.starts[alpha] = fits[0]
        loss, right, weight, count = (float(sum(each)) for each in zip(*sums, strict=True))
        self.losses[alpha] = loss / weight if np.isfinite(loss) else np.inf
        if np.isfinite(loss):
            parts = [np.flatnonzero(self.part == i) for i in range(len(self.folds))]
            self.left_out[alpha] = {"rows": parts, "fits": fits}
            least = ALIKE * min(self.losses.values())
            self.left_out = {a: out for a, out in self.left_out.items() if self.losses[a] <= least}
        merit = self.objective.targets.merit(right, int(count))
        self.figures[alpha] = {"loss": loss / weight, "rows": int(count), **merit}

    def _fit_without(self, i: int, alpha: float) -> F64:
        """Fit this alpha without a part of the rows, until scores move by a small share of the errors on these.

        The errors may be smaller than any constant. From the optimum of another alpha, a fit that ends by a constant
        ends where it begins, and looks as good.
        """
        (fitted, (G, Y, weight)), (start, tolerance) = self.folds[i], self.fold_starts[i]
        while True:
            reached = fitted.optimum(alpha, tolerance, start)
            losses = weight @ self.objective.loss.value(Y, G @ reached.v) / weight.sum()
            error = float(np.sqrt(2 * (losses.sum() if self.objective.loss.joint else losses.min())))
            start, before, tolerance = reached.v, tolerance, min(max(ERROR_SHARE * error, EXACT_TOLERANCE), tolerance)
            if not tolerance < reached.moved <= before:
                self.fold_starts[i] = start, tolerance
                return start

    def _of_all_components(self, v: F64, fitted: NDArray[np.bool_]) -> F64:
        """Coefficients of all components and the intercept; those that were left out, or not looked at, are 0."""
        coef = self.matrix.coordinates.expand(v[:-1])
        all_of_them = np.zeros((self.components + 1, v.shape[1]))
        all_of_them[np.flatnonzero(fitted) if self.matrix.expands else slice(len(coef))] = coef
        all_of_them[-1] = v[-1]
        return all_of_them

    def search(self, near: float | None) -> None:
        """Judge the alphas downwards from one above `near`, and then upwards, while the loss falls."""
        losses = self.losses
        above = sum(alpha > (5 * BEGIN if near is None else 50 * near) for alpha in EXACT_ALPHAS)
        first = min(above, len(EXACT_ALPHAS) - 1)
        for alpha in EXACT_ALPHAS[first:]:
            self.judge(alpha)
            if len(losses) > WORSE_ALPHAS and min(list(losses.values())[-WORSE_ALPHAS:]) > min(losses.values()):
                break
        for alpha in reversed(EXACT_ALPHAS[:first]):  # rounding gives tiny alphas a minimum of their own
            below = losses[max(losses)]
            self.judge(alpha)
            if losses[alpha] > below:
                break


def _first_rows(rows: Block, objective: Objective) -> tuple[Block, Objective]:
    """The first rows, and where all rows are landmarks the objective with these."""
    n, map = len(rows.X), objective.components.map
    if n <= MOST_JUDGED:
        return rows, objective
    if _is_expansion(objective, rows.X):
        objective = _with_landmarks(objective, map, MOST_JUDGED)
    return select_rows(rows, slice(MOST_JUDGED)), objective


def _with_landmarks(objective: Objective, map: FeatureMap, landmarks: int) -> Objective:
    """The objective with the first landmarks alone."""
    few = NystromMap(map.kernel, map.landmarks[:landmarks])
    return replace(objective, components=ScaledComponents(objective.components.scaling, few))


def _with_few_landmarks(objective: Objective) -> Objective:
    """The objective with as many landmarks as are needed to tell one alpha from another."""
    map = objective.components.map
    if map.landmarks is None or map.n_components <= JUDGED_COMPONENTS:
        return objective
    return _with_landmarks(objective, map, JUDGED_COMPONENTS)


def _is_expansion(objective: Objective, X: Any) -> bool:
    """True if the rows are the landmarks, in their order."""
    map = objective.components.map
    if map.landmarks is None or map.n_components != len(X):
        return False
    Z = map.landmarks  # these may have been given, in another order
    given = isinstance(Z, np.ndarray) and Z.dtype.kind != "O"
    return not given or np.array_equal(objective.components.scaling.apply(X), Z)


@dataclass(frozen=True, eq=False)
class _SplitRows:
    """Rows as matrices in float64: features with their 1 last in the solver's coordinates, targets, weights.

    Parameters
    ----------
    F : (n, m + 1);  Y : (n, outputs);  weight : (n,)
    expands : whether the features are the Gram matrix of these very rows
    """

    objective: Objective
    coordinates: Coordinates
    F: F64
    Y: F64
    weight: F64
    expands: bool

    @classmethod
    def of(cls, objective: Objective, coordinates: Coordinates, rows: Block) -> "_SplitRows":
        X, Y, weight = objective.rows(rows, RowSlice.whole(len(rows.X)))
        w = np.ones(len(X)) if weight is None else weight[:, 0].astype(np.float64)
        F = _features(objective, coordinates, X)
        check_finite(objective.components.map.kernel, "features", F.sum())
        return cls(objective, coordinates, F, Y.astype(np.float64), w, _is_expansion(objective, X))

    def halves(self, out: NDArray[np.bool_]) -> tuple["_SplitRows", tuple[F64, F64, F64]]:
        """Split into the rows that are kept, and features, targets and weights of the rows that are left out.

        Their columns are in float64 too, as those by which a model scores.
        """
        F, G = self.F[~out], self.F[out]
        if self.expands:
            columns = np.append(~out, True)
            F, G = F[:, columns], G[:, columns]
        return replace(self, F=F, Y=self.Y[~out], weight=self.weight[~out]), (G, self.Y[out], self.weight[out])

    def optimum(self, alpha: float, tolerance: float, start: F64 | None = None) -> Reached:
        """The minimizer (m + 1, outputs)."""
        loss, w = self.objective.loss, self.weight / self.weight.sum()
        if loss.boxed:
            return self._boxed_optimum(alpha, tolerance, w)
        if self.expands:
            return Newton(np.ascontiguousarray(self.F[:, :-1]), self.Y, w, loss).optimum(alpha, tolerance, start)
        state = minimize(self.F, self.Y, w, loss, alpha, self.coordinates.metric, tolerance, MOST_READINGS, start)
        return Reached(state.v, state.passes, float(state.decrement.max()))

    def _boxed_optimum(self, alpha: float, tolerance: float, w: F64) -> Reached:
        """The optimum for a loss with kinks, on the Gram matrix of the rows."""
        F, M, loss = self.F[:, :-1], self.coordinates.metric, self.objective.loss
        if self.expands:
            return minimize_boxed(np.ascontiguousarray(F), self.Y, w, loss, alpha, tolerance)
        dual = F / M if isinstance(M, float) else np.linalg.solve(M, F.T).T
        K = dual @ F.T
        reached = minimize_boxed(0.5 * (K + K.T), self.Y, w, loss, alpha, tolerance)
        return replace(reached, v=np.concatenate([dual.T @ reached.v[:-1], reached.v[-1:]]))

    def figures(self, S: F64, Y: F64, weight: F64) -> tuple[float, float, float, int]:
        """Sums over some rows of scores S: weighted loss, right answers, weight; and how many they are."""
        loss = float(weight @ self.objective.loss.judging_value(Y, S).sum(axis=1))
        return loss, count_correct(self.objective.targets, Y, S), float(weight.sum()), len(S)


def _features(objective: Objective, coordinates: Coordinates, X: NDArray[Any]) -> F64:
    """The features of raw rows with their 1 last, (n, m + 1)."""
    F = objective.components.with_intercept(X, "float64")
    return F if coordinates.basis is None else np.concatenate([coordinates.reduce(F[:, :-1].T).T, F[:, -1:]], axis=1)
