"""The classes of the solvers, by the words that a recipe has for them."""

from collections.abc import Mapping
from typing import Any

from dkernel.solvers.driver import Solver
from dkernel.solvers.exact import Exact
from dkernel.solvers.full_batch import LBFGSSolver, PCGSolver
from dkernel.solvers.normal_equations import NormalEquations
from dkernel.solvers.sgd import PSGDSolver

SOLVER_CLASSES: Mapping[str, type[Solver[Any]]] = {
    "auto": PSGDSolver,
    "psgd": PSGDSolver,
    "exact": Exact,
    "normal": NormalEquations,
    "pcg": PCGSolver,
    "lbfgs": LBFGSSolver,
}
