"""The survey: the first reading of the data, before anything is fitted.

It computes counts, moments (Chan, Golub and LeVeque 1983: mergeable, in float64), ranges and labels, the labels and
means of every chunk (are the chunks alike?), and the reservoir. The reservoir has the rows with the smallest hashes of
their global numbers: a uniform sample that depends on neither chunks nor workers.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.endings import is_parsed
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.features import Scaling
from dkernel.features.scaling import BY_RANKS
from dkernel.model.serialization import stored
from dkernel.numerics.column_stats import tally
from dkernel.numerics.random_streams import row_hash
from dkernel.numerics.rows import contiguous, largest, like_numbers, stack
from dkernel.streaming.cost import PARSED_BYTES, READ_BYTES, SURVEY_FLOPS, Cost
from dkernel.streaming.fingerprint import column_sums, odd_numbers, with_others
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.row_memory import loaded_row_bytes
from dkernel.streaming.schedule import RowSlice

# More labels than this are no classes; counting them all would be a copy of the data.
MOST_LABELS = 10_000
MOST_PARTS = 32  # arrays of a column of the reservoir that are not yet one
COMPILED_ROWS = 2**17  # rows that are worth a compiled function


def survey_cost(source: Source, sample: int) -> Cost:
    """Cost of the survey, and of the rows of its sample, which the workers and the client keep until the end."""
    sampled = sample * loaded_row_bytes(source)
    largest = 4 * source.n_in if source.sparse else 0  # of each column; the client makes two factors in float64 of it
    return Cost(
        "survey",
        SURVEY_FLOPS * source.n_rows * source.n_terms,
        readings=1,
        task_bytes=2 * largest,
        result_bytes=largest,
        throughout_bytes=sampled,
        client_throughout_bytes=3 * sampled + 5 * largest,
        checkpoint_bytes=2 * sampled,
    )


def reading_seconds(source: Source) -> float:
    """Seconds of one core for a reading of the files of a source, without any work on their rows."""
    return source.nbytes / (PARSED_BYTES if any(is_parsed(name) for name in source.files[:1]) else READ_BYTES)


@stored("Moments")
@dataclass
class ColumnMoments:
    """n, mean and sum of squared deviations of each column, float64; with weights, n is the sum of the weights.

    Examples
    --------
    >>> a, b = ColumnMoments.of(np.array([[1.0]])), ColumnMoments.of(np.array([[3.0], [5.0]]))
    >>> float(a.merge(b).mean[0])
    3.0
    """

    n: float
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray[Any], weight: NDArray[np.float64] | None = None) -> "ColumnMoments":
        if weight is None:
            deviation = X.astype(np.float64)  # modified in place below: fresh pages cost as much as the sums
            mean = deviation.mean(axis=0)
            deviation -= mean
            return cls(len(X), mean, np.einsum("ij,ij->j", deviation, deviation))
        n = float(weight.sum())
        mean = weight @ X.astype(np.float64) / n if n else np.zeros(X.shape[1])
        deviation = X - mean
        return cls(n, mean, np.einsum("i,ij,ij->j", weight, deviation, deviation))

    @classmethod
    def none(cls, p: int) -> "ColumnMoments":
        """Moments of no row."""
        return cls(0.0, np.zeros(p), np.zeros(p))

    def merge(self, other: "ColumnMoments") -> "ColumnMoments":
        n = self.n + other.n
        if not n:
            return self
        shift = other.mean - self.mean
        return ColumnMoments(
            n, self.mean + shift * (other.n / n), self.squares + other.squares + shift**2 * (self.n * other.n / n)
        )

    @property
    def variance(self) -> NDArray[np.float64]:
        return self.squares / (self.n or 1)


@stored("Reservoir")
@dataclass(frozen=True, eq=False)
class Reservoir:
    """Rows in the order of their hashes: the first k of them, for any k, are a uniform sample without replacement.

    Parameters
    ----------
    X : (k, p) raw rows;  y : (k,) raw labels, of several targets (k, targets), or None;  weight : (k,) or None
    hashes : uint64 (k,), increasing
    """

    X: NDArray[np.floating]
    y: Any
    weight: NDArray[np.float64] | None
    hashes: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, rows: slice | NDArray[np.intp]) -> Block:
        """Some of its rows, as a block."""
        weight = None if self.weight is None else self.weight[rows]
        return Block(contiguous(self.X[rows]), None if self.y is None else self.y[rows], weight)


SampledParts = list[tuple[Any, ...]]


@dataclass(frozen=True)
class RowSample(Statistic[SampledParts, Reservoir]):
    """The rows with the smallest hashes, among those that count.

    Parameters
    ----------
    seed : seed of the hashes
    n : rows of the whole source
    size : rows of the sample, at most n
    """

    seed: int
    n: int
    size: int

    @property
    def threshold(self) -> int:
        """A piece keeps the hashes below it: in all but one case in a thousand million these are at least `size`."""
        if self.size >= self.n:
            return 2**64 - 1
        share = (self.size + 6 * self.size**0.5 + 20) / self.n
        return min(int(share * 2**64), 2**64 - 1)

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> SampledParts:  # noqa: ARG002
        rows = piece.range.rows
        hashes = row_hash(self.seed, "reservoir", piece.first, piece.n, piece.step)
        sampled = np.flatnonzero(hashes <= np.uint64(self.threshold))
        weight = None if block.weight is None else block.weight[rows]
        if weight is not None:
            sampled = sampled[weight[sampled] > 0]
        beside = (None if block.y is None else block.y[rows], weight)
        return [(hashes[sampled], block.X[rows][sampled], *(None if a is None else a[sampled] for a in beside))]

    def merge(self, left: SampledParts, right: SampledParts) -> SampledParts:
        return _few(left + right)

    def finish(self, total: SampledParts) -> Reservoir:
        hashes, X, y, weight = _join(total)
        order = np.argsort(hashes, kind="stable")[: self.size]
        y, weight = (None if part is None else part[order] for part in (y, weight))
        return Reservoir(X[order], y, weight, hashes[order])


@stored("SurveyResult")
@dataclass(frozen=True, eq=False)
class SurveyResult:
    """Result of the survey of all rows, or of some rows.

    Parameters
    ----------
    moments, low, high : moments (weighted) and ranges of the features; all 0 for columns of objects
    labels : label -> sum of the weights of its rows, without labels whose sum is 0; None without a label, or if there
        are too many labels for classes
    target : moments of a numeric label, with a column for each target; else None
    weight : sum of the weights, n without weights
    chunks : chunk number -> (moments of its features, its labels), without the weights of the rows that count
    reservoir : a sample of all rows; the sample of some rows is passed beside the result
    sums : the sums of `fingerprint` for each column, the label and the weight
    largest : for sparse rows the largest absolute value in each column, float32 (p,); moments, low and high are then
        those of the columns folded to a few (`SparseRows.fold`)
    span : the smallest and the largest value of a numeric label in rows with a weight above 0, (2, targets)
    rounding : moments of what float32 takes off the features, where the survey was asked for them
    """

    moments: ColumnMoments
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    labels: dict[Any, float] | None
    target: ColumnMoments | None
    weight: float
    chunks: dict[int, tuple[ColumnMoments, dict[Any, float] | None]]
    sums: NDArray[np.uint64]
    largest: NDArray[np.float32] | None = None
    span: NDArray[np.float64] | None = None
    rounding: ColumnMoments | None = None
    reservoir: Reservoir = None  # type: ignore[assignment]  # until the survey ends

    def scaling(self, kind: str, **options: Any) -> Scaling:
        """Make the scaling of a kind for these columns; the options of `Scaling.of` do not apply to sparse rows."""
        if self.largest is not None:
            return Scaling.of_sparse(kind, self.largest)
        if kind == BY_RANKS:
            options.pop("free", None)
            return Scaling.of_quantiles(self.reservoir.X, self.reservoir.weight, **options)
        return Scaling.of(kind, self.moments.mean, self.moments.variance, self.low, self.high, **options)


Surveyed = tuple[SurveyResult, SampledParts]
"""The result for some rows, and those of them that may be in the reservoir."""


@dataclass(frozen=True)
class Survey(Statistic[Surveyed, SurveyResult]):
    """The survey as a statistic.

    Parameters
    ----------
    seed : seed of the hashes
    n : rows of the whole source
    size : rows of the reservoir, at most n
    rounds : whether to tell what float32 takes off the features
    """

    seed: int
    n: int
    size: int
    rounds: bool = False

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> Surveyed:
        X, y = block.X[piece.range.rows], None if block.y is None else block.y[piece.range.rows]
        weight = None if block.weight is None else block.weight[piece.range.rows]
        plain = weight is None and self.n >= COMPILED_ROWS and isinstance(X, np.ndarray) and X.dtype.kind == "f"
        alike, moments, low, high, sums = (_describe_numbers if plain and X.flags.c_contiguous else _describe_rows)(
            X, y, weight, piece
        )
        # A row of weight k is k rows, and one of weight 0 is none.
        counted = None if y is None else _count(y if weight is None else y[weight > 0])
        labels = counted if y is None or weight is None else _count(y, weight)
        target = None if y is None or y.dtype.kind == "U" else _columns(y).astype(np.float64)
        result = SurveyResult(
            moments,
            low,
            high,
            labels,
            None if target is None else ColumnMoments.of(target, weight),
            float(piece.n if weight is None else weight.sum()),
            {piece.chunk: (alike, counted)},
            sums,
            largest(X, weight),
            None if target is None else _span(target if weight is None else target[weight > 0]),
            ColumnMoments.of(X - X.astype(np.float32), weight) if self.rounds else None,
        )
        return result, RowSample(self.seed, self.n, self.size).step(block, piece, broadcast)

    def merge(self, one: Surveyed, other: Surveyed) -> Surveyed:
        (left, rows), (right, more) = one, other
        if (left.target is None) != (right.target is None):
            raise DataError("The label is text in one part of the data and numbers in another; one type is needed.")
        total = _add(left.labels, right.labels)
        chunks = dict(left.chunks)
        for chunk, (moments, labels) in right.chunks.items():
            if chunk in chunks:
                before, counted = chunks[chunk]
                moments, labels = before.merge(moments), _add(counted, labels)
            chunks[chunk] = (moments, labels)
        if total is None:  # no classes: nothing needs the labels of a chunk, which would be a copy of the data
            chunks = {chunk: (moments, None) for chunk, (moments, _) in chunks.items()}
        result = SurveyResult(
            left.moments.merge(right.moments),
            np.minimum(left.low, right.low),
            np.maximum(left.high, right.high),
            total,
            left.target.merge(right.target) if left.target and right.target else None,
            left.weight + right.weight,
            chunks,
            left.sums + right.sums,
            None if left.largest is None or right.largest is None else np.maximum(left.largest, right.largest),
            None if left.span is None or right.span is None else _wider(left.span, right.span),
            left.rounding.merge(right.rounding) if left.rounding and right.rounding else None,
        )
        return result, _few(rows + more)

    def finish(self, total: Surveyed) -> SurveyResult:
        result, rows = total
        return replace(result, reservoir=RowSample(self.seed, self.n, self.size).finish(rows))


Figures = tuple[ColumnMoments, ColumnMoments, NDArray[np.float64], NDArray[np.float64], NDArray[np.uint64]]
"""Moments without and with the weights, ranges, sums of the bits."""


def _describe_rows(X: Any, y: Any, weight: NDArray[np.float64] | None, piece: RowSlice) -> Figures:
    numbers = like_numbers(X)
    seen = numbers if weight is None else numbers[weight > 0]
    alike = moments = ColumnMoments.of(seen) if len(seen) else ColumnMoments.none(numbers.shape[1])
    if weight is not None:
        moments = ColumnMoments.of(numbers, weight)
    columns = np.ascontiguousarray(seen.T)  # numpy compares lines as short as rows one number at a time
    low, high = columns.min(axis=1, initial=np.inf), columns.max(axis=1, initial=-np.inf)
    sums = column_sums(X, y, weight, piece.first, piece.step)
    return alike, moments, low.astype(np.float64), high.astype(np.float64), sums


def _describe_numbers(X: NDArray[Any], y: Any, weight: NDArray[np.float64] | None, piece: RowSlice) -> Figures:
    """Describe rows of numbers as `_describe_rows` does, but read them only twice."""
    odd = odd_numbers(piece.first, piece.n, piece.step)
    (mean, squares, low, high), sums = tally(X, odd)
    moments = ColumnMoments(len(X), mean, squares)
    return moments, moments, low, high, with_others(np.append(sums, np.zeros(2, np.uint64)), y, weight, odd)


def _few(rows: SampledParts) -> SampledParts:
    """Join the parts if there are many of them.

    Each piece of a hundred million rows has at most one row of the reservoir: arrays for fifty thousand pieces took
    20 MB, and more for more rows.
    """
    return rows if len(rows) <= MOST_PARTS else [_join(rows)]


def _join(rows: SampledParts) -> tuple[Any, ...]:
    return tuple(None if parts[0] is None else stack(list(parts)) for parts in zip(*rows, strict=True))


def _span(Y: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([Y.min(axis=0, initial=np.inf), Y.max(axis=0, initial=-np.inf)])


def _wider(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The span of both; the span of no rows is (inf, -inf)."""
    return np.stack([np.minimum(left[0], right[0]), np.maximum(left[1], right[1])])


def _columns(y: NDArray[Any]) -> NDArray[Any]:
    return y[:, None] if y.ndim == 1 else y


def _count(y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> dict[Any, float] | None:
    if y.ndim == 2:  # several targets are no classes
        return None
    if weight is None:
        labels, counts = np.unique(y, return_counts=True)  # the inverse takes as long again
    else:
        labels, inverse = np.unique(y, return_inverse=True)
        counts = np.bincount(inverse, weight)
    return {label: count for label, count in zip(labels.tolist(), counts.astype(float).tolist(), strict=True) if count}


def _add(left: dict[Any, float] | None, right: dict[Any, float] | None) -> dict[Any, float] | None:
    if left is None or right is None:
        return None
    total = dict(left)
    for label, n in right.items():
        total[label] = total.get(label, 0.0) + n
    return total if len(total) <= MOST_LABELS else None
