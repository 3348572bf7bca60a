"""`explain`: which columns of a row made its score what it is."""

from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.collections.tables import as_rows
from dkernel.errors import DataError, escape_controls
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.prediction import Inputs
from dkernel.estimators.validation import rows_for
from dkernel.leaves.explanation.shapley import shapley_values

MOST_SHOWN = 20  # columns in a table of notebooks


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of the scores of some rows.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_columns) or (n_samples, n_columns, n_outputs)
        Values; those of a row sum to its score, before it is clipped, less `base_values`.
    base_values : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Mean score of the background, the same for each row.
    errors : ndarray of the shape of `values`, or None
        One standard error of each value; None where they are exact.
    data : ndarray of shape (n_samples, n_columns)
        Rows as they were given.
    feature_names : list of str
        Names of the columns.

    See Also
    --------
    explain : Makes it.

    Examples
    --------
    >>> Explanation(np.zeros((2, 1)), np.zeros(2), None, np.ones((2, 1)), ["x"]).feature_names
    ['x']
    """

    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    errors: NDArray[np.float64] | None
    data: NDArray[Any]
    feature_names: list[str]

    def _repr_html_(self) -> str:
        """Table for notebooks: the columns that move the scores most, and what they do in the first row."""
        values = self.values.reshape(*self.values.shape[:2], -1)
        size = np.abs(values).mean(axis=(0, 2))
        lines = [("column", "first row", "moves its score by", f"mean size, {len(values):,} rows")]
        for j in np.argsort(-size, kind="stable")[:MOST_SHOWN]:
            errors = [] if self.errors is None else [f" ± {error:.1g}" for error in np.ravel(self.errors[0, j])]
            moved = ", ".join(f"{value:+.3g}{sure}" for value, sure in zip_longest(values[0, j], errors, fillvalue=""))
            lines.append((self.feature_names[j], str(self.data[0, j]), moved, f"{size[j]:.3g}"))
        cells = ("".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines)
        return escape_controls(f"<table><tr>{'</tr><tr>'.join(cells)}</tr></table>")


def explain(estimator: Any, X: Any, background: Any, *, random_state: int = 0) -> Explanation:
    """Compute the Shapley values of the scores of rows: how much each column moved the score of a row.

    The game is the interventional one over `background`: a set S of columns is worth v(S), the mean over background
    rows b of the score of b with the columns S of the row x, and the value of column g is

        φ_g = Σ_S |S|! (d - 1 - |S|)! / d! (v(S ∪ g) - v(S))   over all S without g, of d columns,

    so that Σ_g φ_g = score(x) - mean score of the background. It is exact for landmarks with a Gaussian (of one gamma),
    Laplacian or ProductCauchy kernel and no metric beyond a diagonal one: such a score is a sum of products, of which
    the sum over all S is an integral of a polynomial (Owen 1972). The cost is rows · background · landmarks · d² / 2.
    Other models are explained by two pairs of opposite permutations for each background row, with the standard errors
    of the values: those of other kernels or a full metric, and those with a local stage. A cell has walls across
    several columns and a Matern kernel of a distance, and a bin of a grid is found by a hash of all columns, so their
    scores are no sums of products, and a row with some columns of another may be in any cell or bin. A category is one
    column.

    Parameters
    ----------
    estimator : KernelClassifier or KernelRegressor
        Fitted estimator.
    X : array or dataframe of shape (n_samples, n_columns)
        Rows to explain, in memory.
    background : array or dataframe of shape (n_background, n_columns)
        Rows that stand for the data, some 100 of them.
    random_state : int, default=0
        Seed of the permutations.

    Returns
    -------
    Explanation
        Values, in units of `decision_function` or `predict`.

    Raises
    ------
    NotFittedError
        Before `fit`.
    DataError
        If there are no background rows, or rows are not those that the estimator takes.
    UnsupportedError
        If the model is of sparse rows or of objects.

    See Also
    --------
    sklearn.inspection.permutation_importance : Importances of columns over many rows.

    References
    ----------
    G. Owen, "Multilinear extensions of games", Management Science 18 (1972).

    Examples
    --------
    >>> from dkernel import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> machine = KernelRegressor("gaussian", gamma=0.2, n_components=32).fit(X, 2 * X[:, 0] - X[:, 1])
    >>> found = explain(machine, X[:1], X[:50])
    >>> bool(np.isclose(found.values.sum() + found.base_values[0], machine.predict(X[:1])[0]))
    True
    """
    require_fitted(estimator, "model_")
    model = estimator.model_
    model.layout.require_numbers("explain", "Explain a model of a table.")
    X, background = (rows.toarray() if hasattr(rows, "tocsr") else as_rows(rows) for rows in (X, background))
    if not len(background):
        raise DataError("background has no rows, and some are needed that stand for the data, such as 100.")
    inputs = Inputs.of(model)
    blocks = []
    for name, given in (("X", X), ("background", background)):
        rows = rows_for(estimator, given)
        block, unseen = inputs.gate(rows, f"{name}, row {{}}".format)
        unseen.warn()
        blocks.append(block)
    values, base, errors = shapley_values(model, blocks[0], blocks[1], random_state)
    base = np.broadcast_to(base, (len(values), len(base)))
    if values.shape[2] == 1:
        values, base, errors = values[..., 0], base[:, 0], None if errors is None else errors[..., 0]
    return Explanation(values, base, errors, np.asarray(X), [str(name) for name in model.columns])
