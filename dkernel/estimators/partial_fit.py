"""partial_fit: the first rows are collected and fitted when an answer is asked for, later blocks are learned once.

Scaling, gamma, landmarks and preconditioner are those of the first rows and stay, so these should be like the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block, as_label, targets_in
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.compute import dask_compute
from dkernel.data.source import Source
from dkernel.errors import DataError, MissingValueError, RecipeError, UnsupportedError
from dkernel.estimators.validation import as_plain
from dkernel.losses.losses import parse_loss
from dkernel.model.conformal import MOST_SCORES
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.numerics.rows import stack
from dkernel.solvers.exact import deduplicate, is_few
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.targets import Targets
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.labelled_rows import LabelledRows
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.schedule import RowRange, RowSlice
from dkernel.training.fit import train
from dkernel.training.incremental import Stream, constant_model, start_stream, update_stream, with_classes
from dkernel.training.uncertainty import LEARNED_LATER, LeftOut, cut_to_judge, with_later_rows
from dkernel.training.update import check_labels

COLLECTED_ROWS, ROWS_A_COLUMN = 4096, 8  # rows to collect: for n_components="auto", and for each column
MOST_COLLECTED = 64  # times as many, before a second class must have come
Classes = NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Partial:
    """State of an estimator between the calls; a new one after each.

    Parameters
    ----------
    classes : all that may come, sorted; None for a regression
    landmarks : those that were given, None where they are chosen
    facts : what is known of a model before it is fitted
    model : of the fit or the stream that goes on, None before there is one
    collected : rows that wait, for the first fit or for the preconditioner
    scored : rows that the model scored before they were learned, with answers of theirs that are not in it yet
    stream : after these
    """

    recipe: Recipe
    columns: Sequence[str]
    label: str
    classes: Classes
    landmarks: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    model: Model | None = None
    collected: tuple[Block, ...] = ()
    scored: tuple[LeftOut, ...] = ()
    stream: Stream | None = None
    counts: Mapping[Any, float] | None = None
    fitted_rows: int = 0

    @property
    def enough(self) -> int:
        """Rows from which scaling, map and preconditioner are made."""
        n = self.recipe.n_components if self.model is None else self.model.map.n_components
        return ROWS_A_COLUMN * n if isinstance(n, int) else COLLECTED_ROWS

    def learn(self, block: Block, executor: Executor) -> "Partial":
        """The state after one more block. Rows that wait for the first fit are fitted when an answer is asked for."""
        if self.recipe.cost is not None and not self.fitted_rows:
            raise RecipeError(
                f"alpha={self.recipe.alpha!r} is 1 / (C n), and partial_fit does not know how many rows come. Give "
                "alpha as a number, or use fit."
            )
        if self.model is not None:
            now = self
            for rows in cut_to_judge(block, self.recipe.seed):
                now = replace(now, counts=now._count_classes(rows))._score(rows)._go_on(rows, executor)
            return now
        counts = self._count_classes(block)
        now = replace(self, collected=(*self.collected, block), counts=counts)
        n = sum(len(each.X) for each in now.collected)
        if n >= now.enough and now._is_varied:
            rows = join_blocks(now.collected)
            model = now._fit(rows, executor)
            return replace(now, model=model, collected=(), stream=start_stream(model, rows, counts, n, executor))
        if n > MOST_COLLECTED * now.enough:
            assert block.y is not None
            raise DataError(
                f"The first {n:,} rows have one class alone, {block.y[0]!r}: nothing can be learned from them. "
                "partial_fit needs its rows in a mixed order."
            )
        return now

    @property
    def _is_varied(self) -> bool:
        """True if the collected rows are enough for a fit: two, and of two classes."""
        seen = 2 if self.classes is None else sum(n > 0 for n in (self.counts or {}).values())
        return seen > 1 and sum(len(each.X) for each in self.collected) > 1

    def _score(self, block: Block) -> "Partial":
        """Score rows before they are learned; so many as tell all are then in the model itself, if none waits."""
        assert self.model is not None
        now = replace(self, scored=(*self.scored, LeftOut.score(self.model, block)))
        few = sum(len(each.S) for each in now.scored) < MOST_SCORES
        return now if few or self.collected else now.with_model(now._conformed())

    def _go_on(self, block: Block, executor: Executor) -> "Partial":
        """Learn rows after a fit; the first ones wait until they make a preconditioner."""
        assert self.model is not None
        counts, stream = self.counts or {}, self.stream
        if stream is None:
            now = replace(self, collected=(*self.collected, block))
            if sum(len(each.X) for each in now.collected) < self.enough:
                return now
            block = join_blocks(now.collected)
            stream = start_stream(self.model, block, counts, self.fitted_rows, executor)
        stream = update_stream(replace(stream, model=self.model), block, counts, executor)
        return replace(self, collected=(), stream=stream, model=stream.model)

    def _fit(self, rows: Block, executor: Executor) -> Model:
        source = from_arrays(
            rows.X, rows.y, rows.weight, columns=self.columns, dtype=self.recipe.dtype, kernel=self.recipe.kernels[0]
        )
        source = count_weighted(source, executor)
        if is_few(source):  # whose rows are merged as those of a fit are
            source = deduplicate(source, self.recipe, executor)
        model = train(source, self.recipe, executor, landmarks=self.landmarks).model
        model = replace(model, label=self.label, facts={**model.facts, **self.facts})
        return model if self.classes is None else with_classes(model, self.classes)

    def with_model(self, model: Model) -> "Partial":
        """The state whose model also has what the scored rows say, or what else is known of it by now."""
        return self if self.model is None else replace(self, model=model, scored=())

    def _conformed(self) -> Model:
        """The model with what the scored rows say of its answers."""
        model = self.model
        assert model is not None
        if model.classes is not None:
            counts = [round(n) for n in (self.counts or {}).values()]
            model = replace(model, facts={**model.facts, "counts": counts})
        if not self.scored:
            return model
        out = LeftOut(
            join_blocks([each.rows for each in self.scored]),
            np.concatenate([each.S for each in self.scored]),
            LEARNED_LATER,
        )
        asked = self.recipe.calibration
        return with_later_rows(model, out, model.loss.usual_calibration if asked == "auto" else asked)

    def answers(self, executor: Executor) -> Model | None:
        """The model of what has been seen; of one class or one row alone it predicts these, and of nothing is None."""
        if self.model is not None:
            return self._conformed()
        if not self.collected:
            return None
        rows = join_blocks(self.collected)
        if self._is_varied:
            return self._fit(rows, executor)
        assert rows.y is not None
        only, facts = rows.y[:1], dict(self.facts)
        if self.classes is None:
            said = "There is one row so far, so its number is predicted until others come"
            scores = only.astype(np.float64).ravel()
        else:
            said = f"The rows so far have one class, {only[0].item()!r}, so it is predicted until another comes"
            targets = Targets(self.classes)
            sure = parse_loss(self.recipe.loss).of(targets.outputs).unseen_class_score(len(rows.X))
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

    def check_targets(self, targets: int) -> None:
        """Refuse a block with another number of targets than the rows before it."""
        known = None
        if self.classes is None and self.model is not None:
            known = len(self.model.intercept)
        elif self.classes is None and self.collected:
            known = targets_in(self.collected[0].y)
        if known not in (None, targets):
            raise DataError(
                f"y has {targets} column(s), and the rows before it had {known}. Continue with the same targets, or "
                "start again with fit."
            )

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


@contextmanager
def explain_missing() -> Iterator[None]:
    """Say of a missing value that `fit` takes it."""
    try:
        yield
    except MissingValueError as error:
        raise MissingValueError(f"{error} fit takes missing values, for it sees all rows before it starts.") from None


def read_blocks(source: Source, classes: Classes) -> Iterator[Block]:
    """The rows that count of the blocks of a source, one unit in memory at a time; a label of no class is refused."""
    where, first = LabelledRows.of(source), 0
    targets = None if classes is None else Targets(classes)
    for number, unit in enumerate(source.units):
        with explain_missing():
            (blocks,) = dask_compute(unit.task)
        for block in blocks:
            n = len(block.X)
            if targets is not None:
                check_labels(targets, where, block, RowSlice(0, RowRange(number, 0, 0, n), n, first))
            first += n
            rows = block if block.weight is None else select_rows(block, np.flatnonzero(block.weight > 0))
            if len(rows.X):
                yield rows


def join_blocks(blocks: Sequence[Block]) -> Block:
    """The rows of some blocks as one; those of a block without weights have the weight 1."""

    def join(name: str) -> Any:
        parts = [getattr(block, name) for block in blocks]
        if all(part is None for part in parts):
            return None
        return stack([np.ones(len(b.X)) if part is None else part for part, b in zip(parts, blocks, strict=True)])

    return Block(join("X"), join("y"), join("weight"))
