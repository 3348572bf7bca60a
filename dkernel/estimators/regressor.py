"""KernelRegressor: ridge regression of a kernel."""

from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from dkernel.estimators.base import KernelMachine, deviating, predicted
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.validation import is_dask

__all__ = ["KernelRegressor"]


class KernelRegressor(RegressorMixin, KernelMachine):
    """Regression by w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of (y - w . φ(x) - b)^2 / 2 + alpha/2 |w|^2,  y centred and scaled to variance 1

    y may have several columns, (n, k): targets that share the features, the setup and alpha, each centred and scaled by
    itself. What is chosen is chosen by the sum of their losses, and everything else is as if each were fitted alone.

    Parameters
    ----------
    kernel, gamma, features, n_components, landmarks, alpha, solver, passes, patience, polish, scale, metric,
        random_state, checkpoint, warm_start, callbacks : as of KernelClassifier; no landmarks by class
    loss : "squared" | "huber(1.35)" | "epsilon_insensitive(0.1)" | "quantile(0.5)", with numbers of your own: of the
        first two in standard deviations of y

    Attributes
    ----------
    model_ : the Model, for `dkernel.save`
    coef_ : float64 (n_components_,) of the map's columns, of k targets (k, n_components_); intercept_ : float, or (k,)
    n_components_, history_, chosen_ : as of KernelClassifier

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> machine = KernelRegressor(n_components=64).fit(X, np.sin(X[:, 0]))
    >>> machine.predict([[1.5]]).round(2)
    array([1.])
    >>> both = KernelRegressor(n_components=64).fit(X, np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])]))
    >>> both.predict([[1.5], [3.0]]).round(1).shape
    (2, 2)
    """

    _task: ClassVar[str] = "regress"

    def __init__(
        self, kernel="auto", *, gamma="auto", features="auto", n_components="auto", landmarks="uniform",
        loss="squared", alpha="auto", solver="auto", passes="auto", patience=0, polish="auto", scale="auto",
        metric="auto", random_state=None,
        categorical_features="from_dtype", missing="indicator", checkpoint=None, warm_start=False, callbacks=None,
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.features = features
        self.n_components = n_components
        self.landmarks = landmarks
        self.loss = loss
        self.alpha = alpha
        self.solver = solver
        self.passes = passes
        self.patience = patience
        self.polish = polish
        self.scale = scale
        self.metric = metric
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.missing = missing
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None) -> "KernelRegressor":
        """Learn from rows X (n, p) and numbers y, (n,) or (n, k): numpy, pandas, Dask; or from a Source with a label.

        `validation` is as of `KernelClassifier.fit`.
        """
        self._fit(X, y, sample_weight, validation)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "KernelRegressor":
        """Learn from one more block of rows, each of which is used once: see `KernelClassifier.partial_fit`."""
        self._partial_fit(X, y, None, sample_weight)
        return self

    def _learned(self) -> None:
        coef, intercept = self.model_.coef, self.model_.intercept
        if len(intercept) > 1:
            self.coef_, self.intercept_ = coef.T, intercept
        else:
            self.coef_, self.intercept_ = coef[:, 0], float(intercept[0])

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions, float64 (n,); with `return_std` the pair of them and of their standard deviations, float64 (n,).

        Of k targets both are (n, k).
        The deviation is that of a label at x from its prediction: of the function, as a Gaussian process has it, and of
        the noise, whose own is `model_.facts["noise"]`. For solver="normal".
        """
        require_fitted(self, "model_")
        k = len(self.model_.intercept)
        width = k if k > 1 else None
        predictions = self._answer(X, predicted, "float64", width)
        if not return_std:
            return predictions
        self.model_.known_variance()
        return predictions, self._answer(X, deviating, "float64", width)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, of several targets their mean; of Dask collections computed where they are."""
        if is_dask(X):
            return self._figure("r2", X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
