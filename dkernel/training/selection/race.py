"""The race of the ways to fit a machine: each is fitted to growing samples, and its learning curve predicts its loss.

A way is a global stage (components of a kernel, or none) and a local one on its residual (grids, cells, or none). All
ways learn from the same rows and are judged on the same other rows. A way drops out if its curve, extrapolated to
all rows, is clearly above that of the best way. The fit takes one or two of the ways that are left. With many rows,
grids alone are fitted before the race, and only ways with a smaller predicted loss are left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dkernel.losses.metrics import paired_difference
from dkernel.numerics.array_types import F64
from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.streaming.execution.base import Call
from dkernel.training.selection.candidates import Candidate
from dkernel.training.selection.descent import SettingIndex
from dkernel.training.selection.evaluation import Fidelity, FitValidationSplit, StageScores, candidate_scores
from dkernel.training.selection.judge import Judge
from dkernel.training.selection.local_stage import Stage, constant_scores
from dkernel.training.selection.ways import GRIDS_ALONE, Way

MOST_RACE_ROWS = 4096  # rows of the largest sample; the curve predicts the loss with more rows
FEW_RACE_ROWS, FEW_RACE_COMPONENTS = 1024, 256  # a fit to so few rows has so many components
MUCH_CHEAPER = 0.5  # most share of the cost of another way
DRIFT = 0.02  # the difference of two curves may bend by this for each unit of the logarithm of the rows, as measured
NO_LOSS = 1e-300  # stands for a mean loss of 0, which has no logarithm
STEEPEST = 1.5  # largest power of the rows with which a loss falls: noise on few rows gives larger ones


@dataclass(eq=False)
class Race:
    """The state of a race.

    Parameters
    ----------
    judge : judge with the rows and the executor
    n : number of rows of the fit
    effort : "low", "normal" or "high"
    costs : predicted core seconds of each way that may be taken; those of one global stage share it
    stages : word -> local stage of these ways
    prepared : word of a local stage -> data that it learns from beside the rows
    reached : loss on the holdout of grids alone if they are fitted already, else infinite
    kernel : kernel of the ways with components
    ways : ways that are left; at first all that have a cost
    curves : way -> rows of a sample -> losses of the validation rows after a fit to it
    findings : settings of the local stage of each way that was judged, from which a search goes on
    learned : word of a local stage -> data that its fits share, once these are learned
    """

    judge: Judge
    n: int
    effort: str
    costs: Mapping[Way, float]
    stages: Mapping[str, Stage] = field(default_factory=dict)
    prepared: Mapping[str, Any] = field(default_factory=dict)
    reached: float = np.inf
    kernel: Candidate | None = None
    ways: list[Way] = field(init=False)
    curves: dict[Way, dict[int, F64]] = field(default_factory=dict)
    findings: dict[Way, SettingIndex | None] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ways = list(self.costs)

    def ways_to_fit(self) -> tuple[Way, ...]:
        """Return the best of the ways that are left, and the next one if the fit of both is cheap.

        The second fit may add half of the cost of the first. A way that is much cheaper than the best is taken alone. A
        low effort takes the cheapest way, a high one all.
        """
        if self.effort == "high" or not self.ways:
            return tuple(self.ways)
        best = min(self.ways, key=self.predict)
        cheapest = min(self.ways, key=self.costs.__getitem__)
        enough = MUCH_CHEAPER * self.costs[best]
        if self.effort == "low" or self.costs[cheapest] <= enough:
            # The holdout says whether a local stage gains anything, without another fit of its global stage.
            return (best,) if cheapest == Way() and best.features == "kernel" else (cheapest,)
        others = [way for way in self.ways if way != best and self.added_seconds(way, best) <= enough]
        return (best, *sorted(others, key=self.predict)[:1])

    def fallback(self, components: int) -> Way | None:
        """Return the way to fit if no local stage gains anything: the best with another local stage, or components.

        The race has not judged a constant without grids or cells, or the few components before cells.

        Parameters
        ----------
        components : number of components of a fit of components alone
        """
        fitted = self.ways_to_fit()
        if any(way.features == "kernel" and not self._learns_rest(way) for way in fitted):
            return None
        tried = {way.local for way in (*fitted, *[GRIDS_ALONE] * (self.reached < np.inf))}
        if components <= LEAST_COMPONENTS and any(way.features == "kernel" for way in fitted):
            tried.add("none")
        ways = [way for way in self.curves if way.features != "kernel" or self.has_kernel]
        return min((way for way in ways if way.local not in tried), key=self.predict, default=None)

    def _learns_rest(self, way: Way) -> bool:
        return way.local in self.stages and self.stages[way.local].learns_rest

    def added_seconds(self, way: Way, first: Way) -> float:
        """Return the seconds that a way costs beside another one, whose global stage it may share."""
        alike = self._learns_rest(way) == self._learns_rest(first)  # else their numbers of components differ
        share = way.features == first.features == "kernel" and Way() in self.costs and alike
        return self.costs[way] - (self.costs[Way()] if share else 0.0)

    def drop_beaten(self, margin: float) -> None:
        """If grids alone are fitted, keep the ways that beat them on a sample and have a smaller predicted loss.

        A prediction for many rows is too small if some labels are wrong, and those of two ways have the same error.

        Parameters
        ----------
        margin : share of the loss by which a way may be above it, since its kernel may improve
        """
        if self.reached < np.inf:
            self.ways = [way for way in self.ways if way != GRIDS_ALONE and self._beats_grids(way, margin)]

    def _beats_grids(self, way: Way, margin: float) -> bool:
        lead, error = self._lead(way, GRIDS_ALONE)
        return bool(lead > error and self.predict(way) < np.log(max(self.reached, NO_LOSS)) + np.log1p(margin))

    def explain(self) -> str:
        """Explain the result of the race."""
        ways = sorted(self.curves, key=self.predict)
        taken = (*[GRIDS_ALONE] * (self.reached < np.inf), *self.ways_to_fit())
        perfect = {way for way in ways if self._is_perfect(way)}
        losses = ", ".join(f"{way.text} {0 if way in perfect else np.exp(self.predict(way)):.4g}" for way in ways)
        parts = [f"{' or '.join(way.text for way in taken)}; losses predicted for {self.n:,.0f} rows: {losses}"]
        if Way() in self.curves and Way() not in perfect:
            judged = [way for way in taken if way.local != "none" and way in self.curves]
            parts += [f"{way.local}: {self._gain(way)}" for way in judged]
        return "; ".join(parts)

    def _gain(self, way: Way) -> str:
        """Describe the predicted gain of a way over components."""
        gain = 1 - np.exp(self.predict(way) - self.predict(Way()))
        return f"a predicted {abs(gain):.0%} {'less' if gain > 0 else 'more'} loss than {Way().text}"

    @property
    def has_kernel(self) -> bool:
        """True while a way with components is left."""
        return any(way.features == "kernel" for way in self.ways)

    def sample_sizes(self) -> list[int]:
        """Return the rows of the two samples that the ways are fitted to; of a single row there is one."""
        most = min(MOST_RACE_ROWS, len(self.judge.split.X))
        return [rows for rows in (most // 2, most) if rows]

    def components(self, rows: int) -> int:
        """Return the components of a fit to `rows` rows, a power of the rows from few rows to the whole fit."""
        most, first = self.judge.components, FEW_RACE_COMPONENTS
        path = np.log(max(most / first, 1)) / np.log(max(self.n / FEW_RACE_ROWS, 2))
        return max(1, int(min(most, rows, first * (rows / FEW_RACE_ROWS) ** path)))

    def forget_kernel(self) -> None:
        """Forget the curves of ways with components, which belong to another kernel."""
        self.curves = {way: curve for way, curve in self.curves.items() if way.features != "kernel"}

    def _lead(self, way: Way, rival: Way) -> tuple[float, float]:
        """Return by how much the loss of a way is smaller on the largest sample of both, and the standard error."""
        one, other = self.curves[way], self.curves[rival]
        rows = max(one.keys() & other.keys())
        return paired_difference(other[rows], one[rows], self.judge.split.weight_judged)

    def judge_ways(self, rows: int) -> None:
        """Add a point to the curve of each way that is left, after a fit to `rows` rows."""
        self._learn()
        starts = self._starts(rows)
        calls = [self._call(way, rows, starts[way.features]) for way in self.ways]
        trials = self.judge.executor.compute(calls)[0]
        self.judge.tell(ways=len(self.ways), sample=rows)
        for way, (losses, setting) in zip(self.ways, trials, strict=True):
            self.findings[way] = setting
            self.curves.setdefault(way, {})[rows] = losses

    def drop_losers(self, margin: float) -> None:
        """Drop the ways that the best one beats by more than a share of its loss and the uncertainty.

        Parameters
        ----------
        margin : share of the loss
        """
        predicted = {way: self.predict(way) for way in self.ways}
        best = min(self.ways, key=predicted.__getitem__)
        most = predicted[best] + np.log1p(margin)
        self.ways = [way for way in self.ways if predicted[way] <= most + self.uncertainty(way, best)]

    def predict(self, way: Way) -> float:
        """Predict the logarithm of the loss of a way with all rows, by the line through its last two points."""
        rows = sorted(self.curves[way])
        x, y = np.log(rows), np.log([self._mean_loss(way, r) for r in rows])
        falls = len(rows) > 1 and not self._is_perfect(way)
        slope = float(np.clip((y[-1] - y[-2]) / (x[-1] - x[-2]), -STEEPEST, 0.0)) if falls else 0.0
        return float(y[-1] + slope * max(0.0, float(np.log(self.n)) - x[-1]))

    def _mean_loss(self, way: Way, rows: int) -> float:
        """Return the mean loss of a way after a fit to `rows` rows; above 0, so that it has a logarithm."""
        return max(float(np.average(self.curves[way][rows], weights=self.judge.split.weight_judged)), NO_LOSS)

    def _is_perfect(self, way: Way) -> bool:
        """True if a way leaves no loss on its largest sample: nothing is known of its ratio to another one."""
        return self._mean_loss(way, max(self.curves[way])) == NO_LOSS

    def uncertainty(self, way: Way, best: Way) -> float:
        """Return the standard error of the difference of two predicted logarithms.

        It has two parts: the error of both mean losses, over the rows that judge, and DRIFT for each unit of the
        logarithm of the rows beyond the largest sample. It is infinite beside a loss of 0.
        """
        if way == best:
            return 0.0
        if self._is_perfect(way) or self._is_perfect(best):
            return np.inf
        rows = max(self.curves[way].keys() & self.curves[best].keys())
        one, other = (self.curves[each][rows] / self._mean_loss(each, rows) for each in (way, best))
        _, error = paired_difference(one, other, self.judge.split.weight_judged)
        return float(np.hypot(error, DRIFT * max(0.0, np.log(self.n / rows))))

    def _learn(self) -> None:
        """Learn the data that the fits of a local stage share, if a way that is left has this stage."""
        names = sorted({way.local for way in self.ways} & (self.stages.keys() - self.learned.keys()))
        # One of the two takes three times as long as the other, so each may use all threads.
        split, threads = self.judge.handle, self.judge.executor.threads_each(1)
        calls = [
            Call(f"{self.judge.key}-{name}", self.stages[name].learn, (split, self.prepared[name], threads))
            for name in names
        ]
        self.learned |= dict(zip(names, self.judge.executor.compute(calls)[0], strict=True))

    def _starts(self, rows: int) -> dict[str, StageScores]:
        """Fit the global stages of the ways that are left to a sample; return their scores."""
        judge, features = self.judge, {way.features for way in self.ways}
        fidelity = judge.within(Fidelity(self.components(rows), rows, len(judge.split.X_judged)))
        calls = {}
        if "kernel" in features:
            assert self.kernel is not None
            candidate, result = judge.trials([self.kernel], fidelity)[0]
            args = candidate.kernel, candidate.scaling, judge.handle, result, fidelity, judge.drawing, candidate.plain
            calls["kernel"] = Call(f"{judge.key}-kernel-scores-{judge.calls}", candidate_scores, args)
        if "none" in features:
            calls["none"] = Call(f"{judge.key}-none-scores-{rows}", constant_scores, (judge.handle, rows))
        return dict(zip(calls, judge.executor.compute(list(calls.values()))[0], strict=True))

    def _call(self, way: Way, rows: int, start: StageScores) -> Call:
        key = f"{self.judge.key}-{way.features}-{way.local}-{rows}-{self.judge.calls}"
        split = self.judge.handle
        if way.local not in self.stages:
            return Call(key, judge_global, (split, start))
        known = self.learned[way.local], self.findings.get(way)
        return Call(key, self.stages[way.local].try_, (split, rows, start, *known))


def judge_global(split: FitValidationSplit, start: StageScores) -> tuple[F64, None]:
    """Judge a global stage without a local one."""
    return split.losses(start.judged), None
