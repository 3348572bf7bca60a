"""Encoders of one column of a table: a number with its missing values, or a category as one-hot inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.column_types import TEXT, TIMES
from dkernel.data.encoding.label_means import LabelMeans
from dkernel.data.encoding.words import NUMBER, PRINTF_FORMAT, VALUE_KINDS, in_kind
from dkernel.errors import DataError

ONE_HOT = float(np.sqrt(0.5))
"""The value of a level: two rows of different levels are then at distance 1."""

CALENDAR = ("year", *(f"{part}.{axis}" for part in ("month", "weekday", "hour") for axis in ("sin", "cos")))
"""Inputs of the calendar of a date, in UTC."""

RADIUS = 0.5
"""Of the circles of a calendar: two opposite points, as January and July, are then at distance 1, as two levels are."""

MISSING_MARK, UNKNOWN_MARK, NOT_THERE = 1, 2, 3  # 0 is a value that training saw
MARKS = {"missing": MISSING_MARK, "unknown": UNKNOWN_MARK, "absent": NOT_THERE}
"""Marks of values: missing where training had none, a category that it never saw, a missing one where it had some."""


@dataclass(frozen=True)
class NumberColumn:
    """A number, or a date or a duration in seconds.

    Parameters
    ----------
    mean : what stands for a missing value, after the offset
    indicator : whether training saw missing values: a second input is then 1 where the value is missing, else 0
    offset : subtracted first, in float64; of dates, whose seconds float32 cannot hold
    kind : "number", "date", "time" or "duration"
    calendar : whether a date has inputs for its year, month, weekday and hour too, in UTC
    levels : values that have an input each beside the number, as those of a category, increasing and exact in float32
    form : format of the texts of a date, as of strptime; "" for ISO 8601
    zoned : whether the times of training had a zone; None of what has none
    last : of times that divided the rows, the last of training, whose seconds and year later ones have

    Examples
    --------
    >>> column = NumberColumn("age", 40.0, indicator=True)
    >>> X = np.zeros((2, 2))
    >>> column.fill(np.array([38.0, np.nan]), X), X.tolist()
    (None, [[38.0, 0.0], [40.0, 1.0]])
    """

    name: str
    mean: float
    indicator: bool = False
    offset: float = 0.0
    kind: str = "number"
    calendar: bool = False
    levels: tuple[float, ...] = ()
    form: str = ""
    zoned: bool | None = None
    last: float | None = None

    @property
    def one_hot(self) -> int:
        """Number of the inputs after the first that stand for values, a missing one among them."""
        return self.indicator + len(self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its inputs."""
        parts = CALENDAR if self.calendar else ()
        values = [f"{self.name}=missing"] * self.indicator + [f"{self.name}={_short(level)}" for level in self.levels]
        return (self.name, *values, *(f"{self.name}.{part}" for part in parts))

    @property
    def unscaled(self) -> tuple[bool, ...]:
        """Mask of the inputs that are not scaled."""
        cycles = (False, *[True] * (len(CALENDAR) - 1)) if self.calendar else ()
        return (False, *[True] * self.one_hot, *cycles)

    def fill(self, values: NDArray[Any], X: NDArray[Any], strict: bool = False) -> NDArray[np.int8] | None:
        """Write the inputs of values (n,) to X (n, width); returns marks (n,) where training saw no such value.

        With `strict` a missing value stays NaN, which the gate of blocks refuses with its place.
        """
        held = values if self.last is None else np.minimum(values, self.last)
        X[:, 0] = held - self.offset if self.offset else held
        if self.calendar:
            X[:, 1 + self.one_hot :] = to_calendar(values, self.mean + self.offset)
            if self.last is not None:
                X[:, 1 + self.one_hot] = to_calendar(held, self.mean + self.offset)[:, 0]
        if self.levels:
            known, single = np.array(self.levels, np.float32), values.astype(np.float32)
            position = np.searchsorted(known[:-1], single)
            rows = np.flatnonzero(known[position] == single)
            X[rows, 1 + self.indicator + position[rows]] = ONE_HOT
        if values.dtype.kind != "f":
            return None
        missing = np.isnan(values)
        if strict or not missing.any():
            return None
        X[missing, 0] = self.mean
        if self.indicator:
            X[missing, 1] = 1
            return None
        return np.where(missing, np.int8(MISSING_MARK), np.int8(0))

    def to_json(self) -> dict[str, Any]:
        """The column as JSON."""
        parts = {**asdict(self), "levels": list(self.levels)}
        left_out = [name for name in ("calendar", "levels", "form") if not parts[name]]
        left_out += [name for name in ("zoned", "last") if parts[name] is None]
        return {name: value for name, value in parts.items() if name not in left_out}

    def check_zone(self, zoned: bool | None) -> None:
        """Refuse times with a zone where those of training had none, or the other way round: in UTC both are numbers.

        Parameters
        ----------
        zoned : as of `arrow.find_zone`
        """
        if None in (zoned, self.zoned) or zoned == self.zoned:
            return
        here, there = ("a zone", "none") if zoned else ("no zone", "one")
        advice = "Take the zone off as it was taken off there" if zoned else "Give them the zone that they are of"
        raise DataError(
            f"Column {self.name!r}: the times have {here}, and those of training had {there}. {advice} "
            f"({'tz_localize(None)' if zoned else '2024-01-31T10:00:00+01:00; tz_localize'}), or train again on such "
            "times."
        )


