"""The encoding of a table as a ColumnTransformer of scikit-learn, fitted to a few made rows."""

import zlib
from collections.abc import Callable, Mapping
from datetime import time
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dkernel.encoding import CategoryColumn, Encoding, NumberColumn
from dkernel.encoding.columns import ONE_HOT, RADIUS, calendar_of
from dkernel.encoding.words import BOOL, DATE, DURATION, NUMBER, TEXT, TIME, in_kind, spellings
from dkernel.errors import UnsupportedError

SECOND = pd.Timedelta(1, "s").as_unit("us")  # nanoseconds are some 300 years alone


def encoder_of(encoding: Encoding) -> Any:
    """Transformer of the columns to the inputs; a category is 1 where the encoding has sqrt(1/2)."""
    names = encoding.column_names
    numbers = all(column.kind == "number" for column in encoding.columns)
    by_place = numbers and names == tuple(map(str, range(len(names))))
    parts: list[Any] = []
    for j, (name, column) in enumerate(zip(names, encoding.columns, strict=True)):
        step = f"column{j}"  # a name of a column may be none of a step: remainder, home__type
        parts.append((step, _part(column, encoding.strict), [j if by_place else name]))
        if isinstance(column, CategoryColumn):
            parts += [(f"{step}.hash", _hash(column), [name])] if column.buckets else []
            parts += [(f"{step}.mean{i}", steps, [name]) for i, steps in enumerate(_means(column))]
        elif column.levels:
            parts += [(f"{step}.levels", _levels(column), [name])]
        elif column.calendar:
            parts += [(f"{step}.{part}", steps, name) for part, steps in _calendar(column).items()]
    rows = pd.DataFrame({column.name: _two_rows(column) for column in encoding.columns})
    return ColumnTransformer(parts).fit(rows.to_numpy() if by_place else rows)


def units_of(encoding: Encoding) -> NDArray[np.float64]:
    """The value of each input where the made one is 1."""
    units = np.ones(len(encoding.names))
    units[list(chain.from_iterable(encoding.groups))] = ONE_HOT
    # That a number is missing is 1 in both.
    units[[encoding.places[c.name][1] for c in encoding.columns if isinstance(c, NumberColumn) and c.indicator]] = 1.0
    return units


def _part(column: NumberColumn | CategoryColumn, strict: bool) -> Any:
    if isinstance(column, CategoryColumn):
        return _one_hot(column)
    imputer = SimpleImputer(
        strategy="constant", fill_value=column.mean, add_indicator=column.indicator, keep_empty_features=True
    )
    made: dict[str, Callable[[], Pipeline]] = {
        "number": _number,
        "date": partial(_since, column),
        "duration": _duration,
    }
    first = made[column.kind]()
    return first if strict else Pipeline([("number", first), ("missing", imputer)])


def _number() -> Pipeline:
    """Numbers and truth values of any type of pandas, or of an array."""
    return Pipeline(
        [
            ("frame", FunctionTransformer(pd.DataFrame)),
            ("float", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "float64"})),
            ("array", FunctionTransformer(np.asarray)),
        ]
    )


def _look_up(column: CategoryColumn, number_of: Mapping[str, float]) -> list[Any]:
    """A number for each value, in any type and spelling of these words, "" for a missing one; NaN for all others."""
    numbers = {
        value: x
        for word, x in number_of.items()
        if word
        for value in (*spellings(word, column.values), *_values(word, column.values))
    }
    return [
        ("objects", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "object"})),
        ("missing", FunctionTransformer(pd.DataFrame.where, kw_args={"cond": pd.DataFrame.notna, "other": ""})),
        ("number", FunctionTransformer(pd.DataFrame.map, kw_args={"func": {**numbers, **number_of}.get})),
        ("float", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "float64"})),
    ]


def _values(word: str, kind: str) -> list[Any]:
    """The values of other types than text that have this word; equal numbers of all types have one hash."""
    try:
        if kind == DATE:
            moment = pd.Timestamp(word)
            return [moment, moment.tz_localize("UTC"), *[moment.date()] * (" " not in word)]
        if kind == TIME:
            return [time.fromisoformat(word)]
        if kind == DURATION:
            return [pd.Timedelta(float(word), "s")]
        if kind == BOOL:
            return [word == "True"]
        if kind == TEXT and in_kind(word, NUMBER) != word:
            return []
        texts = spellings(word, NUMBER if kind == TEXT else kind)
        return [int(text) if text.lstrip("-").isdigit() else float(text) for text in texts]
    except ValueError:
        return []


def _means(column: CategoryColumn) -> list[Pipeline]:
    """Make steps of each mean of the label; scikit-learn's TargetEncoder learns its means and cannot be given them."""
    means = column.means
    return (
        [
            Pipeline(
                [
                    *_look_up(column, {word: line[j] for word, line in means.values}),
                    ("unknown", FunctionTransformer(pd.DataFrame.fillna, kw_args={"value": base})),
                ]
            )
            for j, base in enumerate(means.base)
        ]
        if means is not None
        else []
    )


def _one_hot(column: CategoryColumn) -> Pipeline:
    """One-hot inputs of the places of levels."""
    words = [*column.levels, *[""] * column.missing]
    places = [np.arange(len(words), dtype=np.float64)]
    return Pipeline(
        [
            *_look_up(column, {word: float(i) for i, word in enumerate(words)}),
            ("levels", OneHotEncoder(categories=places, handle_unknown="ignore", sparse_output=False)),
        ]
    )


