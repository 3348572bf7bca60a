"""KernelRegressor: ridge regression of a kernel."""

from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from dkernel.estimators.base import KernelMachine, deviating, predicted
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import Callbacks, Folder, KernelLike, Landmarks, Seed
from dkernel.estimators.validation import is_dask

__all__ = ["KernelRegressor"]


class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel regressor: w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of (y - w . φ(x) - b)^2 / 2 + alpha/2 |w|^2,  y centred and scaled to variance 1

    y may have several columns, (n, k): targets that share the features, the setup and alpha, each centred and scaled by
    itself. All choices are made by the sum of their losses, and everything else is as if each were fitted alone.

    Parameters
    ----------
    kernel, gamma, features, n_components : object
        As of KernelClassifier.
    landmarks : {"uniform", "kmeans", "leverage", "rpcholesky"} or array, default="uniform"
        As of KernelClassifier.
    loss : {"squared", "huber(1.35)", "epsilon_insensitive(0.1)", "quantile(0.5)"}, default="squared"
        Loss, with numbers of your own: of "huber" and "epsilon_insensitive" in standard deviations of y.
    alpha, solver, passes, patience, polish, local, n_grids, cell_rows, cell_overlap, scale, metric : object
        As of KernelClassifier.
    random_state, categorical_features, missing, dates, checkpoint, warm_start, callbacks, verbose : object
        As of KernelClassifier.

    Attributes
    ----------
    model_ : Model
        For `dkernel.save`.
    coef_ : ndarray of shape (n_components_,) or (k, n_components_)
        Coefficients of the columns of the map, float64.
    intercept_ : float or ndarray of shape (k,)
        Intercept.
    n_components_, history_, chosen_ : object
        As of KernelClassifier.

    See Also
    --------
    KernelClassifier : Classification with the same machinery.
    Tuner : Search over the parameters.

    References
    ----------
    C. Saunders, A. Gammerman and V. Vovk, "Ridge regression learning algorithm in dual variables", ICML 1998.

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
        self,
        kernel: KernelLike = "auto",
        *,
        gamma: str | float = "auto",
        features: str = "auto",
        n_components: str | int = "auto",
        landmarks: Landmarks = "uniform",
        loss: str = "squared",
        alpha: str | float = "auto",
        solver: str = "auto",
        passes: str | int = "auto",
        patience: int = 0,
        polish: str | int = "auto",
        local: str = "auto",
        n_grids: str | int = "auto",
        cell_rows: str | int = "auto",
        cell_overlap: str | float = "auto",
        scale: str | None = "auto",
        metric: str = "auto",
        random_state: Seed = None,
        categorical_features: Any = "from_dtype",
        missing: str = "indicator",
        dates: str = "seconds",
        checkpoint: Folder = None,
        warm_start: bool = False,
        callbacks: Callbacks = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            kernel=kernel, gamma=gamma, features=features, n_components=n_components, landmarks=landmarks, loss=loss,
            alpha=alpha, solver=solver, passes=passes, patience=patience, polish=polish, local=local,
            n_grids=n_grids, cell_rows=cell_rows, cell_overlap=cell_overlap, scale=scale, metric=metric,
            random_state=random_state,
            categorical_features=categorical_features, missing=missing, dates=dates,
            checkpoint=checkpoint, warm_start=warm_start, callbacks=callbacks, verbose=verbose,
        )  # fmt: skip

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, eval_set: Any = None) -> "KernelRegressor":
        """Learn from rows and numbers.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : array of shape (n_samples,) or (n_samples, k), default=None
            Numbers; None for a Source, which has a label.
        sample_weight : array of shape (n_samples,), default=None
            Weights; a row of weight k is k rows, and one of weight 0 is none.
        eval_set : (X, y), (X, y, sample_weight) or Source, default=None
            Rows by which alpha, iterate and the end of the passes are judged, in place of a holdout; up to 16,384 of
            them. The fit then learns from all rows of X.

        Returns
        -------
        KernelRegressor
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        ClusterError
            If the workers are lost, or refuse the versions of this process.
        """
        self._fit(X, y, sample_weight, eval_set)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "KernelRegressor":
        """Learn from one more block of rows, each of which is used once: see `KernelClassifier.partial_fit`.

        Parameters
        ----------
        X : array, dataframe or Dask collection of shape (n_samples, n_features)
            Rows of the block.
        y : array of shape (n_samples,) or (n_samples, k)
            Numbers.
        sample_weight : array of shape (n_samples,), default=None
            Weights; a row of weight k is k rows, and one of weight 0 is none.

        Returns
        -------
        KernelRegressor
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        self._partial_fit(X, y, None, sample_weight)
        return self

    def _learned(self) -> None:
        coef, intercept = self.model_.coef, self.model_.intercept
        if len(intercept) > 1:
            self.coef_, self.intercept_ = coef.T, intercept
        else:
            self.coef_, self.intercept_ = coef[:, 0], float(intercept[0])

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the numbers of the rows.

        The deviation is that of a label at x from its prediction: of the function, as a Gaussian process has it, and of
        the noise, whose own is `model_.facts["noise"]`.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            If True, give the standard deviations too; for solver="normal".

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples,) or (n_samples, k)
            Predictions, float64; with `return_std` the pair of them and of their deviations. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        UnsupportedError
            If the deviation is asked for and the model does not know it.
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
        """Compute R^2, of several targets their mean; of Dask collections where they are.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.
        y : array of shape (n_samples,) or (n_samples, k)
            True numbers.
        sample_weight : array of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        float
            R^2.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        if is_dask(X):
            return self._figure("r2", X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
