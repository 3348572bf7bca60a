"""partial_fit: the first rows are collected and fitted anew, then each block is learned from once.

Scaling, gamma, landmarks and preconditioner are those of the first rows and stay, so these should be like the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data import Source, from_arrays
from dkernel.data.block import Block, as_label
from dkernel.data.compute import dask_compute
from dkernel.errors import DataError, MissingValueError, RecipeError, UnsupportedError
from dkernel.estimators.validation import as_plain
from dkernel.losses.losses import parse_loss
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.numerics.rows import stack
from dkernel.solvers.exact import deduplicate, is_few
from dkernel.solvers.targets import Targets
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.row_weights import count_weighted
from dkernel.training.fit import train
from dkernel.training.incremental import Stream, constant_model, start_stream, update_stream, with_classes

COLLECTED_ROWS, ROWS_A_COLUMN = 4096, 8  # rows to collect: for n_components="auto", and for each column
MOST_COLLECTED = 64  # times as many, before a second class must have come
Classes = NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Partial:
    """State of an estimator between the calls; a new one after each.

    Parameters
    ----------
    classes : all that may come, sorted; None for a regression
    model : of what has been seen, None before there are two rows and two classes
    collected : rows that wait, for the first fit or for the preconditioner
    stream : after these
    """

    recipe: Recipe
    columns: Sequence[str]
    label: str
    classes: Classes
    model: Model | None = None
    collected: tuple[Block, ...] = ()
    stream: Stream | None = None
    counts: Mapping[Any, float] | None = None
    fitted_rows: int = 0

    @property
    def enough(self) -> int:
        """Rows from which scaling, map and preconditioner are made."""
        n = self.recipe.n_components if self.model is None else self.model.map.n_components
        return ROWS_A_COLUMN * n if isinstance(n, int) else COLLECTED_ROWS

    def learn(self, block: Block, landmarks: Any, executor: Executor) -> "Partial":
        """The state after one more block."""
        if self.recipe.curve is not None and not self.fitted_rows:
            raise RecipeError(
                f"calibration={self.recipe.calibration!r} needs rows that were never learned from, and partial_fit "
                "learns from all. Use fit, or leave calibration out."
            )
        counts = self._count_classes(block)
        if self.stream is not None:
            stream = update_stream(self.stream, block, counts, executor)
            return replace(self, stream=stream, model=stream.model, counts=counts)
        if self.recipe.cost is not None:
            raise RecipeError(
                f"alpha={self.recipe.alpha!r} is 1 / (C n), and partial_fit does not know how many rows come. Give "
                "alpha as a number, or use fit."
            )
        now = replace(self, collected=(*self.collected, block), counts=counts)
        rows = _join(now.collected)
        if self.fitted_rows:
            return now._continue_fit(rows, executor) if len(rows.X) >= self.enough else now
        if self.classes is not None and sum(n > 0 for n in counts.values()) < 2:
            if len(rows.X) > MOST_COLLECTED * self.enough:
                raise DataError(
                    f"The first {len(rows.X):,} rows have one class alone, {rows.y[0]!r}: nothing can be learned from "  # type: ignore[index]
                    "them. partial_fit needs its rows in a mixed order."
                )
            return now
        if np.count_nonzero(_weights(rows)) < 2:
            return now
        source = from_arrays(
            rows.X, rows.y, rows.weight, columns=self.columns, dtype=self.recipe.dtype, kernel=self.recipe.kernels[0]
        )
        source = count_weighted(source, executor)
        if is_few(source):  # whose rows are merged as those of a fit are
            source = deduplicate(source, self.recipe, executor)
        recipe = self.recipe.replace(calibration="none")  # what it leaves out now it learns by the next call
        model = train(source, recipe, executor, landmarks=landmarks).model
        model = replace(model, label=self.label, conformal=None)
        model = model if self.classes is None else with_classes(model, self.classes)
        now = replace(now, model=model)
        if len(rows.X) < self.enough:
            return now
        return replace(now, collected=(), stream=start_stream(model, rows, counts, len(rows.X), executor))

    def answers(self) -> Model | None:
        """The model of what has been seen; of one class or one row alone it predicts these, and of nothing is None."""
        if self.model is not None or not self.collected:
            return self.model
        rows = _join(self.collected)
        seen = np.flatnonzero(_weights(rows))
        if not len(seen):
            return None
        assert rows.y is not None
        only, facts = rows.y[seen[:1]], dict[str, Any]()
        if self.classes is None:
            said = "There is one row so far, so its number is predicted until others come"
            scores = only.astype(np.float64).ravel()
        else:
            said = f"The rows so far have one class, {only[0].item()!r}, so it is predicted until another comes"
            targets = Targets(self.classes)
            sure = parse_loss(self.recipe.loss).of(targets.outputs).unseen_class_score(len(seen))
            scores = np.where(targets.of(only)[0] > 0, -sure, sure)
            facts["counts"] = list((self.counts or {}).values())
        facts["chosen"] = {"waits": said}
        return constant_model(self.recipe, self.columns, self.label, rows, scores, self.classes, facts)

    def from_fit(self, model: Model) -> "Partial":
        """Continue from the model of a `fit`, with a preconditioner made from the new rows."""
        if "waits" in model.facts.get("chosen", {}):
            raise UnsupportedError(
                "This model has learned nothing yet: partial_fit had given it one class or one row alone, which the "
                "estimator kept and the file does not. Start again with all rows."
            )
        counts = {} if model.classes is None else dict(zip(model.classes.tolist(), model.facts["counts"], strict=True))
        return replace(self, model=model, fitted_rows=int(model.facts["rows"]), counts=counts)

    def _continue_fit(self, rows: Block, executor: Executor) -> "Partial":
        assert self.model is not None
        counts = self.counts or {}
        stream = update_stream(
            start_stream(self.model, rows, counts, self.fitted_rows, executor), rows, counts, executor
        )
        return replace(self, collected=(), stream=stream, model=stream.model)

    def _count_classes(self, block: Block) -> dict[Any, float]:
        """Add the weight of each class in a block; a row of weight k is k rows."""
        if self.classes is None:
            return {}
        assert block.y is not None
        codes = Targets(self.classes).codes(block.y)
        before = self.counts or dict.fromkeys(self.classes.tolist(), 0)
        added = np.bincount(codes, block.weight, minlength=len(self.classes)).tolist()
        return {label: before[label] + added[i] for i, label in enumerate(self.classes.tolist())}


def sort_classes(classes: Any) -> NDArray[Any]:
    """The classes that may come, as the labels of blocks are: whole numbers in int64, texts in one width."""
    if classes is None:
        raise RecipeError("The first call of partial_fit needs classes: all the labels that may come, classes=[0, 1].")
    labels = np.unique(as_label(np.asarray(as_plain(classes)), "classes[{}]".format, "classes"))
    if labels.ndim != 1 or len(labels) < 2:
        raise RecipeError(f"classes={classes!r}: two or more different labels are needed.")
    return labels


def check_classes(classes: Any, known: Classes) -> Classes:
    """The known classes, if those given are the same or none."""
    if classes is not None and known is not None and not np.array_equal(sort_classes(classes), known):
        raise RecipeError(
            f"classes={list(classes)!r} are not those of the calls before, {known.tolist()!r}. Leave classes out, or "
            "start again with fit."
        )
    return known


def read_blocks(source: Source) -> Iterator[Block]:
    """The blocks of a source, one unit in memory at a time."""
    for unit in source.units:
        try:
            (blocks,) = dask_compute(unit.task)
        except MissingValueError as error:
            raise MissingValueError(
                f"{error} fit takes missing values, for it sees all rows before it starts."
            ) from None
        for block in blocks:
            if len(block.X):
                yield block


def _weights(rows: Block) -> NDArray[Any]:
    return np.ones(len(rows.X)) if rows.weight is None else rows.weight


def _join(blocks: tuple[Block, ...]) -> Block:
    def join(name: str) -> Any:
        parts = [getattr(block, name) for block in blocks]
        if all(part is None for part in parts):
            return None
        return stack([np.ones(len(b.X)) if part is None else part for part, b in zip(parts, blocks, strict=True)])

    return Block(join("X"), join("y"), join("weight"))
