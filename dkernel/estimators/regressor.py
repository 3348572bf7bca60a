"""KernelRegressor: ridge regression of a kernel."""

from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from dkernel.data.collections.dask_arrays import is_dask
from dkernel.estimators.base import KernelMachine
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.prediction import deviating, predicted


class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel regressor: w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of (y - w . φ(x) - b)^2 / 2 + alpha/2 |w|^2,  y centred and scaled to variance 1

    y may have several columns, (n, k): targets that share components, setup and alpha. Each is centred and scaled by
    itself. Choices are made by the sum of their losses; everything else is as if each target were fitted alone.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        Kernel, an expression such as 'Gaussian(gamma="auto") + Linear()', a name such as "laplacian", or "auto":
        Gaussian, Laplacian or a sum of them, chosen on a sample.
    gamma : float or {"auto", "median", "scale"}, default="auto"
        Width of a kernel that is given by name, or that has gamma="auto"; "auto" chooses it on a sample.
    features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch", "none"}, default="auto"
        Kind of the map; "none" is a constant, so that grids or cells learn everything.
    n_components : int or "auto", default="auto"
        Number of components of the map: landmarks, or random features. With fewer rows, all rows are landmarks. "auto"
        is by rows, and fewer landmarks if more would gain little.
    landmarks : {"uniform", "kmeans", "leverage", "rpcholesky"} or array, default="uniform"
        Rule that chooses the landmarks, or an array of landmarks in the units of X.
    loss : {"squared", "huber(1.35)", "epsilon_insensitive(0.1)", "quantile(0.5)", "auto"}, default="squared"
        Loss; "auto" is "squared". The numbers can be changed; those of "huber" and "epsilon_insensitive" are in
        standard deviations of y.
    alpha : float, "auto" or str, default="auto"
        Strength of the regularization; "auto" chooses from a path judged on the holdout, and "C=10" is 1 / (C n) as in
        scikit-learn's SVR.
    solver : {"auto", "psgd", "normal", "pcg", "lbfgs", "exact"}, default="auto"
        Solver. "psgd" is preconditioned stochastic gradient descent. The others find the optimum: "normal" (squared
        loss, one pass for every alpha), "pcg" (squared loss), "lbfgs" (losses without kinks) and "exact" (up to 4,096
        rows, all of them landmarks and none held out). "auto" is "exact" for so few rows, unless passes,
        patience, local, holdout or eval_set ask for another way, else "psgd". `partial_fit` always uses "psgd".
    passes : int or "auto", default="auto"
        Passes over the data; "auto" is 1, or 2 if there are fewer than 64 rows per component. For "pcg" and "lbfgs" it
        is the upper limit, 100 if it is 1.
    patience : int, default=0
        The fit stops after so many passes of "psgd" in a row that did not lower the loss on eval_set, or else on the
        holdout; 0 for no limit.
    polish : int or "auto", default="auto"
        Upper limit of the passes of "pcg" or "lbfgs" after "psgd"; "auto" is up to 10 if there are few rows per
        component, passes is "auto" and the loss has no kinks.
    local : {"auto", "none", "grids", "cells"}, default="auto"
        Local stage, which learns the residual of the map, for targets that are too rough for some thousand components:
        "grids" is random binning, "cells" an exact machine in each cell of a partition of the rows. It is left out
        where the holdout gains less than one standard error, and is not for hinge and perceptron.
        "auto" tries both on some 4,000 rows and more, where kernel, gamma, map, alpha and solver are open.
    n_grids : int or "auto", default="auto"
        Number of grids, rounded up to a multiple of 16; "auto" is 128 to 1,024, by rows.
    cell_rows : int or "auto", default="auto"
        Most rows of a cell, at least 16; "auto" is 4,096. The work of the cells grows with the square of it.
    cell_overlap : float or "auto", default="auto"
        Rows beyond its walls that each cell learns from too, as a share of its own, 0 to 2; "auto" is 0.5.
    cell_partitions : int, default=1
        Number of partitions of all rows into cells, whose means are the predictions. Time and model file grow with it.
    one_hot : {"auto", "none"}, str or list of lists, default="auto"
        0/1 features that grids take for one category together: "auto" finds neighbours of which no row of a sample has
        two; or groups of names or patterns, "soil*;wild*".
    max_model_size : int or str, default=None
        Most bytes of the model file, "200MiB"; fewer grids are taken where their number is "auto", and a fit whose
        model may be larger is refused.
    effort : {"low", "normal", "high"}, default="normal"
        Work that the choices and local="auto" may take: "low" is a quarter and "high" four times as much.
    max_seconds : float, default=None
        Limit of the predicted work, in seconds of two cores of usual speed. Fewer components are taken where their
        number is "auto", the choices and the local stage take what is left, and a fit that needs more is refused. No
        clock is read, so the model is the same on every machine.
    scale : {"auto", "standard", "minmax", "global", "none"}, default="auto"
        Scaling of the features; None is "none". Use "none" for kernels of differences, and for features near 0:
        products of features that are not centred lose digits with the square of offset / deviation.
    metric : {"auto", "identity", "diagonal", "full"}, default="auto"
        Inner product of the features, learned from the gradients of a first fit to the sample; "auto" uses it if it
        lowers the loss and gamma is not given.
    holdout : float, default=0.05
        Share of the rows kept out of the fit, by which alpha and iterate are judged; 0 for none. "exact" keeps none.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision in which X is read; "auto" is float64 if its first rows have digits that float32 cannot hold.
    random_state : int, numpy Generator or RandomState, default=None
        Seed; None is 0, so a fit can always be repeated. A RandomState draws the seed.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Columns that are categories: text and categories of data frames, none, or these columns too. A category becomes
        one-hot inputs of value sqrt(1/2); if it has more than 100 values, the rare ones share inputs by a hash.
    missing : {"indicator", "mean", "error"}, default="indicator"
        Missing values of X: the mean of the column with a 0/1 input beside it, the mean alone, or an error.
    dates : {"calendar", "seconds"}, default="calendar"
        Inputs of dates: the seconds with year, month, weekday and hour, or the seconds alone.
    checkpoint : str or path-like, default=None
        Folder of the progress of `fit`. If it holds a stopped fit, the fit continues, to the same model; a folder of
        another fit is refused.
    warm_start : bool, default=False
        If True, a second `fit` continues from the first, as `partial_fit` does, with `passes` passes over its rows.
    callbacks : list of callable, default=None
        Functions that are called with each new line of `history_`, a dict. If one returns True the passes end, and the
        best iterate so far is the model.
    verbose : bool, default=False
        If True, the fit prints phases, choices, loss and time left on stderr, as the command does.

    Attributes
    ----------
    model_ : Model
        The model, which `dkernel.save` writes.
    coef_ : ndarray of shape (n_components_,) or (k, n_components_)
        Coefficients of the components, float64.
    intercept_ : float or ndarray of shape (k,)
        Intercept.
    n_components_ : int
        Components of the map.
    kernel_ : Kernel
        Kernel with its numbers.
    alpha_ : float
        Strength of the regularization.
    n_iter_ : int
        Passes of the solver.
    feature_weights_ : pandas.Series or None
        Share of each column in the learned metric; without one `sklearn.inspection.permutation_importance` helps.
    history_ : list of dict
        Loss and RMSE of each round, and those of the holdout after each pass; with eval_set, patience or callbacks
        every eighth round also has `holdout_loss` and `holdout_rmse`.
    chosen_ : dict
        Parameters that were chosen, with the reasons.

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
        self._partial_fit(X, y, None, sample_weight, old)
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
