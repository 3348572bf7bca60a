"""Means of the label by the values of a category, from counts that are merged, shrunk towards the mean of all rows.

The mean of a value with n rows has the weight n v / (n v + w), where w is the variance of the label within values and
v that between them, both by the method of moments (the empirical Bayes estimate of a one-way random effect). Where
values do not differ by more than their rows do, v is 0 and the column has no means.

A row that is learned from has the means of the rows of the other folds: its own label is not in them, and the holdout
is judged as new rows are. Rows to predict have the means of all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.encoding.tables import coded, numbers
from dkernel.numerics.random_streams import row_hash

FOLDS = 5
"""As in scikit-learn's TargetEncoder."""

MOST_CLASSES = 10
"""Classes whose shares are inputs; a label of more, or one with a fraction, has its mean if it is a number."""


def folds_of(first: int, n: int) -> NDArray[np.int64]:
    """The fold of each of n rows, by their number from `first` on.

    Examples
    --------
    >>> bool((folds_of(0, 100)[40:] == folds_of(40, 60)).all())
    True
    """
    return (row_hash(0, "folds of label means", first, n) % np.uint64(FOLDS)).astype(np.int64)


@dataclass(frozen=True)
class LabelPart:
    """The label of some rows, in the form that is summed by the values of a category.

    Parameters
    ----------
    numbers : the label as numbers (n,), None if it is none
    classes, codes : its different values and which of them each row has; None of numbers with a fraction
    used : rows that have a label, and a weight that is not 0
    """

    numbers: NDArray[np.float64] | None
    classes: tuple[str, ...] | None
    codes: NDArray[np.int64]
    used: NDArray[np.bool_]

    @classmethod
    def of(cls, label: Any, weight: Any = None) -> "LabelPart | None":
        """The label of an array (n,) or a series; None of several targets, and of what has no order and no name."""
        if label is None or np.ndim(label) != 1:
            return None
        try:
            column = pa.array(label, from_pandas=True)
            fraction = pa.types.is_floating(column.type)
            words, codes = ([], np.zeros(0, np.int64)) if fraction else coded(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return None  # the real reading reports what is wrong with it
        kind = column.type
        number = fraction or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        values = numbers(column).astype(np.float64) if number else None
        used = np.isfinite(values) if values is not None else np.array([w is not None for w in words], bool)[codes]
        if weight is not None:
            used &= np.asarray(weight, np.float64) != 0
        return cls(values, None if fraction else tuple(word or "" for word in words), codes, used)


@dataclass(frozen=True)
class LabelCounts:
    """Sums of the label by fold and by value of a category.

    Parameters
    ----------
    values : of the category, "" for a missing one
    moments : rows, mean and sum of squared deviations of the label (FOLDS, m, 3), None where it is no number
    classes : of the label, None where there are more than MOST_CLASSES
    rows : rows of each class (FOLDS, m, c)

    Examples
    --------
    >>> label = LabelPart.of(np.array([1.0, 3.0, 4.0, 6.0]))
    >>> counts = LabelCounts.of(("a", "b"), np.array([0, 0, 1, 1]), label, np.zeros(4, int))
    >>> counts.merge(counts).means().of("a"), counts.means().of("?")
    ((2.1...,), (3.5,))
    """

    values: tuple[str, ...]
    moments: NDArray[np.float64] | None
    classes: tuple[str, ...] | None
    rows: NDArray[np.float64]

    @classmethod
    def of(
        cls, values: tuple[str, ...], places: NDArray[np.int64], label: LabelPart, folds: NDArray[np.int64]
    ) -> "LabelCounts":
        """The sums of rows whose value of the category is at this place among `values`, -1 for another."""
        used = label.used & (places >= 0)
        m, moments, classes = len(values), None, None
        at = folds[used] * m + places[used]
        if label.numbers is not None:
            y = label.numbers[used]
            n = np.bincount(at, minlength=FOLDS * m).astype(np.float64)
            mean = np.bincount(at, y, FOLDS * m) / np.maximum(n, 1)
            squares = np.bincount(at, (y - mean[at]) ** 2, FOLDS * m)
            moments = np.column_stack([n, mean, squares]).reshape(FOLDS, m, 3)
        if label.classes is not None:
            classes = tuple(sorted({label.classes[code] for code in np.unique(label.codes[label.used])}))
        classes = _few(classes)
        c = len(classes or ())
        rows = np.zeros(FOLDS * m * c)
        if classes:
            found = places_of(classes, label.classes or ())[label.codes[used]]
            rows = np.bincount(at * c + found, minlength=FOLDS * m * c).astype(np.float64)
        return cls(values, moments, classes, rows.reshape(FOLDS, m, c))

    def merge(self, other: "LabelCounts") -> "LabelCounts":
        """The sums of all rows; classes and values of several parts stay in their order."""
        values = tuple(dict.fromkeys(self.values + other.values))
        pair = [(each, places_of(values, each.values)) for each in (self, other)]
        moments, classes = None, None
        if self.moments is not None and other.moments is not None:
            spread = np.zeros((2, FOLDS, len(values), 3))
            for i, (each, places) in enumerate(pair):
                spread[i][:, places] = each.moments
            moments = joined(*spread)
        if self.classes is not None and other.classes is not None:
            classes = _few(tuple(sorted({*self.classes, *other.classes})))
        rows = np.zeros((FOLDS, len(values), len(classes or ())))
        for each, places in pair:
            if classes:
                rows[:, places[:, None], places_of(classes, each.classes or ())] += each.rows
        return LabelCounts(values, moments, classes, rows)

    def among(self, wanted: Iterable[str]) -> "LabelCounts":
        """The sums of these values of the category."""
        there = set(self.values)
        kept = tuple(value for value in wanted if value in there)
        places = places_of(self.values, kept)
        moments = None if self.moments is None else self.moments[:, places]
        return LabelCounts(kept, moments, self.classes, self.rows[:, places])

    def renamed(self, words: Mapping[str, str]) -> "LabelCounts":
        """The sums by new words of the values; values that get one word are one value."""
        spellings: dict[str, list[str]] = {}
        for value in self.values:
            spellings.setdefault(words.get(value, value), []).append(value)
        parts = []
        for i in range(max(map(len, spellings.values()), default=0)):
            some = {word: values[i] for word, values in spellings.items() if i < len(values)}
            parts.append(replace(self.among(some.values()), values=tuple(some)))
        return reduce(LabelCounts.merge, parts) if parts else self

    def means(self, without: int | None = None) -> "LabelMeans | None":
        """The shrunken means: of two classes the share of the second, of more those of all, else the mean of the label.

        None where the values of the category tell nothing of the label.

        Parameters
        ----------
        without : a fold whose rows do not count
        """
        folds = [fold for fold in range(FOLDS) if fold != without]
        if self.classes is not None:
            counts = self.rows[folds].sum(axis=0)
            n = counts.sum(axis=1)
            kept = range(len(self.classes))[len(self.classes) == 2 :]
            outputs = tuple(self.classes[j] for j in kept)
            shares = [counts[:, j] / np.maximum(n, 1) for j in kept]
            found = [shrunken(n, share, n * share * (1 - share)) for share in shares]
        elif self.moments is not None:
            outputs, found = ("mean",), [shrunken(*reduce(joined, self.moments[folds]).T)]
        else:
            return None
        if all(line is None for line, _ in found):
            return None
        table = np.column_stack([np.full(len(self.values), base) if line is None else line for line, base in found])
        lines = zip(self.values, map(tuple, table.tolist()), strict=True)
        return LabelMeans(outputs, tuple(sorted(lines)), tuple(base for _, base in found))


def _few(classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if classes is None or len(classes) > MOST_CLASSES else classes


def joined(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows, means and sums of squared deviations (..., 3) of two parts together (Chan, Golub and LeVeque 1979).

    Examples
    --------
    >>> joined(np.array([1.0, 2.0, 0.0]), np.array([1.0, 4.0, 0.0])).tolist()
    [2.0, 3.0, 2.0]
    """
    n = one[..., 0] + two[..., 0]
    share, apart = two[..., 0] / np.maximum(n, 1), two[..., 1] - one[..., 1]
    squares = one[..., 2] + two[..., 2] + apart**2 * one[..., 0] * share
    return np.stack([n, one[..., 1] + share * apart, squares], axis=-1)


def shrunken(
    n: NDArray[np.float64], means: NDArray[np.float64], squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64] | None, float]:
    """The shrunken means of groups, None where these do not differ beyond chance, and the mean of all rows.

    Parameters
    ----------
    n, means, squares : rows, mean, and sum of squared deviations of each group

    Examples
    --------
    >>> shrunken(np.array([9.0, 9.0]), np.array([0.0, 1.0]), np.array([9.0, 9.0]))
    (array([0.125, 0.875]), 0.5)
    """
    total, groups = n.sum(), np.count_nonzero(n)
    base = float((n * means).sum() / max(total, 1))
    if groups < 2 or total <= groups:
        return None, base
    within = squares.sum() / (total - groups)
    spread = (n * (means - base) ** 2).sum() - (groups - 1) * within
    if not spread > 0:
        return None, base
    between = spread / (total - (n**2).sum() / total)
    return base + n * between / (n * between + within) * (means - base), base


def places_of(values: Sequence[str], some: Iterable[str]) -> NDArray[np.int64]:
    """The place of each of `some` among the values; -1 for others."""
    at = {value: i for i, value in enumerate(values)}
    return np.array([at.get(value, -1) for value in some], np.int64)


@dataclass(frozen=True)
class LabelMeans:
    """Inputs that hold the mean of the label where a category had a value.

    Parameters
    ----------
    outputs : what each input is: a class whose share it is, or "mean"
    values : value -> its inputs, "" for a missing one
    base : the inputs of every other value
    """

    outputs: tuple[str, ...]
    values: tuple[tuple[str, tuple[float, ...]], ...]
    base: tuple[float, ...]

    @cached_property
    def _lines(self) -> dict[str, tuple[float, ...]]:
        return dict(self.values)

    def knows(self, value: str) -> bool:
        """True if rows of training had this value."""
        return value in self._lines

    def of(self, value: str | None) -> tuple[float, ...]:
        """The inputs of a value."""
        return self._lines.get(value or "", self.base)

    @classmethod
    def from_json(cls, found: Any) -> "LabelMeans":
        """The means of JSON, or a ValueError."""
        outputs, values, base = tuple(found["outputs"]), found["values"], tuple(found["base"])
        made = cls(outputs, tuple((word, tuple(line)) for word, line in values), base)
        rows = [base, *(line for _, line in made.values)]
        if not all(isinstance(name, str) for name in (*outputs, *made._lines)) or len(made._lines) < len(values):
            raise ValueError("the means of a category are no list of texts and numbers")
        if not all(len(row) == len(outputs) and all(type(x) is float and np.isfinite(x) for x in row) for row in rows):
            raise ValueError("a mean of a category is not finite")
        return made
