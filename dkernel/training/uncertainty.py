"""Probabilities and conformity scores of a model, from rows that it scored and had not learned.

These are the rows that its fit left out. Rows that it learns later are scored before. Where they are as many as tell a
coverage, or more than the older ones, or their scores are of another law than those, they alone say how sure the model
is; else they count beside the older ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import DataError
from dkernel.losses.calibration import Calibration
from dkernel.model.conformal import MOST_SCORES, Conformal
from dkernel.model.local_width import fit_width
from dkernel.model.model import Model
from dkernel.model.recipe import SettledRecipe
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import stream
from dkernel.solvers.driver import SolverResult
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.targets import Targets

LEARNED_LATER = "scored before they were learned"
SIZE_ROWS = 256  # rows that tell how large margins are


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows that a fit left out, or that a model scored before it learned them.

    Parameters
    ----------
    rows : raw rows with their labels
    S : their scores by a fit without them, in the label's unit (n, outputs)
    where : "holdout", "folds" or LEARNED_LATER
    """

    rows: Block
    S: NDArray[np.floating]
    where: str

    @classmethod
    def of(cls, model: Model, problem: FitProblem, outcome: SolverResult) -> "LeftOut | None":
        """Take the rows of the holdout, or of the folds of a solver without one; None if no rows were left out."""
        if len(problem.split.holdout.X):
            return cls(problem.split.holdout, model.scores(problem.split.holdout.X), "holdout")
        folds = build_folds(model, problem.objective.targets, outcome)
        if not folds:
            return None
        # Their rounding is the model's own, which may be most of an error.
        parts = [(select_rows(problem.split.sample, out), fit) for fit, out in folds]
        rows = select_rows(problem.split.sample, np.concatenate([out for _, out in folds]))
        return cls(rows, np.concatenate([fit.scores(part.X) for part, fit in parts]), "folds")

    @classmethod
    def score(cls, model: Model, rows: Block) -> "LeftOut":
        """Score the rows that count among those that a model is to learn."""
        rows = rows if rows.weight is None else select_rows(rows, np.flatnonzero(rows.weight > 0))
        return cls(rows, model.scores(rows.X), LEARNED_LATER)

    def as_large_as_now(self, model: Model) -> "LeftOut":
        """The rows with margins that are as large as those of the model that has learned them.

        Rounds that learn other labels change the size of all margins, and calibration and table are of the model that
        answers. Local machines stay: they fit the rows that they learn, so these have larger margins than others.
        """
        if model.classes is None or model.local is not None:
            return self
        some = np.arange(0, len(self.S), -(-len(self.S) // SIZE_ROWS))
        both = self.S[some], model.scores(self.rows.X[some])
        before, now = (np.sqrt(np.mean(S.astype(np.float64) ** 2, axis=0)) for S in both)
        return replace(self, S=self.S * np.divide(now, before, out=np.ones_like(now), where=before > 0))

    @property
    def weight(self) -> F64:
        """The weight of each row."""
        given = self.rows.weight
        return np.ones(len(self.S)) if given is None else given.astype(np.float64)


def build_folds(model: Model, targets: Targets, outcome: SolverResult) -> list[tuple[Model, NDArray[np.intp]]]:
    """Return the model without each fold, for a solver that keeps no holdout, and the numbers of the fold's rows."""
    if outcome.left_out is None:
        return []
    width, center = targets.width, targets.center
    return [
        (replace(model, coef=v[:-1] * width, intercept=v[-1] * width + center), out)
        for v, out in zip(outcome.left_out["fits"], outcome.left_out["rows"], strict=True)
    ]


def with_uncertainty(model: Model, problem: FitProblem, outcome: SolverResult) -> Model:
    """Return the model with conformity scores, and with the calibration of its recipe."""
    out, objective = LeftOut.of(model, problem, outcome), problem.objective
    model = calibrate(model, out, objective.targets, objective.class_weights)
    return model if out is None else conform(model, out, objective.targets)


def calibrate(model: Model, out: LeftOut | None, targets: Targets, of_class: F64 | None) -> Model:
    """Settle the calibration of the recipe, and return the model with it.

    Parameters
    ----------
    of_class : weight of each class, None where all are 1
    """
    asked = model.recipe.calibration
    kind = asked
    if asked == "auto":
        kind = "none" if out is None or targets.classes is None else model.loss.usual_calibration
    model = replace(model, recipe=SettledRecipe(model.recipe.replace(calibration=kind)))
    if kind == "none":
        return model
    if out is None:
        raise DataError(
            f"calibration={kind!r} is fitted on the rows of the holdout, and so few rows have none. Leave calibration "
            "out, or give more rows."
        )
    assert out.rows.y is not None
    assert targets.classes is not None
    codes, weight = targets.codes(out.rows.y), out.weight
    weight = weight if of_class is None else weight * of_class[codes]  # as the scores do
    calibration = Calibration.fit(out.S, codes, weight)
    return replace(model, calibration=calibration, facts={**model.facts, "calibrated": len(out.S)})


def conform(model: Model, out: LeftOut, targets: Targets) -> Model:
    """Return the model with the conformity scores of the rows that were left out."""
    assert out.rows.y is not None
    facts = {**model.facts, "conformal": {"rows": len(out.S), "of": out.where}}
    if model.classes is not None:
        if not model.has_probabilities:
            return model
        codes = targets.codes(out.rows.y)
        table = Conformal.of_classes(model.probabilities(out.S), codes, out.weight)
        return replace(model, conformal=table, facts=facts)
    errors, plain = absolute_errors(out.S, out.rows.y), isinstance(out.rows.X, np.ndarray) and not model.objects
    Z = model.scaling.apply(out.rows.X) if plain else None
    width, widths = fit_width(Z, out.S.astype(np.float64), errors, out.weight)
    table = replace(Conformal.of_numbers(errors / widths, out.weight), width=width)
    return replace(model, conformal=table, facts=facts)


def cut_to_judge(rows: Block, seed: int) -> list[Block]:
    """Cut many rows to learn in two: the model that has learned the first of them scores the last fifth.

    The model of before may be far from that of after, where the new rows are of another law or many.
    """
    n = len(rows.X)
    if n < MOST_SCORES:
        return [rows]
    order, last = stream(seed, "rows-to-judge", n).permutation(n), min(MOST_SCORES, n // 5)
    return [select_rows(rows, order[:-last]), select_rows(rows, order[-last:])]


def with_later_rows(model: Model, out: LeftOut, calibration: str | None = None) -> Model:
    """Return the model with what rows that it scored before it learned them say of its answers.

    Parameters
    ----------
    model : with the conformity scores and the calibration of before
    calibration : word of the calibration that begins with these rows, where the model has none
    """
    n, old, targets = len(out.S), model.conformal, Targets(model.classes)
    if not n:
        return model
    out = out.as_large_as_now(model)
    if model.classes is not None and not model.has_probabilities:
        if calibration in (None, "none"):
            return model
        model, old = replace(model, recipe=SettledRecipe(model.recipe.replace(calibration=calibration))), None
    if old is not None and not old.groups and n < MOST_SCORES:
        later, strata = _score_conformity(model, out, targets)
        before = n * old.rows / later.rows  # of several targets each row has several scores
        if n < before and not old.differs(later, strata):
            kept = min(before, MOST_SCORES - n)
            facts = {**model.facts, "conformal": {"rows": round(kept) + n, "of": out.where}}
            return replace(model, conformal=old.join(later, kept / before), facts=facts)
    of_class = None
    if targets.classes is not None:
        counts = dict(zip(targets.classes.tolist(), model.facts["counts"], strict=True))
        of_class = targets.weigh_classes(model.recipe.class_weight, counts)
    return conform(calibrate(model, out, targets, of_class), out, targets)


def _score_conformity(model: Model, out: LeftOut, targets: Targets) -> tuple[Conformal, Sequence[int | None]]:
    """Return the conformity scores of rows by the calibration and the widths of the model, and the strata of these."""
    assert out.rows.y is not None
    if model.classes is None:
        ratios = absolute_errors(out.S, out.rows.y) / model.width(out.rows.X, out.S)
        return Conformal.of_numbers(ratios, out.weight), range(ratios.shape[1])
    P, codes = model.probabilities(out.S), targets.codes(out.rows.y)
    return Conformal.of_classes(P, codes, out.weight), (None, *range(P.shape[1]))


def absolute_errors(S: NDArray[np.floating], y: Any) -> F64:
    """Return |y - s|, and where it is not 0 the rounding of s in float32, for each target (n, targets)."""
    Y = np.asarray(y, np.float64)
    half_unit = float(np.finfo(np.float32).eps) / 2
    errors = np.abs((Y[:, None] if Y.ndim == 1 else Y) - S)
    return np.asarray(errors + half_unit * np.abs(S) * (errors > 0))
