"""Tuner: the search of `dkernel tune` with the interface of a scikit-learn search."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if

from dkernel.errors import RecipeError
from dkernel.estimators.base import KernelMachine
from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import NamedParameters
from dkernel.estimators.validation import facts_of_targets, parse_landmarks
from dkernel.leaves.tuning.search import tune
from dkernel.streaming.execution.connect import default_executor
from dkernel.training.checkpoint import Checkpoint

_TUNER_LINES = (
    "rank",
    "rungs",
    "rows",
    "progressive_loss",
    "left_out_loss",
    "score",
    "error",
    "rmse",
)  # these entries of a line of the leaderboard are no parameters


def _results(leaderboard: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The leaderboard as `cv_results_` of a scikit-learn search."""
    params = [{name: value for name, value in line.items() if name not in _TUNER_LINES} for line in leaderboard]
    names = dict.fromkeys(name for each in params for name in each)
    results: dict[str, Any] = {"params": params}
    for name in names:
        values = [each.get(name) for each in params]
        results[f"param_{name}"] = np.ma.masked_array(
            np.array(values, dtype=object), mask=[name not in each for each in params]
        )
    # None of a candidate that diverged or never ran.
    losses = [line.get("progressive_loss", line.get("left_out_loss")) for line in leaderboard]
    scores = [
        line.get("score", None if loss is None else -loss) for line, loss in zip(leaderboard, losses, strict=True)
    ]
    results["mean_test_score"] = np.array([np.nan if each is None else each for each in scores], dtype=np.float64)
    results["rank_test_score"] = np.array([line["rank"] for line in leaderboard])
    results["n_resources"] = np.array([line.get("rows", 0) for line in leaderboard])
    return results


def _has(method: str) -> Callable[["Tuner"], bool]:

    def check(tuner: "Tuner") -> bool:
        machine = KernelClassifier() if tuner.estimator is None else tuner.estimator
        getattr(machine, method)  # its own refusal says why
        return True

    return check


