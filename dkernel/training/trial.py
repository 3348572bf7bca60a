"""The trial of the ways to fit a machine: those that may win are fitted to all rows, and the holdout decides."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from dkernel.solvers.catalogue import solver_class
from dkernel.solvers.driver import SolverResult, solve
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.full_batch import Polish
from dkernel.solvers.sgd_round import expand_coefficients
from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.streaming.exchangeability import explain_order
from dkernel.training.build_model import FittedWay
from dkernel.training.holdout_losses import find_best
from dkernel.training.local_stages import fit_local, learns_rest, local_pieces
from dkernel.training.residual import Residual
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.ways import COMPONENTS, GRIDS_ALONE, Way
from dkernel.training.stages import Fit, choose_model, prepare_problem

TRIAL_ROWS = 2**16  # rows up to which a trial costs seconds; of more, grids alone are tried


@dataclass(eq=False)
class WayTrial:
    """The ways of a fit, and those that are fitted.

    Up to TRIAL_ROWS rows grids alone, components, and grids behind components are fitted in any case, and of more rows
    grids alone, as a small sample does not show what they learn from all of many rows. Other ways are fitted if a race
    on samples says so. Grids alone come first, as they cost least; all components take most of the seconds of a trial.
    Of many rows components come first where they win the race: grids then end as soon as they stay behind.

    Parameters
    ----------
    known : the fit after the survey
    ways : ways that are open
    opened : closes all readers at the end of the fit
    fitted : ways that are fitted, in this order
    """

    known: Fit
    ways: Sequence[Way]
    opened: ExitStack
    fitted: list[FittedWay] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.few = self.known.sizes.n <= TRIAL_ROWS
        self.in_turn = self.few or not explain_order(self.known.survey)  # of many rows one way may change their order
        holdout = self.known.split(self.known.sizes).holdout
        self.judged = len(holdout.X) > 0 and self.in_turn and len(self.ways) > 1
        self.tries_grids = self.judged and GRIDS_ALONE in self.ways
        self.notes = dict(self.known.run.chosen)
        self.reached = inf  # loss of grids alone, if these are fitted before the choice and gain something

    def run(self) -> FittedWay:
        """Fit the ways, and return the best on the holdout."""
        effort, why = self.known.recipe.effort, "grids"
        if self.tries_grids and (self.few or effort == "low"):
            self._fit([GRIDS_ALONE])
            self.reached = self.fitted[0].holdout["loss"] if self.fitted[0].machine is not None else inf
        if not self.reached < inf or effort != "low":
            why = self._fit_others()
        best = self._find_best()
        if len(self.fitted) > 1 or GRIDS_ALONE in self.ways:
            losses = ", ".join(f"{each.holdout['loss']:.4g} of {each.text}" for each in self.fitted if each.holdout)
            best.problem.run.note("way", "; ".join(filter(None, (why, losses and f"losses on the holdout {losses}"))))
        return best

    @property
    def settings(self) -> Any:
        """The settings of grids alone, from which those behind components go on; None before."""
        first = self.fitted[0].local if self.fitted else None
        return None if first is None else first.setting

    def _fit_others(self) -> str:
        """Choose a kernel, and fit the ways with it; return the reason of the race."""
        gain = self.reached < inf
        left = [way for way in self.ways if gain or not self.fitted or way != GRIDS_ALONE]
        tried = tuple(way for way in left if self.judged and self._is_tried(way))
        chosen = choose_model(self.known, left, tried=tried, reached=self.reached)
        if not (chosen.ways or tried or self.fitted):  # a search chooses no way
            chosen = replace(chosen, ways=tuple(left))
        by_stage: dict[tuple[str, bool], list[Way]] = {}
        for way in chosen.ways:  # ways with the same global stage and number of components share it
            by_stage.setdefault((way.features, learns_rest(way.local)), []).append(way)
        turns = list(by_stage.values())
        if self.tries_grids and not self.fitted:  # grids behind components go on from the settings of grids alone
            turns.insert(len(turns) if chosen.ways == (COMPONENTS,) else 0, [GRIDS_ALONE])
        for together in turns:
            if gain and together[0] in tried and not learns_rest(together[0].local):
                self._fit_components(together, chosen)
            else:
                self._fit(together, chosen)
        of_kernel = [way for way in left if way.features == "kernel"]
        if of_kernel and not any(each.learns for each in self.fitted):
            self._fit(of_kernel[:1], chosen)
        return chosen.why.get("way", "")

    def _is_tried(self, way: Way) -> bool:
        effort = self.known.recipe.effort
        return way == GRIDS_ALONE or (self.few and effort != "low" and (effort == "high" or not learns_rest(way.local)))

    def _fit_components(self, together: Sequence[Way], chosen: SelectedModel) -> None:
        """Fit ways with components: all of these where they lead, else all only if few are better than grids alone."""
        most = self.known.sizes.components
        leads = chosen.loss is not None or chosen.reached < self.reached
        leads = leads or chosen.enough == LEAST_COMPONENTS or most <= LEAST_COMPONENTS
        if not leads:
            self._fit(together, replace(chosen, enough=LEAST_COMPONENTS))
        if leads or self.fitted[-1].losses.mean < self.fitted[0].losses.mean:
            self._fit(together, chosen)

    def _fit(self, ways: Sequence[Way], chosen: SelectedModel | None = None) -> None:
        """Fit ways that share a global stage, unless a callback has ended the whole fit."""
        known, fitted = self.known, self.fitted
        run, way = known.run, ways[0]
        if fitted and (run.stopped.is_set() or not self.in_turn):
            return
        if way.features != "kernel" or fitted:
            name = f"{way.features}-rest" if way.features == "kernel" and learns_rest(way.local) else way.features
            name += "-few" if chosen is not None and chosen.enough == LEAST_COMPONENTS else ""
            run = replace(run, key=f"{run.key}-{name}", journal=run.journal.within(name), chosen=dict(self.notes))
        fitted.append(self._fit_way(replace(known, run=run), chosen, ways))

    def _fit_way(self, known: Fit, chosen: SelectedModel | None, ways: Sequence[Way]) -> FittedWay:
        """Fit a global stage and the local stages that these ways have after it, and keep the best of these."""
        stages, features = [way.local for way in ways], ways[0].features
        way = Way(features, "auto" if len(ways) > 1 else stages[0])
        fit = replace(known, recipe=way.of(known.recipe))
        if features != "kernel":
            choice = choose_model(fit)
            if chosen is not None:
                choice = replace(choice, why=choice.why | {"way": chosen.why["way"]}, findings=chosen.findings)
            chosen = choice
        assert chosen is not None
        problem = prepare_problem(fit, chosen)
        self.opened.callback(problem.reader.close)
        outcome = _solve(fit, problem)
        problem = replace(problem, setup=problem.setup.without_factors())  # no later stage needs them
        of_class, start = problem.objective.class_weights, expand_coefficients(problem.coordinates, outcome.v)
        weighted = fit.ask.source.weight is not None or of_class is not None
        weight = fit.targets.weigh_rows(of_class, fit.counts, fit.survey.weight) if weighted else None
        pieces = local_pieces(fit.ask.units, problem.schedules[0] if problem.reader.on_disk else ())
        rival = self._find_best().losses if self.fitted else None
        residual = Residual(problem, fit.survey, start, pieces, weight, rival)
        grids = {GRIDS_ALONE.local: self.settings}
        findings = {way.local: chosen.findings.get(way) or grids.get(way.local) for way in ways if way.local != "none"}
        local = fit_local(residual, findings) if findings else None
        if local is not None:
            residual.run.note("local", local.why)
        return FittedWay(" or ".join(way.text for way in ways), fit, chosen, outcome, residual, local)

    def _find_best(self) -> FittedWay:
        """Return the best way; of equals one with components comes first, and cells last."""
        left = [each for each in self.fitted if each.learns] or self.fitted
        order = sorted(left, key=_complexity)
        return order[find_best([each.losses for each in order])] if len(order) > 1 else order[0]


def _complexity(way: FittedWay) -> tuple[bool, bool]:
    return learns_rest(way.fit.recipe.local_stage), way.fit.recipe.constant_map


def _solve(fit: Fit, problem: FitProblem) -> SolverResult:
    """Run the solver of the recipe, and then the polish if the sizes have one."""
    run = problem.run
    with closing(solver_class(fit.recipe.solver)(problem)) as solver:
        outcome = solve(solver, run)
    if problem.sizes.polish and not fit.recipe.constant_map:
        with closing(Polish(problem, outcome)) as polish:
            outcome = solve(polish, run)
    if problem.alpha == "auto":
        run.note("alpha", format_alpha(outcome.alpha, outcome.tried, problem.setup.sample_path))
    return outcome


def format_alpha(alpha: float, tried: Mapping[str, float], sample: Mapping[str, float]) -> str:
    """Describe the choice of alpha, with its loss and that of the runner-up.

    Parameters
    ----------
    tried, sample : alpha -> loss, for the fit and for the start that was fitted to the sample

    Examples
    --------
    >>> format_alpha(1e-5, {"1e-05": 0.25, "0.0001": 0.5}, {})
    '1e-05, the best of 2 from 1e-05 to 0.0001: loss 0.25, runner-up 0.0001 0.5'
    >>> format_alpha(1e-5, {"1e-05": 0.25}, {"1e-05": 0.5, "0.0001": 1.0})
    '1e-05, the best of 2 from 1e-05 to 0.0001 on the sample: loss 0.5, runner-up 0.0001 1'
    """
    name, where = f"{alpha:g}", ""
    if len(tried) < 2:
        tried, where = sample, " on the sample"
    others = {each: loss for each, loss in tried.items() if each != name}
    if name not in tried or not others:
        return f"{name}, chosen on the sample"
    alphas, best = sorted(tried, key=float), min(others, key=others.__getitem__)
    said = f"{name}, the best of {len(alphas)} from {alphas[0]} to {alphas[-1]}{where}: loss {tried[name]:.4g}"
    return f"{said}, runner-up {best} {others[best]:.4g}"
