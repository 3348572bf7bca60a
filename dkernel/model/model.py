"""The model: the result of a fit, which is all that scoring needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.data.schema import ColumnSchema, make_schema
from dkernel.errors import TooLargeError, UnsupportedError, escape_controls
from dkernel.features import FeatureMap, NystromMap, Scaling
from dkernel.features.base import COMPONENT_STRIP, in_tiles
from dkernel.features.scaling import BY_RANKS
from dkernel.losses.calibration import Calibration
from dkernel.losses.losses import Loss, parse_loss
from dkernel.losses.metrics import class_of_scores
from dkernel.losses.predictive_variance import Variance
from dkernel.model.conformal import COVERAGE, Conformal, RowGroups
from dkernel.model.local.base import LocalMachine
from dkernel.model.recipe import SettledRecipe
from dkernel.model.solver_table import FEW_ROWS
from dkernel.numerics import tiling
from dkernel.numerics.fused.components import MOST_FUSED_HEADS, PackedComponents
from dkernel.numerics.fused.scores import fused_scores
from dkernel.numerics.layout import Layout
from dkernel.numerics.rows import squares, wide
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.numerics.validation import silent_overflow

_Number = TypeVar("_Number", bound=np.floating)

FAR_LANDMARKS = 2.0**16  # beyond, float32 landmarks have lost digits, and rows are rounded as they were in the fit
# Float32 components may round a score by these shares of the scores' deviation, where float64 has no compiled walk and
# takes four to nine times as long. Nearly every model of many rows is above the first, which its own error hides.
FINE_SCORES, COARSE_SCORES = 5e-6, 1e-2
# Share of the range of the training labels by which scores of a regression may leave it: a kernel that overshoots
# beside the last rows is kept, and one far row does not become an error of fifty deviations.
WIDER = 0.1
ROUNDING_LANDMARKS = 256  # landmarks whose scores tell the rounding, half of them those that are farthest out


class ScaledComponents:
    """The columns of a map at scaled rows: `dkernel.numerics.tiling.Components` of raw rows.

    Parameters
    ----------
    scaling, map : as in `Model`
    """

    def __init__(self, scaling: Scaling, map: FeatureMap) -> None:
        self.scaling, self.map = scaling, map

    @property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return self.map.groups

    def rows(self, X: NDArray) -> Any:
        return self.map.rows(self.scaling.apply(X))

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        self.map.fill(rows, first, out)

    def panels(self, heads: int) -> PackedComponents | None:
        """The products of `rows` that make all components, where a compiled walk is the quick way for `heads` heads."""
        return self.map.panels if heads <= MOST_FUSED_HEADS else None

    def scores(self, X: NDArray, coef: NDArray, intercept: NDArray) -> NDArray[np.float32]:
        """components(X) @ coef + intercept, as `dkernel.numerics.tiling.scores` defines them."""
        panels = self.panels(len(intercept))
        # Rows of float64 meet a metric in a library, which rounds by their number: there they come in equal tiles.
        if panels is None or (X.dtype == np.float64 and self.scaling.rotation is not None):
            return tiling.scores(self, X, coef, intercept)
        return fused_scores(panels, self.rows, X, coef, intercept)

    @property
    def pass_dtype(self) -> str:
        """How the passes compute components: "tiles" if the map has a quick float32 loop, else "float64".

        It is the same on all processors: a narrow kernel of few features has columns whose rounding a setup of exact
        ones would not know.
        """
        return "tiles" if self.map.quick else "float64"

    def with_intercept(self, X: NDArray, dtype: str | None = None, into: NDArray[Any] | None = None) -> NDArray[Any]:
        """The components of raw rows with the 1 of the intercept at the end, (n, D + 1).

        Parameters
        ----------
        dtype : of the components, that of the map for None; or "tiles", in float32 as in the passes
        into : where they are written, in its type; else into an array of float64
        """
        F = np.empty((len(X), self.map.n_components + 1)) if into is None else into
        # In strips: what a kernel makes on the way stays in the caches, and no page of it is fresh.
        for start in range(0, len(X), COMPONENT_STRIP):
            rows, out = X[start : start + COMPONENT_STRIP], F[start : start + COMPONENT_STRIP, :-1]
            if dtype == "tiles":
                in_tiles(self, rows, out=out)
            else:
                out[...] = self.map.components(self.scaling.apply(rows), dtype or self.map.gram_dtype)
        F[:, -1] = 1.0
        return F


@dataclass(frozen=True, eq=False)
class Model:
    """s(x) = columns(scaling(x)) @ coef + intercept, and what the scores stand for.

    Parameters
    ----------
    recipe : everything that decided the result, with the choices filled in
    coef : float64 (n_components, C), C = 1 for two classes and for a regression, else one column a class or a target
    intercept : float64 (C,)
    classes : the labels in the order of their scores, None for a regression
    columns : names of the columns of a table, in order; numbered ones of sparse rows
    facts : what is worth knowing of the fit, JSON; no time, host, path or number of workers
    calibration : what makes probabilities of the scores, None where the loss does or nothing
    variance : of a regression by the normal equations, how sure it is
    conformal : scores of rows that the fit left out, for intervals and sets; None where it left none out
    encoding : what makes the inputs of the columns, None where they are the inputs. Blocks (n, p) are of inputs
    local : what the local stage has fitted, whose scores are added; None for none
    """

    recipe: SettledRecipe
    scaling: Scaling
    map: FeatureMap
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    classes: NDArray[Any] | None
    columns: Sequence[str]
    label: str
    facts: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    variance: Variance | None = None
    conformal: Conformal | None = None
    encoding: Encoding | None = None
    local: LocalMachine | None = None

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the inputs, the columns of a block."""
        return self.columns if self.encoding is None else self.encoding.names

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Column -> the places of its inputs."""
        return {name: [j] for j, name in enumerate(self.columns)} if self.encoding is None else self.encoding.positions

    @property
    def column_weights(self) -> dict[str, float] | None:
        """Column -> its share in the learned metric, the sum of those of its inputs; None where none was learned."""
        weights = self.facts.get("weights")
        if not weights or len(weights) != len(self.inputs):
            return None
        return {name: float(sum(weights[j] for j in places)) for name, places in self.places.items()}

    @property
    def target_names(self) -> Sequence[str]:
        """Names of the targets of a regression of several: those of the label's columns, else their numbers."""
        return self.facts.get("targets") or list(map(str, range(len(self.intercept))))

    @property
    def known_columns(self) -> tuple[str, ...]:
        """Columns of the training that are no inputs: the label, the weight and the excluded ones."""
        return (self.label, *self.facts.get("passed_over", ()))

    @cached_property
    def schema(self) -> dict[str, ColumnSchema] | None:
        """Column -> what training saw of it; None of sparse rows, of objects, and where nobody kept it."""
        if "schema" not in self.facts:
            return None
        return make_schema(self.columns, self.encoding, self.facts["schema"])

    @cached_property
    def training_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Means and deviations of the inputs in training; None of sparse rows, of objects, and where nobody kept them.

        A deviation is NaN where it is not known, as that of a constant column.
        """
        if not self.layout.numeric:
            return None
        if "survey" in self.facts:
            mean, deviation = (np.array(self.facts["survey"][name], np.float64) for name in ("mean", "deviation"))
        elif self.scaling.kind == "standard":
            mean, factor = self.scaling.shift, self.scaling.factor
            deviation = np.where(factor == 1.0, np.nan, 1.0 / factor)
        else:
            return None
        return mean, np.where(deviation > 0, deviation, np.nan)

    @cached_property
    def reading(self) -> Encoding | None:
        """Encoding of new rows: its own, or one of numbers that fills missing ones with the means of training.

        It refuses missing values where training did, and where no means are known. None of sparse rows and of objects.
        """
        if self.encoding is not None or not self.layout.numeric:
            return self.encoding
        if self.recipe.missing == "error" or self.scaling.kind not in ("standard", "global", BY_RANKS):
            return Encoding.of_numbers(self.columns)
        if self.scaling.curves is None:
            return Encoding.of_means(self.columns, self.scaling.shift)
        if self.training_moments is None:
            return Encoding.of_numbers(self.columns)
        return Encoding.of_means(self.columns, self.training_moments[0])

    def __repr__(self) -> str:
        """One line: arrays are left to those who ask for them."""
        what = "regression" if self.classes is None else f"classifier of {len(self.classes)} classes"
        kernel, n = self.recipe.kernel, self.map.n_components
        return f"<Model: {what} of {self.label!r}, {len(self.columns):,} features, {kernel}, {n:,} components>"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        from html import escape

        what = "regression" if self.classes is None else f"classifier of {len(self.classes)} classes"
        rows = {"model": what, "label": self.label, "features": f"{len(self.columns):,}", "kernel": self.recipe.kernel}
        rows |= {"map": f"{self.map.kind}, {self.map.n_components:,} components", "loss": self.recipe.loss}
        rows |= {"alpha": str(self.recipe.alpha)}
        for name, value in self.facts.get("holdout", {}).items():
            rows[f"holdout, {name}"] = f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
        lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return escape_controls(f"<table>{lines}</table>")

    @property
    def task(self) -> str:
        """ "classify" or "regress"."""
        return "regress" if self.classes is None else "classify"

    @property
    def loss(self) -> Loss:
        """The loss that was fitted."""
        return parse_loss(self.recipe.loss).of(len(self.intercept))

    @property
    def has_probabilities(self) -> bool:
        """True if the scores give probabilities of classes."""
        return self.classes is not None and (self.calibration is not None or self.loss.probable)

    @cached_property
    def _columns(self) -> ScaledComponents:
        return ScaledComponents(self.scaling, self.map)

    @property
    def objects(self) -> tuple[str, ...]:
        """The names of the columns that hold objects; the others hold numbers."""
        return tuple(self.inputs[j] for j in self.map.objects)

    @cached_property
    def layout(self) -> Layout:
        """The layout of a block of inputs."""
        return Layout(self.inputs, self.recipe.dtype, self.objects)

    def block(self, X: Any) -> Any:
        """The gate: a block (n, p) of the numbers or objects that the map is of, or of sparse rows."""
        return self.layout.block(X, "row {}".format)

    def scores(self, X: NDArray) -> NDArray[np.floating]:
        """Scores (n, C) of a block (n, p); a row's do not depend on the rows beside it.

        Of classes in float32, in float64 of rows in float64. Predictions are float64: the tiles sum what they are
        beyond the intercept, in a unit that is a power of two, so that neither a large mean of the label nor its unit
        costs digits. A model that `is_wide` has its components in float64. Scores are clipped to `limits`.

        Raises
        ------
        TooLargeError
            for rows that are finite and whose scores are not: a square or a power of their numbers is too large
        """
        return self.clip(self.unclipped_scores(X))

    def unclipped_scores(self, X: NDArray) -> NDArray[np.floating]:
        """The scores (n, C) of a block (n, p) before they are clipped."""
        X = self.block(X)
        with one_blas_thread(), silent_overflow():
            if self.is_wide:
                S: NDArray[np.floating] = self._wide_scores(X) + self.intercept
            elif self.classes is not None:
                S = self._columns.scores(X, self.coef, self.intercept)
            else:
                S = _in_units(self._columns.scores, X, self.coef) + self.intercept
            single = self.classes is not None and self.recipe.dtype == "float32"
            S = S.astype(np.float32 if single else np.float64, copy=False)
            if self.local is not None:
                S = S + self.local.scores(X).astype(S.dtype, copy=False)
            return _finite(S, "score")

    @property
    def limits(self) -> NDArray[np.float64] | None:
        """The smallest and the largest score, (2, C): the range of the training labels, widened by WIDER of it.

        None of classes, of quantiles, which lie beyond labels, and of linear models, which follow a trend.
        """
        if "span" not in self.facts:
            return None
        low, high = np.array(self.facts["span"], np.float64)
        room = WIDER * (high - low)
        return np.stack([low - room, high + room])

    def clip(self, S: NDArray[_Number]) -> NDArray[_Number]:
        """Scores (n, C) within the limits of the model."""
        return S if self.limits is None else np.clip(S, *self.limits)

    def with_labels(self, rows: Block) -> "Model":
        """The model after more rows, whose labels widen its limits."""
        counted = slice(None) if rows.weight is None else rows.weight > 0
        if "span" not in self.facts or rows.y is None or not len(y := rows.y[counted]):
            return self
        Y = np.concatenate([np.array(self.facts["span"]), y.reshape(len(y), -1)])
        return replace(self, facts={**self.facts, "span": [Y.min(axis=0).tolist(), Y.max(axis=0).tolist()]})

    def _wide_scores(self, X: NDArray) -> NDArray[np.float64]:
        """Scores without the intercept, in float64 from the rows on, with the numbers that the fit scaled by."""
        scaling, Z = self.scaling.in_dtype(self.recipe.dtype), self.map.landmarks
        is_far = isinstance(Z, np.ndarray) and Z.dtype == np.float32 and np.abs(Z).max(initial=0.0) > FAR_LANDMARKS

        def scaled(rows: Any) -> Any:
            return wide(scaling.apply(wide(rows))) if is_far else scaling.apply(wide(rows), "float64")

        return self.map.wide_scores(X, self.coef, scaled)

    @cached_property
    def rounding(self) -> float:
        """Share of the scores' deviation by which float32 components round one, at the landmarks; 0 without these.

        Coefficients that cancel each other make it large: a score is what is left of them.
        """
        Z = self.map.landmarks
        if Z is None:
            return 0.0
        if len(Z) > ROUNDING_LANDMARKS and Z.dtype.kind != "O":  # far rows round most, and there are few of them
            far = np.argsort(-squares(Z), kind="stable")[: ROUNDING_LANDMARKS // 2]
            Z = Z[np.union1d(np.arange(ROUNDING_LANDMARKS // 2), far)]
        Z = Z[:ROUNDING_LANDMARKS]
        with one_blas_thread(), silent_overflow():
            exact = self.map.wide_scores(Z, self.coef, wide)
            off = np.abs(_in_units(partial(tiling.scores, self.map), Z, self.coef) - exact).max(axis=0)
        return float(np.where(off > 0, off / np.maximum(exact.std(axis=0), np.finfo(np.float64).tiny), 0.0).max())

    @property
    def is_wide(self) -> bool:
        """True if the components of scores are float64: of float64 rows, and of landmarks where a walk makes them.

        Of others where float32 would round by more than FINE_SCORES in a model of at most FEW_ROWS rows, or
        COARSE_SCORES in one of more.
        """
        if self.recipe.dtype == "float64" or (self.map.landmarks is not None and self.map.wide):
            return True
        few = self.facts.get("rows", np.inf) <= FEW_ROWS
        return not self.rounding <= (FINE_SCORES if few else COARSE_SCORES)

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """r(x) = k(x, x) - |φ(x)|^2 of each row of a block (n, p), (n,): how little the landmarks say of it.

        Near 0 beside the landmarks, k(x, x) far from all of them, where the scores mean nothing. Compare with the mean
        and the largest over rows like those of the training, `facts["certificate"]`.
        """
        with silent_overflow():
            return _finite(self.landmark_map().residual(self.scaling.apply(self.block(X))), "novelty")

    def std(self, X: NDArray) -> NDArray[np.float64]:
        """Standard deviation of the label at each row of a block (n, p): of the function and of the noise.

        (n,), of k targets (n, k).

        `facts["noise"]` is that of the noise alone. The formula stands at
        `dkernel.losses.predictive_variance.Variance`.
        """
        variance = self.known_variance()
        X = self.block(X)
        out = np.empty((len(X), *variance.scale.shape[1:]))
        with one_blas_thread(), silent_overflow():
            X = self.scaling.apply(X)
            for first in range(0, len(X), PIECE_ROWS):
                part = X[first : first + PIECE_ROWS]
                components = np.asarray(self.map.components(part), np.float64)
                out[first : first + PIECE_ROWS] = np.sqrt(variance.of(components, self.map.beyond(part)))
        return _finite(out, "deviation")

    def width(self, X: NDArray, S: NDArray[np.floating]) -> NDArray[np.float64]:
        """w(x) (n, targets) of a block and its scores: intervals are as wide as it, in a unit that they share."""
        width = None if self.conformal is None else self.conformal.width
        if width is None:
            return np.ones(S.shape)
        with one_blas_thread(), silent_overflow():
            return _finite(width(self.scaling.apply(self.block(X)), S.astype(np.float64)), "width")

    def interval(self, X: NDArray, coverage: float = COVERAGE, groups: RowGroups | None = None) -> NDArray[np.float64]:
        """Lower and upper ends of an interval for each target of each row of a block, (n, targets, 2).

        `dkernel.model.conformal` has the formula, and what is promised; with groups (n,) it is so in each of them.
        """
        radii = self.known_conformal().radii(coverage, len(self.intercept), groups)
        S = self.scores(X)
        return S[:, :, None] + (self.width(X, S) * radii)[:, :, None] * np.array([-1.0, 1.0])

    def sets(
        self,
        P: NDArray[np.float64],
        coverage: float = COVERAGE,
        by_class: bool = False,
        groups: RowGroups | None = None,
    ) -> NDArray[np.bool_]:
        """Whether each class is in the set of each row, (n, n_classes), of probabilities of the same shape."""
        return np.asarray(self.known_conformal().limits(coverage, P.shape[1], by_class, groups) >= 1.0 - P)

    def known_conformal(self) -> Conformal:
        """The conformity scores, of a model that has them."""
        if self.conformal is None:
            raise UnsupportedError(
                "The fit of this model left no rows out to say how far labels are from predictions. Fit with a "
                "holdout, or call conformalize(X, y) with rows that it has not seen."
            )
        return self.conformal

    def known_variance(self) -> Variance:
        """The variance, of a model that has one."""
        if self.local is not None:
            raise UnsupportedError(
                "A model with a local stage does not know its variance. Use intervals, which every model has "
                "(predict_interval, or --write interval), or train with local='none'."
            )
        if self.variance is None and "noise" in self.facts:
            raise UnsupportedError(
                "This model has learned rows after its fit, whose variance it does not know. Use intervals "
                "(predict_interval, or --write interval), or train again on all rows."
            )
        if self.variance is None:
            raise UnsupportedError(
                f"A model of solver={self.recipe.solver!r} and loss={self.recipe.loss!r} does not know its variance. "
                "Use intervals, which every regression has (predict_interval, or --write interval), or train with "
                "loss='squared' and solver='normal'."
            )
        return self.variance

    def landmark_map(self) -> NystromMap:
        """The map, of a model that has landmarks."""
        if not isinstance(self.map, NystromMap):
            raise UnsupportedError(
                f"A model with {self.recipe.features} features has no landmarks, so no novelty. Train with "
                "features='nystrom'."
            )
        return self.map

    def labels(self, S: NDArray[np.floating]) -> NDArray[Any]:
        """The labels (n,) of scores; for a regression, the predictions, of k targets (n, k)."""
        if self.classes is None:
            return S[:, 0] if S.shape[1] == 1 else S
        return self.classes[class_of_scores(S)]

    def partial_fit(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a model has what answers need, and none of a solver's state."""
        raise UnsupportedError(
            "A Model holds no solver state (preconditioner, counts, collected rows), so it cannot learn further. Keep "
            "the estimator, by pickle, or fit again; a stopped fit continues from its checkpoint."
        )

    def predict(self, X: NDArray) -> NDArray[Any]:
        """Labels or predictions (n,) of a block; predictions of k targets are (n, k)."""
        return self.labels(self.scores(X))

    def probabilities(self, S: NDArray[np.floating]) -> NDArray[np.float64]:
        """P(class | x) (n, n_classes) of scores, over their sum: by the calibration, else by the loss.

        That is exp(s_k) of a softmax, else 1 / (1 + exp(-s_k)).
        """
        if not self.has_probabilities:
            asked = self.recipe.holdout or self.classes is None
            why = "no calibration was asked for" if asked else "the fit left no rows out to fit a calibration to"
            raise UnsupportedError(
                f"A model fitted with loss={self.recipe.loss!r} gives no probabilities: its scores are margins, and "
                f"{why}. Train with loss='logistic' or 'softmax', or with calibration='temperature' "
                "and a holdout."
            )
        S = S.astype(np.float64)
        if self.calibration is not None:
            return self.calibration(S)
        return np.asarray(self.loss.class_probabilities(S))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_columns", "reading", "rounding")}


def _in_units(scores: Callable[..., NDArray], X: NDArray, coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Float32 scores without an intercept; coefficients are scaled by a power of two, so any size will do."""
    unit = np.ldexp(1.0, np.frexp(np.abs(coef).max(axis=0, initial=0.0))[1] - 1)
    return scores(X, coef / unit, np.zeros(coef.shape[1])) * unit


def _finite(answers: NDArray[_Number], what: str) -> NDArray[_Number]:
    """Return the answers; refuse rows whose finite numbers overflow on the way."""
    if not np.isfinite(answers.sum()):  # the sum of finite numbers may overflow too
        rows = np.flatnonzero(~np.isfinite(answers.reshape(len(answers), -1)).all(axis=1)).tolist()
        if rows:
            raise TooLargeError(f"the numbers are too large for this model, whose {what} is not finite", tuple(rows))
    return answers
