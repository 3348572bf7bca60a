"""Makes the model from the result of a solver: coefficients, probabilities, variance and facts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkernel.data.encoding import Encoding
from dkernel.data.schema import describe_columns
from dkernel.kernels.analysis.linearity import is_linear
from dkernel.losses.losses import Quantile, parse_loss
from dkernel.losses.predictive_variance import Variance
from dkernel.losses.scoring import BY_LOSS, SCORERS
from dkernel.model.local.base import LocalMachine
from dkernel.model.model import Model
from dkernel.model.recipe import SettledRecipe
from dkernel.numerics.rows import contents
from dkernel.numerics.sparse_rows import named
from dkernel.solvers.certificate import certificate
from dkernel.solvers.driver import SolverResult
from dkernel.solvers.finite_check import check_finite
from dkernel.solvers.fit_problem import FitProblem
from dkernel.streaming.execution.versions import versions
from dkernel.streaming.fingerprint import digest
from dkernel.training.holdout_losses import HoldoutLosses
from dkernel.training.residual import Residual
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.stage_result import StageResult
from dkernel.training.stages import Fit
from dkernel.training.uncertainty import with_uncertainty


class FittedWay(NamedTuple):
    """A way to fit the machine, fitted to all rows.

    Parameters
    ----------
    text : the way in words, with all local stages that were tried after it
    chosen : kernel and scaling
    outcome : result of the solver
    residual : residual of the global stage
    """

    text: str
    fit: Fit
    chosen: SelectedModel
    outcome: SolverResult
    residual: Residual
    local: StageResult | None

    @property
    def problem(self) -> FitProblem:
        """The problem that the solver has solved."""
        return self.residual.problem

    @property
    def machine(self) -> LocalMachine | None:
        """The local machine, None if no machine improves the holdout."""
        return None if self.local is None else self.local.machine

    @property
    def learns(self) -> bool:
        """False for a constant: a fit without components whose local stage gains nothing."""
        return self.machine is not None or not self.fit.recipe.constant_map

    @property
    def holdout(self) -> dict[str, float]:
        """Figures of the holdout."""
        judged = {} if self.local is None or self.local.losses is None else self.local.losses.figures
        return judged or self.outcome.holdout

    @property
    def losses(self) -> HoldoutLosses:
        """Losses of the rows of the holdout."""
        if self.local is not None and self.local.losses is not None:
            return self.local.losses
        return self.residual.losses(self.residual.holdout.scores)


def build_model(way: FittedWay) -> Model:
    """Make the model of a fitted way."""
    problem, outcome, source = way.problem, way.outcome, way.fit.ask.source
    targets, components = way.fit.targets, problem.objective.components
    check_finite(components.map.kernel, "coefficients", outcome.v)
    check_finite(components.map.kernel, "losses on the holdout", outcome.holdout.get("loss", 0.0))
    facts = _facts(way)
    variance = None
    if outcome.variance is not None and way.machine is None:
        variance = _variance_of_components(problem, outcome.variance)
        facts["noise"] = np.sqrt(variance.scale[0]).tolist()
    coef, intercept = problem.coordinates.expand(outcome.v[:-1]) * targets.width, outcome.v[-1] * targets.width
    machine = way.machine
    landmarks, constant = components.map.landmarks, list(targets.constant)
    coef[:, constant] = intercept[constant] = 0.0  # fits of quantiles and smoothed losses differ from the constant
    if machine is not None and constant:
        machine = machine.without(constant)
    model = Model(
        recipe=_settle_recipe(way),
        scaling=components.scaling,
        map=components.map,
        coef=np.ascontiguousarray(coef) if landmarks is None else _merge_equal(landmarks, coef),
        intercept=intercept + targets.center,
        classes=targets.classes,
        columns=source.table_columns,
        label=source.label or "label",
        facts=facts,
        variance=variance,
        encoding=None if source.encoding is None else source.encoding.settle(),
        local=machine,
    )
    return with_uncertainty(model, problem, outcome)


def _merge_equal(landmarks: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients, with their sum for the first of equal landmarks and 0 for the others.

    The scores stay the same. Equal rows with different labels would have opposite coefficients of any size.
    """
    first: dict[bytes, int] = {}
    first_equal = [first.setdefault(row, i) for i, row in enumerate(contents(landmarks))]
    sums = np.zeros_like(coef)
    np.add.at(sums, first_equal, coef)
    return sums


