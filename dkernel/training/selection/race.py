"""The race of the ways to fit a machine: those that are not fitted in any case are tried on samples of the rows.

A way is a global stage (components of a kernel, or none) and a local one on its residual (grids, cells, or none). A
trial fits grids, components and grids behind components to all rows, where these are few enough, and the holdout
decides. Any other way, and of more rows any but grids alone, is fitted too where it is better than these on a sample
and, of few rows, by its learning curve, extended to all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dkernel.losses.metrics import is_better
from dkernel.numerics.array_types import F64
from dkernel.streaming.execution.base import Call
from dkernel.training.selection.candidates import Candidate
from dkernel.training.selection.descent import SettingIndex
from dkernel.training.selection.evaluation import Fidelity, FitValidationSplit, StageScores, candidate_scores
from dkernel.training.selection.judge import Judge
from dkernel.training.selection.local_stage import Stage, constant_scores
from dkernel.training.selection.ways import GRIDS_ALONE, Way

MOST_RACE_ROWS = 4096  # rows of the largest sample; the curve predicts the loss with more rows
FEW_RACE_ROWS, FEW_RACE_COMPONENTS = 1024, 256  # a fit to so few rows has so many components
NO_LOSS = 1e-300  # stands for a mean loss of 0, which has no logarithm
STEEPEST = 1.5  # largest power of the rows with which a loss falls: noise on few rows gives larger ones


@dataclass(eq=False)
class Race:
    """The state of a race.

    Parameters
    ----------
    judge : judge with the rows and the executor
    n : number of rows of the fit
    ways : ways that are left, besides those that are tried
    tried : ways that are fitted to all rows in any case
    stages : word -> local stage of these ways
    prepared : word of a local stage -> data that it learns from beside the rows
    reached : loss of grids alone on the holdout, infinite if they are not fitted or gain nothing
    kernel : kernel of the ways with components
    curves : way -> rows of a sample -> losses of the validation rows after a fit to it
    findings : settings of the local stage of each way that was judged, from which a search goes on
    learned : word of a local stage -> data that its fits share, once these are learned
    """

    judge: Judge
    n: int
    ways: list[Way]
    tried: Sequence[Way] = ()
    stages: Mapping[str, Stage] = field(default_factory=dict)
    prepared: Mapping[str, Any] = field(default_factory=dict)
    reached: float = np.inf
    kernel: Candidate | None = None
    curves: dict[Way, dict[int, F64]] = field(default_factory=dict)
    findings: dict[Way, SettingIndex | None] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)

    def ways_to_fit(self) -> tuple[Way, ...]:
        """Return the ways that are tried, and the best of those that are left with those that share its components."""
        best = min(self.ways, key=self.predict, default=None)
        shared = [way for way in self.ways if best is not None and self.global_stage(way) == self.global_stage(best)]
        return (*(way for way in self.tried if way != GRIDS_ALONE), *shared)

    def global_stage(self, way: Way) -> tuple[str, bool]:
        """Return the features of a way, and whether few of them are enough: ways with the same share a fit of these."""
        return way.features, way.local in self.stages and self.stages[way.local].learns_rest

    @property
    def is_open(self) -> bool:
        """True if there are ways to choose from."""
        return len(self.ways) > (not self.tried)

    @property
    def has_kernel(self) -> bool:
        """True while a way with components is left."""
        return any(way.features == "kernel" for way in (*self.tried, *self.ways))

    def drop_beaten(self) -> None:
        """Keep the ways that are better than those of the trial on the largest sample, and by their curves.

        A prediction is too small if some labels are wrong, so it is compared also with what grids have reached.
        """
        if self.tried:
            predicted = [self.predict(way) for way in self.compared if way != GRIDS_ALONE]
            least = min([np.log(max(self.reached, NO_LOSS)), *predicted])
            self.ways = [way for way in self.ways if self._leads(way) and self.predict(way) < least]

    @property
    def compared(self) -> Sequence[Way]:
        """The ways of the trial that the others are compared with: components, or grids where these alone are tried."""
        return [way for way in self.tried if way.local == "none"] or self.tried

    def _leads(self, way: Way) -> bool:
        most, weight = self.sample_sizes()[-1], self.judge.split.weight_judged
        return all(is_better(self.curves[way][most], self.curves[other][most], weight) for other in self.compared)

    def explain(self) -> str:
        """Explain the result of the race."""
        fitted = [*(way for way in self.tried if way == GRIDS_ALONE), *self.ways_to_fit()]
        said = " or ".join(way.text for way in fitted)
        if not self.curves:
            return said
        rows = self.sample_sizes()[-1]
        losses = {way.text: self._mean_loss(way, rows) for way in self.curves if rows in self.curves[way]}
        listed = ", ".join(
            f"{losses[text] if losses[text] > NO_LOSS else 0:.4g} of {text}"
            for text in sorted(losses, key=losses.__getitem__)
        )
        return f"{said}; losses after {rows:,} rows {listed}"

    def sample_sizes(self) -> list[int]:
        """Return the rows of the two samples that the ways are fitted to; of a single row there is one."""
        most = min(MOST_RACE_ROWS, len(self.judge.split.X))
        return [rows for rows in (most // 2, most) if rows]

    def components(self, rows: int) -> int:
        """Return the components of a fit to `rows` rows, a power of the rows from few rows to the whole fit."""
        most, first = self.judge.components, FEW_RACE_COMPONENTS
        path = np.log(max(most / first, 1)) / np.log(max(self.n / FEW_RACE_ROWS, 2))
        return max(1, int(min(most, rows, first * (rows / FEW_RACE_ROWS) ** path)))

    def race(self, kernel: Candidate) -> None:
        """Fit the ways to the samples with this kernel, and drop those that are beaten."""
        self.kernel = kernel
        self.curves = {way: curve for way, curve in self.curves.items() if way.features != "kernel"}
        for rows in self.sample_sizes():
            self._judge_ways([*self.compared, *self.ways], rows)
        self.drop_beaten()

    def _judge_ways(self, ways: Sequence[Way], rows: int) -> None:
        """Add a point to the curve of each way that has none for these rows, after a fit to them."""
        ways = [way for way in ways if rows not in self.curves.get(way, ())]
        self._learn(ways)
        starts = self._starts(ways, rows)
        calls = [self._call(way, rows, starts[way.features]) for way in ways]
        trials = self.judge.executor.compute(calls)[0]
        self.judge.tell(ways=len(ways), sample=rows)
        for way, (losses, setting) in zip(ways, trials, strict=True):
            self.findings[way] = setting
            self.curves.setdefault(way, {})[rows] = losses

    def predict(self, way: Way) -> float:
        """Predict the logarithm of the loss of a way with all rows, by the line through its last two points."""
        rows = sorted(self.curves.get(way, ()))
        if not rows:  # nothing was raced
            return 0.0
        x, y = np.log(rows), np.log([self._mean_loss(way, r) for r in rows])
        slope = float(np.clip((y[-1] - y[-2]) / (x[-1] - x[-2]), -STEEPEST, 0.0)) if len(rows) > 1 else 0.0
        return float(y[-1] + slope * max(0.0, float(np.log(self.n)) - x[-1]))

    def _mean_loss(self, way: Way, rows: int) -> float:
        """Return the mean loss of a way after a fit to `rows` rows; above 0, so that it has a logarithm."""
        return max(float(np.average(self.curves[way][rows], weights=self.judge.split.weight_judged)), NO_LOSS)

    def _learn(self, ways: Sequence[Way]) -> None:
        """Learn the data that the fits of the local stages of these ways share."""
        names = sorted({way.local for way in ways} & (self.stages.keys() - self.learned.keys()))
        # One of the two takes three times as long as the other, so each may use all threads.
        split, threads = self.judge.handle, self.judge.executor.threads_each(1)
        calls = [
            Call(f"{self.judge.key}-{name}", self.stages[name].learn, (split, self.prepared[name], threads))
            for name in names
        ]
        self.learned |= dict(zip(names, self.judge.executor.compute(calls)[0], strict=True))

    def _starts(self, ways: Sequence[Way], rows: int) -> dict[str, StageScores]:
        """Fit the global stages of these ways to a sample; return their scores."""
        judge, features = self.judge, {way.features for way in ways}
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
