"""Mergeable counts of the values of each column, of bounded size, from which encodings are learned.

Different values are counted exactly up to a number m a column, and nothing depends then on how rows are cut into parts:
MOST_VALUES of numbers, and of categories too where an equal share of MOST_WORDS is no more. Beyond that the counts are
those of Misra and Gries (1982), merged as by Agarwal et al. (2012): lower bounds, wrong by at most n / m, of every
value that is more frequent than that.

A row of weight k counts as k rows, and a row of weight 0 as none (`label_means.row_copies` says what a fraction counts
as); in means a row has its weight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import as_column, column_numbers, find_zone, get_column, pick_rows
from dkernel.data.column_types import DATE, TEXT, TIME, TIMES
from dkernel.data.encoding.columns import CategoryColumn, NumberColumn
from dkernel.data.encoding.encoding import Encoding
from dkernel.data.encoding.exact_sums import ExactSums, exact_product
from dkernel.data.encoding.label_means import (
    LABEL_FOLDS,
    LabelCounts,
    LabelMeans,
    LabelPart,
    find_positions,
    has_weight,
    read_weights,
    row_copies,
    row_folds,
)
from dkernel.data.encoding.notation import SEVERAL_NOTATIONS, find_example, find_meaning, foremost
from dkernel.data.encoding.text_values import read_times
from dkernel.data.encoding.words import arrow_kind, code_column, in_kind, kind_among, kinds_in, times_among
from dkernel.errors import DataError

MOST_VALUES = 1000
"""Values of a column that are counted exactly; what is kept of a column is then some 100 KB."""

MOST_WORDS = 100_000
"""Values of all categories together that are counted exactly, where MOST_VALUES of each are fewer."""

MOST_LEVELS = 100
"""Values that have an input of their own."""

Value = TypeVar("Value", str, float)


@dataclass(frozen=True)
class NumberCount:
    """Rows with a number, their smallest, and rows without.

    `zones` says of times whether some have a zone and whether some have none; `common` counts the values as far as
    MOST_VALUES go; `weight` is the sum of the weights, `total` that of the numbers times their weights.
    """

    n: float = 0
    weight: ExactSums = field(default_factory=lambda: ExactSums.of([], ()))
    total: ExactSums = field(default_factory=lambda: ExactSums.of([], ()))
    low: float = np.inf
    missing: float = 0
    common: Mapping[float, float] = field(default_factory=dict)
    zones: frozenset[bool] = frozenset()

    @classmethod
    def of(cls, column: Any, weight: NDArray[np.float64] | None = None, counted: bool = True) -> "NumberCount":
        """The counts of some numbers or times.

        Parameters
        ----------
        weight : (n,), all positive; None where all are 1
        counted : whether the different values are counted
        """
        values = column_numbers(column)
        missing = 0.0
        if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            gaps = np.isnan(values)
            missing = float(gaps.sum() if weight is None else row_copies(weight[gaps]).sum())
            values, weight = values[finite], None if weight is None else weight[finite]
        copies = None if weight is None else row_copies(weight)
        x = values.astype(np.float64)
        weights = ExactSums.of([(np.ones(1) * len(x) if weight is None else weight, None)], ())
        total = ExactSums.of([(each, None) for each in exact_product(x, weight)], ())
        low = float(x.min()) if len(x) else np.inf
        common = _common(values, copies) if counted else {}
        zone = find_zone(column) if len(x) else None
        zones = frozenset(() if zone is None else (zone,))
        n = float(len(x) if copies is None else copies.sum())
        return cls(n, weights, total, low, missing, common, zones)

    def merge(self, other: "NumberCount") -> "NumberCount":
        return NumberCount(
            self.n + other.n,
            self.weight.merge(other.weight),
            self.total.merge(other.total),
            min(self.low, other.low),
            self.missing + other.missing,
            _keep_frequent(_add(self.common, other.common), MOST_VALUES),
            self.zones | other.zones,
        )

    @property
    def levels(self) -> tuple[float, ...]:
        """The frequent values where one fills more than half of the rows: they are then codes as much as amounts.

        Whole numbers without large gaps are counts, of which neighbours are alike.
        """
        counts = self.common
        if not counts or 2 * max(counts.values()) <= self.n or len(counts) < SEVERAL_NOTATIONS:
            return ()
        if all(v % 1 == 0 for v in counts) and max(counts) - min(counts) < 2 * len(counts):
            return ()
        often = sorted(
            (v for v, n in counts.items() if n > max(1.0, self.n / MOST_VALUES)), key=lambda v: (-counts[v], v)
        )
        return tuple(sorted(often[:MOST_LEVELS]))

    def column(
        self, name: str, kind: str, indicator: bool, calendar: bool = False, coded: bool = False
    ) -> NumberColumn:
        # Whole seconds, so that the difference is exact.
        offset = float(np.floor(self.low)) if kind in (DATE, TIME) and self.n else 0.0
        weight, total = self.weight.fractions().item(), self.total.fractions().item()
        mean = float(total / weight - Fraction(offset)) if weight else 0.0
        levels = self.levels if coded and kind == "number" else ()
        if len(self.zones) > 1:
            raise DataError(
                f"Column {name!r} has times with a zone and times without one, which are not comparable: give all of "
                "them a zone (2024-01-31T10:00:00+01:00; tz_localize), or none."
            )
        zoned = next(iter(self.zones), None) if kind == DATE else None  # texts of times of day are read as dates
        calendar = calendar and kind in (DATE, TIME)
        return NumberColumn(name, mean, indicator and self.missing > 0, offset, kind, calendar, levels, zoned=zoned)


def _common(x: NDArray[Any], copies: NDArray[np.float64] | None) -> dict[float, float]:
    """Counts of numbers; none where hardly two are equal, as rows across all of them tell before they are sorted."""
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    if len(single) > MOST_VALUES:
        some = single[:: len(single) // MOST_VALUES]
        if len(np.unique(some)) == len(some):
            return {}
    counts: NDArray[Any]
    if copies is None:
        distinct, counts = np.unique(single, return_counts=True)
    else:
        distinct, numbers = np.unique(single, return_inverse=True)
        counts = np.bincount(numbers, copies)
    counts = counts - _excess(counts, MOST_VALUES)  # before very many values become a dict
    return dict(zip(distinct[counts > 0].tolist(), counts[counts > 0].tolist(), strict=True))


def _add(one: Mapping[Value, float], other: Mapping[Value, float]) -> dict[Value, float]:
    counts = dict(one)
    for value, n in other.items():
        counts[value] = counts.get(value, 0) + n
    return counts


def _keep_frequent(counts: dict[Value, float], most: int) -> dict[Value, float]:
    """The most frequent of values, less the count of the next."""
    less = _excess(np.array(list(counts.values()), np.float64), most)
    return {value: n - less for value, n in counts.items() if n > less} if less else counts


def _excess(counts: NDArray[Any], most: int) -> float:
    """The count of the value after so many most frequent ones; 0 where there is none."""
    return float(np.sort(counts)[-most - 1]) if len(counts) > most else 0


@dataclass(frozen=True)
class CategoryCount:
    """Counts of the values, and means of their labels; `exact` until there are more than `most`.

    `notation` is an example where all values are numbers or dates in another notation, see `notation.find_example`.
    `kinds` are those that all values may have, see `words.kinds_in`; the counts are by words of the values' own type.
    `times` are the counts of texts as times, by each kind of TIMES that all of them may be.
    """

    counts: Mapping[str, float] = field(default_factory=dict)
    missing: float = 0
    exact: bool = True
    label: LabelCounts | None = None
    notation: str | None = None
    kinds: frozenset[str] | None = None
    times: Mapping[str, NumberCount] = field(default_factory=dict)
    most: int = MOST_VALUES

    @classmethod
    def of(
        cls,
        words: Sequence[str | None],
        codes: Any,
        weight: NDArray[np.float64] | None = None,
        label: LabelPart | None = None,
        folds: Any = None,
        type_kind: str = TEXT,
        most: int = MOST_VALUES,
    ) -> "CategoryCount":
        counts = np.bincount(codes, None if weight is None else row_copies(weight), len(words))
        gaps = np.array([word is None for word in words], bool)
        missing, counts = float(counts[gaps].sum()), np.where(gaps, 0, counts)
        less = _excess(counts[counts > 0], most)  # before very many values become a dict
        frequent = np.flatnonzero(counts > less)
        kinds = kinds_in(words, type_kind)
        possible = times_among(kinds) if type_kind == TEXT else ()
        times = {kind: read_times(pa.array(words, pa.string()), kind) for kind in possible}
        bounded = cls(
            {words[i] or "": float(counts[i]) - less for i in frequent.tolist()},
            missing,
            not less,
            notation=find_example(words),
            kinds=kinds,
            times={k: NumberCount.of(t.take(codes), weight, False) for k, t in times.items() if t is not None},
            most=most,
        )
        if label is None:
            return bounded
        values = ("", *bounded.counts)
        positions = find_positions(values, [word or "" for word in words])[codes]
        return replace(bounded, label=LabelCounts.of(values, positions, label, folds))

    def merge(self, other: "CategoryCount") -> "CategoryCount":
        counts = _add(self.counts, other.counts)
        label = None
        if self.label is not None and other.label is not None:
            label = self.label.merge(other.label)
        examples = [each for each in (self.notation, other.notation) if each is not None]
        notation = "" if "" in examples else reduce(foremost, examples) if examples else None
        missing, exact = self.missing + other.missing, self.exact and other.exact
        if len(frequent := _keep_frequent(counts, self.most)) < len(counts):
            exact, label = False, None if label is None else label.among(("", *frequent))
        kinds = other.kinds if self.kinds is None else self.kinds if other.kinds is None else self.kinds & other.kinds
        times = {kind: count.merge(other.times[kind]) for kind, count in self.times.items() if kind in other.times}
        return CategoryCount(frequent, missing, exact, label, notation, kinds, times, self.most)

    @property
    def meaning(self) -> str:
        """What the values are if they are texts, see `notation.find_meaning`."""
        return find_meaning(self.notation, self.kinds)

    @property
    def values(self) -> str:
        """The kind of the values."""
        return kind_among(self.kinds)

    def in_kind(self) -> "CategoryCount":
        """The counts by the words that the values have in a column of their kind."""
        words = {word: in_kind(word, self.values) for word in self.counts}
        counts = dict.fromkeys(words.values(), 0.0)
        for word, n in self.counts.items():
            counts[words[word]] += n
        return replace(self, counts=counts, label=None if self.label is None else self.label.rename(words))

    @property
    def few(self) -> bool:
        """True if every value has an input of its own."""
        return self.exact and len(self.counts) <= MOST_LEVELS

    @property
    def levels(self) -> tuple[str, ...]:
        """The values that have an input each: of many, the most frequent that came more than once."""
        if self.few:
            return tuple(sorted(self.counts))
        often = sorted((word for word, n in self.counts.items() if n > 1), key=lambda w: (-self.counts[w], w))
        return tuple(sorted(often[:MOST_LEVELS]))

    def column(self, name: str) -> CategoryColumn:
        counts = self.in_kind()
        column = CategoryColumn(name, counts.levels, self.missing > 0, values=self.values)
        if counts.few:
            return column
        label, every = counts.label, (None, *range(LABEL_FOLDS))
        means = [] if label is None else [each for fold in every if (each := label.means(fold)) is not None]
        if len(means) < len(every):  # the values do not tell of the label, in a fold or in all
            return replace(column, means=LabelMeans((), (), ()))
        return replace(column, means=means[0], folds=tuple(means[1:]))


Count = NumberCount | CategoryCount


@dataclass(frozen=True)
class TableCounts:
    """Counts of all columns of a table; those of parts of it are merged in their order.

    `rows` are those of positive weight, `copies` what they count as.

    Examples
    --------
    >>> import pyarrow as pa
    >>> kinds = {"x": "number", "s": "category"}
    >>> table = pa.table({"x": [1.0, None, 5.0], "s": ["b", "a", "b"]})
    >>> counts = TableCounts.of(table.slice(0, 1), kinds).merge(TableCounts.of(table.slice(1), kinds))
    >>> counts.encoding(kinds).names
    ('x', 'x=missing', 's=a', 's=b')
    """

    columns: tuple[Count, ...]
    rows: int
    copies: float

    @classmethod
    def of(
        cls, table: Any, kinds: Mapping[str, str], label: Any = None, weight: Any = None, first: int = 0
    ) -> "TableCounts":
        """The counts of a table, or of an array (n, p) of numbers.

        Parameters
        ----------
        kinds : of each column: "number", one of TIMES or "category"
        label, weight : (n,), of rows that have them
        first : number of the first row
        """
        folds = row_folds(first, len(table))
        if weight is not None:
            weight = read_weights(weight)
            used = has_weight(weight)
            weight, folds = weight[used], folds[used]
            table = pick_rows(table, used)
            label = None if label is None else np.asarray(label)[used]
        counts: list[Count] = []
        coded_too = "category" in kinds.values()
        part = LabelPart.of(label, weight) if coded_too else None
        most = max(MOST_VALUES, MOST_WORDS // max(1, list(kinds.values()).count("category")))
        for j, (name, kind) in enumerate(kinds.items()):
            column = get_column(table, j, name)
            if kind == "category":
                type_kind = arrow_kind(as_column(column).type)
                counts.append(CategoryCount.of(*code_column(column), weight, part, folds, type_kind, most))
            else:
                counts.append(NumberCount.of(column, weight, coded_too and kind == "number"))
        copies = len(table) if weight is None else float(row_copies(weight).sum())
        return cls(tuple(counts), len(table), copies)

    def merge(self, other: "TableCounts") -> "TableCounts":
        pairs = zip(self.columns, other.columns, strict=True)
        columns = tuple(one.merge(two) for one, two in pairs)  # type: ignore[arg-type]
        return TableCounts(columns, self.rows + other.rows, self.copies + other.copies)

    def with_times(self, kinds: Mapping[str, str]) -> "TableCounts":
        """The counts with those of times for columns of texts that these kinds take for times."""
        pairs = zip(kinds.values(), self.columns, strict=True)
        times = [c.times[kind] if isinstance(c, CategoryCount) and kind in TIMES else c for kind, c in pairs]
        return replace(self, columns=tuple(times))

    def encoding(
        self,
        kinds: Mapping[str, str],
        missing: str = "indicator",
        dates: str = "seconds",
        formats: Mapping[str, str] = MappingProxyType({}),
    ) -> Encoding:
        """The encoding that these counts decide.

        Parameters
        ----------
        missing : "indicator", "mean" or "error"
        dates : "seconds", or "calendar" for inputs of the year, month, weekday and hour beside them
        formats : of dates and numbers that are texts
        """
        made: list[NumberColumn | CategoryColumn] = []
        coded = "category" in kinds.values()  # a table of numbers alone keeps its width
        for (name, kind), count in zip(kinds.items(), self.columns, strict=True):
            if isinstance(count, NumberCount):
                column = count.column(name, kind, missing == "indicator", dates == "calendar", coded)
                made.append(replace(column, form=formats.get(name, "")))
            else:
                made.append(count.column(name))
        return Encoding(tuple(made), missing)

    def notes(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Notes: the columns with missing values, and the categories."""
        lines: dict[str, str] = {}
        pairs = list(zip(kinds.items(), self.columns, strict=True))
        gaps = [f"{name} {_share(count.missing / self.copies)}" for (name, _), count in pairs if count.missing]
        if gaps:
            lines["missing"] = join_names(gaps)
        words = [
            f"{name} ({len(c.in_kind().counts)} values)" if c.exact else f"{name} (over {c.most:,} values)"
            for (name, _), c in pairs
            if isinstance(c, CategoryCount)
        ]
        if words:
            lines["categories"] = join_names(words)
        codes = [
            (name, count.levels) for (name, kind), count in pairs if isinstance(count, NumberCount) and kind == "number"
        ]
        if words and (said := [f"{name} {len(levels)}" for name, levels in codes if levels]):
            text = "most rows have one value, so as many frequent values became 0/1 inputs"
            lines["codes"] = f"{join_names(said)}: {text}"
        lines |= self._useless_columns(kinds)
        return lines

    def _useless_columns(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Columns that say nothing: of different values alone, such as names and numbers of rows, or of none."""
        pairs = list(zip(kinds, self.columns, strict=True))
        empty = [name for name, count in pairs if count.missing == self.copies]
        words = [(name, count) for name, count in pairs if isinstance(count, CategoryCount) and name not in empty]
        alone = [name for name, count in words if not count.levels]
        lines = {"identifiers": f"{join_names(alone)}: hardly a value came twice, so exclude them"} if alone else {}
        return {**lines, **({"empty": f"{join_names(empty)}: no row has a value"} if empty else {})}


def _share(part: float) -> str:
    return f"{100 * part:.0f} %" if part > 0.1 else f"{100 * part:.2g} %"


def join_names(texts: Sequence[str]) -> str:
    return ", ".join(texts[:12]) + (f" and {len(texts) - 12} more" if len(texts) > 12 else "")
