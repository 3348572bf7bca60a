"""Base class of classifier and regressor: parameters to a recipe, a fit, and the model's answers."""

import warnings
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dkernel.data.arrow_streams import is_stream, read_frames
from dkernel.data.block import Block
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.collections.dask_arrays import is_dask, unwrap
from dkernel.data.encoded_columns import reading_arguments
from dkernel.data.schema import ColumnSchema
from dkernel.data.source import Source
from dkernel.errors import ConstantLabelWarning, DataError, RecipeError, UnsupportedError
from dkernel.estimators.block_learning import BlockLearner
from dkernel.estimators.coefficients import LinearCoefficients
from dkernel.estimators.conformal import collect_conformal
from dkernel.estimators.errors import NotThereError, check_callbacks, require_fitted
from dkernel.estimators.groups import hold_out_groups
from dkernel.estimators.parameters import NamedParameters
from dkernel.estimators.prediction import BlockPrediction, Inputs, apply_prediction
from dkernel.estimators.support_vectors import find_support, is_expansion
from dkernel.estimators.validation import (
    draw_seed,
    facts_of_targets,
    make_source,
    open_stream,
    parse_categorical,
    parse_landmarks,
    refuse_reading,
    rows_for,
)
from dkernel.inference.evaluate import evaluate_model
from dkernel.inference.importance import importances
from dkernel.inference.score_columns import Written, output_columns
from dkernel.kernels import Kernel
from dkernel.leaf_table import load_leaf
from dkernel.model.local_settings import parse_settings, stage_names
from dkernel.model.model import Model
from dkernel.model.model_file import compute_digest
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS, early_end
from dkernel.solvers.sizes import MOST_HOLDOUT
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.connect import default_executor
from dkernel.streaming.progress import Progress
from dkernel.streaming.row_weights import count_weighted, read_sample
from dkernel.training.cautions import CONSTANT_LABEL
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import Validation, train

_OF_THE_RUN = ("checkpoint", "callbacks", "verbose")  # parameters that decide no result


