"""KernelRegressor: ridge regression of a kernel."""

from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from dkernel.data.arrow_streams import is_stream
from dkernel.data.collections.dask_arrays import is_dask
from dkernel.estimators.base import KernelMachine
from dkernel.estimators.conformal import intervals
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import Callbacks, DateFormat, FolderPath, KernelLike, LandmarksLike, Local, Seed
from dkernel.estimators.validation import as_plain, check_weight
from dkernel.model.model import Model


class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel regressor: w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of (y - w . φ(x) - b)^2 / 2 + alpha/2 |w|^2,  y centred and scaled to variance 1

    y may have several columns, (n, k): targets that share components, setup and alpha. Each is centred and scaled by
    itself. Choices are made by the sum of their losses; everything else is as if each target were fitted alone.

    Predictions are clipped to the range of the training labels, widened by a tenth of it on both sides. Those of linear
    kernels without a local stage, which follow a trend, and of quantiles are not.

    Parameters
    ----------
    The parameters are those of the signature; `help` describes each.

    Attributes
    ----------
    model_, kernel_, n_components_, alpha_, n_iter_, norm_, support_, schema_, chosen_ : what a fit has found.
    coef_ : ndarray of shape (p,) or (k, p)
        Coefficients of the columns of X, float64, of a linear kernel without a local stage; others have none.
    component_coef_ : ndarray of shape (n_components_,) or (k, n_components_)
        Coefficients of the components, float64.
    intercept_ : float or ndarray of shape (k,)
        Intercept: of X @ coef_.T where coef_ is there, else of the components.
    history_ : list of dict
        Loss and RMSE of each round, and those of the holdout after each pass; with eval_set or callbacks
        every eighth round also has `holdout_loss` and `holdout_rmse`.

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
        landmarks: LandmarksLike = "uniform",
        loss: str = "auto",
        scoring: str = "loss",
        alpha: str | float = "auto",
        solver: str = "auto",
        passes: str | int = "auto",
        polish: str | int = "auto",
        local: Local = "auto",
        max_model_size: str | int | None = None,
        effort: str = "normal",
        max_seconds: float | None = None,
        scale: str | None = "auto",
        metric: str = "auto",
        holdout: float = 0.05,
        dtype: str = "auto",
        random_state: Seed = None,
        categorical_features: Any = "from_dtype",
        missing: str = "indicator",
        dates: str = "calendar",
        formats: DateFormat = None,
        checkpoint: FolderPath = None,
        callbacks: Callbacks = None,
        verbose: bool = False,
    ) -> None:
        self._set_parameters(locals())

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, old: Any = None) -> "KernelRegressor":
        """Learn from one more block of rows, each of which is used once: see `KernelClassifier.partial_fit`.

        Parameters
        ----------
        X : array, dataframe or Dask collection of shape (n_samples, n_features)
            Rows of the block.
        y : array of shape (n_samples,) or (n_samples, k)
            Numbers.
        sample_weight : array of shape (n_samples,), default=None
            Weights; a row of weight k is k rows, and one of weight 0 is none.
        old : array, dataframe or Dask collection of shape (n_old, n_features), default=None
            Rows of the training, all or a sample. Grids are held by them; other models do not look.

        Returns this object.

        Raises the errors of a fit: RecipeError, DataError, ClusterError.
        """
        return self._partial_fit(X, y, None, sample_weight, old)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the numbers of the rows.

        The deviation is that of a label at x from its prediction: of the function, as a Gaussian process has it, and of
        the noise, whose own is `model_.facts["noise"]`.

        X holds the rows: an array, dataframe, sparse matrix or Dask collection.
        return_std : bool, default=False
            If True, give the standard deviations too; for solver="normal".

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples,) or (n_samples, k)
            Predictions, float64; with `return_std` the pair of them and of their deviations. Lazy for Dask collections.

        Raises the errors of an answer: NotFittedError, DataError.
        UnsupportedError
            If the deviation is asked for and the model does not know it.
        """
        require_fitted(self, "model_")
        k = len(self.model_.intercept)
        width = k if k > 1 else None
        predictions = self._answer(X, Model.predict, "score", "float64", width)
        if not return_std:
            return predictions
        self.model_.known_variance()
        return predictions, self._answer(X, Model.std, "std", "float64", width)

    def predict_interval(self, X: Any, coverage: float = 0.9, *, groups: Any = None) -> Any:
        """Predict an interval for the number of each row, by split conformal prediction.

        predict(x) - q w(x) ... predict(x) + q w(x)

        q is the ceil(coverage (n + 1))-th smallest |y - s(x)| / w(x) of n rows that the fit left out, and w a width
        that is large where errors are. Rows drawn as these are lie within with a probability of `coverage`, a mean over
        rows; of several targets each by itself.

        X holds the rows: an array, dataframe, sparse matrix or Dask collection.
        coverage : float, default=0.9
            Share of the rows that are to lie within.
        groups : the group of each row, for a coverage of each group.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, 2) or (n_samples, k, 2)
            Lower and upper ends, float64. Lazy for Dask collections; of k targets and a Dask dataframe the columns
            lower_0, upper_0, lower_1, ..., or with the names of the targets for numbers where y is a frame.

        Raises the errors of a coverage; DataError: If too few rows were left out for it, or a group is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 6, size=(1000, 1))
        >>> y = np.sin(x[:, 0]) + rng.normal(scale=0.1, size=1000)
        >>> machine = KernelRegressor(n_components=64).fit(x[:800], y[:800])
        >>> low, high = machine.predict_interval(x[800:]).T
        >>> bool(0.82 < np.mean((low <= y[800:]) & (y[800:] <= high)) < 0.97)
        True
        """
        return intervals(self, X, coverage, groups)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute R^2, of several targets their mean; of Dask collections where they are.

        Compares the answers for rows X with y, (n_samples,) or (n_samples, k) true numbers: R^2.
        """
        if is_dask(X) or is_stream(X):
            return self._figure("r2", X, y, sample_weight)
        return float(super().score(X, as_plain(y, classes=False), check_weight(sample_weight, X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
