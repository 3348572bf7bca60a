"""Coefficients of a fitted machine: those of its components, and those of its columns where its kernel is linear."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dkernel.data.encoding import NumberColumn
from dkernel.estimators.errors import NotThereError, require_fitted
from dkernel.features.base import COMPONENT_STRIP
from dkernel.kernels.analysis.linearity import is_linear
from dkernel.model.model import Model
from dkernel.numerics.array_types import F64
from dkernel.numerics.sparse_rows import SparseRows


class LinearCoefficients:
    """The coefficients of a machine with a model."""

    model_: Model

    @property
    def component_coef_(self) -> NDArray[np.float64]:
        """Coefficients of the components of the map, float64."""
        require_fitted(self, "model_")
        return self._shaped(self.model_.coef.T)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the columns of X, with X @ coef_.T + intercept_ the scores, of a linear kernel alone."""
        require_fitted(self, "model_")
        if why := explain_nonlinearity(self.model_):
            importances = "feature_importances_, " if hasattr(type(self), "feature_importances_") else ""
            raise NotThereError(
                f"coef_ has one number for each column of X: a {type(self).__name__} has it with a linear kernel on "
                f"columns of numbers, without a local stage, and this one {why}. Use {importances}dkernel.explain or "
                "sklearn.inspection.permutation_importance; component_coef_ has the numbers of the components."
            )
        return self._shaped(linear_form(self.model_)[0])

    @property
    def intercept_(self) -> Any:
        """Intercepts beside coef_ where that is there, else beside component_coef_, float64."""
        require_fitted(self, "model_")
        model = self.model_
        intercept = self._shaped(model.intercept if explain_nonlinearity(model) else linear_form(model)[1])
        return float(intercept) if np.ndim(intercept) == 0 else intercept

    def _shaped(self, values: F64) -> F64:
        """Values (C, ...) in the shape of scikit-learn: a regression of one target has no axis for it."""
        one = self.model_.classes is None and len(values) == 1
        return np.asarray(values[0] if one else values)


def explain_nonlinearity(model: Model) -> str:
    """Why the scores of a model are no linear function of its columns; empty if they are one."""
    if model.local is not None:
        return f"has a local stage of {model.local.kind}"
    columns = () if model.encoding is None else model.encoding.columns
    # The scores of complete rows see one input of a column of numbers, the number.
    encoded = [c.name for c in columns if not isinstance(c, NumberColumn) or c.kind != "number" or c.levels]
    if encoded:
        return f"encodes {', '.join(map(repr, encoded[:5]))}{', ...' if len(encoded) > 5 else ''}"
    if model.scaling.curves is not None:
        return "sees their ranks: fit with scale='standard'"
    return "" if is_linear(model.map.kernel) else f"has the kernel {model.map.kernel!r}"


def linear_form(model: Model) -> tuple[F64, F64]:
    """Coefficients (C, p) of the columns and intercepts (C,), both in units of the columns.

    Parameters
    ----------
    model : whose scores are linear: its components are a linear map of the scaled inputs, and a constant
    """
    map, scaling, p = model.map, model.scaling, model.map.n_in
    at_zero = map.components(_unit_rows(model, p, p + 1))  # one row of zeros
    slopes = np.empty((p, len(model.intercept)))
    for first in range(0, p, COMPONENT_STRIP):
        stop = min(first + COMPONENT_STRIP, p)
        slopes[first:stop] = (map.components(_unit_rows(model, first, stop)) - at_zero) @ model.coef
    slopes *= scaling.factor[:, None]  # no linear kernel has a learned metric, which would be a rotation behind
    intercept = model.intercept + (at_zero @ model.coef)[0] - np.broadcast_to(scaling.shift, p) @ slopes
    if model.encoding is None:
        return np.ascontiguousarray(slopes.T), intercept
    columns = [column for column in model.encoding.columns if isinstance(column, NumberColumn)]
    slopes = slopes[[model.encoding.positions[column.name].start for column in columns]]
    return np.ascontiguousarray(slopes.T), intercept - np.array([column.offset for column in columns]) @ slopes


def _unit_rows(model: Model, first: int, stop: int) -> Any:
    """Rows of a unit matrix as a map takes them; those beyond its columns are zeros."""
    rows = sp.eye_array(stop - first, model.map.n_in, k=first, format="csr")
    return SparseRows.of(rows) if model.map.sparse else rows.toarray()
