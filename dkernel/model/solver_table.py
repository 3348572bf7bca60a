"""The solvers by their names, each with the properties that the rest of the package asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dkernel.errors import RecipeError

if TYPE_CHECKING:  # the help of the command has the words of the table, and loads no numpy
    from dkernel.losses.loss import Loss

FEW_ROWS = 4096  # that are solved exactly: their Gram matrix is 128 MiB, and factoring it takes a second or so
SEEN = 0.01  # of a margin or a deviation of the label: a fit that ends this far from its optimum is reported


@dataclass(frozen=True)
class SolverEntry:
    """Properties of a solver.

    Parameters
    ----------
    in_rounds : updates after each round of a pass; polish and several passes are for such a solver
    until_converged : reads all rows once an iteration; `passes` is the most readings
    prepared : begins with the preconditioners and the start that the sample gives
    in_memory : holds all of few rows at one time: each may be a landmark, and none is held out
    quadratic_only : for losses whose optimum solves linear equations
    nonsmooth, box_dual : takes every loss; of losses with kinks those whose dual is a quadratic program in a box
    merges_duplicates : few rows are held, equal ones as one with the sum of their weights: weight k is then k copies of
        a row
    """

    in_rounds: bool = False
    until_converged: bool = False
    prepared: bool = False
    in_memory: bool = False
    quadratic_only: bool = False
    nonsmooth: bool = False
    box_dual: bool = False
    merges_duplicates: bool = True

    def takes(self, loss: "Loss") -> bool:
        """True if the solver can minimize this loss."""
        return (
            loss.quadratic if self.quadratic_only else loss.smooth or self.nonsmooth or (self.box_dual and loss.boxed)
        )

    def in_passes(self, n: Any) -> int:
        """The number of a solver that makes passes, 0 of others."""
        return int(n) if self.in_rounds else 0

    def reaches_optimum(self, polished: bool) -> bool:
        """True if a fit of few components ends at the optimum: by the solver itself, or by a polish after it."""
        return self.in_memory or polished

    def check(self, name: str, loss: "Loss", text: str, polish: int) -> None:
        """Refuse a loss, by its text in the recipe, or a polish that the solver of this name cannot do."""
        if self.quadratic_only and not loss.quadratic:
            raise RecipeError(
                f"solver={name!r} is for loss='squared' and here loss={text!r}. Use loss='squared', or "
                f"solver={'lbfgs' if loss.smooth else 'psgd'!r}."
            )
        if not self.takes(loss) or (polish and self.in_rounds and not loss.smooth):
            which = f"polish={polish}" if self.takes(loss) else f"solver={name!r}"
            raise RecipeError(
                f"{which} needs a loss without kinks and loss={text!r} has them. Use solver='psgd' without "
                f"polish, or loss={loss.smooth_counterpart!r}."
            )
        if polish and not self.in_rounds:
            raise RecipeError(
                f"polish={polish} follows solver='psgd', and solver={name!r} finds the optimum itself. "
                "Leave polish out."
            )


_PSGD = SolverEntry(in_rounds=True, prepared=True, nonsmooth=True)

SOLVERS: Mapping[str, SolverEntry] = {
    # "psgd", or "exact" for few rows: `dkernel.training.ask` decides
    "auto": replace(_PSGD, merges_duplicates=True),
    "psgd": replace(_PSGD, merges_duplicates=False),
    "exact": SolverEntry(in_memory=True, box_dual=True),
    "normal": SolverEntry(quadratic_only=True),
    "pcg": SolverEntry(until_converged=True, prepared=True, quadratic_only=True),
    "lbfgs": SolverEntry(until_converged=True, prepared=True),
}
"""What a recipe may ask of each; `dkernel.solvers.catalogue` has the classes that solve."""


def loss_for(solver: str) -> str | None:
    """The loss that a solver is for, where it is for one alone."""
    return "squared" if solver in SOLVERS and SOLVERS[solver].quadratic_only else None


def early_end(facts: Mapping[str, Any]) -> dict[str, str]:
    """The line about a solver that ended before its optimum; nothing where it arrived or does not look for one.

    Examples
    --------
    >>> early_end({"solver": {"converged": False, "passes": 8, "decrement": 0.02}})
    {'solver': 'not fully converged in 8 passes: scores may change by 0.02'}
    >>> early_end({"exact": {"converged": False, "steps": 5, "moved": 1.0}})
    {'solver': 'not fully converged in 5 steps: this alpha leaves too few digits'}
    >>> print(early_end({"solver": {"converged": False, "worst_round": 15.6, "usual_round": 0.019}})["solver"])
    a few far rows may not be learned: one of the last rounds has a loss of 15.6, usually 0.019; solver=lbfgs helps
    """
    solver, exact = facts.get("solver") or {}, facts.get("exact") or {}
    if exact.get("moved", 0.0) >= SEEN:
        return {"solver": f"not fully converged in {exact['steps']} steps: this alpha leaves too few digits"}
    if "worst_round" in solver:
        losses = f"a loss of {solver['worst_round']:.3g}, usually {solver['usual_round']:.2g}"
        return {"solver": f"a few far rows may not be learned: one of the last rounds has {losses}; solver=lbfgs helps"}
    if solver.get("converged", True) or solver.get("decrement", 0.0) < SEEN:
        return {}
    remaining = f"scores may change by {solver['decrement']:.1g}"
    return {"solver": f"not fully converged in {solver['passes']} passes: {remaining}"}
