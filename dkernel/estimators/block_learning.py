"""What a classifier and a regressor share to learn from blocks: their state between the calls, and their answers."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.collections.dask_arrays import is_dask
from dkernel.data.encoded_columns import read_as, reading_arguments
from dkernel.data.encoding import Encoding
from dkernel.data.encoding.unseen import UnseenValues
from dkernel.data.source import Source
from dkernel.errors import DataError, UnsupportedError
from dkernel.estimators.partial_fit import Partial, check_classes, explain_missing, read_blocks, sort_classes
from dkernel.estimators.validation import (
    check_table,
    facts_of_targets,
    make_source,
    parse_landmarks,
    refuse_reading,
)
from dkernel.inference.drift import find_drift, find_learned_drift, measure_moments, warn_of_learned
from dkernel.model.local_settings import parse_settings
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.connect import default_executor
from dkernel.streaming.row_weights import count_positive
from dkernel.training.reopening import settle_dtype
from dkernel.training.update import MOST_OLD, rows_in, update_model

# Attributes that wait until an answer is asked for: a fit of the collected rows is long, and each block would need one.
_OF_ANSWERS = frozenset({"model_", "history_", "chosen_", "n_components_", "classes_"})


class BlockLearner:
    """Base class of estimators with `partial_fit`."""

    _task: ClassVar[str]
    _partial: Partial | None = None
    _finished: Any
    chosen_: dict[str, str]
    landmarks: Any
    local: Any
    _recipe: Any
    _dtype_of: Any
    dtype: str
    _take: Any
    _warn_of_constants: Any

    if not TYPE_CHECKING:  # any name would be an attribute

        def __getattr__(self, name: str) -> Any:
            if name in _OF_ANSWERS and self._partial is not None and "model_" not in vars(self):
                self._take_answers(self._partial)
                if name in vars(self):
                    return vars(self)[name]
            return object.__getattribute__(self, name)  # which says why there is none

    def _take_answers(self, now: Partial) -> None:
        with default_executor() as executor:
            model = now.answers(executor)
        if model is not None:
            history = [] if now.stream is None else list(now.stream.history)
            self._take(model, history, model.facts.get("chosen", {}))
            self._warn_of_constants()

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any, old: Any) -> Self:
        before = self._partial
        model: Model | None = vars(self).get("model_") if before is None else before.model
        if model is not None and (model.local is not None or model.encoding is not None):
            return self._update(model, X, y, classes, sample_weight, old)
        if model is None and parse_settings(self.local) is not None:
            raise UnsupportedError(
                f"local={self.local!r} is fitted to all rows at once, and partial_fit has a block of them. Use fit, or "
                "local='none'."
            )
        classes = self._known_classes(classes, before, model)
        recipe = self._recipe_of_blocks(X, model) if before is None else before.recipe
        first = before is None and model is None
        dtype, encoding = self.dtype if first else recipe.dtype, None if model is None else model.reading
        source = self._open_block(X, y, sample_weight, dtype, encoding, fitting=first)
        if source is None:
            return self
        if first and self.dtype == "auto":
            with default_executor() as executor, explain_missing():
                source = settle_dtype(source, executor)
            recipe = recipe.replace(dtype=source.dtype)
        now = before
        if now is None:
            landmarks = parse_landmarks(self.landmarks)[1]
            facts = facts_of_targets(y)
            now = Partial(recipe, source.columns, source.label or "label", classes, landmarks, facts)
            now = now if model is None else now.from_fit(model)
        now.check_targets(source.targets)
        moments = []
        with default_executor() as executor:
            for block in read_blocks(source, classes):
                now = now.learn(block, executor)
                moments += [] if model is None else [measure_moments(model, [block])]
        if model is not None:
            warn_of_learned(find_drift(model, moments), UnseenValues())
        self._partial, self._finished = now, None
        for name in _OF_ANSWERS:
            vars(self).pop(name, None)
        if before is None:
            self._take_answers(now)  # what does not fit together is told at once
        return self

    def _known_classes(self, classes: Any, before: Partial | None, model: Model | None) -> Any:
        """The classes that may come, sorted; None for a regression."""
        if self._task == "regress":
            return None
        if before is not None:
            return check_classes(classes, before.classes)
        return sort_classes(classes) if model is None else check_classes(classes, model.classes)

    def _recipe_of_blocks(self, X: Any, model: Model | None) -> Recipe:
        if model is None:
            refuse_reading(self, X)
        dtype = self._dtype_of(X) if model is None else model.recipe.dtype
        recipe: Recipe = self._recipe().replace(dtype=dtype).with_passes()
        return recipe

    def _open_block(
        self, X: Any, y: Any, sample_weight: Any, dtype: str, encoding: Encoding | None, fitting: bool
    ) -> Source | None:
        """The source of a block, None if it has no rows; one row is a block too."""
        n = getattr(X, "shape", (None,))[0]
        try:
            if isinstance(n, int) and n == 0:
                check_table(self, X, least=0)
                return None
            read = {"encoding": encoding}
            return make_source(self, X, y, sample_weight, dtype, least=1, fitting=fitting, encode=read)
        except DataError:
            if is_dask(X) and isinstance(getattr(X, "ndim", None), int) and not len(X):  # a frame does not know it
                return None
            raise

    def _update(self, model: Model, X: Any, y: Any, classes: Any, sample_weight: Any, old: Any) -> Self:
        """Update a model with a local stage or an encoding."""
        check_classes(classes, model.classes)
        new = self._open_block(X, y, sample_weight, model.recipe.dtype, model.reading, fitting=False)
        with default_executor() as executor:
            if new is None or not count_positive(new, executor):
                return self
            before = None
            if old is not None:
                if isinstance(old, Source):
                    old = read_as(old, model.columns, model.reading, model.recipe.dtype)
                else:
                    old = from_arrays(old, dtype=model.recipe.dtype, **reading_arguments(model.reading))
                before, _ = rows_in(old, executor, model, MOST_OLD)
            block, unseen = rows_in(new, executor, model)
            warn_of_learned(find_learned_drift(model, [measure_moments(model, [block])], unseen), unseen)
            updated = update_model(model, block, executor, before)
        self._finished = None
        self._take(updated, [], self.chosen_)
        return self
