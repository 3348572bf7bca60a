"""The solvers by their names, each with the properties that the rest of the package asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dkernel.linear.losses import Loss

SEEN = 1e-3  # a fit that ends with scores this far from the optimum is reported


@dataclass(frozen=True)
class SolverEntry:
    """Properties of a solver.

    Parameters
    ----------
    implementation : "module:class" of its `dkernel.solving.driver.Solver`, imported where a fit runs it
    in_rounds : updates after each round of a pass; patience, polish and several passes are for such a solver
    until_converged : reads all rows once an iteration; `passes` is the most readings
    prepared : begins with the preconditioners and the start that the sample gives
    in_memory : holds all of few rows at one time: each may be a landmark, and none is held out
    quadratic_only : for losses whose optimum solves linear equations
    kinks, boxes : takes every loss; of losses with kinks those whose dual is a quadratic program in a box
    merges : few rows are held, equal ones as one with the sum of their weights: weight k is then k copies of a row
    """

    implementation: str
    in_rounds: bool = False
    until_converged: bool = False
    prepared: bool = False
    in_memory: bool = False
    quadratic_only: bool = False
    kinks: bool = False
    boxes: bool = False
    merges: bool = True

    def takes(self, loss: Loss) -> bool:
        """True if the solver can minimize this loss."""
        return loss.quadratic if self.quadratic_only else loss.smooth or self.kinks or (self.boxes and loss.boxed)


_PSGD = SolverEntry("dkernel.solving.sgd:Passes", in_rounds=True, prepared=True, kinks=True)

SOLVERS: Mapping[str, SolverEntry] = {
    "auto": replace(_PSGD, merges=True),  # "psgd", or "exact" for few rows: `dkernel.training.checks` decides
    "psgd": replace(_PSGD, merges=False),
    "exact": SolverEntry("dkernel.solving.exact:Exact", in_memory=True, boxes=True),
    "normal": SolverEntry("dkernel.solving.normal_equations:NormalEquations", quadratic_only=True),
    "pcg": SolverEntry(
        "dkernel.solving.full_batch:ConjugateGradients", until_converged=True, prepared=True, quadratic_only=True
    ),
    "lbfgs": SolverEntry("dkernel.solving.full_batch:LimitedMemory", until_converged=True, prepared=True),
}
"""A new solver is one file with its class, and one line here."""


def early_end(facts: Mapping[str, Any]) -> dict[str, str]:
    """The line about a solver that ended before its optimum; nothing where it arrived or does not look for one.

    Examples
    --------
    >>> early_end({"solver": {"converged": False, "passes": 8, "decrement": 0.02}})
    {'solver': 'stopped after 8 passes, not fully converged: scores would still change by about 0.02'}
    >>> print(early_end({"solver": {"converged": False, "worst_round": 15.6, "usual_round": 0.019}})["solver"])
    a few far rows may not be learned: one of the last rounds has a loss of 15.6, usually 0.019; solver=lbfgs helps
    """
    found = facts.get("solver") or {}
    if "worst_round" in found:
        losses = f"a loss of {found['worst_round']:.3g}, usually {found['usual_round']:.2g}"
        return {"solver": f"a few far rows may not be learned: one of the last rounds has {losses}; solver=lbfgs helps"}
    if found.get("converged", True) or found.get("decrement", 0.0) < SEEN:
        return {}
    left = f"scores would still change by about {found['decrement']:.1g}"
    return {"solver": f"stopped after {found['passes']} passes, not fully converged: {left}"}
