"""KernelRegressor: ridge regression of a kernel."""

from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from dkernel.estimators.base import KernelMachine, deviating, predicted
from dkernel.estimators.inputs import is_dask
from dkernel.estimators.refusals import require_fitted

__all__ = ["KernelRegressor"]


class KernelRegressor(RegressorMixin, KernelMachine):
    """Regression by w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of (y - w . φ(x) - b)^2 / 2 + alpha/2 |w|^2,  y centred and scaled to variance 1

    Parameters
    ----------
    kernel, gamma, features, n_components, landmarks, alpha, solver, passes, patience, polish, scale, metric,
        random_state, checkpoint, warm_start, callbacks : as of KernelClassifier; no landmarks by class
    loss : "squared" | "huber(1.35)" | "epsilon_insensitive(0.1)" | "quantile(0.5)", with numbers of your own: of the
        first two in standard deviations of y

    Attributes
    ----------
    model_ : the Model, for `dkernel.save`
    coef_ : float64 (n_components_,) of the map's columns; intercept_ : float
    n_components_, history_, chosen_ : as of KernelClassifier

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> machine = KernelRegressor(n_components=64).fit(X, np.sin(X[:, 0]))
    >>> machine.predict([[1.5]]).round(2)
    array([1.], dtype=float32)
    """

    _task: ClassVar[str] = "regress"

    def __init__(
        self, kernel="auto", *, gamma="auto", features="auto", n_components="auto", landmarks="uniform",
        loss="squared", alpha="auto", solver="auto", passes="auto", patience=0, polish=0, scale="auto", metric="auto",
        random_state=None, checkpoint=None, warm_start=False, callbacks=None,
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
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None) -> "KernelRegressor":
        """Learn from rows X (n, p) and numbers y (n,): numpy, pandas, Dask; or from a Source with a label, alone.

        `validation` is as of `KernelClassifier.fit`.
        """
        self._fit(X, y, sample_weight, validation)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "KernelRegressor":
        """Learn from one more block of rows, each of which is used once: see `KernelClassifier.partial_fit`."""
        self._partial_fit(X, y, None, sample_weight)
        return self

    def _learned(self) -> None:
        self.coef_, self.intercept_ = self.model_.coef[:, 0], float(self.model_.intercept[0])

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions, float32 (n,); with `return_std` the pair of them and of their standard deviations, float64 (n,).

        The deviation is that of a label at x from its prediction: of the function, as a Gaussian process has it, and of
        the noise, whose own is `model_.facts["noise"]`. For solver="normal".
        """
        if not return_std:
            return self._answer(X, predicted, "float32")
        require_fitted(self, "model_")
        self.model_.known_variance()
        return self._answer(X, predicted, "float32"), self._answer(X, deviating, "float64")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2; of Dask collections computed where they are."""
        if is_dask(X):
            return self._figure("r2", X, y, sample_weight)
        return float(super().score(X, y, sample_weight))
