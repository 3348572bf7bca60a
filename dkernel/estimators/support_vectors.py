"""Support vectors and dual coefficients of an exact machine: s(x) = Σ_i a_i k(x_i, x) + b, all rows as landmarks."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.model import Model
from dkernel.numerics.rows import contents


class Support(NamedTuple):
    """Rows of the training that have coefficients.

    Parameters
    ----------
    rows : their numbers, (n_support,);  coef : (C, n_support)
    """

    rows: NDArray[np.intp]
    coef: NDArray[np.float64]


def is_expansion(model: Model) -> bool:
    """True of a machine of solver="exact" whose landmarks are all rows."""
    map = model.map
    known = map.landmarks is not None and map.rank is None and not map.objects and model.local is None
    return known and SOLVERS[model.recipe.solver].in_memory and map.n_components == model.facts["rows"]


def support_of(model: Model, X: Any) -> Support:
    """Rows of X, those of the training, that support an exact machine; of equal rows the first."""
    first: dict[bytes, int] = {}
    for i, row in enumerate(contents(model.scaling.apply(X))):
        first.setdefault(row, i)
    coef = np.zeros((len(X), model.coef.shape[1]))
    for row, values in zip(contents(model.map.landmarks), model.coef, strict=True):
        coef[first[row]] += values
    size = np.abs(coef).max(axis=1)
    rows = np.flatnonzero(size > model.loss.no_support * size.max())
    return Support(rows, np.ascontiguousarray(coef[rows].T))
