"""The classes of the solvers, by the words that a recipe has for them."""

from collections.abc import Mapping
from typing import Any

from dkernel.leaf_table import LEAF_OF_SOLVER, load_leaf
from dkernel.solvers.driver import Solver
from dkernel.solvers.exact import Exact
from dkernel.solvers.full_batch import LBFGSSolver, PCGSolver
from dkernel.solvers.sgd import PSGDSolver

SOLVER_CLASSES: Mapping[str, type[Solver[Any]]] = {
    "auto": PSGDSolver,
    "psgd": PSGDSolver,
    "exact": Exact,
    "pcg": PCGSolver,
    "lbfgs": LBFGSSolver,
}


def solver_class(word: str) -> type[Solver[Any]]:
    """The class of the solver of a word, or an UnsupportedError where its leaf is not there."""
    if word in LEAF_OF_SOLVER:
        found: type[Solver[Any]] = load_leaf(LEAF_OF_SOLVER[word], word, f"The solver {word!r}").SOLVER
        return found
    return SOLVER_CLASSES[word]
