"""Means of the label by the values of a category, from counts that are merged, shrunk towards the mean of all rows.

The mean of a value with n rows has the weight n v / (n v + w), where w is the variance of the label within values and
v that between them, both by the method of moments (the empirical Bayes estimate of a one-way random effect). Where
values do not differ by more than their rows do, v is 0 and the column has no means.

A row that is learned from has the means of the rows of the other folds: its own label is not in them, and the holdout
is judged as new rows are. Rows to predict have the means of all. The fold of a row follows its number among all rows,
and sums are exact, so nothing depends on how rows are cut into files or chunks. In sums a row has its weight.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import column_numbers
from dkernel.data.column_types import BOOL, FLOAT, INT, are_numbers, column_type
from dkernel.data.encoding.exact_sums import ExactSums, exact_product
from dkernel.data.encoding.words import code_column
from dkernel.numerics.random_streams import row_hash

LABEL_FOLDS = 5
"""As in scikit-learn's TargetEncoder."""

MOST_CLASSES = 10
"""Classes whose shares are inputs; a label of more, or one with a fraction, has its mean if it is a number."""


LEAST_WEIGHT = 1e-30
"""A smaller weight counts as 0: sums in float32 do not hold it."""

LARGEST = 1e100
"""Labels beyond it have no means: their squares are no numbers."""


def row_folds(first: int, n: int) -> NDArray[np.int64]:
    """The fold of each of n rows, of which the first has this number (n,).

    Examples
    --------
    >>> row_folds(0, 100)[40:].tolist() == row_folds(40, 60).tolist()
    True
    """
    return (row_hash(0, "folds of label means", first, n) % np.uint64(LABEL_FOLDS)).astype(np.int64)