def _hash(column: CategoryColumn) -> Pipeline:
    """One-hot inputs that all values without a level share, by the CRC-32 of their text."""
    if column.values != TEXT:
        raise UnsupportedError(
            f"The column {column.name!r} has so many values that rare ones share inputs by a hash of their text, and "
            f"they are no text. Export as ONNX, or train with the column as text, or with --exclude of it."
        )
    known = [*column.levels, ""]
    return Pipeline(
        [
            ("objects", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "object"})),
            ("missing", FunctionTransformer(pd.DataFrame.where, kw_args={"cond": pd.DataFrame.notna, "other": np.nan})),
            ("rare", FunctionTransformer(pd.DataFrame.replace, kw_args={"to_replace": known, "value": np.nan})),
            ("bytes", FunctionTransformer(pd.DataFrame.map, kw_args={"func": str.encode, "na_action": "ignore"})),
            ("hash", FunctionTransformer(pd.DataFrame.map, kw_args={"func": zlib.crc32, "na_action": "ignore"})),
            ("float", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "float64"})),
            *_steps(("mod", column.buckets)),
            (
                "buckets",
                OneHotEncoder(
                    categories=[np.arange(column.buckets, dtype=np.float64)],
                    handle_unknown="ignore",
                    sparse_output=False,
                ),
            ),
        ]
    )


def _levels(column: NumberColumn) -> Pipeline:
    levels = [np.array(column.levels, np.float32)]
    return Pipeline(
        [
            *_number().steps,
            ("single", FunctionTransformer(np.asarray, kw_args={"dtype": "float32"})),
            ("levels", OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)),
        ]
    )


def _since(column: NumberColumn) -> Pipeline:
    """Seconds from the offset of the encoding, which is the first date of the training."""
    begin = pd.Timestamp(int(column.offset), unit="s").as_unit("us")
    return Pipeline([*_moments(pd.DataFrame), *_steps(("sub", begin), ("div", SECOND))])


def _duration() -> Pipeline:
    """Seconds of durations of any unit."""
    durations = ("duration", FunctionTransformer(np.asarray, kw_args={"dtype": "timedelta64[us]"}))
    return Pipeline([durations, ("frame", FunctionTransformer(pd.DataFrame)), *_steps(("div", SECOND))])


def _moments(made: type) -> list[Any]:
    """Dates in UTC, of any zone and unit."""
    return [
        ("moment", FunctionTransformer(np.asarray, kw_args={"dtype": "datetime64[us]"})),
        ("frame", FunctionTransformer(made)),
    ]


def _calendar(column: NumberColumn) -> dict[str, Pipeline]:
    """Year, month, weekday and hour of a series of dates, as `dkernel.encoding.columns.calendar_of` has them."""
    year = calendar_of(np.array([np.nan]), column.mean + column.offset)[0, 0]
    day = pd.Timedelta(1, "D").as_unit("us")
    hour = [("sub", pd.Timestamp(0).as_unit("us")), ("mod", day), ("div", day)]
    return {
        "year": Pipeline([*_attribute("dt.year"), ("missing", SimpleImputer(strategy="constant", fill_value=year))]),
        "month": Pipeline([*_attribute("dt.month"), *_steps(("sub", 1), ("div", 12)), ("circle", _circle())]),
        "weekday": Pipeline([*_attribute("dt.day_of_week"), *_steps(("div", 7)), ("circle", _circle())]),
        "hour": Pipeline([*_moments(pd.DataFrame), *_steps(*hour), ("circle", _circle())]),
    }


def _attribute(name: str) -> list[Any]:
    return [
        *_moments(pd.Series),
        ("attribute", FunctionTransformer(attrgetter(name))),
        ("column", FunctionTransformer(pd.Series.to_frame)),
        ("float", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "float64"})),
    ]


def _steps(*methods: tuple[str, Any]) -> list[Any]:
    """Methods of a data frame with a number, one after the other."""
    return [
        (name, FunctionTransformer(getattr(pd.DataFrame, name), kw_args={"other": other})) for name, other in methods
    ]


def _circle() -> Pipeline:
    """A share of a turn as a point on a circle, which a missing value has in its middle."""
    both = FeatureUnion([(f.__name__, FunctionTransformer(f)) for f in (np.sin, np.cos)])
    middle = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
    radius = [("frame", FunctionTransformer(pd.DataFrame)), ("radius", _steps(("mul", RADIUS))[0][1])]
    return Pipeline([*_steps(("mul", 2 * np.pi)), ("point", both), *radius, ("missing", middle)])


def _two_rows(column: NumberColumn | CategoryColumn) -> Any:
    """Two rows, of which the second has a missing value."""
    if isinstance(column, CategoryColumn):
        return pd.array([column.levels[0] if column.levels else "", None], dtype="object")
    if column.kind == "date":
        return pd.to_datetime([pd.Timestamp(int(column.offset), unit="s"), pd.NaT])
    if column.kind == "duration":
        return pd.to_timedelta([pd.Timedelta(0), pd.NaT])
    return [column.mean, np.nan]
