"""Effects of the columns on a model: permutation importance and partial dependence on rows that it has not seen."""

from calendar import day_name, month_name
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.encoding.columns import CategoryColumn, NumberColumn
from dkernel.inference.importance import importances
from dkernel.losses.metrics import class_of_scores
from dkernel.model.model import Model
from dkernel.numerics.array_types import F64

MOST_VARIED = 512  # rows of a partial dependence: some 20 values of each of six columns take the scores of 60,000
MOST_TRIED = 100  # columns: each takes the scores of many rows
MOST_DEPENDENCES = 6  # pictures: two lines of three
MOST_VALUES_SHOWN = 10  # values of a category, or points of a number: as many bars as have room
HOUR, YEAR = 3600.0, 365.2425 * 24 * 3600.0  # seconds
WEEKDAYS, MONTHS = tuple(day_name), tuple(month_name)[1:]

Parts = Sequence[tuple[Model, Block]]
"""Models, each with rows that it has not learned from."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """Mean answer of a model over some rows, with one column set to each of some values in turn.

    Parameters
    ----------
    name : of the column, with the part of a date or the unit
    values : numbers, or words
    answers : float64 (values, k): the predictions of a regression, the share of the second of two classes, or of each
    """

    name: str
    values: NDArray[np.float64] | Sequence[str]
    answers: NDArray[np.float64]


def strongest(model: Model) -> list[tuple[str, float]]:
    """Columns and their shares in the learned metric, the largest first; nothing where no metric was learned."""
    return sorted((model.column_weights or {}).items(), key=lambda pair: -pair[1])


def find_importances(parts: Parts) -> dict[str, Any]:
    """What `importances` finds, of many columns those of the strongest; nothing where it is not drawn."""
    model = parts[0][0]
    if reason_not_drawn(model):
        return {"columns": {}}
    many = len(model.places) > MOST_TRIED
    return importances(parts, [name for name, _ in strongest(model)[:MOST_TRIED]] if many else None)


def dependences(parts: Parts, names: Sequence[str]) -> list[Dependence]:
    """Partial dependence on the columns, before their encoding: of numbers, parts of dates and values of categories.

    As many as fill lines of three pictures, or of two: four of five.
    """
    model, rows = parts[0]
    X = rows.X[:MOST_VARIED]
    found: list[Dependence] = []
    columns = {} if model.encoding is None else {column.name: column for column in model.encoding.columns}
    for name in names:
        if len(found) >= MOST_DEPENDENCES:
            break
        places, column = list(model.places[name]), columns.get(name, NumberColumn(name, 0.0))
        of_column = []
        for title, values, settings in _settings(column, X[:, places]):
            answers = []
            for setting in settings:
                changed, inputs = X.copy(), np.zeros((len(X), len(places)), X.dtype)
                column.fill(setting, inputs)
                changed[:, places] = inputs
                answers.append(_answer(model, changed))
            if isinstance(values, list):  # words, which have no order of their own
                order = np.argsort([-row[0] for row in answers], kind="stable")
                values, answers = [values[i] for i in order], [answers[i] for i in order]
            of_column.append(Dependence(title, values, np.array(answers)))
        of_column.sort(key=lambda each: -np.ptp(each.answers, axis=0).max())
        found += of_column[:2]  # parts of a date, those that move the answer most
    return found[: 4 if len(found) == 5 else MOST_DEPENDENCES]


def _settings(column: NumberColumn | CategoryColumn, inputs: NDArray[Any]) -> Iterator[tuple[str, Any, list[Any]]]:
    """What to vary of a column: its name, values to show, and the values of all rows for each, as `fill` has them."""
    n, name = len(inputs), column.name
    if isinstance(column, CategoryColumn):
        counts = (inputs[:, : column.one_hot] > 0).sum(axis=0)
        places = [i for i in np.argsort(-counts, kind="stable")[:MOST_VALUES_SHOWN] if counts[i]]
        words = [(*column.levels, None)[i] for i in places]
        if len(words) > 1:
            named = ["missing" if word is None else word for word in words]
            yield name, named, [([word], np.zeros(n, np.intp)) for word in words]
        return
    values = inputs[:, 0].astype(np.float64) + column.offset
    if column.calendar:
        yield from ((f"{name}, {part}", *of_part) for part, *of_part in _parts_of_times(values))
        return
    low, high = np.quantile(values, [0.25, 0.75])
    # Others would stretch the axis, such as -999.
    near = (np.abs(values - (low + high) / 2) <= 3.5 * (high - low)) | (low == high)
    grid = np.quantile(values[near], np.linspace(0.02, 0.98, 25), method="nearest")  # 0 and 1 have nothing in between
    codes = [level for level in column.levels if grid[0] < level < grid[-1]]
    grid = np.unique([*grid, *codes])
    if len(grid) > 1:
        shown = {"date": 1970 + grid / YEAR, "duration": grid}.get(column.kind, grid)
        yield name + {"date": ", year", "duration": ", s"}.get(column.kind, ""), shown, [np.full(n, v) for v in grid]


def _parts_of_times(values: F64) -> Iterator[tuple[str, Any, list[F64]]]:
    """Times with one part of them changed in all: its name, values to show, and the times for each.

    The year of up to three years has fractions: it shows a trend with its seasons.

    Examples
    --------
    >>> day = np.arange(14.0) * 24 * HOUR  # from Thursday the 1st of January 1970
    >>> {part: len(times) for part, _, times in _parts_of_times(day)}
    {'year': 2, 'weekday': 7}
    """
    hours = np.floor(values / HOUR)
    midnight, weekday = hours // 24 * 24 * HOUR, (hours // 24 + 3) % 7  # 1970 began on a Thursday
    months = values.astype("datetime64[s]").astype("datetime64[M]")
    since = values - months.astype("datetime64[s]").astype(np.float64)
    since = np.minimum(since, since % (24 * HOUR) + 27 * 24 * HOUR)  # all months have 28 days
    number = months.astype(np.int64)
    first, last, of_year = number.min(), number.max(), number % 12

    def move(to: Any) -> F64:
        return to.astype("datetime64[M]").astype("datetime64[s]").astype(np.float64) + since

    if last - first >= 36:
        years = np.unique(number // 12)
        yield "year", years + 1970.0, [move(np.clip(12 * year + of_year, first, last)) for year in years]
    else:  # whole weeks, after which weekday and hour are as before
        week = 7 * 24 * HOUR
        weeks = np.unique(np.quantile(values // week, np.linspace(0.02, 0.98, 25), method="nearest"))
        yield "year", 1970 + weeks * week / YEAR, [values + (each - values // week) * week for each in weeks]
    if last - first >= 12:
        to = [number - of_year + month for month in range(12)]
        yield "month", MONTHS, [move(each + 12 * (1 * (each < first) - (each > last))) for each in to]
    if len(np.unique(weekday)) > 1:
        yield "weekday", WEEKDAYS, [values + (day - weekday) * 24 * HOUR for day in range(7)]
    if (hours % 24).any():
        yield "hour (UTC)", np.arange(24.0), [midnight + hour * HOUR for hour in range(24)]


def reason_not_drawn(model: Model) -> str:
    """Why effects are not drawn; "" if they are."""
    if not model.layout.numeric:
        return "Not drawn: these rows are sparse, or no numbers, and have no columns whose values could be shuffled."
    if len(model.places) > MOST_TRIED and model.column_weights is None:
        return f"Not drawn: these are more than {MOST_TRIED} columns, and no learned metric says which are strong."
    return ""


def _answer(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    S = model.scores(X)
    if model.classes is None:
        return np.asarray(S.mean(axis=0), np.float64)
    if model.has_probabilities:
        shares = model.probabilities(S).mean(axis=0)
    else:
        shares = np.bincount(class_of_scores(S), minlength=len(model.classes)) / len(S)
    return np.asarray(shares[1:] if len(shares) == 2 else shares, np.float64)