def _settle_recipe(way: FittedWay) -> SettledRecipe:
    """Return the recipe of the model: the recipe of the user, with the values of the fit instead of words."""
    asked, chosen, sizes = way.fit.recipe, way.chosen, way.problem.sizes
    settled = {
        "loss": parse_loss(chosen.loss or asked.loss).text,
        "kernel": repr(chosen.kernel),
        "scale": chosen.scaling.kind,
        "metric": chosen.metric,
        "features": way.fit.choose_features(chosen),
        "n_components": way.problem.objective.components.map.n_components,
        "rounds": sizes.rounds,
        "passes": sizes.passes,
        "polish": sizes.polish,
        "alpha": way.outcome.alpha,
    }
    if not asked.constant_map:
        settled["local"] = asked.local_as("none" if way.machine is None else way.machine.kind)
    return SettledRecipe(asked.replace(**settled))


def _facts(way: FittedWay) -> dict[str, Any]:
    fit, chosen, problem, outcome = way.fit, way.chosen, way.problem, way.outcome
    source, survey, targets = fit.ask.source, fit.survey, fit.targets
    setup, leverage_rows = problem.setup, problem.split.leverage_rows
    components = problem.objective.components
    map, norm = components.map, problem.coordinates.norm(outcome.v[:-1]) * targets.width
    facts: dict[str, Any] = {
        "data": digest(source.n_rows, (*named(source.columns), source.label or ""), survey.sums),
        "chosen": fit.run.chosen | ({"order": problem.order} if problem.order else {}),
        "norm": np.broadcast_to(norm, outcome.v.shape[1:]).tolist(),
        "rows": problem.sizes.n,
        "components": map.n_components,
        "iterate": outcome.iterate,
        "share_of_step": outcome.share,
        "setup": {name: float(value) for name, value in setup.facts.items()},
        "versions": versions(),
    }
    if source.passed_over:
        facts["passed_over"] = list(source.passed_over)
    if source.weight_column is not None:
        facts["weight"] = source.weight_column
    if setup.certificate is not None:
        facts["certificate"] = setup.certificate
    elif map.landmarks is not None and len(leverage_rows.X):
        facts["certificate"] = certificate(map, components.scaling.apply(leverage_rows.X), fit.ask.plan.flops)
    moments = survey.moments
    # A standard scaling has them, unless it includes a metric; the survey of sparse rows has only folded columns.
    known = components.scaling.kind == "standard" and chosen.metric != "diagonal"
    if not known and not (map.sparse or map.objects):
        facts["survey"] = {"mean": moments.mean.tolist(), "deviation": np.sqrt(moments.variance).tolist()}
    if not (map.sparse or map.objects):
        encoding = source.encoding or Encoding.of_means(source.columns, moments.mean)
        facts["schema"] = describe_columns(encoding, survey.low, survey.high, moments.mean)
    if chosen.weights is not None:
        facts["weights"] = [float(weight) for weight in chosen.weights]
    facts |= outcome.facts
    if way.holdout:
        facts["holdout"] = _figures_of_holdout(way)
    if way.local is not None:
        facts["local"] = way.local.facts
    if targets.classes is None:
        facts |= _span(way)
    else:
        facts["counts"] = [round(fit.counts[c]) for c in targets.classes.tolist()]
    return facts


def _span(way: FittedWay) -> dict[str, Any]:
    """Return the smallest and the largest label of each target, which clip scores; empty if scores are not clipped."""
    objective, span = way.problem.objective, way.fit.survey.span
    is_line = way.machine is None and is_linear(objective.components.map.kernel)
    return {} if span is None or is_line or isinstance(objective.loss, Quantile) else {"span": span.tolist()}


def _figures_of_holdout(way: FittedWay) -> dict[str, float]:
    """Return the figures of the holdout, with the score of the recipe instead of the loss if the recipe names one."""
    scoring, targets, figures = way.fit.recipe.scoring, way.fit.targets, dict(way.holdout)
    if scoring == BY_LOSS:
        return figures
    return {scoring: SCORERS[scoring].score(figures.pop("loss"), targets.unit), **figures}


def _variance_of_components(fit: FitProblem, variance: Mapping[str, Any]) -> Variance:
    """Convert a variance from the solver's coordinates to components, and to the unit of the label."""
    noise = fit.objective.targets.width**2 * np.array(variance["noise"])
    alpha, n = variance["alpha"], variance["weight"]
    has_rest = fit.objective.components.map.landmarks is not None and alpha > 0
    prior = noise / (alpha * n) if has_rest else 0.0 * noise
    factor = np.ascontiguousarray(fit.coordinates.expand(variance["basis"]))
    scale = np.stack([noise, prior, np.full_like(noise, n)])
    return Variance(factor, variance["offset"], scale if len(noise) > 1 else scale[:, 0])