@dataclass(frozen=True)
class LabelPart:
    """The label of some rows, in the form that is summed by the values of a category.

    Parameters
    ----------
    numbers : the label as numbers (n,), None if it is none
    classes, codes : its different values and which of them each row has; None of numbers with a fraction
    used : rows that have a label
    weight : of the rows (n,), None where all are 1
    """

    numbers: NDArray[np.float64] | None
    classes: tuple[str, ...] | None
    codes: NDArray[np.int64]
    used: NDArray[np.bool_]
    weight: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, label: Any, weight: NDArray[np.float64] | None = None) -> "LabelPart | None":
        """The label of an array (n,) or a series; None of several targets, and of what has no order and no name."""
        if label is None or np.ndim(label) != 1:
            return None
        try:
            column = pa.array(label, from_pandas=True)
            kind = column_type(column.type)
            words, codes = ([], np.zeros(0, np.int64)) if kind == FLOAT else code_column(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return None  # the real reading reports what is wrong with it
        values = column_numbers(column).astype(np.float64) if kind in (BOOL, INT, FLOAT) else None
        used = np.isfinite(values) if values is not None else np.array([w is not None for w in words], bool)[codes]
        if values is not None and (np.abs(values[used]) > LARGEST).any():
            values = None
        return cls(values, None if kind == FLOAT else tuple(word or "" for word in words), codes, used, weight)


@dataclass(frozen=True)
class LabelCounts:
    """Sums of the label by fold and by value of a category.

    Parameters
    ----------
    values : of the category, "" for a missing one
    copies : number of rows (LABEL_FOLDS, m), each as often as `row_copies` says
    moments : sums of the weights, of label times weight and of its square times weight (LABEL_FOLDS, m, 3), None where
        the label is no number
    classes : of the label, None where there are more than MOST_CLASSES
    rows : sums of the weights of each class (LABEL_FOLDS, m, c)

    Examples
    --------
    >>> label = LabelPart.of(np.array([1.0, 3.0, 4.0, 6.0]))
    >>> counts = LabelCounts.of(("a", "b"), np.array([0, 0, 1, 1]), label, row_folds(0, 4))
    >>> counts.merge(counts).means().of("a"), counts.means().of("?")
    ((2.1...,), (3.5,))
    """

    values: tuple[str, ...]
    copies: NDArray[np.float64]
    moments: ExactSums | None
    classes: tuple[str, ...] | None
    rows: ExactSums

    @classmethod
    def of(
        cls, values: tuple[str, ...], positions: NDArray[np.int64], label: LabelPart, folds: NDArray[np.int64]
    ) -> "LabelCounts":
        """The sums of rows whose value of the category has this position among `values`, -1 for another.

        Parameters
        ----------
        folds : of each row (n,)
        """
        m, moments, classes = len(values), None, None
        rows = np.flatnonzero(label.used & (positions >= 0))
        at, weight = folds[rows] * m + positions[rows], None if label.weight is None else label.weight[rows]
        many = None if weight is None else row_copies(weight)
        copies = np.bincount(at, many, LABEL_FOLDS * m).astype(np.float64).reshape(LABEL_FOLDS, m)
        ones = np.ones(len(at)) if weight is None else weight
        if label.numbers is not None:
            y = label.numbers[rows]
            terms = [(ones, 3 * at)]
            terms += [(each, 3 * at + 1) for each in exact_product(y, weight)]
            terms += [(each, 3 * at + 2) for part in exact_product(y, y) for each in exact_product(part, weight)]
            moments = ExactSums.of(terms, (LABEL_FOLDS, m, 3))
        if label.classes is not None:
            classes = tuple(sorted({label.classes[code] for code in np.unique(label.codes[label.used])}))
        classes = _few(classes)
        c = len(classes or ())
        class_codes = find_positions(classes or (), label.classes or ())[label.codes[rows]] if c else at
        return cls(
            values,
            copies,
            moments,
            classes,
            ExactSums.of([(ones, at * c + class_codes)] if c else [], (LABEL_FOLDS, m, c)),
        )

    def merge(self, other: "LabelCounts") -> "LabelCounts":
        """The sums of all rows; values of several parts stay in their order."""
        values, classes = tuple(dict.fromkeys(self.values + other.values)), None
        if self.classes is not None and other.classes is not None:
            classes = _few(tuple(sorted({*self.classes, *other.classes})))
        one, two = (each._spread(values, each.values, classes) for each in (self, other))
        both = one.moments is not None and two.moments is not None
        moments = one.moments.merge(two.moments) if both else None  # type: ignore[union-attr, arg-type]
        return LabelCounts(values, one.copies + two.copies, moments, classes, one.rows.merge(two.rows))

    def _spread(self, values: tuple[str, ...], names: Sequence[str], classes: tuple[str, ...] | None) -> "LabelCounts":
        """The sums by other values, of which these have the names, and by more classes, or by none."""
        at, c = find_positions(values, names), len(classes or ())
        copies = np.zeros((LABEL_FOLDS, len(values)))
        np.add.at(copies.T, at, self.copies.T)
        moments = None if self.moments is None else self.moments.spread((*copies.shape, 3), np.s_[:, at])
        rows = ExactSums.of([], (*copies.shape, c))
        if classes:
            columns = find_positions(classes, self.classes or ())
            rows = self.rows.spread((*copies.shape, c), np.s_[:, at[:, None], columns])
        return LabelCounts(values, copies, moments, classes, rows)

    def among(self, values: Iterable[str]) -> "LabelCounts":
        """The sums of these values of the category."""
        counted = set(self.values)
        some = tuple(value for value in values if value in counted)
        at = np.s_[:, find_positions(self.values, some)]
        moments = None if self.moments is None else self.moments.take(at)
        return LabelCounts(some, self.copies[at], moments, self.classes, self.rows.take(at))

    def rename(self, words: Mapping[str, str]) -> "LabelCounts":
        """The sums by new words of the values; values that get one word are one value."""
        names = [words.get(value, value) for value in self.values]
        return self._spread(tuple(dict.fromkeys(names)), names, self.classes)

    def means(self, without: int | None = None) -> "LabelMeans | None":
        """The shrunken means: of two classes the share of the second, of more those of all, else the mean of the label.

        None where the values of the category tell nothing of the label.

        Parameters
        ----------
        without : a fold whose rows do not count
        """
        values = tuple(sorted(self.values))  # for the sums over them, which round
        folds = np.array([fold for fold in range(LABEL_FOLDS) if fold != without])
        at = np.ix_(folds, find_positions(self.values, values))
        n = self.copies[at].sum(axis=0)
        if self.classes is not None:
            sums = self.rows.take(at).sum().whole_numbers()
            total = sums.sum(axis=1)
            shown = range(len(self.classes))[len(self.classes) == 2 :]
            outputs = tuple(self.classes[j] for j in shown)
            shares = [_ratio(sums[:, j], total) for j in shown]
            lines_and_bases = [shrink(n, share, n * share * (1 - share)) for share in shares]
        elif self.moments is not None:
            weight, first, second = self.moments.take(at).sum().whole_numbers().T
            squares = _ratio(second * weight - first * first, weight * weight)
            outputs, lines_and_bases = ("mean",), [shrink(n, _ratio(first, weight), n * squares)]
        else:
            return None
        if all(line is None for line, _ in lines_and_bases):
            return None
        table = np.column_stack(
            [np.full(len(values), base) if line is None else line for line, base in lines_and_bases]
        )
        lines = zip(values, map(tuple, table.tolist()), strict=True)
        return LabelMeans(outputs, tuple(lines), tuple(base for _, base in lines_and_bases))


def row_copies(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The number of rows that a row of each weight counts as: a weight with a fraction as the next whole number.

    So weights that add up to 1 count as rows do, and what came once came once.

    Examples
    --------
    >>> row_copies(np.array([0.0, 0.001, 1.0, 2.5, 3.0])).tolist()
    [0.0, 1.0, 1.0, 3.0, 3.0]
    """
    return np.ceil(weight)


def read_weights(weight: Any) -> NDArray[np.float64]:
    """Weights (n,) as float64, 1 where they are no numbers: the gate refuses these."""
    values = np.asarray(weight)
    return values.astype(np.float64, copy=False) if are_numbers(values.dtype) else np.ones(len(values))


def has_weight(weight: Any) -> NDArray[np.bool_]:
    """True for each row that counts."""
    values = read_weights(weight)
    return np.asarray(np.isfinite(values) & (values >= LEAST_WEIGHT))


def _ratio(sums: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Ratios of whole numbers, rounded once; 0 where there is no weight."""
    pairs = zip(sums.tolist(), weights.tolist(), strict=True)
    return np.array([total / weight if weight else 0.0 for total, weight in pairs])


def _few(classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if classes is None or len(classes) > MOST_CLASSES else classes


def shrink(
    n: NDArray[np.float64], means: NDArray[np.float64], squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64] | None, float]:
    """The shrunken means of groups, None where these do not differ beyond chance, and the mean of all rows.

    Parameters
    ----------
    n, means, squares : rows, mean, and sum of squared deviations of each group

    Examples
    --------
    >>> shrink(np.array([9.0, 9.0]), np.array([0.0, 1.0]), np.array([9.0, 9.0]))
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
    share = np.divide(n * between, n * between + within, out=np.zeros_like(n), where=n > 0)
    return base + share * (means - base), base


def find_positions(values: Sequence[str], some: Iterable[str]) -> NDArray[np.int64]:
    """The position of each of `some` among the values; -1 for others."""
    at = {value: i for i, value in enumerate(values)}
    return np.array([at.get(value, -1) for value in some], np.int64)


@dataclass(frozen=True)
class LabelMeans:
    """Inputs that hold the mean of the label where a category had a value.

    Parameters
    ----------
    outputs : what each input is: a class whose share it is, or "mean"; none where the values tell nothing of the label
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
        """True if rows of training had this value; no value is kept where the values tell nothing."""
        return not self.outputs or value in self._lines

    def of(self, value: str | None) -> tuple[float, ...]:
        """The inputs of a value."""
        return self._lines.get(value or "", self.base)

    @classmethod
    def from_json(cls, parts: Any) -> "LabelMeans":
        """The means of JSON, or a ValueError."""
        outputs, values, base = tuple(parts["outputs"]), parts["values"], tuple(parts["base"])
        made = cls(outputs, tuple((word, tuple(line)) for word, line in values), base)
        rows = [base, *(line for _, line in made.values)]
        if not all(isinstance(name, str) for name in (*outputs, *made._lines)) or len(made._lines) < len(values):
            raise ValueError("the means of a category are no list of texts and numbers")
        if not all(len(row) == len(outputs) and all(type(x) is float and np.isfinite(x) for x in row) for row in rows):
            raise ValueError("a mean of a category is not finite")
        return made
