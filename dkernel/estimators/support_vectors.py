"""Support vectors and dual coefficients of an exact machine: s(x) = Σ_i a_i k(x_i, x) + b, all rows as landmarks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.model.model import Model
from dkernel.model.solver_table import SOLVERS
from dkernel.numerics.rows import contents, wide
from dkernel.solvers.exact import EXACT_TOLERANCE


def is_expansion(model: Model) -> bool:
    """True of a machine of solver="exact" whose landmarks are all rows."""
    map = model.map
    known = map.landmarks is not None and not map.objects and model.local is None
    return known and SOLVERS[model.recipe.solver].in_memory and map.n_components == model.facts["rows"]


def find_support(model: Model, X: Any, y: Any) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows of X, those of the training, that support an exact machine, and their coefficients (C, n_support).

    Of equal rows it is the first.
    An interior point leaves no coefficient at 0. Where all of them move no score by more than its tolerance, as with
    every label within epsilon, no row supports.
    """
    first: dict[bytes, int] = {}
    for i, row in enumerate(contents(model.scaling.apply(X))):
        first.setdefault(row, i)
    coef = np.zeros((len(X), model.coef.shape[1]))
    for row, values in zip(contents(model.map.landmarks), model.coef, strict=True):
        coef[first[row]] += values
    size = np.abs(coef).max(axis=1)
    least = model.loss.support_tolerance * size.max()
    unit = 1.0 if model.classes is not None else np.std(y, axis=0).max()
    if least > 0 and size.sum() * model.map.kernel.diag(wide(model.map.landmarks)).max() <= EXACT_TOLERANCE * unit:
        least = np.inf
    rows = np.flatnonzero(size > least)
    return rows, np.ascontiguousarray(coef[rows].T)
