"""Columns that scoring writes: label, scores, deviations, intervals, probabilities, sets, novelty of rows of blocks."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dkernel.data.arrow import as_column
from dkernel.data.block import Block
from dkernel.data.division import groups_in
from dkernel.errors import DataError, RecipeError, TooLargeError, UnsupportedError
from dkernel.losses.metrics import class_of_scores
from dkernel.model.conformal import COVERAGE, check_coverage
from dkernel.model.model import Model

WORDS = ("label", "score", "std", "interval", "probability", "set", "novelty")
"""What can be written for every row, in the order of the columns."""


@dataclass(frozen=True)
class Written:
    """What is written for every row.

    Parameters
    ----------
    words : of WORDS, in their order
    coverage : of intervals and sets
    by_class : whether that of sets holds in each class
    group : a kept column; the coverage then holds in each group of rows with one value of it
    brief : of two classes the probability of the second alone, of more that of the label
    """

    words: tuple[str, ...]
    coverage: float = COVERAGE
    by_class: bool = False
    group: str | None = None
    brief: bool = False

    @property
    def text(self) -> str:
        """What decides the columns beside their names."""
        if not {"interval", "set"} & {*self.words}:
            return ""
        return f"{self.coverage!r}{' by class' * self.by_class}{f' by {self.group}' if self.group else ''}"


def check_written(
    model: Model,
    write: Sequence[str] | None,
    coverage: float = COVERAGE,
    by_class: bool = False,
    group: str | None = None,
) -> Written:
    """The words to write, in the order of WORDS; unknown ones and those that this model cannot answer are refused."""
    check_coverage(coverage)
    regression = model.classes is None
    words: tuple[str, ...] = (
        ("score",) if regression else ("label", "probability" if model.has_probabilities else "score")
    )
    if write is not None:
        unknown = [word for word in write if word not in WORDS]
        if unknown or not write:
            odd = ", ".join(map(repr, unknown)) or "nothing"
            raise RecipeError(f"Scoring cannot write {odd}. Possible: {', '.join(WORDS)}, one or more of them.")
        words = tuple(word for word in WORDS if word in write)
    if regression and (others := [word for word in words if word in ("label", "probability", "set")]):
        raise UnsupportedError(
            f"This model is a regression, whose prediction is the column 'score': it has no {' and no '.join(others)}. "
            "Write score, interval, std or novelty."
        )
    if not regression and "interval" in words:
        raise UnsupportedError("This model is a classifier, whose answer is no number: it has no interval. Write set.")
    uncertain = bool({"interval", "set"} & {*words})
    if uncertain:
        model.known_conformal()
    if "std" in words:
        model.known_variance()
    if "novelty" in words:
        model.landmark_map()
    if {"probability", "set"} & {*words}:
        # Asked once here, so that a loss without probabilities is refused before anything is read.
        model.probabilities(np.zeros((1, len(model.intercept)), np.float32))
    if "interval" in words:
        model.known_conformal().radii(coverage, len(model.intercept))
    if by_class and "set" not in words:
        raise RecipeError("by_class is of sets: write set too.")
    if group is not None and not uncertain:
        raise RecipeError("group is of intervals and sets: write one of them too.")
    if group is not None:
        model.known_conformal().codes([])  # refused where it has no groups
    return Written(words, coverage, by_class, group, brief=write is None)


def output_columns(model: Model, kept_columns: Sequence[str], written: Written) -> tuple[str, ...]:
    """Names of the output's columns: the kept ones, then those that the words stand for."""
    classes = [] if model.classes is None else [str(c) for c in model.classes.tolist()]
    made: list[str] = []
    for word in written.words:
        if word == "probability" and written.brief:
            made.append(f"probability_{classes[1]}" if len(classes) == 2 else word)
        elif word in ("probability", "set"):
            made += [f"{word}_{c}" for c in classes]
        elif word == "interval":
            several = len(model.intercept) > 1
            ends = ("lower", "upper")
            made += [f"{end}_{name}" for name in model.target_names for end in ends] if several else ends
        elif word in ("score", "std") and len(model.intercept) > 1:
            made += [f"{word}_{c}" for c in classes or model.target_names]
        else:
            made.append(word)
    if twice := sorted(set(made) & set(kept_columns)):
        raise DataError(
            f"The kept column {twice[0]!r} has the name of a column that scoring writes. Do not keep it, rename it in "
            "the input, or leave that column out of what is written."
        )
    return (*kept_columns, *made)


def rows_too_large(model: Model, blocks: Sequence[Block], written: Written) -> list[int]:
    """Numbers of the rows without finite answers, counted through all blocks."""
    rows: set[int] = set()
    asked = [model.scores, *(getattr(model, word) for word in ("std", "novelty", "interval") if word in written.words)]
    first = 0
    for block in blocks:
        for ask in asked:
            try:
                ask(block.X)
            except TooLargeError as error:
                rows |= {first + row for row in error.rows}
        first += len(block.X)
    return sorted(rows)


def tables(model: Model, blocks: Sequence[Block], written: Written, kept_columns: Sequence[str]) -> Iterator[pa.Table]:
    """The kept columns of blocks with those that the words stand for, a table a block."""
    names = output_columns(model, kept_columns, written)
    for block in blocks:
        if not len(block.X) and any(len(other.X) for other in blocks):
            continue
        arrays: list[Any] = [block.kept.column(name) for name in kept_columns] if block.kept is not None else []
        # Their fields say more than their types: which of them is CSV text.
        fields = [block.kept.schema.field(name) for name in kept_columns] if block.kept is not None else []
        groups = None if written.group is None else groups_in(block.kept, written.group)
        answer = _answers(model, block.X, written, groups)
        arrays += [as_column(column) for word in written.words for column in _columns_of(answer[word]())]
        made = zip(names[len(fields) :], arrays[len(fields) :], strict=True)
        yield pa.table(arrays, pa.schema([*fields, *(pa.field(name, array.type) for name, array in made)]))


def _answers(model: Model, X: Any, written: Written, groups: Any) -> dict[str, Callable[[], Any]]:
    """Word of WORDS -> gives its values (n,) or (n, k) for a block."""
    S, coverage = model.scores(X), written.coverage
    return {
        "label": lambda: model.labels(S),
        "score": lambda: S,
        "std": lambda: model.std(X),
        "interval": lambda: model.interval(X, coverage, groups),
        "probability": lambda: _of_one_class(model.probabilities(S), S) if written.brief else model.probabilities(S),
        "set": lambda: model.sets(model.probabilities(S), coverage, written.by_class, groups),
        "novelty": lambda: model.novelty(X),
    }


def _of_one_class(P: Any, S: Any) -> Any:
    return P[:, 1] if P.shape[1] == 2 else P[np.arange(len(P)), class_of_scores(S)]


def _columns_of(values: Any) -> Any:
    """The columns of (n, k), or the one that (n,) is."""
    return values.reshape(len(values), math.prod(values.shape[1:])).T
