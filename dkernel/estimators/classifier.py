"""KernelClassifier: the support vector machine, logistic regression and ridge classifier of a kernel."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from dkernel.data.collections.dask_arrays import is_dask
from dkernel.errors import UnsupportedError
from dkernel.estimators.base import KernelMachine
from dkernel.estimators.errors import offered_if, require_fitted
from dkernel.estimators.parameters import Callbacks, ClassWeight, Folder, KernelLike, Landmarks, Seed
from dkernel.estimators.prediction import predicted, probable, scored
from dkernel.linear.losses import LOSSES


def _has_probabilities(estimator: "KernelClassifier") -> bool:
    fitted = getattr(estimator, "model_", None) if estimator.loss == "auto" else None
    loss = LOSSES.get(str(estimator.loss)) if fitted is None else fitted.loss
    if (loss is not None and loss.probable) or estimator.calibration is not None:
        return True
    raise UnsupportedError(
        f"A KernelClassifier with loss={estimator.loss!r} gives no probabilities: its scores are margins. "
        "Use loss='logistic' or loss='softmax', or calibration='platt' or 'isotonic'."
    )


def _can_stream(estimator: "KernelClassifier") -> bool:
    return estimator.calibration is None  # a calibration needs rows that were never learned from


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Kernel classifier: the sign of w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of loss(y, w . φ(x) + b) + alpha/2 |w|^2,  y = -1, +1

    Several classes are learned one against the rest. `fit` reads X in one or two passes and gives the model of `dkernel
    train` for the same settings and chunks, byte for byte. It uses the current `dask.distributed.Client`, else threads.

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
    landmarks : {"uniform", "stratified", "kmeans", "leverage", "rpcholesky"} or array, default="uniform"
        Rule that chooses the landmarks ("stratified" by class), or an array of landmarks in the units of X.
    loss : {"auto", "squared_hinge", "hinge", "logistic", "softmax", "perceptron", "squared"}, default="auto"
        Loss; "softmax" sees all classes at once. "auto" is "squared_hinge", or of few rows of several classes "softmax"
        with a linear kernel, where that has fewer wrong labels.
    alpha : float, "auto" or str, default="auto"
        Regularization; "auto" chooses from a path judged on the holdout, and "C=10" is 1 / (C n), as of SVC.
    solver : {"auto", "psgd", "normal", "pcg", "lbfgs", "exact"}, default="auto"
        Solver. "psgd" is preconditioned stochastic gradient descent. The others find the optimum: "normal" (squared
        loss, one pass for every alpha), "pcg" (squared loss), "lbfgs" (losses without kinks) and "exact" (all losses
        but the perceptron, up to 4,096 rows, all of them landmarks and none held out). "auto" is "exact" for so few
        rows, unless passes, patience, calibration, local, holdout or eval_set ask for another way, else "psgd".
        `partial_fit` always uses "psgd".
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
        Number of grids, rounded up to a multiple of 16; "auto" is 128 to 1,024, by rows, and fewer for many classes.
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
    class_weight : {"balanced"} or dict, default=None
        Weights of the classes, label -> weight.
    calibration : {"platt", "sigmoid", "isotonic"}, default=None
        Curve for each class that turns scores into probabilities, fitted to the holdout, for all losses but softmax;
        "sigmoid" is "platt". Labels remain those of the scores, and there is no `partial_fit`.
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
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the scores.
    coef_ : ndarray of shape (C, n_components_)
        Coefficients of the components, float64; C = 1 for two classes.
    intercept_ : ndarray of shape (C,)
        Intercepts, float64.
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
        Loss and accuracy of each round, and those of the holdout after each pass; with eval_set, patience or callbacks
        every eighth round also has `holdout_loss` and `holdout_accuracy`.
    chosen_ : dict
        Parameters that were chosen, with the reasons.

    See Also
    --------
    KernelRegressor : Regression with the same machinery.
    Tuner : Search over the parameters.
    OneClassSVM : Outlier detection.

    References
    ----------
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NeurIPS 2007.
    S. Ma and M. Belkin, "Diving into the shallows: a computational perspective on large-scale shallow learning",
    NeurIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1.4, "inside", "outside")
    >>> machine = KernelClassifier(gamma=0.5, n_components=64).fit(X, y)
    >>> machine.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['inside', 'outside'], dtype='<U7')
    """

    _task: ClassVar[str] = "classify"

    def __init__(
        self,
        kernel: KernelLike = "auto",
        *,
        gamma: str | float = "auto",
        features: str = "auto",
        n_components: str | int = "auto",
        landmarks: Landmarks = "uniform",
        loss: str = "auto",
        alpha: str | float = "auto",
        solver: str = "auto",
        passes: str | int = "auto",
        patience: int = 0,
        polish: str | int = "auto",
        local: str = "auto",
        n_grids: str | int = "auto",
        cell_rows: str | int = "auto",
        cell_overlap: str | float = "auto",
        cell_partitions: int = 1,
        one_hot: Any = "auto",
        max_model_size: str | int | None = None,
        effort: str = "normal",
        max_seconds: float | None = None,
        scale: str | None = "auto",
        metric: str = "auto",
        class_weight: ClassWeight = None,
        calibration: str | None = None,
        holdout: float = 0.05,
        dtype: str = "auto",
        random_state: Seed = None,
        categorical_features: Any = "from_dtype",
        missing: str = "indicator",
        dates: str = "calendar",
        checkpoint: Folder = None,
        warm_start: bool = False,
        callbacks: Callbacks = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            kernel=kernel, gamma=gamma, features=features, n_components=n_components, landmarks=landmarks, loss=loss,
            alpha=alpha, solver=solver, passes=passes, patience=patience, polish=polish, local=local,
            n_grids=n_grids, cell_rows=cell_rows, cell_overlap=cell_overlap,
            cell_partitions=cell_partitions, one_hot=one_hot,
            max_model_size=max_model_size, effort=effort, max_seconds=max_seconds, scale=scale, metric=metric,
            holdout=holdout, dtype=dtype, random_state=random_state, categorical_features=categorical_features,
            missing=missing, dates=dates, checkpoint=checkpoint, warm_start=warm_start,
            callbacks=callbacks, verbose=verbose,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibration = calibration

    @available_if(_can_stream)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, old: Any = None
    ) -> "KernelClassifier":
        """Learn from one more block of rows, each of which is used once.

        The first rows, 8 for each of n_components (4,096 for "auto"), are collected, and fitted anew by each call until
        they are complete. Scaling, gamma, alpha, landmarks and preconditioner stay those of these rows; later blocks
        are rounds of the solver, and the answer is the mean of its last iterates. So the first rows should be like the
        others, and blocks in a mixed order. Where all data are there `fit` is better: it looks at all of them before it
        chooses. After a `fit`, or `dkernel.load`, learning continues from its model. One with a local stage keeps all
        else: cells that the rows touch are fitted again with them, and grids take a sweep more, see `old`.

        Parameters
        ----------
        X : array, dataframe or Dask collection of shape (n_samples, n_features)
            Rows of the block.
        y : array of shape (n_samples,)
            Labels.
        classes : array of shape (n_classes,), default=None
            All labels that may come; needed by the first call.
        sample_weight : array of shape (n_samples,), default=None
            Weights; a row of weight k is k rows, and one of weight 0 is none.
        old : array, dataframe or Dask collection of shape (n_old, n_features), default=None
            Rows of the training, all or a sample. Grids are held by them; other models do not look.

        Returns
        -------
        KernelClassifier
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        self._partial_fit(X, y, classes, sample_weight, old)
        return self

    def _learned(self) -> None:
        self.classes_ = self.model_.classes
        self.coef_, self.intercept_ = self.model_.coef.T, self.model_.intercept

    def predict(self, X: Any) -> Any:
        """Predict the labels of the rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples,)
            Labels. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "classes_")
        return self._answer(X, predicted, self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples,) or (n_samples, n_classes)
            Scores, float32; of two classes one, positive for the second. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "classes_")
        return self._answer(X, scored, "float32", None if len(self.classes_) == 2 else len(self.classes_))

    @offered_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Compute P(class | x), for loss="logistic" or "softmax", or with a calibration.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_classes)
            Probabilities, float64. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "classes_")
        return self._answer(X, probable, "float64", len(self.classes_))

    @offered_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Compute the logarithms of `predict_proba`.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_classes)
            Logarithms, -inf where the probability is 0. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the share of right labels; of Dask collections where they are.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.
        y : array of shape (n_samples,)
            True labels.
        sample_weight : array of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        float
            Accuracy.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        if is_dask(X):
            return self._figure("accuracy", X, y, sample_weight)
        require_fitted(self, "classes_")
        positive = self.model_.recipe.positive
        if positive is not None and np.asarray(y).dtype != bool:  # the model tells this label from the rest
            y = np.asarray(y) == positive
        return float(super().score(X, y, sample_weight))
