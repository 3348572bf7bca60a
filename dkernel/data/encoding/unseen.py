"""Counts of the values that training never saw, and the warning about columns that hold hardly any others."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.encoding.encoding import Encoding
from dkernel.errors import UnknownCategoriesWarning

Counted = Mapping[str, Mapping[str, int]]
"""Values by their mark (columns.MARKS): what they are -> column -> how many."""


def add_counts(one: Counted, other: Counted) -> dict[str, dict[str, int]]:
    """The counts of both.

    Examples
    --------
    >>> add_counts({"missing": {"x": 1}}, {"missing": {"x": 2, "y": 1}})
    {'missing': {'x': 3, 'y': 1}}
    """
    return {word: dict(Counter(one.get(word)) + Counter(other.get(word))) for word in {**one, **other}}


@dataclass(frozen=True)
class UnseenValues:
    """Marks of some rows, counted.

    Parameters
    ----------
    rows : number of the rows
    counts : of their values with a mark

    Examples
    --------
    >>> found = UnseenValues(8, {"absent": {"s": 4}}).merge(UnseenValues(2, {"unknown": {"s": 2, "t": 2}}))
    >>> found.unknown_columns, UnseenValues(8, {"absent": {"s": 4}, "unknown": {"s": 3}}).unknown_columns
    ([], ['s'])
    """

    rows: int = 0
    counts: Counted = field(default_factory=dict)

    @classmethod
    def of(cls, encoding: Encoding | None, marks: NDArray[np.int8] | None, rows: int) -> "UnseenValues":
        return cls(rows, {} if encoding is None else encoding.count_marks(marks))

    def merge(self, other: "UnseenValues") -> "UnseenValues":
        return UnseenValues(self.rows + other.rows, add_counts(self.counts, other.counts))

    @property
    def filled(self) -> Counted:
        """The values that training never saw; missing ones where it had some are not among them."""
        return {word: self.counts[word] for word in ("missing", "unknown") if word in self.counts}

    @property
    def unknown_columns(self) -> list[str]:
        """The columns of which more than half of the values that are there are unknown."""
        gaps = add_counts({"": self.counts.get("missing", {})}, {"": self.counts.get("absent", {})})[""]
        unknown = self.counts.get("unknown", {})
        return [name for name, n in unknown.items() if 2 * n > self.rows - gaps.get(name, 0)]

    def warn(self, warn: Callable[..., Any] = warnings.warn) -> None:
        """Warn of the columns with unknown values, in the same words for all rows of a model, so that it comes once."""
        if names := self.unknown_columns:
            warn(
                f"{', '.join(map(repr, names))}: more than half of the values are categories that training never saw, "
                "so the predictions know nothing of them. Check that the values are those of the training.",
                UnknownCategoriesWarning,
                stacklevel=3,
            )


def describe_counts(counts: Counted) -> list[str]:
    """The counts in words.

    Examples
    --------
    >>> describe_counts({"missing": {"x": 3}, "unknown": {"s": 1}})
    ['missing values where training had none, filled with the mean: x 3', 'categories that training never saw: s 1']
    """
    words = {
        "missing": "missing values where training had none, filled with the mean",
        "unknown": "categories that training never saw",
    }
    return [f"{words[word]}: {', '.join(f'{name} {n:,}' for name, n in counts[word].items())}" for word in counts]
