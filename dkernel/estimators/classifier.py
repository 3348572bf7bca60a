"""KernelClassifier: the support vector machine, logistic regression and ridge classifier of a kernel."""

from typing import Any, ClassVar

from sklearn.base import ClassifierMixin

from dkernel.data.arrow_streams import is_stream
from dkernel.data.collections.dask_arrays import is_dask
from dkernel.errors import UnsupportedError
from dkernel.estimators.base import KernelMachine
from dkernel.estimators.conformal import sets
from dkernel.estimators.errors import offered_if, require_fitted
from dkernel.estimators.parameters import (
    Callbacks,
    ClassWeight,
    DateFormat,
    FolderPath,
    KernelLike,
    LandmarksLike,
    Local,
    Seed,
)
from dkernel.estimators.prediction import log_probability_block, probability_block, score_block
from dkernel.estimators.validation import as_plain, check_weight
from dkernel.losses.losses import LOSSES
from dkernel.model.model import Model


def _has_probabilities(estimator: "KernelClassifier") -> bool:
    stream, loss = estimator._partial, LOSSES.get(str(estimator.loss))
    asked = estimator.calibration not in (None, "none") or (loss is not None and loss.probable)
    # Of blocks the settings say it, before the first and after each.
    fitted = vars(estimator).get("model_") if stream is None else stream.model if stream.fitted_rows else None
    if asked if fitted is None else fitted.has_probabilities:
        return True
    raise UnsupportedError(
        f"This KernelClassifier with loss={estimator.loss!r} gives no probabilities: its scores are margins, and no "
        "calibration was fitted to rows that were left out. Use loss='logistic' or loss='softmax', or "
        "calibration='temperature' and a holdout."
    )


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Kernel classifier: the sign of w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z).

    minimize over w, b:  mean of loss(y, w . φ(x) + b) + alpha/2 |w|^2,  y = -1, +1

    Several classes are learned one against the rest, or all at once by the softmax loss. `fit` gives the model of
    `dkernel train` for the same settings and chunks, byte for byte. It uses the current `dask.distributed.Client`, else
    threads.

    Parameters
    ----------
    The parameters are those of the signature; `help` describes each.

    Attributes
    ----------
    model_, kernel_, n_components_, alpha_, n_iter_, norm_, support_, schema_, chosen_ : what a fit has found.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the scores.
    coef_ : ndarray of shape (C, p)
        Coefficients of the columns of X, float64, of a linear kernel without a local stage; others have none. C = 1 for
        two classes.
    component_coef_ : ndarray of shape (C, n_components_)
        Coefficients of the components, float64.
    intercept_ : ndarray of shape (C,)
        Intercepts, float64: of X @ coef_.T where coef_ is there, else of the components.
    history_ : list of dict
        Loss and accuracy of each round, and those of the holdout after each pass; with eval_set or callbacks
        every eighth round also has `holdout_loss` and `holdout_accuracy`.

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
        class_weight: ClassWeight = None,
        calibration: str | None = "auto",
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

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, old: Any = None
    ) -> "KernelClassifier":
        """Learn from one more block of rows, each of which is used once.

        The first rows, 8 for each of n_components (4,096 for "auto"), are collected. Until they are complete an answer
        that is asked for fits them anew; while they have one class it is what is predicted. Scaling, gamma, alpha,
        landmarks and preconditioner stay those of these rows; later blocks are rounds of the solver, and the answer is
        the mean of its last iterates. So the first rows should be like the others, and blocks in a mixed order. Where
        all data are there `fit` is better: it looks at all of them before it chooses. After a `fit`, or `dkernel.load`,
        learning continues from its model. One with a local stage keeps all else: cells that the rows touch learn them,
        and grids take a sweep more, see `old`. One of a table without a local stage takes 8 rows for each component or
        more at a time.

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

        Returns this object.

        Raises the errors of a fit: RecipeError, DataError, ClusterError.
        """
        return self._partial_fit(X, y, classes, sample_weight, old)

    def predict(self, X: Any) -> Any:
        """Predict the labels of the rows.

        Gives (n_samples,) for rows X: Labels.
        """
        require_fitted(self, "classes_")
        return self._answer(X, Model.predict, "label", self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the rows.

        Gives (n_samples,) or (n_samples, n_classes) for rows X: Scores, float32; of two classes one, for the second.
        """
        require_fitted(self, "classes_")
        return self._answer(X, score_block, "score", "float32", None if len(self.classes_) == 2 else len(self.classes_))

    @offered_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Compute P(class | x): by the loss where it is "logistic" or "softmax", else by the calibration.

        Gives (n_samples, n_classes) for rows X: Probabilities, float64.
        """
        require_fitted(self, "classes_")
        return self._answer(X, probability_block, "probability", "float64", len(self.classes_))

    @offered_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Compute the logarithms of `predict_proba`.

        Gives (n_samples, n_classes) for rows X: Logarithms, -inf where the probability is 0.
        """
        require_fitted(self, "classes_")
        return self._answer(X, log_probability_block, "probability", "float64", len(self.classes_))

    @offered_if(_has_probabilities)
    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False, groups: Any = None) -> Any:
        """Predict the set of classes that each row may have, by split conformal prediction.

        {class : 1 - P(class | x) <= q}

        q is the ceil(coverage (n + 1))-th smallest 1 - P(y | x) of n rows that the fit left out. The set of a row drawn
        as these are holds its class with a probability of `coverage`. It may be empty, where no class is as likely as
        nearly all classes of those rows were.

        X holds the rows: an array, dataframe, sparse matrix or Dask collection.
        coverage : float, default=0.9
            Share of the rows whose sets are to hold their class.
        by_class : bool, default=False
            Whether that is the share of each class, by a q of its own, and not of all rows.
        groups : the group of each row, for a coverage of each group.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_classes)
            True for classes in the set, in the order of `classes_`. Lazy for Dask collections.

        Raises the errors of a coverage; DataError: If a group is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(600, 2))
        >>> y = (X**2).sum(axis=1) < 1.4
        >>> machine = KernelClassifier(gamma=0.5, n_components=64).fit(X[:400], y[:400])
        >>> machine.predict_set([[0.0, 0.0], [3.0, 3.0]], coverage=0.95).tolist()
        [[False, True], [True, False]]
        """
        return sets(self, X, coverage, by_class, groups)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the share of right labels; of Dask collections where they are.

        Compares the answers for rows X with y, (n_samples,) true labels: Accuracy.
        """
        if is_dask(X) or is_stream(X):
            return self._figure("accuracy", X, y, sample_weight)
        require_fitted(self, "classes_")
        return float(super().score(X, as_plain(y), check_weight(sample_weight, X)))
