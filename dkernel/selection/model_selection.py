"""Choice of the kernel, scale, gamma and metric that a recipe leaves open: candidates judged on reservoir rows.

Every candidate is fitted by ridge regression on a few components, landmarks' or drawn ones as the fit's will be, the
whole path of alpha from one Gram matrix, and judged on other rows by the loss that is to be fitted. Many at a small
level, the better ones at a larger one; a grid of gamma goes on where the best is at its end. Then the metric is learned
(metric_learning.py), sums are tried where the kernel is open too, and gamma is looked at once more on as many
components as the budget allows, because a larger map can use a larger gamma. What all that may cost is a share of the
fit's predicted flops, never a time.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.encoding import Encoding
from dkernel.execution.base import Call, Executor
from dkernel.features import Drawing, Scaling, is_complete
from dkernel.features.scaling import SPARSE
from dkernel.kernels import Kernel, Laplacian, Linear
from dkernel.kernels.analysis.gradients import metric_root
from dkernel.linear.losses import Loss
from dkernel.numerics.object_values import number_columns, numbers_of
from dkernel.problem.budget import choice_flops
from dkernel.problem.sizes import LEAST_COMPONENTS
from dkernel.problem.targets import Targets
from dkernel.recipe import Recipe
from dkernel.selection.bandwidth import Gammas, requested
from dkernel.selection.candidates import Candidate, SelectedModel, has, is_next
from dkernel.selection.evaluation import MOMENT_PARTS, Fidelity, FitValidationSplit, evaluate_candidate, moment_of
from dkernel.selection.metric_learning import learnable, with_metric
from dkernel.selection.reasons import Found, Reasons, best_of_each
from dkernel.streaming.survey import SurveyResult

GRID = tuple(2.0**k for k in range(-2, 7))
# The median rule of the L1 distance gives exp(-1) at a typical pair, which is too steep for most data.
LAPLACIAN_GRID = tuple(2.0**k for k in range(-5, 3))
# Times that a grid goes on beyond the best at its end, by two gammas each: to where kernels are linear or 0.
EXTENSIONS = 4
FIRST, SECOND, THIRD, LAST = (
    Fidelity(256, 1024, 1024), Fidelity(512, 4096, 4096), Fidelity(1024, 16_384, 4096), Fidelity(2048, 16_384, 4096),
)  # fmt: skip
FINALISTS = 6  # candidates that the first level leaves
METRIC_ROUNDS = 3  # turns of metric and kernel, each of which is a fit
MOST_TERMS = 3  # terms of a sum; where components are drawn, each has two at least
ENOUGH_JUDGED = 1000  # rows, without which a sum of kernels wins by luck
MOST_L1 = 32  # features: the L1 distance costs several times a product beyond
CLEARLY = 0.98  # share of the loss by which a candidate that is less simple, or costs more a row, must be better
# Where a doubling of the components wins half of what the one before won, all doublings to come win together as much as
# the last one did. Under this share of the loss, a standard error of it added, there are enough; above the second, one
# more doubling cannot show it; above the third none is enough: at 512 landmarks it is 1.04 of kin40k, .37 of letter,
# .08 of california, .02 of magic. Of 10,000 rows of magic .01 takes 2,560 landmarks and twice the work of .015, which
# takes 1,024, for test errors of 12.09 and 11.86 in place of 12.04 and 11.83 %.
ENOUGH, FAR_FROM_ENOUGH, ROUGH = 0.015, 0.04, 0.75


def select_model(
    recipe: Recipe,
    survey: SurveyResult,
    rows: Block,
    targets: Targets,
    loss: Loss,
    components: int,
    flops: float,
    executor: Executor,
    key: str,
    drawing: Drawing | None = None,
    encoding: Encoding | None = None,
) -> SelectedModel:
    """Kernel and scaling with every "auto", "median" and "scale" replaced.

    Parameters
    ----------
    rows : of the reservoir, in the order of hashes
    components, flops : D of the fit to come, and the predicted work of the rest of it
    drawing : of the fit's map, None for landmarks; of several kernels those without such a map are left out
    encoding : what makes the inputs of the columns of a table; a category is one column, and keeps its unit
    """
    search = _Search(recipe, survey, rows, targets, loss, components, flops, executor, key, drawing, encoding)
    candidates = search.candidates()
    if len(candidates) == 1 and search.metric_of(candidates[0]) == "identity":
        return SelectedModel(candidates[0].kernel, candidates[0].scaling, {})
    with search:
        return search.run(candidates)


class _Search:
    """One choice: the rows that it is made on, and the levels of looking at candidates."""

    def __init__(
        self, recipe: Recipe, survey: SurveyResult, rows: Block, targets: Targets, loss: Loss, components: int,
        flops: float, executor: Executor, key: str, drawing: Drawing | None, encoding: Encoding | None,
    ) -> None:  # fmt: skip
        self.recipe, self.survey, self.rows, self.targets, self.loss = recipe, survey, rows, targets, loss
        # An exact map is its kernel, as landmarks have it, and has the components that it has.
        self.drawing = None if drawing is None or is_complete(drawing.features) else drawing
        # A term of an L1 distance costs what thirty of a product do: of many features it is taken when it is named.
        kernels = recipe.kernels
        if drawing is not None and len(kernels) > 1:
            kernels = tuple(kernel for kernel in kernels if drawing.suits(kernel)) or kernels[:1]
        # Few one-hot inputs are at work in a row, so the columns that they encode are counted.
        p = rows.X.shape[1] if encoding is None else len(encoding.columns)
        several = len(kernels) > 1 and p > MOST_L1
        self.families = [k for k in kernels if not (several and isinstance(k, Laplacian))]
        self.components, self.executor, self.key = components, executor, key
        self.unscaled = None if encoding is None else encoding.unscaled
        self.sparse = survey.largest is not None
        self.p = len(rows.X.data) // max(1, len(rows.X)) if self.sparse else rows.X.shape[1]
        self.budget = choice_flops(recipe, flops)
        self.spent, self.calls = 0.0, 0
        self.seen: list[Candidate] = []  # all that were judged
        self.known: dict[tuple[Candidate, Fidelity, bool], Found] = {}
        self.levels: list[list[Found]] = []  # each level was judged together
        # id of a family -> losses without a metric, and after each round of learning; and the components of these
        self.rounds: dict[int, tuple[list[float], int]] = {}

    @cached_property
    def half(self) -> FitValidationSplit:
        """Rows to fit and to judge on: with labels, which rows have where there is something to judge."""
        return FitValidationSplit.of(self.rows, LAST)

    def __enter__(self) -> None:
        self.held = self.executor.keep(self.half, f"{self.key}-reservoir")

    def __exit__(self, *error: object) -> None:
        self.executor.release([self.held])

    def candidates(self) -> list[Candidate]:
        """Every family, scale and gamma that is open."""
        kinds: tuple[str, ...] = ("standard", "global") if self.recipe.scale == "auto" else (self.recipe.scale,)
        if self.rows.X.dtype.kind == "O" and self.recipe.scale == "auto":
            # Columns that have a kernel each share no unit; and where nothing is a number nothing is scaled.
            kinds = ("standard",) if number_columns(self.rows.X) else ("none",)
        if self.sparse and self.recipe.scale == "auto":
            kinds = SPARSE
        factors = [self._scaling(kind).factor for kind in kinds]
        if self.recipe.constant_map or np.allclose(factors[0], factors[-1], rtol=1e-3):  # data that were scaled before
            kinds = kinds[:1]
        return [
            candidate
            for family in self.families
            for kind in kinds
            for candidate in self._bound(family, self._scaling(kind, family.shift_invariant), self._grid(family))
        ]

    def _grid(self, family: Kernel) -> tuple[float, ...]:
        if "auto" not in {requested(self.recipe, word) for word in family.placeholders}:
            return (1.0,)
        return LAPLACIAN_GRID if isinstance(family, Laplacian) else GRID

    def _bound(self, family: Kernel, scaling: Scaling, factors: Sequence[float], **of: Any) -> list[Candidate]:
        scaled = scaling.apply(self.rows.X[:1000], "float64" if self.rows.X.dtype == np.float64 else "float32")
        rows = (scaled if self.sparse else numbers_of(scaled)).astype(np.float64)
        rule = Gammas(self.recipe, self.survey, scaling, rows)
        if len(self._grid(family)) == 1:
            factors = (1.0,)
        return [Candidate(family, family.bind(partial(rule.gamma, f)), scaling, f, **of) for f in factors]

    def again(self, found: Candidate, factors: Sequence[float]) -> list[Candidate]:
        """A candidate with these multiples of its gamma."""
        several = [found.factor * f for f in factors]
        return self._bound(found.family, found.scaling, several, metric=found.metric, weights=found.weights)

    def metric_of(self, candidate: Candidate) -> str:
        """Metric to learn for a candidate's kernel, "identity" for none."""
        asked_for = self.recipe.metric
        if asked_for != "auto":
            return asked_for
        open_gamma = len(self._grid(candidate.family)) > 1
        of_numbers = self.rows.X.dtype.kind != "O" and not self.sparse
        return learnable(candidate.family, self.p) if open_gamma and of_numbers else "identity"

    def run(self, candidates: list[Candidate]) -> SelectedModel:
        """The levels, one after the other."""
        finalists = self._finalists(candidates)
        found = self._learned(finalists)
        drawn_apart = self.drawing is None or self.components >= 2 * MOST_TERMS
        if len(self.families) > 1 and len(self.half.X_judged) >= ENOUGH_JUDGED and drawn_apart:
            found = self._stacked(found)
        best, judged = self._linear(self._last(found, len(candidates)))
        reasons = Reasons(best, self.families, candidates, self.levels, f"{len(self.half.X_judged):,} other rows")
        why = reasons.said(*self.rounds.get(id(best.family), ([], 0)), judged.loss, len(self._grid(best.family)) > 1)
        enough, rough = self._enough(best)
        return SelectedModel(best.kernel, best.scaling, why, best.metric, best.weights, enough, rough, judged.alpha)

    def judged(self, candidates: Sequence[Candidate], level: Fidelity, drawn: bool = True) -> list[Found]:
        """The candidates with their losses, the best first; unless `drawn`, all are judged on landmarks."""
        level = level.within(self.components, self.half)
        self.calls += 1
        self.seen += candidates
        drawing = self.drawing if drawn else None
        new = [c for c in candidates if (c, level, drawn) not in self.known]
        self.spent += sum(level.flops(c.family, self.p, drawing is not None) for c in new)
        threads = self.executor.threads_each(max(1, len(new)))
        rest = self.held, self.loss, self.targets, level, threads, drawing
        calls = [
            Call(
                f"{self.key}-{self.calls}-{i}",
                evaluate_candidate,
                (c.kernel, c.scaling, *rest, c.plain, self._near(c)),
            )
            for i, c in enumerate(new)
        ]
        for each in zip(new, self.executor.compute(calls)[0], strict=True):
            self.known[each[0], level, drawn] = each
        found = [self.known[c, level, drawn] for c in candidates]
        self.levels.append(sorted(found, key=lambda each: each[1].loss))
        return self.levels[-1]

    def _near(self, candidate: Candidate) -> float | None:
        """The best alpha of its family so far."""
        known = [loss for c, loss in self.known.values() if c.family is candidate.family]
        return min(known, key=lambda each: each.loss).alpha if known else None

    def _finalists(self, candidates: list[Candidate]) -> list[Found]:
        """The best of each family, the best family first."""
        if len(candidates) > 2:
            first = self._extended(self.judged(candidates, FIRST), FIRST)
            candidates += [c for c, _ in first if c not in candidates]
            if len({level.within(self.components, self.half) for level in (FIRST, SECOND)}) == 1:  # all rows were used
                return best_of_each(first)
            kept = [candidate for candidate, _ in first[:FINALISTS]]
            for family in self.families:
                kept += [c for c, _ in first if c.family is family and c not in kept][: 0 if has(kept, family) else 2]
            # At more components the next larger gamma may be better.
            for family in self.families:
                best = next(c for c, _ in first if c.family is family)
                kept += [c for c in candidates if is_next(c, best) and c not in kept]
            candidates = kept
            if self._affordable(SECOND, [c.family for c in kept], FIRST.components).components == FIRST.components:
                return best_of_each(first)
        return best_of_each(self._extended(self.judged(candidates, SECOND), SECOND))

    def _extended(self, found: list[Found], level: Fidelity) -> list[Found]:
        """The candidates with more gammas of each family whose best is at an end of all that were judged so far.

        A smaller gamma wants a smaller alpha, so the grid does not go on downwards where the alpha is given.
        """
        for family in self.families:
            for _ in range(EXTENSIONS if len(self._grid(family)) > 1 else 0):
                best, judged = next(each for each in found if each[0].family is family)
                tried = [c.factor for c in self.seen if (c.family, c.scaling) == (best.family, best.scaling)]
                lowest = best.factor == min(tried)
                if (lowest and self.recipe.alpha != "auto") or min(tried) < best.factor < max(tried):
                    break
                more = self.judged(self.again(best, (0.5, 0.25) if lowest else (2.0, 4.0)), level)
                found = sorted([*found, *more], key=lambda each: each[1].loss)
                if more[0][1].loss > CLEARLY * judged.loss:
                    break
        return found

    def _learned(self, finalists: list[Found]) -> list[Found]:
        """Each family's best with and without a learned metric, judged alike."""
        level = self._affordable(THIRD, [each[0].family for each in finalists for _ in range(6)])
        found: list[Found] = []
        for candidate, judged in finalists[:2]:
            if judged.loss * CLEARLY * CLEARLY > finalists[0][1].loss / CLEARLY and found:
                continue
            found.append(self._metric(candidate, level))
        return sorted(found, key=lambda each: each[1].loss / (1.0 if each[0].family is found[0][0].family else CLEARLY))

    def _metric(self, start: Candidate, level: Fidelity) -> Found:
        """The best of some rounds of fitting and learning; the start itself where the metric is no help."""
        kind = self.metric_of(start)
        before = self.judged([start], level)[0]
        if kind == "identity":
            return before
        now, learned, losses = before, [], [before[1].loss]
        for turn in range(METRIC_ROUNDS):
            now = self.judged(
                self.again(self._moved(now, level, kind), (0.5, 1.0, 2.0) if turn == 0 else (1.0,)), level
            )[0]
            learned.append(now)
            losses.append(now[1].loss)
            if now[1].loss > 0.995 * losses[-2]:
                break
        best = min(learned, key=lambda each: each[1].loss)
        self.rounds[id(start.family)] = losses, level.within(self.components, self.half).components
        better = best[1].loss <= CLEARLY * before[1].loss
        return best if better or self.recipe.metric != "auto" else before

    def _moved(self, found: Found, level: Fidelity, kind: str) -> Candidate:
        """The candidate in the metric that its fitted function says."""
        if self.drawing is not None:  # the moment is that of an expansion in landmarks
            found = self.judged([found[0]], level, drawn=False)[0]
        candidate, judged = found
        level = level.within(self.components, self.half)
        X = self.half.X[: level.rows]
        calls = [
            Call(
                f"{self.key}-moment-{self.calls}-{part}",
                moment_of,
                (candidate.kernel, candidate.scaling, self.held, judged.coef, level, self.recipe.seed, part),
            )
            for part in range(MOMENT_PARTS)
        ]
        moment = sum(self.executor.compute(calls)[0])
        base = self._scaling(candidate.scaling.kind, candidate.family.shift_invariant)
        # Gradients are of the scaled rows as they are now; the metric is one of the rows before it.
        now = candidate.scaling.rotation if kind == "full" else np.diag(candidate.scaling.factor / base.factor)
        if now is not None:
            moment = now @ moment @ now.T
        root = metric_root(moment, kind == "diagonal")
        weights = np.diag(moment) / max(float(np.trace(moment)), 1e-300)
        return replace(candidate, scaling=with_metric(base, root, X, kind == "diagonal"), metric=kind, weights=weights)

    def _scaling(self, kind: str, free: bool = False) -> Scaling:
        if self.survey.largest is not None:
            return Scaling.of_sparse(kind, self.survey.largest)
        found, rounding = self.survey, 1e-14 if self.rows.X.dtype == np.float64 else 1e-7
        moments = found.moments
        return Scaling.of(
            kind, moments.mean, moments.variance, found.low, found.high, free=free, rounding=rounding,
            unscaled=self.unscaled,
        )  # fmt: skip

    def _stacked(self, found: list[Found]) -> list[Found]:
        """The best, and sums of it with up to two other kernels where they are clearly better."""
        best = found[0]
        level = self._affordable(THIRD, [each[0].family for each in found[:2] for _ in range(4)])
        for _ in range(MOST_TERMS - 1):
            sums = self.judged(self._sums(best[0], found), level)
            if not sums or sums[0][1].loss > CLEARLY * best[1].loss:
                break
            best = sums[0]
        return [best, *found[1:]] if best[0] is not found[0][0] else found

    def _sums(self, best: Candidate, found: list[Found]) -> list[Candidate]:
        """`best` with a share of another family, or of its own at another length, in the same metric."""
        others = [
            self._bound(c.family, best.scaling, (c.factor,))[0].kernel for c, _ in found if c.family is not best.family
        ]
        others += [c.kernel for c in self.again(replace(best, family=found[0][0].family), (1 / 16, 16.0))]
        text = repr(best.kernel)
        sums = [(1 - w) * best.kernel + w * other for other in others if repr(other) not in text for w in (0.25, 0.5)]
        return [replace(best, kernel=kernel) for kernel in sums]

    def _last(self, found: list[Found], tried: int) -> Found:
        """The best once more on more components, at its gamma and the next."""
        best = found[0]
        # Fewer landmarks than features cannot tell how smooth a function of all of them is.
        many = self.p > SECOND.components
        factors: Sequence[float] = (1.0, 2.0, 0.25) if many else (1.0, 2.0)
        level = LAST.within(self.components, self.half) if many else LAST
        level = self._affordable(level, [best[0].family] * len(factors))
        if tried == 1 or level.within(self.components, self.half).components <= SECOND.components:
            return best
        if best[0].kernel != self.again(best[0], (1.0,))[0].kernel:  # a sum: its gammas are what they are
            return best
        last = self.judged(self.again(best[0], factors), level)[0]
        for _ in range(EXTENSIONS if last[0].factor < best[0].factor else 0):
            wider = self.judged(self.again(last[0], (0.25,)), level)[0]
            if not wider[1].loss < last[1].loss:
                break
            last = wider
        return last

    def _linear(self, found: Found) -> Found:
        """The linear kernel, where it is clearly better than the best of the others: many features are learned so."""
        recipe, best = self.recipe, found[0]
        is_open = recipe.kernel == recipe.gamma == "auto" and recipe.metric in ("auto", "identity")
        if not is_open or self.drawing is not None or self.rows.X.dtype.kind == "O" or self.sparse:
            return found
        candidate = self._bound(Linear(), self._scaling(best.scaling.kind), (1.0,), plain=True)[0]
        level = LAST if self.p > SECOND.components else SECOND
        if not self.judged([candidate], level)[0][1].loss < CLEARLY * found[1].loss:
            return found
        both = self.judged([best, candidate], self._affordable(LAST, [best.family]))  # on the same rows
        other, linear = sorted(both, key=lambda each: each[0] is candidate)
        return linear if linear[1].loss < CLEARLY * other[1].loss else found

    def _enough(self, best: Candidate) -> tuple[int | None, bool]:
        """Landmarks beyond which there is little to gain, as far as few can tell; and whether no number is enough."""
        if best.plain and 2 * self.p <= LEAST_COMPONENTS:
            return 2 * self.p, False  # half of them are all features
        if self.drawing is not None or len(self.half.X_judged) < ENOUGH_JUDGED:
            return None, False
        for components in (SECOND.components, THIRD.components, LAST.components):
            level = replace(LAST, components=components, halved=True)
            if 2 * level.within(self.components, self.half).components > self.components:
                break
            judged = self.judged([best], level)[0][1]
            if judged.gain + judged.error < ENOUGH * judged.loss:
                return components, False
            if not judged.gain < FAR_FROM_ENOUGH * judged.loss:
                return None, ROUGH * judged.loss < judged.gain - judged.error < np.inf
        return None, False

    def _affordable(self, level: Fidelity, families: Sequence[Kernel], least: int = SECOND.components) -> Fidelity:
        """The level, halved down to `least` components until fits of these kernels are within the budget."""
        drawn, left = self.drawing is not None, self.budget - self.spent
        while level.components > least and sum(level.flops(f, self.p, drawn) for f in families) > left:
            level = replace(level, components=level.components // 2, rows=max(level.rows // 2, 2048))
        return level
