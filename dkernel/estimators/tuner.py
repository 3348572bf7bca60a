"""Tuner: the search of `dkernel tune` with the face of a scikit-learn search."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if

from dkernel.data import Source
from dkernel.errors import RecipeError
from dkernel.estimators.base import KernelMachine
from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.validation import rule_of, source_of
from dkernel.execution.connect import default_executor
from dkernel.persistence.checkpoint import Checkpoint
from dkernel.problem.reservoir_roles import counted
from dkernel.recipe import Recipe
from dkernel.solving.exact import deduplicate
from dkernel.training.missing_values import with_missing_values
from dkernel.tuning.search import TuneResult, tune

__all__ = ["Tuner"]


def _has(method: str) -> Callable[["Tuner"], bool]:
    """Whether the estimator of the search has a method."""

    def check(tuner: "Tuner") -> bool:
        machine = KernelClassifier() if tuner.estimator is None else tuner.estimator
        getattr(machine, method)  # its own refusal says why
        return True

    return check


class Tuner(MetaEstimatorMixin, BaseEstimator):
    """Successive halving over the settings of a classifier or regressor, in the stream: see `dkernel tune`.

    All candidates see the same rows, a block is read once for all of them, and those of one map share its columns. The
    worse half leaves at each rung, by the loss on rows before they were used; the last is trained at its full size.

    Parameters
    ----------
    estimator : KernelClassifier or KernelRegressor, whose parameters all candidates share; None for a KernelClassifier
    grid : {parameter: [values]}: kernel, gamma, metric, scale, features, landmarks, sampling, n_components, loss,
        alpha; a gamma may also be a multiple, "2*auto" or "4*median". Where gamma, metric and alpha are "auto" and not
        on the grid, they have one of their own
    budget : of the search, at most: "2passes" over the data, or a time, "10min", which ends it with a rung
    checkpoint : folder in which `fit` keeps every rung, to go on after a stop, or None

    Attributes
    ----------
    best_params_ : parameter -> the survivor's value; of a gamma, the kernel with its number
    best_estimator_ : `estimator` with these, fitted on all rows in the way it raced; best_model_ is its Model
    leaderboard_ : list of dicts, the best first: rank, parameters, rungs, rows, progressive_loss, and error or rmse
    passes_ : of the search over the data; f"{passes_:.6g}passes" is the budget that does the same again

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = (X**2).sum(axis=1) < 1.4
    >>> machine = KernelClassifier("gaussian", metric="identity", n_components=48, random_state=0)
    >>> tuner = Tuner(machine, {"gamma": [1e-4, 0.5], "alpha": [1e-6]}).fit(X, y)
    >>> tuner.best_params_
    {'alpha': 1e-06, 'kernel': 'Gaussian(gamma=0.5)'}
    >>> tuner.predict([[0.0, 0.0], [2.0, 2.0]])
    array([ True, False])
    """

    best_params_: dict[str, Any]
    best_estimator_: Any
    best_model_: Any
    leaderboard_: list[dict[str, Any]]
    passes_: float

    def __init__(
        self,
        estimator: Any = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        *,
        budget: str | float = "2passes",
        checkpoint: str | Path | None = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.budget = budget
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "Tuner":
        """Search and train on rows X (n, p) and labels y (n,), or on a Source with a label, alone."""
        machine = KernelClassifier() if self.estimator is None else self.estimator
        if not isinstance(machine, KernelMachine) or rule_of(machine.landmarks)[1] is not None:
            raise RecipeError(
                f"A Tuner searches the settings of a KernelClassifier or KernelRegressor with landmarks by rule; "
                f"{machine!r} is none."
            )
        best = clone(machine)
        recipe = best._recipe()
        source = source_of(best, X, y, sample_weight, recipe.dtype, encode={"missing": recipe.missing})
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)

        def run(source: Source, recipe: Recipe) -> TuneResult:
            source = counted(source, executor)
            if best._merges(X, source):
                source = deduplicate(source, recipe, executor)
            return tune(source, recipe, executor, self.grid, self.budget, checkpoint=checkpoint)

        with default_executor() as executor:
            found = with_missing_values(run, source, recipe, checkpoint)
        best.model_, best.history_, best.chosen_ = found.fit.model, found.fit.history, found.fit.chosen
        best.n_components_ = best.model_.map.n_columns
        best._learned()
        self.best_estimator_ = best.set_params(**found.params)
        self.best_params_, self.leaderboard_, self.passes_ = found.params, found.leaderboard, found.passes
        self.best_model_ = self.model_ = best.model_
        self.n_features_in_ = best.n_features_in_
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
        if hasattr(best, "classes_"):
            self.classes_ = best.classes_
        return self

    def predict(self, X: Any) -> Any:
        """As the best estimator does."""
        return self._best().predict(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """As the best estimator does."""
        return self._best().decision_function(X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """As the best estimator does, where its loss gives probabilities."""
        return self._best().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As the best estimator does."""
        return float(self._best().score(X, y, sample_weight))

    def _best(self) -> Any:
        require_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        machine = (KernelClassifier() if self.estimator is None else self.estimator).__sklearn_tags__()
        tags.estimator_type, tags.target_tags = machine.estimator_type, machine.target_tags
        tags.classifier_tags, tags.regressor_tags = machine.classifier_tags, machine.regressor_tags
        tags.input_tags.sparse = True
        return tags
