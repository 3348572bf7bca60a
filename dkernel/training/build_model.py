"""Makes the model of a solver's result: coefficients of the map's columns, probabilities, variance and facts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import DataError
from dkernel.execution.versions import versions
from dkernel.linear.calibration import CALIBRATIONS
from dkernel.linear.predictive_variance import Variance
from dkernel.model import Model
from dkernel.numerics.rows import contents
from dkernel.problem.finite_check import check_finite
from dkernel.problem.targets import Targets
from dkernel.selection.landmark_selection import certificate
from dkernel.solving.driver import SolverResult
from dkernel.solving.sgd_setup import Prepared, SampleEvaluator
from dkernel.training.job import Job
from dkernel.training.result import LocalStage
from dkernel.training.stages import PosedProblem, Ready


def build_model(
    job: Job, posed: PosedProblem, ready: Ready, outcome: SolverResult, data: str, order: Mapping[str, str],
    local: LocalStage | None = None,
) -> Model:  # fmt: skip
    """The model of a fit.

    Parameters
    ----------
    data : digest of the data
    order : of the rows, in words, where it is not the usual one
    """
    problem, evaluator = posed.problem, ready.evaluator
    targets, map = problem.targets, problem.components.map
    check_finite(map.kernel, "coefficients", outcome.v)
    check_finite(map.kernel, "losses on the holdout", outcome.holdout.get("loss", 0.0))
    facts = _facts(job, posed, ready.prepared, outcome) | {"data": data, "chosen": {**job.chosen, **order}}
    if local is not None:
        facts["local"] = local.facts
        if local.machine is not None and local.holdout:
            facts["holdout"] = local.holdout
    variance = None
    if outcome.variance is not None and (local is None or local.machine is None):
        variance = _in_columns(evaluator, outcome.variance, targets)
        facts["noise"] = np.sqrt(variance.scale[0]).tolist()
    coef = evaluator.coordinates.expand(outcome.v[:-1]) * targets.width
    model = Model(
        recipe=posed.recipe,
        scaling=problem.components.scaling,
        map=map,
        coef=np.ascontiguousarray(coef) if map.landmarks is None else _merged(map.landmarks, coef),
        intercept=outcome.v[-1] * targets.width + targets.center,
        classes=targets.classes,
        columns=job.source.table_columns,
        label=job.source.label or "label",
        facts=facts,
        variance=variance,
        encoding=None if job.source.encoding is None else job.source.encoding.settled(),
        local=None if local is None else local.machine,
    )
    return model if posed.recipe.calibration is None else calibrate(model, posed.split.holdout, targets)


def _merged(landmarks: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """The coefficients with those of equal landmarks summed in the first of these, and 0 in the others.

    The scores are the same. Rows with equal features and different labels have opposite coefficients of any size.
    """
    first: dict[bytes, int] = {}
    place = [first.setdefault(row, i) for i, row in enumerate(contents(landmarks))]
    sums = np.zeros_like(coef)
    np.add.at(sums, place, coef)
    return sums


def _facts(job: Job, posed: PosedProblem, prepared: Prepared, outcome: SolverResult) -> dict[str, Any]:
    problem, split = posed.problem, posed.split
    targets, map = problem.targets, problem.components.map
    facts: dict[str, Any] = {
        "rows": job.sizes.n,
        "columns": map.n_components,
        "iterate": outcome.iterate,
        "share_of_step": outcome.share,
        "setup": {name: float(value) for name, value in prepared.facts.items()},
        "versions": versions(),
    }
    if job.source.passed_over:
        facts["passed_over"] = list(job.source.passed_over)
    if prepared.certificate is not None:
        facts["certificate"] = prepared.certificate
    elif map.landmarks is not None and len(split.held.X):
        facts["certificate"] = certificate(map, problem.components.scaling.apply(split.held.X), job.plan.flops)
    if posed.weights is not None:
        facts["weights"] = [float(weight) for weight in posed.weights]
    facts |= outcome.facts
    if outcome.holdout:
        facts["holdout"] = outcome.holdout
    if targets.classes is not None:
        facts["counts"] = [round(posed.labels.counts[c]) for c in targets.classes.tolist()]
    return facts


def _in_columns(evaluator: SampleEvaluator, found: dict[str, Any], targets: Targets) -> Variance:
    """The variance that a solver found in its coordinates, in those of the columns and the label's unit."""
    noise, alpha, n = targets.width**2 * np.array(found["noise"]), found["alpha"], found["weight"]
    has_rest = evaluator.problem.components.map.landmarks is not None and alpha > 0
    prior = noise / (alpha * n) if has_rest else 0.0 * noise
    factor = np.ascontiguousarray(evaluator.coordinates.expand(found["basis"]))
    scale = np.stack([noise, prior, np.full_like(noise, n)])
    return Variance(factor, found["offset"], scale if len(noise) > 1 else scale[:, 0])


def calibrate(model: Model, holdout: Block, targets: Targets) -> Model:
    """The model with probabilities by the recipe's `calibration`, fitted on rows that no gradient saw."""
    kind = model.recipe.calibration
    assert kind is not None
    assert holdout.y is not None
    if not len(holdout.X):
        raise DataError(
            f"calibration={kind!r} is fitted on the rows of the holdout, and so few rows have none. Leave calibration "
            "out, or give more rows."
        )
    weight = np.ones(len(holdout.X)) if holdout.weight is None else holdout.weight.astype(np.float64)
    curves = CALIBRATIONS[kind].fit(model.scores(holdout.X), targets.of(holdout.y), weight)
    return replace(model, calibration=curves, facts={**model.facts, "calibrated": len(holdout.X)})
