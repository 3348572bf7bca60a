"""KernelClassifier: the support vector machine, logistic regression and ridge classifier of a kernel."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from dkernel.errors import UnsupportedError
from dkernel.estimators.base import KernelMachine, predicted, probable, scored
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.validation import is_dask

__all__ = ["KernelClassifier"]


def _has_probabilities(estimator: "KernelClassifier") -> bool:
    if estimator.loss in ("logistic", "softmax") or estimator.calibration is not None:
        return True
    raise UnsupportedError(
        f"A KernelClassifier with loss={estimator.loss!r} gives no probabilities: its scores are margins. "
        "Use loss='logistic' or loss='softmax', or calibration='platt' or 'isotonic'."
    )


def _can_stream(estimator: "KernelClassifier") -> bool:
    return estimator.calibration is None  # which wants rows that were never learned from


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Classifier of the sign of w . φ(x) + b, with φ(x) . φ(z) ≈ k(x, z); many classes one against the rest.

    minimize over w, b:  mean of loss(y, w . φ(x) + b) + alpha/2 |w|^2,  y = -1, +1

    `fit` streams X through the map in one or two passes and gives the model of `dkernel train` for the same recipe and
    chunks, byte for byte. It runs under the current `dask.distributed.Client` when there is one, else on threads.

    Parameters
    ----------
    kernel : a Kernel, an expression such as 'Gaussian(gamma="auto") + Linear()', a name such as "laplacian", or "auto":
        Gaussian, Laplacian or a sum of them, judged on the sample
    gamma : number | "auto" | "median" | "scale"; fills a kernel given by name, or one with gamma="auto" in it
    features : "auto" | "nystrom" | "random" | "exact" | "fourier" | "maclaurin" | "tensorsketch"
    n_components : columns of the map, or "auto"; with fewer rows than landmarks, Nystrom uses all rows
    landmarks : of Nystrom features: "uniform" | "stratified" (by class) | "kmeans" | "leverage" | "rpcholesky"; or an
        array of them (c, p), in the units of X
    loss : "squared_hinge" | "hinge" | "logistic" | "softmax", all classes at once | "perceptron" | "squared"
    alpha : number | "auto", from a path judged on the holdout | "C=10", which is 1 / (C n) as in scikit-learn's SVC
    solver : "psgd", and of the exact optimum "normal" (squared loss: one pass, every alpha), "pcg" (squared loss),
        "lbfgs" (losses without kinks) and "exact" (all but the perceptron, of up to 4,096 rows: all are landmarks and
        none is held out); "auto" is "exact" for so few rows, but of a Source, else "psgd". `partial_fit` steps as
        "psgd" does
    passes : over the data; "auto": 1, of rows that are few for their columns 2; of "pcg" and "lbfgs" the most, 100
        where it is 1
    patience : after so many passes of "psgd" in a row that have not lowered the loss on the validation set, or else on
        the holdout, there are no more; 0 for all
    polish : after "psgd", at most so many passes of "pcg" or "lbfgs"; "auto", up to 10 of rows that are few for their
        columns, where passes are "auto" too and the loss has no kinks
    scale : "auto" | "standard" | "minmax" | "global" | "none"; None is "none"
    metric : "auto" | "identity" | "diagonal" | "full": the inner product of the inputs, learned from the gradients of a
        first fit to the sample; "auto" takes it where it helps and gamma is open
    calibration : None | "platt" | "isotonic": `predict_proba` of any loss but softmax, by a curve for each class that
        is fitted to the scores of the holdout, rows that the fit did not learn from; labels stay those of the
        scores, and there is no `partial_fit`
    class_weight : None | "balanced" | {label: weight}
    random_state : seed; None is 0, so a fit can always be repeated; of a RandomState a seed is drawn
    categorical_features : "from_dtype" (text and categories of data frames), None, or a list of columns: one-hot inputs
        of value sqrt(1/2), of many values the 100 most frequent and a hash of the others
    missing : "indicator" | "mean" | "error": values of X that are missing become the mean of the column, with an input
        that says so where `fit` saw such, or are refused
    checkpoint : folder in which `fit` keeps what it has done, or None; a fit that finds itself begun there goes on, to
        the same model, and one that finds another fit there is refused
    warm_start : whether a second `fit` goes on from the first, as `partial_fit` does, `passes` times over its rows
    callbacks : functions that are called with each line of `history_` as it is made, a dict; where one returns True the
        passes end, and the best so far is the model

    Attributes
    ----------
    model_ : the Model, for `dkernel.save`
    classes_ : labels in the order of the scores
    coef_ : float64 (C, n_components_) of the map's columns, C = 1 for two classes; intercept_ : float64 (C,)
    n_components_ : columns of the map
    history_ : per round the progressive loss and accuracy, per pass those of the holdout; with validation, patience or
        callbacks at every eighth round also `holdout_loss` and `holdout_accuracy`
    chosen_ : what was left open, and what it became

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
        self, kernel="auto", *, gamma="auto", features="auto", n_components="auto", landmarks="uniform",
        loss="squared_hinge", alpha="auto", solver="auto", passes="auto", patience=0, polish="auto", scale="auto",
        metric="auto", class_weight=None, calibration=None, random_state=None,
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
        self.class_weight = class_weight
        self.calibration = calibration
        self.random_state = random_state
        self.categorical_features = categorical_features
        self.missing = missing
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None) -> "KernelClassifier":
        """Learn from rows X (n, p) and labels y (n,): numpy, pandas, Dask; or from a Source with a label, alone.

        Parameters
        ----------
        sample_weight : (n,); a row of weight k is k rows, and one of weight 0 is none
        validation : (X, y), (X, y, sample_weight) or a Source: what alpha, iterate and the end of the passes are judged
            by, in place of a holdout; up to 16,384 of its rows. The fit then learns from all rows of X
        """
        self._fit(X, y, sample_weight, validation)
        return self

    @available_if(_can_stream)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "KernelClassifier":
        """Learn from one more block of rows, each of which is used once.

        The first rows, 8 for each of n_components (4,096 for "auto"), are collected, and fitted anew by each call until
        they are complete. Scaling, gamma, alpha, landmarks and preconditioner stay those of these rows; later blocks
        are rounds of the solver, and the answer is the mean of its last iterates. So the first rows should be like the
        others, and blocks in a mixed order. Where all data are there `fit` is better: it looks at all of them before it
        chooses. After a `fit`, or `dkernel.load`, its model goes on.

        Parameters
        ----------
        classes : all labels that may come; needed by the first call
        """
        self._partial_fit(X, y, classes, sample_weight)
        return self

    def _learned(self) -> None:
        self.classes_ = self.model_.classes
        self.coef_, self.intercept_ = self.model_.coef.T, self.model_.intercept

    def predict(self, X: Any) -> Any:
        """Labels (n,)."""
        require_fitted(self, "classes_")
        return self._answer(X, predicted, self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Scores, float32: (n,) for two classes, positive for the second; else (n, n_classes)."""
        require_fitted(self, "classes_")
        return self._answer(X, scored, "float32", None if len(self.classes_) == 2 else len(self.classes_))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """P(class | x), float64 (n, n_classes), with loss="logistic" or "softmax", or a calibration."""
        require_fitted(self, "classes_")
        return self._answer(X, probable, "float64", len(self.classes_))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """The logarithms of `predict_proba`, -inf where that is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of right labels; of Dask collections computed where they are."""
        if is_dask(X):
            return self._figure("accuracy", X, y, sample_weight)
        require_fitted(self, "classes_")
        positive = self.model_.recipe.positive
        if positive is not None and np.asarray(y).dtype != bool:  # of a model of this label against the rest
            y = np.asarray(y) == positive
        return float(super().score(X, y, sample_weight))
