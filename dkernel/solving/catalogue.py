"""The classes of the solvers, by the words that a recipe has for them."""

from collections.abc import Mapping
from typing import Any

from dkernel.solving.driver import Solver
from dkernel.solving.exact import Exact
from dkernel.solving.full_batch import ConjugateGradients, LimitedMemory
from dkernel.solving.normal_equations import NormalEquations
from dkernel.solving.sgd import Passes

SOLVER_CLASSES: Mapping[str, type[Solver[Any]]] = {
    "auto": Passes,
    "psgd": Passes,
    "exact": Exact,
    "normal": NormalEquations,
    "pcg": ConjugateGradients,
    "lbfgs": LimitedMemory,
}