def _short(level: float) -> str:
    return in_kind(str(np.float32(level)), NUMBER)


def to_calendar(values: NDArray[Any], mean: float) -> NDArray[np.float64]:
    """CALENDAR of times in seconds since 1970: the year, and points on circles; a missing one has the year of the mean.

    Examples
    --------
    >>> to_calendar(np.array([0.0, 6 * 3600.0]), 0.0).round(2).tolist()[1]
    [1970.0, 0.0, 0.5, 0.22, -0.45, 0.5, 0.0]
    """
    missing = np.isnan(values)
    seconds = np.floor(np.where(missing, mean, values)).astype("datetime64[s]")
    days, months = seconds.astype("datetime64[D]"), seconds.astype("datetime64[M]")
    hour = (seconds - days).astype(np.float64) / 3600
    weekday = (days.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    out = np.empty((len(values), len(CALENDAR)))
    out[:, 0] = months.astype("datetime64[Y]").astype(np.int64) + 1970
    for j, (position, period) in enumerate(((months.astype(np.int64) % 12, 12), (weekday, 7), (hour, 24))):
        angle = 2 * np.pi * position / period
        out[:, 1 + 2 * j], out[:, 2 + 2 * j] = RADIUS * np.sin(angle), RADIUS * np.cos(angle)
    out[missing, 1:] = 0.0
    return out


@dataclass(frozen=True)
class CategoryColumn:
    """A category as one-hot inputs of value sqrt(1/2), with the means of the label; a value without a level has zeros.

    Parameters
    ----------
    levels : the values that have an input each
    missing : whether training saw missing values, which are then a level too
    means : what the label was, on average, where the category had a value, of columns with other values than levels
    folds : the same of rows to learn from, without the rows of their own fold; no part of the file
    values : what the values are, as in `dkernel.data.encoding.words`

    Examples
    --------
    >>> column = CategoryColumn("cut", ("Fair", "Good"), missing=True)
    >>> X = np.zeros((3, 3))
    >>> column.fill((["Good", None, "Ideal"], np.arange(3)), X).tolist(), (X > 0).tolist()
    ([0, 3, 2], [[False, True, False], [False, False, True], [False, False, False]])
    """

    name: str
    levels: tuple[str, ...]
    missing: bool = False
    kind: str = "category"
    means: LabelMeans | None = None
    folds: tuple[LabelMeans, ...] = field(default=(), repr=False, compare=False)
    values: str = TEXT

    @property
    def one_hot(self) -> int:
        """Number of the first inputs, which stand for values."""
        return len(self.levels) + self.missing

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its inputs."""
        named = [f"{self.name}={level}" for level in self.levels] + [f"{self.name}=missing"] * self.missing
        means = () if self.means is None else self.means.outputs
        return (*named, *(f"{self.name}:{name}" for name in means))

    @property
    def unscaled(self) -> tuple[bool, ...]:
        """All but the means keep their unit: a rare level would be hundreds of deviations away from the others."""
        return tuple(j < self.one_hot for j in range(len(self.names)))

    def fill(
        self,
        coded: tuple[Sequence[str | None], NDArray[Any]],
        X: NDArray[Any],
        strict: bool = False,
        folds: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int8] | None:
        """Write the inputs of values to X (n, width); returns marks (n,) of values that are missing or unknown.

        Parameters
        ----------
        coded : the different values, None for a missing one, and for each row which of them it has
        strict : a missing value becomes NaN, which the gate of blocks refuses with its place
        folds : of rows to learn from (n,)
        """
        words, codes = coded
        number = {level: i for i, level in enumerate(self.levels)}
        at, mark = np.full(len(words), -1), np.zeros(len(words), np.int8)
        for i, word in enumerate(words):
            if word is None:
                at[i] = len(self.levels) if self.missing else -1
                mark[i] = NOT_THERE if self.missing else MISSING_MARK
            elif word in number:
                at[i] = number[word]
            elif self.means is None or not self.means.knows(word):
                mark[i] = UNKNOWN_MARK
        if self.means is not None and self.means.outputs:
            tables = np.array([[means.of(word) for word in words] for means in (self.means, *self.folds)])
            X[:, self.one_hot :] = tables[0 if folds is None else 1 + folds, codes]
        where = at[codes]
        rows = np.flatnonzero(where >= 0)
        X[rows, where[rows]] = ONE_HOT
        if strict and None in words:
            X[np.isin(codes, [i for i, word in enumerate(words) if word is None]), 0] = np.nan
        return mark[codes] if mark.any() else None

    def to_json(self) -> dict[str, Any]:
        """The column as JSON."""
        parts = {**asdict(self), "levels": list(self.levels)}
        left_out = [name for name, usual in (("means", None), ("values", TEXT)) if parts[name] == usual]
        return {name: value for name, value in parts.items() if name not in ("folds", *left_out)}


def column_from_json(parts: Mapping[str, Any]) -> NumberColumn | CategoryColumn:
    """The column that `to_json` wrote, or a ValueError."""
    kind = parts["kind"]
    if not isinstance(parts["name"], str):
        raise ValueError("a column of the encoding has no name")
    if kind == "category":
        levels = parts["levels"]
        if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
            raise ValueError("the levels of a category are no list of texts")
        if len(set(levels)) < len(levels) or type(parts["missing"]) is not bool:
            raise ValueError("a category has a level twice, or parts of the wrong type")
        values = parts.get("values", TEXT)
        if values not in VALUE_KINDS and not (isinstance(values, str) and PRINTF_FORMAT.fullmatch(values)):
            raise ValueError(f"the values of a category are {values!r}")
        means = LabelMeans.from_json(parts["means"]) if "means" in parts else None
        return CategoryColumn(**{**parts, "levels": tuple(levels), "means": means})
    numbers = parts["mean"], parts["offset"], parts.get("last", 0.0)
    if (
        kind not in ("number", *TIMES)
        or type(parts["indicator"]) is not bool
        or type(parts.get("calendar", False)) is not bool
    ):
        raise ValueError(f"a column of the encoding is of the kind {kind!r}")
    if not all(type(number) is float and np.isfinite(number) for number in numbers):
        raise ValueError("a number of the encoding is not finite")
    levels = parts.get("levels", [])
    if not isinstance(levels, list) or not all(type(level) is float and np.isfinite(level) for level in levels):
        raise ValueError("the levels of a number are no list of finite numbers")
    if (kind != "number" and levels) or (np.diff(np.array(levels, np.float32)) <= 0).any():
        raise ValueError("the levels of a number are those of a date or a duration, or do not increase")
    if type(parts.get("zoned")) not in (bool, type(None)):
        raise ValueError("whether times have a zone is neither true nor false")
    if not isinstance(parts.get("form", ""), str):
        raise ValueError("the format of a date is no text")
    return NumberColumn(**{**parts, "levels": tuple(levels)})
