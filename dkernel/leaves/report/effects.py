"""Effects of the columns on a model: permutation importance and partial dependence on rows that it has not seen."""

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
from dkernel.solvers.reservoir_split import select_rows

MOST_EFFECT_ROWS = 2048  # rows of the holdout, which give a share to a percent
MOST_VARIED = 512  # rows of a partial dependence: some 20 values of each of six columns take the scores of 60,000
MOST_TRIED = 100  # columns: each takes the scores of many rows
MOST_DEPENDENCES = 6  # pictures: two lines of three
MOST_VALUES_SHOWN = 10  # values of a category, or points of a number: as many bars as have room
HOUR, YEAR = 3600.0, 365.2425 * 24 * 3600.0  # seconds
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

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


def columns_by_importance(parts: Parts) -> list[tuple[str, float]]:
    """Columns, and what shuffling their values once costs of accuracy or R², the most first."""
    model = parts[0][0]
    if reason_not_drawn(model):
        return []
    many = len(model.places) > MOST_TRIED
    names = [name for name, _ in strongest(model)[:MOST_TRIED]] if many else list(model.places)
    most = max(1, MOST_EFFECT_ROWS // len(parts))
    lost = [importances(fitted, select_rows(rows, slice(most)), names, shuffles=1) for fitted, rows in parts]
    return sorted(((name, float(np.mean([each[name][0] for each in lost]))) for name in names), key=lambda p: -p[1])


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
            found.append(Dependence(title, values, np.array(answers)))
    return found[: 4 if len(found) == 5 else MOST_DEPENDENCES]


def _settings(column: NumberColumn | CategoryColumn, inputs: NDArray[Any]) -> Iterator[tuple[str, Any, list[Any]]]:
    """What to vary of a column: its name, values to show, and the values of all rows for each, as `fill` has them."""
    n, name = len(inputs), column.name
    if isinstance(column, CategoryColumn):
        counts = (inputs[:, : len(column.levels)] > 0).sum(axis=0)
        words = [column.levels[i] for i in np.argsort(-counts, kind="stable")[:MOST_VALUES_SHOWN] if counts[i]]
        if len(words) > 1:
            yield name, words, [([word], np.zeros(n, np.intp)) for word in words]
        return
    values = inputs[:, 0].astype(np.float64) + column.offset
    if column.calendar:
        hours = np.floor(values / HOUR)
        midnight, weekday = hours // 24 * 24 * HOUR, (hours // 24 + 3) % 7  # 1970 began on a Thursday
        if (hours % 24).any():
            yield f"{name}, hour (UTC)", np.arange(24.0), [midnight + hour * HOUR for hour in range(24)]
        yield f"{name}, weekday", WEEKDAYS, [values + (day - weekday) * 24 * HOUR for day in range(7)]
        return
    grid = np.quantile(values, np.linspace(0.02, 0.98, 25), method="nearest")  # 0 and 1 have nothing between them
    codes = [level for level in column.levels if grid[0] < level < grid[-1]]
    grid = np.unique([*grid, *codes])
    if len(grid) > 1:
        shown = {"date": 1970 + grid / YEAR, "duration": grid}.get(column.kind, grid)
        yield name + {"date": ", year", "duration": ", s"}.get(column.kind, ""), shown, [np.full(n, v) for v in grid]


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
