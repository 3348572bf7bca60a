"""Columns that have drifted: rows to score whose values are not those of the training.

While rows are scored, the mean and the deviation of each input are taken; those of the training are in the scaling of
the model, or among its facts. A column is compared by the population stability index, for a category

    sum of (p - q) log(p / q) over its levels, of share p here and q in training

with one level more for all values without one, and for a number the same of two normal laws: of deviations 1 in
training and s here, whose means are d apart,

    ((s^2 + d^2) + (1 + d^2) / s^2) / 2 - 1

where s^2 + d^2 is the mean square of distances from the mean of the training, each at most FAR_DISTANCE deviations, and
s at least 1. Rare large values are in some files and not in others: neither one of them nor their absence is a drift.

Few rows say little: to those here are added, for each figure that is compared, PRIOR_ROWS as training had them.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.column_types import DATE, TIME
from dkernel.data.encoding.columns import ONE_HOT, CategoryColumn, NumberColumn
from dkernel.data.encoding.unseen import UnseenValues, describe_counts
from dkernel.errors import DriftWarning, UnknownCategoriesWarning
from dkernel.model.model import Model
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.numerics.validation import silent_overflow
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.survey import ColumnMoments

S = TypeVar("S")
R = TypeVar("R")

# The index from which a column is commonly called drifted; of a number, one whose mean moved by half a deviation.
DRIFTED = 0.25
# With 10 a seventh of the files of up to 100 rows of forest cover, whose columns are rare 0/1, would count as drifted.
PRIOR_ROWS = 50
FAR_DISTANCE = 3.0  # nearly all of a normal law is nearer
WARNED_COLUMNS = 3  # columns that the warning describes; the manifest has all
DAY_SECONDS = 86_400.0  # dates are seconds

Drifted = Mapping[str, Mapping[str, Any]]
"""Column -> its index, and the figures that differ, in training and here."""


def measure_moments(model: Model, blocks: Sequence[Block]) -> dict[str, Any]:
    """The moments of the inputs of some blocks, JSON; {} where nothing is known of the training."""
    return {} if model.training_moments is None else _moments_of(model.training_moments, blocks).to_json()


def _moments_of(training: tuple[NDArray[Any], NDArray[Any]], blocks: Sequence[Block]) -> "InputMoments":
    mean, deviation = training
    unit = np.where(np.isfinite(deviation), deviation, np.inf)
    total = InputMoments.none(len(mean))
    with silent_overflow():
        for block in blocks:
            for first in range(0, block.rows, PIECE_ROWS):
                X = block.X[first : first + PIECE_ROWS]
                far = np.clip((X - mean) / unit, -FAR_DISTANCE, FAR_DISTANCE)
                total = total.merge(InputMoments(ColumnMoments.of(X), np.einsum("ij,ij->j", far, far)))
    return total


@dataclass(frozen=True)
class InputMoments:
    """Moments of the inputs of rows, and the sums of their squared distances from the training, each bounded."""

    moments: ColumnMoments
    squares: NDArray[np.float64]

    @classmethod
    def none(cls, p: int) -> "InputMoments":
        """Moments of no row."""
        return cls(ColumnMoments.none(p), np.zeros(p))

    def merge(self, other: "InputMoments") -> "InputMoments":
        """The moments of the rows of both."""
        return InputMoments(self.moments.merge(other.moments), self.squares + other.squares)

    def to_json(self) -> dict[str, Any]:
        """The moments as JSON."""
        moments = self.moments
        arrays = {"mean": moments.mean, "squares": moments.squares, "distances": self.squares}
        return {"rows": int(moments.n)} | {name: array.tolist() for name, array in arrays.items()}

    @classmethod
    def from_json(cls, moments: Mapping[str, Any]) -> "InputMoments":
        """The moments that `to_json` wrote."""
        mean, squares, distances = (np.array(moments[name], np.float64) for name in ("mean", "squares", "distances"))
        return cls(ColumnMoments(moments["rows"], mean, squares), distances)


@dataclass(frozen=True, eq=False)
class WithDrift(Statistic[tuple[S, InputMoments | None], tuple[R, Drifted]]):
    """Another statistic of rows, together with the columns that have drifted; none where nothing is known of these."""

    inner: Statistic[S, R]
    model: Model

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> tuple[S, InputMoments | None]:
        training, rows = self.model.training_moments, Block(block.X[piece.range.rows])
        return self.inner.step(block, piece, broadcast), None if training is None else _moments_of(training, [rows])

    def merge(self, left: tuple[S, InputMoments | None], right: tuple[S, InputMoments | None]) -> Any:
        moments = None if left[1] is None or right[1] is None else left[1].merge(right[1])
        return self.inner.merge(left[0], right[0]), moments

    def finish(self, total: tuple[S, InputMoments | None]) -> tuple[R, Drifted]:
        return self.inner.finish(total[0]), {} if total[1] is None else find_drift(self.model, [total[1].to_json()])


def find_drift(model: Model, parts: Iterable[Mapping[str, Any]]) -> Drifted:
    """The columns that have drifted, in their order, of rows in parts with these moments."""
    training = model.training_moments
    if training is None:
        return {}
    here = reduce(InputMoments.merge, map(InputMoments.from_json, parts), InputMoments.none(len(training[0])))
    if not here.moments.n:
        return {}
    encoding = model.encoding
    columns = tuple(NumberColumn(name, 0.0) for name in model.columns) if encoding is None else encoding.columns
    drifted, deviation, rows = {}, np.sqrt(here.moments.variance), float(model.facts.get("rows", np.inf))
    for column in columns:
        if isinstance(column, NumberColumn) and column.last is not None:
            continue  # rows of later times are what it is for
        places = np.array(model.places[column.name], int)
        compared = _compare_parts(column, places, training, (here, deviation), rows)
        index, figures = max(compared, key=lambda each: each[0], default=(0.0, {}))
        if index > DRIFTED:
            drifted[column.name] = {"index": float(f"{index:.3g}"), **figures}
    return drifted


def _compare_parts(
    column: NumberColumn | CategoryColumn,
    places: NDArray[np.intp],
    training: tuple[NDArray[np.float64], NDArray[np.float64]],
    all_here: tuple[InputMoments, NDArray[np.float64]],
    rows: float,
) -> Iterator[tuple[float, dict[str, Any]]]:
    """The index of each part of a column that can be compared, with its figures."""
    (mean, deviation), (whole, deviation_here) = training, all_here
    here = whole.moments
    if isinstance(column, CategoryColumn):
        levels = places[: column.one_hot]
        if len(levels):  # none of words that are rare and say nothing of the label
            shares = mean[levels] / ONE_HOT, here.mean[levels] / ONE_HOT
            yield _index_of_levels(column.names[: len(levels)], *shares, here.n, rows)
        return
    number = places[0]
    if np.isfinite(deviation[number]):
        before, after = (mean[number], deviation[number]), (here.mean[number], deviation_here[number])
        figures = {"training": _measure_drift(column, *before), "here": _measure_drift(column, *after)}
        yield _index_of_number((after[0] - before[0]) / before[1], whole.squares[number] / here.n, here.n), figures
    if column.indicator:
        missing = places[1:2]
        yield _index_of_levels((f"{column.name}=missing",), mean[missing], here.mean[missing], here.n, rows)


def _index_of_number(d: float, square: float, n: float) -> float:
    """The index of a number whose mean moved by d deviations, and of the mean square of its n distances."""
    prior = 2 * PRIOR_ROWS
    d, square = d * n / (n + prior), (n * square + prior) / (n + prior)
    variance = max(square - d**2, 1.0)
    return float((variance + d**2 + (1 + d**2) / variance) / 2 - 1)


def _measure_drift(column: NumberColumn, mean: float, deviation: float) -> dict[str, Any]:
    if column.kind in (DATE, TIME):
        when = np.datetime64(round(mean + column.offset), "s").astype("datetime64[D]")
        return {"mean": str(when), "deviation": f"{deviation / DAY_SECONDS:.3g} days"}
    return {"mean": float(f"{mean + column.offset:.4g}"), "deviation": float(f"{deviation:.4g}")}


def _index_of_levels(
    names: Sequence[str], q: NDArray[np.float64], p: NDArray[np.float64], n: float, rows: float
) -> tuple[float, dict[str, Any]]:
    """The index of shares q in training (of `rows` rows) and p here (of n); figures of the level that differs most."""
    q, p = (np.clip([*shares, 1.0 - shares.sum()], 0.0, 1.0) for shares in (q, p))
    least = 1.0 / max(rows, 1.0) if np.isfinite(rows) else 1e-6
    q, prior = np.maximum(q, least), PRIOR_ROWS * len(names)
    mixed = (n * p + prior * q) / (n + prior)
    said = (mixed - q) * np.log(mixed / q)
    level = int(np.argmax(said))
    # Of a missing value the share of those that are there says as much.
    name = names[0] if len(names) == 1 and names[0].endswith("=missing") else [*names, "other values"][level]
    level = 0 if name == names[0] else level
    figures = {
        what: {name.partition("=")[2] or name: float(f"{shares[level]:.3g}")}
        for what, shares in (("training", q), ("here", p))
    }
    return float(said.sum()), figures


def describe(drifted: Drifted) -> list[str]:
    """A few words on each column.

    Examples
    --------
    >>> describe({"age": {"index": 0.9, "training": {"mean": 38.6, "deviation": 13.6}, "here": {"mean": 61.2,
    ...                    "deviation": 9.1}}})
    ['age: mean 38.6, deviation 13.6 in training; mean 61.2, deviation 9.1 here']
    """

    def figures(of: Mapping[str, Any]) -> str:
        return ", ".join(f"{name} {value}" for name, value in of.items())

    return [
        f"{name}: {figures(of['training'])} in training; {figures(of['here'])} here" for name, of in drifted.items()
    ]


def find_learned_drift(model: Model, parts: Iterable[Mapping[str, Any]], unseen: UnseenValues) -> Drifted:
    """The columns that have drifted among rows to learn, but for those whose unseen values are counted."""
    counted = {name for columns in unseen.filled.values() for name in columns}
    return {name: found for name, found in find_drift(model, parts).items() if name not in counted}


def warn_of_learned(drifted: Drifted, unseen: UnseenValues) -> None:
    """Warn of rows that a model learns and that spoil its answers to others: far ones, and values that it never saw."""
    warn_of_drift(drifted, "")
    if not unseen.filled:
        return
    names = ", ".join(map(repr, unseen.unknown_columns))
    warnings.warn(
        f"{f'{names}: more than half of the values are unknown. ' if names else ''}New rows have "
        f"{'; '.join(describe_counts(unseen.filled))}. The model has no inputs for such values, so what it learns from "
        "these rows changes its answers to others. Train again on all rows, or leave these out.",
        UnknownCategoriesWarning if "unknown" in unseen.filled else DriftWarning,
        stacklevel=3,
    )


def warn_of_drift(drifted: Drifted, rest: str = ", which the manifest of the output has") -> None:
    """One warning about all columns that have drifted, the most drifted first.

    Parameters
    ----------
    rest : where those are that it does not describe
    """
    if not drifted:
        return
    worst = sorted(drifted, key=lambda name: -drifted[name]["index"])
    shown = describe({name: drifted[name] for name in worst[:WARNED_COLUMNS]})
    more = f"; and {len(worst) - WARNED_COLUMNS} more{rest}" if len(worst) > WARNED_COLUMNS else ""
    what = "a column has" if len(worst) == 1 else f"{len(worst)} columns have"
    warnings.warn(f"{what} other values than in training: {'; '.join(shown)}{more}.", DriftWarning, stacklevel=3)
