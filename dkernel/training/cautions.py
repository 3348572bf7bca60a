"""Warnings from the survey of the data: a class of one row, a constant feature, a column that says the label."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.column_types import DATE, TIME
from dkernel.data.encoding import CategoryColumn, NumberColumn
from dkernel.data.encoding.counts import join_names
from dkernel.data.encoding.words import NO_VALUES
from dkernel.data.source import Source
from dkernel.numerics.random_streams import rows_of_hashes
from dkernel.solvers.targets import Targets, name_of_target
from dkernel.streaming.survey import Reservoir, SurveyResult

CAUTION_ROWS = 4096  # rows in which the label is compared with the features, and values with each other
FREQUENT = 0.01  # share of the rows: a value this frequent is not the tail of a distribution
UNSAID = 0.02  # share of the label's variance; of 52 public sets the strongest column leaves 0.08
SEVERAL_VALUES = 12  # different values; a column with fewer may hold codes
CONSTANT_LABEL = "label"  # name of the caution that estimators raise as a warning


def cautions(
    survey: SurveyResult, counts: Mapping[Any, float], source: Source, targets: Targets, seed: int
) -> Iterator[tuple[str, str]]:
    """Yield the cautions as pairs (name, text)."""
    classes = targets.classes is not None
    single = [repr(label) for label, n in counts.items() if n == 1] if classes and source.weight is None else []
    if single:
        yield "rare classes", f"{join_names(single)}: one row each, learned from it alone or, held out, from none"
    if targets.constant:
        centers = np.broadcast_to(targets.center, targets.outputs)
        named = [f"{name_of_target(source.label, j, targets.outputs)}, {centers[j]:.6g}" for j in targets.constant]
        yield CONSTANT_LABEL, f"{join_names(named)}: one value in all rows, which is what is predicted"
    encoded = source.encoding.columns if source.encoding else ()
    levels = [column.levels for column in encoded if isinstance(column, CategoryColumn)]
    if alike := [pair for words in (counts if classes else (), *levels) for pair in _alike(words)]:
        more = f", and {len(alike) - 1} more pairs" if alike[1:] else ""
        yield "alike", f"{alike[0]}{more}: only spaces or capitals differ"
    if codes := [f"{column.name} {level!r}" for column in encoded for level in column.levels if level in NO_VALUES]:
        yield "no values", f"{join_names(codes)}: where this means missing, leave the field empty"
    if source.sparse or source.objects:
        return
    columns = inputs_of_columns(source)
    level = survey.low == survey.high
    if constant := [name for name, inputs in columns.items() if len(inputs) and level[inputs].all()]:
        yield "constant", f"{join_names(constant)}: one value in all rows, so useless"
    numbers = {name: inputs[0] for name, inputs in columns.items() if len(inputs) and not level[inputs[0]]}
    sample = survey.reservoir
    starts = {
        column.name: column.offset
        for column in encoded
        if isinstance(column, NumberColumn) and column.kind in (DATE, TIME)
    }
    steps = {name: _step(survey, j) for name, j in numbers.items() if source.weight is None}
    if counting := [name for name, step in steps.items() if step == 1 and name not in starts]:
        yield "row numbers", f"{join_names(counting)}: these number the rows, so exclude them"
    ordering = [
        name
        for name, j in numbers.items()
        if name not in counting and _orders_rows(sample, seed, j, name in starts and bool(steps.get(name)))
    ]
    if ordering and not any(isinstance(column, NumberColumn) and column.last is not None for column in encoded):
        how = "its times are at equal steps" if all(map(steps.get, ordering)) else "the rows are in its order"
        becomes = "its calendar stays, its trend ends" if ordering[0] in starts else "it is then no feature"
        advice = f"holdout_by='time:{ordering[0]}' ({becomes})" if source.files else "give them in eval_set"
        text = f"{join_names(ordering)}: {how}, so rows left out lie between others; judge by the last: {advice}"
        yield "ordered", text
    X, y = sample.X[:CAUTION_ROWS], sample.y[:CAUTION_ROWS]
    values = {name: X[:, j] for name, j in numbers.items()}
    if not classes and y.ndim == 1:
        values[source.label or "the label"] = y
    if dates := {name: form for name, column in values.items() if (form := _form_of_dates(column))}:
        text = "as numbers 20191231 and 20200101 are far apart; make dates of them with"
        first = "formats={{{!r}: {!r}}}".format(*next(iter(dates.items())))
        yield "whole dates", f"{join_names(list(dates))}: {text} {first}"
    if far := [f"{name} {_show(x, starts.get(name))}" for name, column in values.items() for x in _far_values(column)]:
        text = "frequent and far from all others; leave it empty where it means missing"
        yield "far values", f"{join_names(far)}: {text}"
    told = {*counting, *ordering}  # where neighbours have nearly one label, as days of a series have
    names = {name: inputs for name, inputs in columns.items() if not level[inputs].all() and name not in told}
    if leaks := [name for name, inputs in names.items() if y.ndim == 1 and _says_label(X[:, inputs], y, classes)]:
        text = f"alone says the label on {len(X):,} rows; is it known when you predict? If not, exclude it"
        yield "too good", f"{join_names(leaks)}: {'each ' * (len(leaks) > 1)}{text}"


def _alike(words: Iterable[Any]) -> list[str]:
    """Return pairs of texts that differ only in spaces or capitals.

    Examples
    --------
    >>> _alike(["no", "yes", "yes "]), _alike([1, 2])
    (["'yes' and 'yes '"], [])
    """
    first: dict[str, str] = {}
    pairs = []
    for word in (str(word) for word in words if isinstance(word, str)):
        other = first.setdefault(" ".join(word.split()).casefold(), word)
        if other != word:
            pairs.append(f"{other!r} and {word!r}")
    return pairs


def _step(survey: SurveyResult, j: int) -> float:
    """Return the step of a column with the range, mean and variance of n numbers at equal steps, else 0."""
    n, low, high = survey.moments.n, survey.low[j], survey.high[j]
    step = (high - low) / max(n - 1, 1)
    if n < 20 or step**2 == 0:
        return 0.0
    figures = (survey.moments.mean[j] - low) / step, survey.moments.squares[j] / (n * step**2)
    return float(step) if np.allclose(figures, ((n - 1) / 2, (n * n - 1) / 12), rtol=1e-6) and not low % 1 else 0.0


def _orders_rows(sample: Reservoir, seed: int, j: int, regular: bool) -> bool:
    """True if a column rises or falls from row to row; dates at equal steps count as ordered in any order."""
    x = sample.X[:CAUTION_ROWS, j]
    if regular or len(x) < 20:
        return regular
    if len(np.unique(x)) < len(x) / 2:  # a few values sort the rows into groups, and are no times
        return False
    steps = np.diff(x[np.argsort(rows_of_hashes(seed, "reservoir", sample.hashes[:CAUTION_ROWS]))])
    return bool((steps >= 0).all() or (steps <= 0).all())


def _show(value: float, start: float | None) -> str:
    return f"{value:.7g}" if start is None else str(np.datetime64(round(value + start), "s"))


def _far_values(x: NDArray[Any]) -> list[float]:
    """Return the smallest and the largest value, each if it is frequent and farther away than the range of the others.

    Examples
    --------
    >>> _far_values(np.append(np.arange(100), [-999, -999])), _far_values(np.arange(100))
    ([-999.0], [])
    """
    least = max(2, FREQUENT * len(x))
    if max((x == x.min()).sum(), (x == x.max()).sum()) < least:  # most columns return here, without a sort
        return []
    values, counts = np.unique(x.astype(np.float64), return_counts=True)
    if len(values) < SEVERAL_VALUES:
        return []
    width = values[-2] - values[1]
    ends = ((0, values[1] - values[0]), (-1, values[-1] - values[-2]))
    return [float(values[i]) for i, gap in ends if gap > width and counts[i] >= least]


def _form_of_dates(x: NDArray[Any]) -> str | None:
    """Return the format of whole numbers that are dates or months, else None.

    Examples
    --------
    >>> days, months = 20200101 + np.arange(31), 202001 + np.arange(12)
    >>> _form_of_dates(days), _form_of_dates(months), _form_of_dates(np.arange(31))
    ('%Y%m%d', '%Y%m', None)
    """
    if x.min() < 190_001 or x.max() > 21_001_231:
        return None
    values = np.unique(x.astype(np.float64))
    if len(values) < SEVERAL_VALUES or (values % 1).any():
        return None
    for form, unit in (("%Y%m%d", 100), ("%Y%m", 1)):
        months, days = np.divmod(values, unit)
        years, month = np.divmod(months, 100)
        # float32 rounds days to even numbers
        if years.min() >= 1900 and years.max() <= 2100 and 1 <= month.min() <= month.max() <= 12 and days.max() <= 32:
            return form
    return None


def inputs_of_columns(source: Source) -> dict[str, list[int]]:
    """Return the positions of the inputs of each column."""
    if source.encoding is not None:
        return {name: list(inputs) for name, inputs in source.encoding.positions.items()}
    return {name: [j] for j, name in enumerate(source.columns)}


def key_of_values(X: NDArray[Any]) -> NDArray[Any]:
    """Return a number for each row (n,): equal for equal inputs (n, k) of a column, in the order of the first."""
    return X[:, 0] if X.shape[1] == 1 else X[:, 0] + 1j * (X[:, 1:].astype(np.float64) @ np.arange(1.0, X.shape[1]))


def _says_label(X: NDArray[Any], y: NDArray[Any], classes: bool) -> bool:
    """True if a column, of inputs (n, k), alone says the label y (n,) on rows that it was not asked about.

    Examples
    --------
    >>> x = np.arange(400.0)[:, None]
    >>> _says_label(x, x[:, 0] > 99, True), _says_label(x, x[:, 0] % 2, True), _says_label(x, x[:, 0] ** 3, False)
    (True, False, True)
    """
    some = slice(1 + len(X) // 8)  # rows that show that most columns say little
    return _unsaid(X[some], y[some], classes, 0.0) < 0.3 and _unsaid(X, y, classes, 0.5) <= UNSAID


def _unsaid(X: NDArray[Any], y: NDArray[Any], classes: bool, least: float) -> float:
    """Return the share of the variance of a label, of numbers that of their ranks, which a column leaves.

    Half the mean square difference of neighbours in its order is that variance (von Neumann 1941); of classes it is the
    share of neighbours of two classes, but for those that a threshold between classes makes. Where many neighbours have
    one value, as of a category, these alone count too.

    Parameters
    ----------
    least : share of the pairs that have one value, from which these count; if 0, the answer of too few pairs is 0
    """
    keys = key_of_values(X)
    order = np.argsort(keys, kind="stable")
    values, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    steps = np.diff(codes[order]).astype(np.float64)
    left = (steps != 0).astype(np.float64) if classes else steps**2 / 2
    shares = counts / len(y)
    spread, thresholds = (1 - float(shares @ shares), len(values) - 1) if classes else (float(codes.var()), 0)
    alike = left[np.diff(keys[order]) == 0]
    of_values = [(alike, 0)] if len(alike) >= least * len(left) else []
    found = [
        max(pairs.sum() - free, 0.0) / (len(pairs) * spread)
        for pairs, free in ((left, thresholds), *of_values)
        if spread and len(pairs) * (spread if classes else 1) >= 20  # of so many by chance all are missing in e^-20
    ]
    return float(min(found, default=least > 0))
