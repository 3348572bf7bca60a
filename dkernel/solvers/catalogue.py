"""The classes of the solvers, by the words that a recipe has for them."""

from collections.abc import Mapping
from typing import Any

from dkernel.solvers.driver import Solver
from dkernel.solvers.exact import Exact
from dkernel.solvers.full_batch import ConjugateGradients, LimitedMemory
from dkernel.solvers.normal_equations import NormalEquations
from dkernel.solvers.sgd import Passes

SOLVER_CLASSES: Mapping[str, type[Solver[Any]]] = {
    "auto": Passes,
    "psgd": Passes,
    "exact": Exact,
    "normal": NormalEquations,
    "pcg": ConjugateGradients,
    "lbfgs": LimitedMemory,
}
