"""KernelPerceptron: the exact kernel perceptron, with a coefficient for each row, for data in memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dkernel.data.block import as_label
from dkernel.data.collections.dask_arrays import compute_values, dense, describe_row
from dkernel.data.collections.tables import as_rows, stays_sparse
from dkernel.data.compute import dask_compute
from dkernel.errors import DataError
from dkernel.estimators.errors import refusals, require_fitted
from dkernel.estimators.parameters import KernelLike, NamedParameters, Seed, check_parameters
from dkernel.estimators.prediction import BlockPrediction, Inputs, apply_prediction, content_key
from dkernel.estimators.validation import as_plain, check_table
from dkernel.leaves.transforms.kernel_maps import NystromFeatures
from dkernel.losses.losses import signs
from dkernel.numerics.layout import Layout
from dkernel.numerics.rows import array_digest
from dkernel.numerics.sparse_rows import RangeNames, SparseRows

DualMachine = tuple[Any, Any, NDArray[np.float64], NDArray[np.float64], NDArray[Any]]
"""Kernel, support vectors (s, p), coefficients (C, s), intercepts (C,), classes."""

MOST_PERCEPTRON_ROWS = 20_000  # their Gram matrix is 3.2 GB


class KernelPerceptron(ClassifierMixin, NamedParameters):
    """Perceptron in the space of a kernel: rows whose scores have the wrong sign are added until no score has.

    s(x) = sum over i of a_i k(x_i, x) + b;  on a mistake y_i s(x_i) <= 0:  a_i <- a_i + y_i, b <- b + y_i

    Rows come in their order. Where a machine with |w|² + b² <= B² and margin 1 exists and k(x, x) + 1 <= R², there are
    at most (R B)² mistakes, and the last pass makes none (Novikoff 1962). Several classes are one against the rest. The
    Gram matrix of all rows is held: for more than 20,000 use KernelClassifier(loss="perceptron"), on features out of
    core.

    Parameters
    ----------
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name.
    max_iter : int, default=100
        Most passes over the rows.
    fit_intercept : bool, default=True
        Learn b; without it b is 0.
    random_state : int, numpy Generator or RandomState, default=None
        Seed of the sample that an open gamma is the median of; None is 0.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Numbers of the rows with a coefficient.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, p)
        These rows.
    dual_coef_ : ndarray of shape (C, n_support)
        Times that a row was mistaken, with its sign; C = 1 for two classes.
    intercept_ : ndarray of shape (C,)
        b.
    mistakes_ : ndarray of shape (C,)
        Mistakes in all passes.
    n_iter_ : int
        Passes.
    converged_ : bool
        True where the last pass made no mistake.
    classes_ : ndarray
        Labels.
    kernel_ : Kernel
        Kernel with numbers.

    See Also
    --------
    KernelClassifier : Machines on features, for data of any size.

    References
    ----------
    M. Aizerman, E. Braverman and L. Rozonoer, "Theoretical foundations of the potential function method in pattern
    recognition learning", 1964.
    Y. Freund and R. Schapire, "Large margin classification using the perceptron algorithm", Machine Learning 1999.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> machine = KernelPerceptron(gamma=1.0).fit(X, [0, 1, 1, 0])
    >>> machine.predict(X).tolist(), machine.converged_
    ([0, 1, 1, 0], True)
    """

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        gamma: str | float = "auto",
        max_iter: int = 100,
        fit_intercept: bool = True,
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any) -> "KernelPerceptron":
        """Learn from rows and labels in memory.

        Parameters
        ----------
        X : array, dataframe or sparse matrix of shape (n_samples, n_features)
            Rows; those of a sparse matrix of more than 4,096 columns stay sparse.
        y : array of shape (n_samples,)
            Labels.

        Returns this object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If there is one class only, or more than 20,000 rows.
        """
        check_parameters(self)
        X, y = compute_values((X, y), dask_compute)
        X, y = as_rows(X), as_plain(y)
        with refusals():
            X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
            check_classification_targets(y)
        self.classes_, codes = np.unique(as_label(y, describe_row, "y"), return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"The labels have 1 class, {self.classes_.tolist()[0]!r}, in all {len(y):,} rows; a classifier needs "
                "two."
            )
        if len(y) > MOST_PERCEPTRON_ROWS:
            raise DataError(
                f"KernelPerceptron holds the Gram matrix of all rows, and {len(y):,} are more than "
                f"{MOST_PERCEPTRON_ROWS:,}. Use KernelClassifier(loss='perceptron')."
            )
        filled = NystromFeatures(self.kernel, gamma=self.gamma, n_components=1, random_state=self.random_state)
        self.kernel_ = filled.fit(X).kernel_
        Y = signs(codes, len(self.classes_)).astype(np.float64)
        X = X if stays_sparse(X) else dense(X)
        rows = _rows(X)
        alpha = self._learn(np.asarray(self.kernel_(rows, rows), dtype=np.float64), Y)
        self.support_ = np.flatnonzero(alpha.any(axis=1))
        self.support_vectors_, self.dual_coef_ = X[self.support_], np.ascontiguousarray(alpha[self.support_].T)
        return self

    def _learn(self, K: NDArray[np.float64], Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """a, (n, C), and b. The scores of all rows are kept up to date: a mistake costs a row of K, else nothing."""
        alpha, scores = np.zeros_like(Y), np.zeros_like(Y)
        of_intercept = float(self.fit_intercept)
        self.intercept_ = np.zeros(Y.shape[1])
        self.mistakes_ = np.zeros(Y.shape[1], dtype=np.int64)
        self.converged_ = False
        for turn in range(1, int(self.max_iter) + 1):
            self.n_iter_ = turn
            before = int(self.mistakes_.sum())
            for i in range(len(K)):
                wrong = Y[i] * scores[i] <= 0
                if wrong.any():
                    change = np.where(wrong, Y[i], 0.0)
                    alpha[i] += change
                    self.intercept_ += of_intercept * change
                    scores += (K[i][:, None] + of_intercept) * change
                    self.mistakes_ += wrong
            self.converged_ = int(self.mistakes_.sum()) == before
            if self.converged_:
                break
        return alpha

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the rows.

        Gives (n_samples,) or (n_samples, n_classes) for rows X: Scores; of two classes one, positive for the second.
        """
        require_fitted(self, "dual_coef_")
        width = None if len(self.dual_coef_) == 1 else len(self.classes_)
        return self._answer(X, score_rows, "score", np.float64, width)

    def predict(self, X: Any) -> Any:
        """Predict the labels of the rows.

        Gives (n_samples,) for rows X: Labels.
        """
        require_fitted(self, "dual_coef_")
        return self._answer(X, label_rows, "label", self.classes_.dtype)

    def _answer(self, X: Any, function: Any, word: str, dtype: Any, width: int | None = None) -> Any:
        support = _rows(self.support_vectors_)

        def key() -> str:
            text, dual = f"{self.kernel_!r}{self.classes_.tolist()!r}", (self.dual_coef_, self.intercept_)
            return f"perceptron-{content_key(text + array_digest(support), *dual)}"

        def names_of_answer() -> list[str]:
            return [word] if width is None else [f"{word}_{label}" for label in self.classes_.tolist()]

        if isinstance(support, SparseRows):
            names: Any = RangeNames(0, int(self.n_features_in_))
        else:
            names = list(getattr(self, "feature_names_in_", map(str, range(self.n_features_in_))))
        X, inputs = check_table(self, X), Inputs(Layout(names, "float64"))
        machine: DualMachine = (self.kernel_, support, self.dual_coef_, self.intercept_, self.classes_)
        return apply_prediction(BlockPrediction(function, machine, key, inputs, names_of_answer, dtype, width), X)


def _rows(X: Any) -> Any:
    return SparseRows.of(X) if hasattr(X, "tocsr") else X


def score_rows(machine: DualMachine, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of a block."""
    kernel, support, coef, intercept, _ = machine
    S = np.asarray(kernel(X, support), dtype=np.float64) @ coef.T + intercept
    return S[:, 0] if S.shape[1] == 1 else S


def label_rows(machine: DualMachine, X: NDArray[np.float64]) -> NDArray[Any]:
    """Labels of a block."""
    S = score_rows(machine, X)
    return np.asarray(machine[-1][(S > 0).astype(np.intp) if S.ndim == 1 else S.argmax(axis=1)])
