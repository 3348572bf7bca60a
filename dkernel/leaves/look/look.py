"""What a person checks before a fit, from a sample of the rows: the type of each column as it is read, and cautions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import partial
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.collections.dask_arrays import unwrap
from dkernel.data.encoding.counts import join_names
from dkernel.data.opening import open_source
from dkernel.data.refused_columns import RefusedColumnsError
from dkernel.data.schema import describe_columns, list_columns, make_schema
from dkernel.data.source import Source
from dkernel.errors import DataError, escape_controls
from dkernel.model.recipe import Recipe
from dkernel.numerics.random_streams import rows_of_hashes
from dkernel.solvers.sizes import MOST_SAMPLE
from dkernel.solvers.targets import make_targets
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.digits import check_digits, tells_rounding
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.connect import default_executor
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.survey import Survey, SurveyResult
from dkernel.training.cautions import CAUTION_ROWS, SEVERAL_VALUES, cautions, inputs_of_columns, key_of_values
from dkernel.training.reopening import with_reopened

_IN_LINES = ("missing", "categories")  # notes about what the lines of columns say


@dataclass(frozen=True, repr=False)
class Look:
    """Columns of rows and what to check, as text and as a table of notebooks.

    Parameters
    ----------
    rows : int
        Rows of the data.
    seen : int
        Rows that were looked at.
    label : str
        The label: its classes with their shares, or its range.
    columns : dict
        Column -> its type, range or levels, and the share of missing values.
    checks : dict
        Name -> what to look at before a fit.

    See Also
    --------
    look : Makes it.

    Examples
    --------
    >>> Look(9, 9, "no 56 %, yes 44 %", {"age": "number 18 to 90"}, {})
    9 of 9 rows were looked at, and their label: no 56 %, yes 44 %
      age  number 18 to 90
    """

    rows: int
    seen: int
    label: str
    columns: Mapping[str, str]
    checks: Mapping[str, str]

    def __repr__(self) -> str:
        return escape_controls("\n".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.seen:,} of {self.rows:,} rows were looked at, and their label: {self.label}"
        listed = list_columns(self.columns)
        width = max((len(name) for name, _ in listed), default=0)
        yield from (f"  {name:<{width}}  {text}" for name, text in listed)
        if self.checks:
            yield "Check:"
            yield from (f"  {name:<12} {text}" for name, text in self.checks.items())

    def _repr_html_(self) -> str:
        """Tables for notebooks."""
        tables = ({"label": self.label, **dict(list_columns(self.columns))}, self.checks)
        body = [
            "".join(f"<tr><th>{escape(n)}</th><td>{escape(t)}</td></tr>" for n, t in each.items()) for each in tables
        ]
        return escape_controls(
            f"<p>{self.seen:,} of {self.rows:,} rows</p><table>{'</table><table>'.join(body)}</table>"
        )


def look(X: Any, y: Any = None, **reading: Any) -> Look:
    """Look at data before a fit: types, ranges, and what to check, from up to some 65,536 rows.

    Parameters
    ----------
    X : array, dataframe, sparse matrix, Dask collection, Source, or what `dkernel.open_source` opens
        Rows.
    y : array of shape (n_samples,) or str
        Labels or numbers; of files and streams the name of their column, and None of a Source.
    **reading : Any
        How columns are read, as of `dkernel.open_source`: categorical, missing, dates, formats.

    Returns
    -------
    Look
        Columns that a fit refuses are among its checks.

    Raises
    ------
    DataError
        If the rows have no label, or one value of it where it is a class.

    See Also
    --------
    open_source : Opens files and streams, with all ways to read them.

    Examples
    --------
    >>> import dkernel, pandas as pd
    >>> rows = pd.DataFrame({"age": [31, 45, -999, 28] * 30, "reason": ["A", None, "B", None] * 30})
    >>> dkernel.look(rows, ["gone", "here", "gone", "here"] * 30)
    120 of 120 rows were looked at, and their label: gone 50 %, here 50 %
      age     number -999 to 45
      reason  category of 2 levels: 'A', 'B', missing 50 %
    Check:
      too good     age, reason: each alone says the label on 120 rows; is it known when you predict? If not, exclude it
    """
    refused: Mapping[str, str] = {}
    if isinstance(X, Source):
        source = X
    elif y is None or isinstance(y, str):
        source = open_source(X, label=y, **reading)
    else:
        X, reading = unwrap(X), {"categorical": "auto", "missing": "indicator", **reading}
        try:
            source = from_arrays(X, unwrap(y), dtype="auto", **reading)
        except RefusedColumnsError as error:
            if not hasattr(X, "drop"):
                raise
            refused, X = error.columns, X.drop(columns=list(error.columns))
            source = from_arrays(X, unwrap(y), dtype="auto", **reading)
    seen = look_at(source, Recipe(), default_executor())
    return replaced(seen, checks={**refused, **seen.checks})


def look_at(source: Source, recipe: Recipe, executor: Executor) -> Look:
    """Look at some rows of a source, which are read once."""
    if source.label is None:
        raise DataError("The data have no label to look at beside the columns: open the source with one.")
    return with_reopened(partial(_look_at, executor=executor), source, recipe)


def _look_at(source: Source, recipe: Recipe, executor: Executor) -> Look:
    part = count_weighted(_some_rows(source), executor)
    n = part.n_counted
    size = min(n, MOST_SAMPLE, max(CAUTION_ROWS, 2**24 // source.n_in))  # 64 MiB of numbers
    statistic = Survey(recipe.seed, n, size, tells_rounding(part))
    survey = read_once(part, statistic, executor, f"dkernel-look-{part.token}-{recipe.seed}")
    check_digits(part, survey)
    kind, labels = survey.reservoir.y.dtype.kind, survey.labels
    many = kind == "i" and recipe.task == "auto" and (labels is None or len(labels) > 100)
    numbers = recipe.task == "regress" or many or (kind == "f" and recipe.task == "auto")
    of_task = Recipe(task="regress", loss="squared") if numbers else Recipe(task="classify")
    targets, counts = make_targets(of_task, survey, source.label, n)
    columns = {}
    if source.reading is not None:
        ranges = describe_columns(source.reading, survey.low, survey.high, survey.moments.mean)
        columns = {name: str(each) for name, each in make_schema(source.columns, source.encoding, ranges).items()}
    notes = {name: text for name, text in source.notes.items() if name not in _IN_LINES}
    checks = {**notes, **dict(cautions(survey, counts, part, targets, recipe.seed))}
    if not (source.sparse or source.objects):
        checks |= _compare_rows(survey, part, recipe.seed)
    return Look(source.n_rows, part.n_rows, _describe_label(survey, counts), columns, checks)


def _some_rows(source: Source) -> Source:
    """Units of the source at equal steps, of up to MOST_SAMPLE rows in all."""
    count = max(1, min(len(source.units), MOST_SAMPLE * len(source.units) // source.n_rows))
    at = np.unique(np.linspace(0, len(source.units) - 1, count).round().astype(int))
    return replaced(source, units=tuple(source.units[i] for i in at), counted=None)


def _describe_label(survey: SurveyResult, counts: Mapping[Any, float]) -> str:
    if not counts:
        assert survey.span is not None
        return "numbers " + ", ".join(f"{low:.6g} to {high:.6g}" for low, high in survey.span.T)
    total = sum(counts.values())
    return join_names(
        [f"{label} {100 * rows / total:.2g} %" for label, rows in sorted(counts.items(), key=lambda c: -c[1])]
    )


def _compare_rows(survey: SurveyResult, source: Source, seed: int) -> dict[str, str]:
    """Columns that are equal, and columns whose values have their rows together."""
    sample = survey.reservoir
    order = np.argsort(rows_of_hashes(seed, "reservoir", sample.hashes))
    first: dict[bytes, str] = {}
    equal, groups = [], []
    for name, inputs in inputs_of_columns(source).items():
        values = sample.X[:, inputs]
        if not len(inputs) or (survey.low == survey.high)[inputs].all():
            continue
        if (other := first.setdefault(values.tobytes(), name)) != name:
            equal.append(f"{name} and {other}")
        elif len(sample) == source.n_rows and _has_rows_together(key_of_values(values)[order]):
            groups.append(name)
    text = "rows of one value are together; if it is a person or a machine, judge by others, with holdout_by='group:"
    return ({"equal": f"{join_names(equal)}: the same values"} if equal else {}) | (
        {"groups": f"{join_names(groups)}: {text}{groups[0]}'"} if groups else {}
    )


def _has_rows_together(keys: NDArray[Any]) -> bool:
    """True if most values have several rows, which follow one another."""
    values = len(np.unique(keys))
    runs = 1 + int((np.diff(keys) != 0).sum())
    return SEVERAL_VALUES <= values <= runs <= min(1.1 * values, len(keys) / 2)
