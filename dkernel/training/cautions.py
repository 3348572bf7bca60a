"""Warnings from the survey of the data: a class of one row, a constant feature, a copied label and the like."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.column_types import DATE, TIME
from dkernel.data.encoding import CategoryColumn, NumberColumn
from dkernel.data.source import Source
from dkernel.numerics.random_streams import rows_of_hashes
from dkernel.solvers.targets import Targets, name_of_target
from dkernel.streaming.survey import Reservoir, SurveyResult

CAUTION_ROWS = 4096  # rows in which the label is compared with the features, and values with each other
FREQUENT = 0.01  # share of the rows: a value this frequent is not the tail of a distribution
SEVERAL_VALUES = 12  # different values; a column with fewer may hold codes
NAMED = 8  # most names in a caution
CONSTANT_LABEL = "label"  # name of the caution that estimators raise as a warning


def cautions(
    survey: SurveyResult, counts: Mapping[Any, float], source: Source, targets: Targets, seed: int
) -> Iterator[tuple[str, str]]:
    """Yield the cautions as pairs (name, text)."""
    classes = targets.classes is not None
    single = [repr(label) for label, n in counts.items() if n == 1] if classes and source.weight is None else []
    if single:
        yield "rare classes", f"{_join_names(single)}: one row each, learned from it alone or, held out, from none"
    if targets.constant:
        centers = np.broadcast_to(targets.center, targets.outputs)
        named = [f"{name_of_target(source.label, j, targets.outputs)}, {centers[j]:.6g}" for j in targets.constant]
        yield CONSTANT_LABEL, f"{_join_names(named)}: one value in all rows, which is what is predicted"
    encoded = source.encoding.columns if source.encoding else ()
    levels = [column.levels for column in encoded if isinstance(column, CategoryColumn)]
    if alike := [pair for words in (counts if classes else (), *levels) for pair in _alike(words)]:
        yield "alike", f"{_join_names(alike)}: only spaces or capitals differ, and these are different values"
    if source.sparse or source.objects:
        return
    columns = _columns(source)
    level = survey.low == survey.high
    if constant := [name for name, inputs in columns.items() if len(inputs) and level[inputs].all()]:
        yield "constant", f"{_join_names(constant)}: one value in all rows, so useless"
    numbers = {name: inputs[0] for name, inputs in columns.items() if len(inputs) and not level[inputs[0]]}
    sample = survey.reservoir
    starts = {
        column.name: column.offset
        for column in encoded
        if isinstance(column, NumberColumn) and column.kind in (DATE, TIME)
    }
    steps = {name: _step(survey, j) for name, j in numbers.items() if source.weight is None}
    if counting := [name for name, step in steps.items() if step == 1 and name not in starts]:
        yield "row numbers", f"{_join_names(counting)}: these number the rows, so exclude them"
    if ordering := [
        name
        for name, j in numbers.items()
        if name not in counting and _orders_rows(sample, seed, j, name in starts and bool(steps.get(name)))
    ]:
        text = (
            "the rows are in its order, and rows left out at random lie between rows that were learned from; judge by"
        )
        yield "ordered", f"{_join_names(ordering)}: {text} the last ones (--holdout-by time:{ordering[0]})"
    X, y = sample.X[:CAUTION_ROWS], sample.y[:CAUTION_ROWS]
    values = {name: X[:, j] for name, j in numbers.items()}
    if not classes and y.ndim == 1:
        values[source.label or "the label"] = y
    if dates := [f"{name} ({form})" for name, column in values.items() if (form := _form_of_dates(column))]:
        text = "as numbers 20191231 and 20200101 are far apart; make dates of them (--formats NAME=%Y%m%d)"
        yield "whole dates", f"{_join_names(dates)}: {text}"
    if far := [f"{name} {_show(x, starts.get(name))}" for name, column in values.items() for x in _far_values(column)]:
        text = "frequent and far from all others; where this means missing, leave the field empty"
        yield "far values", f"{_join_names(far)}: {text}"
    if len(X) >= 20 and y.ndim == 1:  # fewer rows may agree by chance
        names = {name: inputs for name, inputs in columns.items() if not level[inputs].all()}
        if copies := (_same_groups if classes else _same_lines)(X, y, names):
            text = "exclude what is not known when predictions are made"
            yield "copies", f"{_join_names(copies)}: on {len(X):,} rows these say the label exactly; {text}"


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
    ('YYYYMMDD', 'YYYYMM', None)
    """
    if x.min() < 190_001 or x.max() > 21_001_231:
        return None
    values = np.unique(x.astype(np.float64))
    if len(values) < SEVERAL_VALUES or (values % 1).any():
        return None
    for form, unit in (("YYYYMMDD", 100), ("YYYYMM", 1)):
        months, days = np.divmod(values, unit)
        years, month = np.divmod(months, 100)
        # float32 rounds days to even numbers
        if years.min() >= 1900 and years.max() <= 2100 and 1 <= month.min() <= month.max() <= 12 and days.max() <= 32:
            return form
    return None


def _columns(source: Source) -> dict[str, list[int]]:
    """Return the positions of the inputs of each column."""
    if source.encoding is not None:
        return {name: list(inputs) for name, inputs in source.encoding.positions.items()}
    return {name: [j] for j, name in enumerate(source.columns)}


def _same_groups(X: NDArray[Any], y: NDArray[Any], columns: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the columns with one value for each class, which differs between classes."""
    _, codes = np.unique(y, return_inverse=True)
    n = int(codes.max()) + 1
    first = np.sort(X[:64], axis=0)  # these rows show that most features are no copy of the label
    different = (first[1:] != first[:-1]).sum(axis=0) + 1
    names = []
    for name, inputs in columns.items():
        if n < 2 or (different[list(inputs)] > n).any():
            continue
        _, groups = np.unique(X[:, list(inputs)], axis=0, return_inverse=True)
        pairs = np.unique(np.stack([groups.reshape(-1), codes.reshape(-1)]), axis=1)
        if pairs.shape[1] == n == int(groups.max()) + 1:
            names.append(name)
    return names


def _same_lines(X: NDArray[Any], y: NDArray[Any], columns: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the columns of one number that is a linear function of the label."""
    target = y.astype(np.float64)
    target -= target.mean()
    width = float(np.sqrt(target @ target))
    names = []
    for name, inputs in columns.items():
        x = X[:, inputs[0]].astype(np.float64)
        x -= x.mean()
        size = float(np.sqrt(x @ x))
        if size and width:
            rest = target / width - x / size * float(target @ x) / (size * width)
            if float(np.sqrt(rest @ rest)) < 1e-5:  # float32 rounds a copy by this share of its deviation
                names.append(name)
    return names


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
