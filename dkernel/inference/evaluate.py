"""Evaluation of a model on labelled rows, as one statistic of constant size."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.features import NystromMap
from dkernel.inference.drift import WithDrift
from dkernel.losses.metrics import ScoreHistogram, area_under_curve, average_precision, class_of_scores
from dkernel.model.conformal import COVERAGE, check_coverage
from dkernel.model.model import Model
from dkernel.model.model_file import compute_digest
from dkernel.model.solver_table import SOLVERS
from dkernel.numerics.array_types import F64
from dkernel.numerics.random_streams import row_hash
from dkernel.numerics.rows import wide
from dkernel.solvers.targets import Targets
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.labelled_rows import LabelledRows
from dkernel.streaming.progress import Progress, phase_group
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.unseen_rows import WithUnseen

FAR_FLOPS = 5e10  # operations of comparing rows with the landmarks, a second or so
NOVELTY_ROUNDING = 1e-6  # a share of k(x, x); a smaller novelty is rounding


def evaluate_model(
    model: Model, source: Source, executor: Executor, progress: Progress | None = None, coverage: float = COVERAGE
) -> dict[str, Any]:
    """Figures of a model on the labelled rows of a source, with its weights; rows of weight 0 do not count.

    For classes n, accuracy, error, balanced_accuracy, auc and average_precision (two classes), log_loss (of a model
    that gives probabilities) and per_class, a list of label, n, precision, recall; for a regression n, rmse, mae, r2,
    of several targets their means. Fractions; None where a figure has no meaning: auc with rows of one class, the
    precision of a class that is never predicted, r2 of a constant label.

    `interval` has the coverage that was asked for, the share of the labels that intervals cover, and their mean width;
    `set` the same of sets of classes, with their mean size. Neither is there where too few rows were left out.

    `far` has the share of rows that are far from the model's data, and their error or rmse: rows whose novelty is above
    that of every row that the training compared with its landmarks; an exact fit, whose rows are the landmarks,
    compares each with the others. A uniform sample of `rows` is looked at; there is no `far` where there are no
    landmarks, or too many for that. `filled` is there where values came that training never saw: "missing" or
    "unknown" -> column -> how many. `drifted` has the columns whose values are not those of the training.
    """
    if source.label is None:
        raise DataError("Evaluation needs a label: open the source with one.")
    heads = len(model.intercept) if model.classes is None else 1
    if source.targets != heads:
        raise DataError(
            f"The model predicts {heads} target(s), and the rows have {source.targets}. Give it all of its own; files "
            "have one label, so a model of several is evaluated from Python."
        )
    if not source.n_rows:
        raise DataError("There are no rows to evaluate: every file of the input is empty.")
    check_coverage(coverage)
    shown = progress or Progress("none")
    shown.phase("evaluate", source.n_rows)
    where = LabelledRows.of(source)
    statistic = _figures(model, where, coverage if _covers(model, coverage) else None)
    rows, largest = _far_rows(model)
    if rows > 0:
        threshold = min(1.0, rows / source.n_rows) * float(2**64 - 2**12)
        statistic = _Far(statistic, model, where, np.uint64(threshold), largest)
    statistic = WithUnseen(statistic, model.reading)
    executor.group = lambda: phase_group(shown.now)
    key = f"dkernel-{compute_digest(model)[:16]}-{source.token}"
    found: Any = read_once(source, WithDrift(statistic, model), executor, key, large=True, progress=shown)
    (figures, unseen), drifted = found
    unseen.warn()
    more = {"filled": unseen.filled, "drifted": drifted}
    return {**figures, **{name: value for name, value in more.items() if value}}


def measure_quality(model: Model, block: Block) -> float:
    """Accuracy, or R², of labelled rows in memory, as `evaluate` has them; R² of a constant label is 0."""
    statistic = _figures(model, LabelledRows(("rows",), (0,)), None)
    figures = statistic.finish(statistic.step(block, RowSlice.whole(len(block.X)), None))
    return float(figures["r2" if model.classes is None else "accuracy"] or 0.0)


def _figures(model: Model, where: LabelledRows, coverage: float | None) -> Any:
    if model.classes is None:
        return _Regression(model, where, coverage)
    return _Classes(model, where, Targets(model.classes), coverage)


def _covers(model: Model, coverage: float) -> bool:
    """True if rows enough were left out for intervals or sets of this coverage."""
    if model.conformal is None:
        return False
    strata = range(len(model.intercept)) if model.classes is None else [None]
    return all(np.isfinite(model.conformal.quantile(coverage, stratum)) for stratum in strata)


def _far_rows(model: Model) -> tuple[int, float]:
    """Rows whose novelty is cheap beside the factor that it needs, 0 for none, and the largest that training knows."""
    known, map = (model.facts.get("certificate") or {}).get("trace_largest"), model.map
    if not isinstance(map, NystromMap) or (known is None and not SOLVERS[model.recipe.solver].in_memory):
        return 0, 0.0
    c = float(map.n_components)
    rows = max(0, int((FAR_FLOPS - c**3 / 3) / c**2))
    return rows, float(map.left_out().max()) if known is None and rows else known or 0.0


@dataclass(frozen=True, eq=False)
class _Far(Statistic[tuple[Any, F64], dict[str, Any]]):
    """Another statistic, and beside it of some rows: how many, their weight, that of the far ones, their errors.

    Parameters
    ----------
    threshold : hashes up to it are those rows
    largest : novelty of the rows of the training
    """

    inner: Any
    model: Model
    where: LabelledRows
    threshold: np.uint64
    largest: float

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> tuple[Any, F64]:
        inner = self.inner.step(block, piece, broadcast)
        X, y, weight, name = self.where.parts(block, piece)
        some = row_hash(0, "far", piece.first, piece.n, piece.step) <= self.threshold
        some = some if block.weight is None else some[block.weight[piece.range.rows] > 0]
        X, y, weight = X[some], y[some], weight[some]
        if not len(X):
            return inner, np.zeros(4)
        diagonal = self.model.map.kernel.diag(wide(self.model.scaling.apply(self.model.block(X))))
        far = self.model.novelty(X) > np.maximum(self.largest, NOVELTY_ROUNDING * diagonal)
        return inner, np.array(
            [len(X), weight.sum(), weight[far].sum(), self._errors(X[far], y[far], weight[far], name)]
        )

    def _errors(self, X: NDArray[Any], y: NDArray[Any], weight: F64, name: Callable[[int], str]) -> float:
        """Weight of the wrong answers; of a regression the sum of squared errors, over its targets their mean."""
        if not len(X):
            return 0.0
        S = self.where.scores(self.model, X, name)
        if self.model.classes is None:
            Y = (y[:, None] if y.ndim == 1 else y).astype(np.float64)
            return float(weight @ ((S - Y) ** 2).mean(axis=1))
        codes = Targets(self.model.classes).codes(y, name)
        return float(weight @ (class_of_scores(S) != codes))

    def merge(self, left: tuple[Any, F64], right: tuple[Any, F64]) -> tuple[Any, F64]:
        return self.inner.merge(left[0], right[0]), left[1] + right[1]

    def finish(self, total: tuple[Any, F64]) -> dict[str, Any]:
        figures, (rows, weight, far, errors) = self.inner.finish(total[0]), total[1].tolist()
        if not weight > 0:
            return dict(figures)
        of_far: dict[str, Any] = {"rows": int(rows), "share": far / weight}
        if far > 0:
            classes = self.model.classes is not None
            of_far |= {"error": errors / far} if classes else {"rmse": (errors / far) ** 0.5}
        last = {"per_class": figures.pop("per_class")} if "per_class" in figures else {}
        return {**figures, "far": of_far, **last}


@dataclass(frozen=True, eq=False)
class _Counts:
    """Sums over rows of a classification.

    Parameters
    ----------
    rows : of each class (C,)
    actual, predicted, both : weights of the rows of a class, of those that are called it, and of those that are both
    surprise : sum of -weight * log of the probability of the row's own class
    covered : weight of the rows whose set holds their class, and sum of weight * size of the set
    histogram : of two classes; of others it has no row
    """

    rows: F64
    actual: F64
    predicted: F64
    both: F64
    surprise: float
    covered: F64
    histogram: ScoreHistogram


@dataclass(frozen=True, eq=False)
class _Classes(Statistic[_Counts, dict[str, Any]]):
    model: Model
    where: LabelledRows
    targets: Targets
    coverage: float | None

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> _Counts:  # noqa: ARG002
        X, y, weight, name = self.where.parts(block, piece)
        codes = self.targets.codes(y, name) if len(y) else np.empty(0, np.intp)
        S = self.where.scores(self.model, X, name)
        predicted = class_of_scores(S)
        n_classes = len(self.targets.classes)  # type: ignore[arg-type]

        def counts(of: NDArray[np.intp], weights: F64 | None) -> F64:
            return np.bincount(of, weights, n_classes).astype(np.float64)

        surprise, covered, binary = 0.0, np.zeros(2), slice(None if n_classes == 2 else 0)
        if self.model.has_probabilities:
            P, own_class = self.model.probabilities(S), (np.arange(len(S)), codes)
            surprise = float(-weight @ np.log(np.maximum(P[own_class], np.finfo(np.float64).eps)))
            if self.coverage is not None:
                sets = self.model.sets(P, self.coverage)
                covered = np.array([weight @ sets[own_class], weight @ sets.sum(axis=1)])
        return _Counts(
            counts(codes, None),
            counts(codes, weight),
            counts(predicted, weight),
            counts(codes, weight * (codes == predicted)),
            surprise,
            covered,
            ScoreHistogram.of(S[binary, 0], (codes == 1)[binary], weight[binary]),
        )

    def merge(self, left: _Counts, right: _Counts) -> _Counts:
        sums: dict[str, Any] = {f.name: getattr(left, f.name) + getattr(right, f.name) for f in fields(_Counts)[:-1]}
        return _Counts(histogram=left.histogram.merge(right.histogram), **sums)

    def finish(self, total: _Counts) -> dict[str, Any]:
        weight = float(total.actual.sum())
        _require_weight(weight)
        accuracy = float(total.both.sum()) / weight
        assert self.targets.classes is not None
        labels = self.targets.classes.tolist()
        figures: dict[str, Any] = {"n": int(total.rows.sum()), "accuracy": accuracy, "error": 1.0 - accuracy}
        there = total.actual > 0
        figures["balanced_accuracy"] = float(np.mean(total.both[there] / total.actual[there]))
        figures["auc"] = area_under_curve(total.histogram)
        figures["average_precision"] = average_precision(total.histogram)
        figures["log_loss"] = total.surprise / weight if self.model.has_probabilities else None
        if self.coverage is not None:
            covered, size = (total.covered / weight).tolist()
            figures["set"] = {"coverage": self.coverage, "covered": covered, "size": size}
        figures["per_class"] = [
            {
                "label": label,
                "n": int(total.rows[i]),
                "precision": _share(total.both[i], total.predicted[i]),
                "recall": _share(total.both[i], total.actual[i]),
            }
            for i, label in enumerate(labels)
        ]
        return figures


@dataclass(frozen=True, eq=False)
class _Errors:
    """Sums over rows of a regression, of each target (k,); `mean` and `squares` are of the label (squared deviations
    from its mean). `covered` is the weight of the labels within their intervals, and `width` the sum of weight * width.
    """

    rows: int
    weight: float
    mean: F64
    squares: F64
    squared: F64
    absolute: F64
    covered: F64
    width: F64


@dataclass(frozen=True, eq=False)
class _Regression(Statistic[_Errors, dict[str, Any]]):
    model: Model
    where: LabelledRows
    coverage: float | None

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> _Errors:  # noqa: ARG002
        X, y, weight, name = self.where.parts(block, piece)
        if y.dtype.kind == "U" and len(y):
            raise DataError(f"{name(0)}: the label is the text {str(y[0])!r}; this model predicts numbers.")
        Y = (y[:, None] if y.ndim == 1 else y).astype(np.float64)
        S = self.where.scores(self.model, X, name)
        error, half = S - Y, np.zeros(Y.shape)
        if self.coverage is not None:
            half = self.model.width(X, S) * self.model.known_conformal().radii(self.coverage, Y.shape[1])
        total = float(weight.sum())
        mean = weight @ Y / total if total else np.zeros(Y.shape[1])
        return _Errors(
            len(y),
            total,
            mean,
            weight @ (Y - mean) ** 2,
            weight @ error**2,
            weight @ np.abs(error),
            weight @ (np.abs(error) <= half),
            weight @ (2 * half),
        )

    def merge(self, left: _Errors, right: _Errors) -> _Errors:
        weight = left.weight + right.weight
        shift, share = right.mean - left.mean, right.weight / weight if weight else 0.0
        return _Errors(
            left.rows + right.rows,
            weight,
            left.mean + shift * share,
            left.squares + right.squares + shift**2 * left.weight * share,
            left.squared + right.squared,
            left.absolute + right.absolute,
            left.covered + right.covered,
            left.width + right.width,
        )

    def finish(self, total: _Errors) -> dict[str, Any]:
        _require_weight(total.weight)
        if not np.isfinite([total.squared, total.squares]).all():
            raise DataError(
                "The squared errors of these rows are too large for float64: their labels may "
                "be in another unit than those of the training."
            )
        figures: dict[str, Any] = {
            "n": total.rows,
            "rmse": float(np.sqrt(total.squared / total.weight).mean()),
            "mae": float(total.absolute.mean()) / total.weight,
            "r2": float((1.0 - total.squared / total.squares).mean()) if (total.squares > 0).all() else None,
        }
        if self.coverage is not None:
            covered, width = (float(sums.mean()) / total.weight for sums in (total.covered, total.width))
            figures["interval"] = {"coverage": self.coverage, "covered": covered, "width": width}
        return figures


def _require_weight(weight: float) -> None:
    if not weight > 0:
        raise DataError("The weights of all rows are 0: there is nothing to evaluate.")


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None
