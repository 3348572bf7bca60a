"""Probabilities and conformity scores of a model, from rows that its fit left out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import DataError
from dkernel.losses.calibration import CALIBRATIONS
from dkernel.model.conformal import Conformal
from dkernel.model.local_width import fit_width
from dkernel.model.model import Model
from dkernel.model.recipe import SettledRecipe
from dkernel.numerics.array_types import F64
from dkernel.solvers.driver import SolverResult
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.objective import Objective
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.targets import Targets


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows that a fit left out.

    Parameters
    ----------
    rows : raw rows with their labels
    S : their scores by a fit without them, in the label's unit (n, outputs)
    where : "holdout" or "folds"
    """

    rows: Block
    S: NDArray[np.floating]
    where: str

    @classmethod
    def of(cls, model: Model, problem: FitProblem, outcome: SolverResult) -> "LeftOut | None":
        """Take the rows of the holdout, or of the folds of a solver without one; None if no rows were left out."""
        if len(problem.split.holdout.X):
            return cls(problem.split.holdout, model.scores(problem.split.holdout.X), "holdout")
        if outcome.left_out is None:
            return None
        targets, rows = problem.objective.targets, select_rows(problem.split.sample, outcome.left_out["rows"])
        return cls(rows, model.clip(outcome.left_out["scores"] * targets.width + targets.center), "folds")

    @property
    def weight(self) -> F64:
        """The weight of each row."""
        given = self.rows.weight
        return np.ones(len(self.S)) if given is None else given.astype(np.float64)


def with_uncertainty(model: Model, problem: FitProblem, outcome: SolverResult) -> Model:
    """Return the model with conformity scores, and with the calibration of its recipe."""
    out = LeftOut.of(model, problem, outcome)
    if out is None:
        return calibrate(model, None, problem.objective)
    return conform(calibrate(model, out, problem.objective), out, problem.objective.targets)


def calibrate(model: Model, out: LeftOut | None, objective: Objective) -> Model:
    """Settle the calibration of the recipe, and return the model with its curve."""
    targets, asked = objective.targets, model.recipe.calibration
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
    # The curve uses the weights of classes, as the scores do: else labels would not be the most probable classes.
    of_class, weight = objective.class_weights, out.weight
    weight = weight if of_class is None else weight * of_class[targets.codes(out.rows.y)]
    curves = CALIBRATIONS[kind].fit(out.S, targets.of(out.rows.y), weight)
    return replace(model, calibration=curves, facts={**model.facts, "calibrated": len(out.S)})


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


def absolute_errors(S: NDArray[np.floating], y: Any) -> F64:
    """Return |y - s| for each target (n, targets)."""
    Y = np.asarray(y, np.float64)
    return np.abs((Y[:, None] if Y.ndim == 1 else Y) - S)