class Tuner(MetaEstimatorMixin, NamedParameters):
    """Search by successive halving over the parameters of a classifier or regressor, on the full data.

    All candidates use the same rows: each block is read once for all of them, and candidates with the same map share
    its components. At each rung the worse half is dropped, by the loss on rows before they were used. The best
    candidate is trained at full size. Of up to 4,096 rows, unless alpha is given, each candidate is fitted as without a
    search, which is the first of them, and judged by the loss on rows left out of a fit.

    Parameters
    ----------
    estimator : KernelClassifier or KernelRegressor, default=None
        Estimator whose parameters all candidates share; None for a KernelClassifier.
    param_grid : dict, default=None
        Parameter -> values, of kernel, gamma, metric, scale, features, landmarks, n_components, loss and
        alpha; a gamma may also be a multiple, "2*auto" or "4*median". Those of
        gamma, metric and alpha that are "auto" and not on the grid get a default grid.
    budget : str or float, default="2passes"
        Limit of the search: "2passes" over the data, or a time, "10min", which ends it with a rung.
    checkpoint : str or path-like, default=None
        Folder in which `fit` saves every rung, so that a stopped search continues.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the best candidate; a gamma is part of the kernel.
    best_estimator_ : KernelClassifier or KernelRegressor
        `estimator` with these parameters, fitted on all rows.
    best_model_ : Model
        Its model.
    leaderboard_ : list of dict
        Candidates, the best first: rank, parameters, rungs, rows, progressive_loss (of few rows left_out_loss; with
        `scoring` of the estimator score), and error or rmse.
    cv_results_ : dict
        Leaderboard as scikit-learn's searches have it, one array a key: params, param_NAME, mean_test_score (the
        score, or the negative loss, of the leaderboard), rank_test_score, n_resources.
    best_score_ : float
        mean_test_score of the best, whose index best_index_ is 0.
    passes_ : float
        Passes of the search over the data; f"{passes_:.6g}passes" is the budget that repeats it.

    See Also
    --------
    KernelClassifier : Classifier to search over.
    KernelRegressor : Regressor to search over.

    References
    ----------
    K. Jamieson and A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS
    2016.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = (X**2).sum(axis=1) < 1.4
    >>> machine = KernelClassifier("gaussian", metric="identity", n_components=48, random_state=0)
    >>> tuner = Tuner(machine, {"gamma": [1e-4, 0.5], "alpha": [1e-6]}).fit(X, y)
    >>> tuner.best_params_
    {'alpha': 1e-06, 'kernel': 'Gaussian(gamma=0.5)'}
    >>> tuner.predict([[0.0, 0.0], [1.5, 1.5]])
    array([ True, False])
    """

    def __init__(
        self,
        estimator: Any = None,
        param_grid: Mapping[str, Sequence[Any]] | None = None,
        *,
        budget: str | float = "2passes",
        checkpoint: str | Path | None = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, eval_set: Any = None, groups: Any = None
    ) -> "Tuner":
        """Search and train on rows and labels, or on a Source with a label.

        Learns from rows; those of eval_set, or those held out, judge candidates and the best.

        Returns this object.

        Raises the errors of a fit: RecipeError, DataError, ClusterError.
        """
        machine = KernelClassifier() if self.estimator is None else self.estimator
        if not isinstance(machine, KernelMachine) or parse_landmarks(machine.landmarks)[1] is not None:
            raise RecipeError(
                f"A Tuner searches the settings of a KernelClassifier or KernelRegressor with landmarks by rule; "
                f"{machine!r} is none."
            )
        best = clone(machine)
        source, recipe, eval_set = best._open(X, y, sample_weight, eval_set, groups)
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)

        with default_executor() as executor, best._progress() as progress:
            search = tune(
                source,
                recipe,
                executor,
                self.param_grid,
                self.budget,
                progress=progress,
                checkpoint=checkpoint,
                validation=best._eval_reader(eval_set, executor),
            )
        best._keep_for_report(search.fit, progress, leaderboard=search.leaderboard)
        model = replace(search.fit.model, facts=search.fit.model.facts | facts_of_targets(y))
        best._take(model, search.fit.history, search.fit.chosen)
        best._warn_of_constants()
        self.best_estimator_ = best.set_params(**search.params)
        self.best_params_, self.leaderboard_, self.passes_ = search.params, search.leaderboard, search.passes
        self.cv_results_ = _results(search.leaderboard)
        self.best_index_, self.best_score_ = 0, float(self.cv_results_["mean_test_score"][0])
        self.best_model_ = self.model_ = best.model_
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(best, name):
                setattr(self, name, getattr(best, name))
        return self

    def predict(self, X: Any) -> Any:
        """Predict by the best estimator.

        Gives (n_samples,) or (n_samples, k) for rows X: Labels or numbers.
        """
        return self._best().predict(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the best estimator.

        Gives (n_samples,) or (n_samples, n_classes) for rows X: Scores.
        """
        return self._best().decision_function(X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Compute the probabilities of the best estimator, where its loss gives them.

        Gives (n_samples, n_classes) for rows X: Probabilities.
        """
        return self._best().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the score of the best estimator.

        Compares the answers for rows X with y, (n_samples,) or (n_samples, k) true labels or numbers: Accuracy or R^2.
        """
        return float(self._best().score(X, y, sample_weight))

    def report(self, path: str | PathLike[str]) -> None:
        """Write one HTML page about the search and the fit of the best, as `dkernel tune --report` does.

        Writes to path; NotFittedError before `fit`, UnsupportedError without matplotlib.
        """
        self._best().report(path)

    def _best(self) -> Any:
        require_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        machine = (KernelClassifier() if self.estimator is None else self.estimator).__sklearn_tags__()
        tags.estimator_type, tags.target_tags = machine.estimator_type, machine.target_tags
        tags.classifier_tags, tags.regressor_tags = machine.classifier_tags, machine.regressor_tags
        tags.input_tags.allow_nan = machine.input_tags.allow_nan
        return tags