class KernelMachine(LinearCoefficients, BlockLearner, NamedParameters):
    """Base class of the classifier and the regressor, fitted by `dkernel.training.fit`."""

    _task: ClassVar[str]
    _finished: Any = None
    _importances: NDArray[np.float64] | None = None
    local: Any
    model_: Model
    classes_: Any

    def set_params(self, **params: Any) -> Self:
        """Change parameters; `local__n_grids` and the like change settings of the local stage.

        Parameters
        ----------
        **params : Any
            Name of a parameter -> its value.

        Returns this object.

        Raises
        ------
        RecipeError
            If there is no parameter, or no setting of the local stage, of that name.
        """
        local = params.get("local", self.local)
        if isinstance(local, str) and any(name.startswith("local__") for name in params):
            if (settings := parse_settings(local)) is None:
                raise RecipeError(f"local={local!r} has no settings. Use {stage_names()}.")
            self.local = params["local"] = settings
        return super().set_params(**params)

    def _recipe(self) -> Recipe:
        """The recipe that the command would make of the same settings."""
        parameters = self.get_params(deep=False)
        seed = draw_seed(parameters.pop("random_state"))
        for name in _OF_THE_RUN:
            del parameters[name]
        if parameters["dtype"] == "auto":  # the first rows decide
            del parameters["dtype"]
        parameters["categorical"] = parse_categorical(parameters.pop("categorical_features"))
        parameters["landmarks"], _ = parse_landmarks(parameters["landmarks"])
        return Recipe(task=self._task, seed=seed, **parameters)

    def _dtype_of(self, X: Any) -> str:
        """The dtype of blocks of rows until all of them have been read, which may show that float32 is too short."""
        dtype = X.dtype if isinstance(X, Source) and X.dtype == "float64" else "float32"
        if self.dtype in ("auto", dtype) or not isinstance(X, Source):
            return dtype if self.dtype == "auto" else str(self.dtype)
        raise DataError(f"The source is of {dtype} and dtype={self.dtype!r}. Open it with dtype={self.dtype!r}.")

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, eval_set: Any = None, groups: Any = None
    ) -> Self:
        """Learn from rows and labels, or numbers.

        Learns from rows; those of eval_set, or those held out, judge alpha, iterate and the end of the passes.

        Returns this object.

        Raises the errors of a fit: RecipeError, DataError, ClusterError.

        Warns
        -----
        ConstantLabelWarning
            If numbers to learn are the same in all rows: they are what is predicted.
        """
        self._partial = None
        check_callbacks(self.callbacks)
        source, recipe, eval_set = self._open(X, y, sample_weight, eval_set, groups)
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint)

        with default_executor() as executor, self._progress() as progress:
            result = train(
                source,
                recipe,
                executor,
                progress=progress,
                landmarks=parse_landmarks(self.landmarks)[1],
                checkpoint=checkpoint,
                validation=self._eval_reader(eval_set, executor),
                callback=self._call_back if self.callbacks else None,
            )
        self._keep_support(X, source, result.model)
        self._keep_for_report(result, progress)
        model = replace(result.model, facts=result.model.facts | facts_of_targets(y))
        self._take(model, result.history, result.chosen)
        self._warn_of_constants()
        self._warn_if_not_converged()
        return self

    def _open(self, X: Any, y: Any, sample_weight: Any, eval_set: Any, groups: Any) -> tuple[Source, Recipe, Any]:
        """The source of a fit, the recipe in the precision of its rows, and the rows to judge by."""
        refuse_reading(self, X)
        recipe = self._recipe()
        encode = {"missing": recipe.missing, "dates": recipe.dates, "formats": recipe.formats}
        if is_stream(X):
            reading = {**encode, "categorical": recipe.categorical, "dtype": self.dtype}
            kernel = None if recipe.kernel == "auto" else recipe.kernel
            X, y, sample_weight = open_stream(X, y, sample_weight, "fit", kernel=kernel, **reading), None, None
        X = unwrap(X)
        recipe = recipe.replace(dtype=self._dtype_of(X))
        (X, y, sample_weight), eval_set = hold_out_groups(X, y, sample_weight, eval_set, groups, recipe)
        source = make_source(self, X, y, sample_weight, self.dtype, encode=encode)
        return source if self.dtype == "auto" else replace(source, in_dtype=None), recipe, eval_set

    def _keep_support(self, X: Any, source: Source, model: Model) -> None:
        """Keep the support vectors of an exact machine whose rows are in memory."""
        for name in ("support_", "support_vectors_", "dual_coef_"):
            self.__dict__.pop(name, None)
        if isinstance(X, Source) or is_stream(X) or is_dask(X) or source.sparse or not is_expansion(model):
            return
        if model.encoding is not None and source.encoding is None and source.filled is not None:
            source = source.filled()  # the fit met a missing value in sparse rows
        if source.in_dtype is not None and model.recipe.dtype != source.dtype:
            source = source.in_dtype(model.recipe.dtype)
        assert source.y is not None
        rows = source.X.compute(scheduler="sync")
        self.support_, self.dual_coef_ = find_support(model, rows, source.y.compute(scheduler="sync"))
        self.support_vectors_ = rows[self.support_]

    def _take(self, model: Model, history: list[dict[str, Any]], chosen: dict[str, str]) -> None:
        self.model_, self.history_, self.chosen_ = model, history, chosen | early_end(model.facts)
        self._importances = None
        self.n_components_ = model.map.n_components
        if model.classes is not None:
            self.classes_ = model.classes

    def _keep_for_report(self, result: Any, progress: Progress, **more: Any) -> None:
        phases = progress.seconds()
        record = {"phases": phases, "seconds": {"train": sum(phases.values())}, **more}
        self._finished = (result, {**record, "versions": result.model.facts.get("versions", {})})

    def _progress(self) -> Progress:
        """The command's progress on stderr, and the end of each phase, if `verbose`."""
        return Progress("auto" if self.verbose else "none", shortest=0.0)

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the fit, with its numbers."""
        return self.model_.map.kernel

    @property
    def alpha_(self) -> float:
        """The regularization of the fit."""
        return float(self.model_.recipe.alpha)

    @property
    def norm_(self) -> float | NDArray[np.float64] | None:
        """Norm of the function in the space of the kernel, |f|_H; None where the model does not hold it."""
        norm = self.model_.facts.get("norm")
        return None if norm is None else norm[0] if len(norm) == 1 else np.array(norm)

    @property
    def n_iter_(self) -> int:
        """Passes over the data in which the weights were learned."""
        facts, recipe = self.model_.facts, self.model_.recipe
        # Fewer than were asked for if a callback ended them.
        made = facts.get("passes", SOLVERS[recipe.solver].in_passes(recipe.passes))
        return max(1, int(made) + int(facts.get("solver", {}).get("passes", 0)))

    @property
    def schema_(self) -> dict[str, ColumnSchema] | None:
        """Column -> its schema in training: type, zone, share of missing values, range, levels.

        None of sparse rows and of objects.
        """
        require_fitted(self, "model_")
        return self.model_.schema

    @property
    def feature_weights_(self) -> Any:
        """Share of each column in the learned metric, a pandas Series by name; None where none was learned."""
        import pandas as pd

        weights = self.model_.column_weights
        return None if weights is None else pd.Series(weights, name="weight")

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Permutation importances: accuracy or R² of rows left out that is lost if a column is shuffled, mean of 5.

        The rows are those of the holdout, or of the folds of a fit without one.
        """
        require_fitted(self, "model_")
        if self._importances is None:
            left_out = [] if self._finished is None or self.model_.map.sparse else self._finished[0].left_out
            if not left_out:
                raise NotThereError(
                    "feature_importances_ is of dense rows that this fit left out, and there are none here. Use "
                    "sklearn.inspection.permutation_importance, or dkernel evaluate --importance, with other rows."
                )
            lost = importances([(model, rows) for model, rows, _ in left_out])["columns"]
            self._importances = np.array([lost[name]["mean"] for name in self.model_.places])
        return self._importances

    def _warn_of_constants(self) -> None:
        if CONSTANT_LABEL in self.chosen_:
            warnings.warn(f"{self.chosen_[CONSTANT_LABEL]}.", ConstantLabelWarning, stacklevel=3)

    def _warn_if_not_converged(self) -> None:
        """Warn, as scikit-learn's solvers do, if the passes ended before the optimum was reached."""
        facts, solver = self.model_.facts, self.model_.recipe.solver
        ended = early_end(facts)
        if ended and (SOLVERS[solver].until_converged or SOLVERS[solver].in_memory):
            more = f"more (passes={2 * facts['solver']['passes']}), or " if "solver" in facts else ""
            warnings.warn(
                f"solver={solver!r} was {ended['solver']}. Give it {more}a larger alpha.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _eval_reader(self, eval_set: Any, executor: Executor) -> Validation:
        """The function that reads the rows of an eval_set, once the encoding of the training rows is known."""
        return None if eval_set is None else partial(self._read_eval_rows, eval_set, executor)

    def _read_eval_rows(self, eval_set: Any, executor: Executor, training: Source, recipe: Recipe) -> Block:
        """Read the rows of an eval_set; a uniform sample if they are many."""
        pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
        parts = pair if isinstance(pair, tuple) else (pair,)
        if not 1 <= len(parts) <= 3 or (len(parts) == 1 and not isinstance(parts[0], Source)):
            raise DataError("eval_set is a tuple (X, y) or (X, y, sample_weight), or a Source with a label.")
        X, y, weight = (*parts, None, None)[:3]
        source = make_source(self, X, y, weight, recipe.dtype, fitting=False, encode={"encoding": training.reading})
        if source.label is None:
            raise DataError("eval_set has no label to judge by: open the source with one.")
        return read_sample(count_weighted(source, executor), executor, MOST_HOLDOUT, recipe.seed)

    def _call_back(self, line: dict[str, Any]) -> bool:
        """Call every callback with a line of the history; True if one of them ends the passes."""
        return True in [callback(line) for callback in self.callbacks or ()]

    def report(self, path: str | PathLike[str]) -> None:
        """Write one HTML page about the fit, as `dkernel train --report` does.

        Writes to path; NotFittedError before `fit`, UnsupportedError without matplotlib.
        """
        require_fitted(self, "model_")
        if self._finished is None:
            raise UnsupportedError("A report shows a fit: call it after fit, on the fitted estimator itself.")
        from dkernel.inference.summary import FitSummary

        write = load_leaf("report", "report", f"{type(self).__name__}.report").write
        result, record = self._finished
        write(path, result, FitSummary.of(result), {"model": type(self).__name__, **record})

    def summary(self, verbose: bool = False) -> str:
        """Describe the fit in some lines, as `dkernel train` does.

        What the model is; its figure on rows that were left out, beside a constant and a linear model; how sure it is;
        and what to check. A machine that was loaded has nothing to compare with.

        Parameters
        ----------
        verbose : bool, default=False
            Whether to add what was chosen, and why.

        Returns
        -------
        str
            Lines of text.

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from dkernel import KernelRegressor
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> machine = KernelRegressor("gaussian", gamma=0.5).fit(X, np.sin(X[:, 0]) * X[:, 1])
        >>> print(machine.summary())  # doctest: +ELLIPSIS
          model        400 components of a Gaussian kernel
          rmse         ... on 400 rows left out, which also chose the settings
          compare      the mean ...: clearly worse; linear model ...: clearly worse
          sure         90 % of the rows are within ... of their prediction
        """
        require_fitted(self, "model_")
        from dkernel.inference.summary import FitSummary

        finished = self._finished
        told = FitSummary.of_model(self.model_) if finished is None else FitSummary.of(finished[0])
        return "\n".join(told.lines(verbose))

    def __getstate__(self) -> Any:
        """State without the rows and lines that only a report needs."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_finished"}

    def conformalize(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Take the conformity scores of rows that the fit has not seen, in place of those that it left out itself.

        Nothing is fitted again. With groups, intervals and sets can be asked for by group: then each group is covered
        by itself.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows that are drawn as those to come are.
        y : array of shape (n_samples,), or of a regressor (n_samples, k)
            Labels or numbers.
        sample_weight : array of shape (n_samples,), default=None
            Weights.
        groups : array of shape (n_samples,), default=None
            Group of each row: text, whole numbers or booleans.

        Returns this object.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X, y, weights and groups have other lengths or labels than they may, or no row counts.
        UnsupportedError
            If a classifier has no probabilities.
        """
        require_fitted(self, "model_")
        table = collect_conformal(self, X, y, sample_weight, groups)
        facts = {**self.model_.facts, "conformal": {"rows": len(y), "of": "rows given"}}
        self.model_ = replace(self.model_, conformal=table, facts=facts)
        self._partial = None if self._partial is None else self._partial.with_model(self.model_)
        return self

    def _answer(self, X: Any, function: Any, word: str, dtype: Any, width: int | None = None) -> Any:
        """The answers of a function of blocks; in a dataframe they have the names of the columns that scoring writes.

        Parameters
        ----------
        word : of these columns, one of score_columns.WORDS
        """
        require_fitted(self, "model_")
        if is_stream(X):
            frames = read_frames(X, getattr(self, "feature_names_in_", ()))
            return np.concatenate([self._answer(frame, function, word, dtype, width) for frame in frames])
        model = self.model_
        X = rows_for(self, X)
        answer = BlockPrediction(
            function,
            model,
            lambda: f"model-{compute_digest(model)}",
            Inputs.of(model),
            partial(output_columns, model, (), Written((word,))),
            dtype,
            width,
        )
        return apply_prediction(answer, X)

    def _figure(self, name: str, X: Any, y: Any, sample_weight: Any) -> float:
        """Compute a figure of `evaluate` for Dask collections and streams."""
        require_fitted(self, "model_")
        model = self.model_
        reading: dict[str, Any] = {"columns": model.columns, "dtype": model.recipe.dtype, "kernel": model.map.kernel}
        reading |= reading_arguments(model.reading)
        if is_stream(X):
            source = open_stream(X, y, sample_weight, "score", **reading)
        else:
            source = from_arrays(rows_for(self, X), y, sample_weight, sparse=model.map.sparse, **reading)
        with default_executor() as executor:
            return float(evaluate_model(model, source, executor)[name])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags
