"""The encoding of a table: an immutable value that turns its columns into the inputs of kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.arrow import column_numbers, find_zone, get_column
from dkernel.data.encoding.columns import MARKS, MISSING_MARK, CategoryColumn, NumberColumn, column_from_json
from dkernel.data.encoding.words import code_column

MISSING_WORDS = ("indicator", "mean", "error")


@dataclass(frozen=True)
class Encoding:
    """The columns of a table in their order, each with the encoder that turns its values into inputs.

    Parameters
    ----------
    missing : "indicator": the mean, and an input that says so where training saw missing values; "mean": the mean
        alone; "error": missing values are refused

    Examples
    --------
    >>> import pyarrow as pa
    >>> encoding = Encoding((NumberColumn("x", 2.0), CategoryColumn("s", ("a", "b"))))
    >>> X, marks = encoding.encode(pa.table({"x": [1.0, None], "s": ["b", "c"]}), "float64")
    >>> X.round(2).tolist(), encoding.count_marks(marks)
    ([[1.0, 0.0, 0.71], [2.0, 0.0, 0.0]], {'missing': {'x': 1}, 'unknown': {'s': 1}})
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    missing: str = "indicator"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """Column -> "number", "date", "time", "duration" or "category"."""
        return {column.name: column.kind for column in self.columns}

    @property
    def formats(self) -> dict[str, str]:
        """Column -> the format of its texts, of numbers and of dates that are not in ISO 8601."""
        return {c.name: c.form for c in self.columns if isinstance(c, NumberColumn) and c.form}

    @property
    def strict(self) -> bool:
        """True if missing values are refused."""
        return self.missing == "error"

    @cached_property
    def plain(self) -> bool:
        """True if the inputs are the columns as they are, but for missing values."""
        numbers = (isinstance(c, NumberColumn) and c.kind == "number" and not c.form for c in self.columns)
        return all(numbers) and not any(c.one_hot for c in self.columns)

    @cached_property
    def unscaled(self) -> NDArray[np.bool_]:
        """Mask of the inputs that are not scaled, bool (width,)."""
        return np.array([flag for column in self.columns for flag in column.unscaled], bool)

    @cached_property
    def positions(self) -> dict[str, range]:
        """Column -> the positions of its inputs."""
        ends = list(accumulate(len(column.names) for column in self.columns))
        return {c.name: range(end - len(c.names), end) for c, end in zip(self.columns, ends, strict=True)}

    @property
    def folded(self) -> bool:
        """True if rows to learn from have inputs of their fold."""
        return any(isinstance(column, CategoryColumn) and column.folds for column in self.columns)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the inputs that are one category together; that a number is missing is one of its levels."""
        groups = []
        for column in self.columns:
            first = 0 if isinstance(column, CategoryColumn) else 1
            groups.append(tuple(self.positions[column.name][first : first + column.one_hot]))
        return tuple(group for group in groups if group)

    def settle(self) -> "Encoding":
        """The encoding of rows to predict: every row has the same means of the label."""
        columns = (replace(c, folds=()) if isinstance(c, CategoryColumn) else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    def hold(self, name: str, last: float) -> tuple["Encoding", list[int], NDArray[np.float64]]:
        """The encoding that holds the trend of times after a last one; positions and values of its inputs."""
        column, inputs = self.columns[self.column_names.index(name)], self.positions[name]
        assert isinstance(column, NumberColumn)
        column.fill(np.array([last]), row := np.zeros((1, len(inputs))))
        at = [0, 1 + column.one_hot] if column.calendar else [0]
        columns = (replace(column, last=last) if each is column else each for each in self.columns)
        return replace(self, columns=tuple(columns)), [inputs[j] for j in at], row[0, at]

    def encode(
        self, table: Any, dtype: str = "float32", folds: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int8] | None]:
        """The inputs (n, width) of a table, and marks of the values that training never saw.

        Parameters
        ----------
        table : an Arrow table with these columns, or an array (n, p) of numbers, NaN where they are missing
        folds : of rows to learn from, see `label_means.row_folds`

        Returns
        -------
        inputs, and int8 (n, p) of 0 or of MARKS for each value, or None where all are 0
        """
        if self.plain and isinstance(table, np.ndarray):
            return self._fill(table)
        X = np.zeros((len(table), len(self.names)), dtype=dtype)
        marks = None
        with np.errstate(over="ignore", invalid="ignore"):  # the gate of blocks says what is too large
            for j, column in enumerate(self.columns):
                cells: Any = get_column(table, j, column.name)
                if isinstance(column, CategoryColumn):
                    values: Any = code_column(cells, column.values)
                else:
                    values = column_numbers(cells)
                    if column.zoned is not None and not np.isnan(values).all():
                        column.check_zone(find_zone(cells))
                inputs = self.positions[column.name]
                more = {"folds": folds} if isinstance(column, CategoryColumn) and column.folds else {}
                mark = column.fill(values, X[:, inputs.start : inputs.stop], self.strict, **more)
                if mark is not None:
                    marks = np.zeros((len(X), len(self.columns)), np.int8) if marks is None else marks
                    marks[:, j] = mark
            if dtype != "float64" and not np.isfinite(X.sum()) and not np.isfinite(X).all():
                return self.encode(table, "float64", folds)  # in which the gate shows what is too large
        return X, marks

    def _fill(self, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int8] | None]:
        """Numbers as they are, with means in place of missing ones."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.strict or X.dtype.kind != "f" or not np.isnan(X.sum()):
                return X, None
        missing = np.isnan(X)
        if not missing.any():
            return X, None
        means = np.array([column.mean for column in self.columns if isinstance(column, NumberColumn)])
        return np.where(missing, means.astype(X.dtype), X), np.where(missing, np.int8(MISSING_MARK), np.int8(0))

    def count_marks(self, marks: NDArray[np.int8] | None) -> dict[str, dict[str, int]]:
        """Mark -> column -> number of its values with this mark; marks and columns without such values are left out."""
        by_mark: dict[str, dict[str, int]] = {}
        for word, mark in MARKS.items() if marks is not None else ():
            counts = np.count_nonzero(marks == mark, axis=0).tolist()
            if named := {name: n for name, n in zip(self.column_names, counts, strict=True) if n}:
                by_mark[word] = named
        return by_mark

    def to_json(self) -> dict[str, Any]:
        """The encoding as JSON."""
        return {"missing": self.missing, "columns": [column.to_json() for column in self.columns]}

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> "Encoding":
        """The encoding that `to_json` wrote, or a ValueError."""
        if parts["missing"] not in MISSING_WORDS:
            raise ValueError(f"an encoding with missing={parts['missing']!r}")
        return cls(tuple(map(column_from_json, parts["columns"])), parts["missing"])

    @classmethod
    def of_means(cls, names: Sequence[str], means: NDArray[np.float64]) -> "Encoding":
        """The encoding of numbers that had no missing values in training: these become the mean."""
        return cls(tuple(NumberColumn(name, float(mean)) for name, mean in zip(names, means, strict=True)))

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> "Encoding":
        """The encoding of numbers that are their own inputs, none of which may be missing."""
        return cls(tuple(NumberColumn(name, 0.0) for name in names), "error")
