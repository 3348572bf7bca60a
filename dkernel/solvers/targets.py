"""Targets: the task, the classes or the centre and width of the targets, and raw labels as targets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import no_weight
from dkernel.errors import DataError, MissingLabelError, RecipeError
from dkernel.losses.losses import parse_loss, signs
from dkernel.model.recipe import Recipe
from dkernel.numerics.validation import nearest_name
from dkernel.streaming.survey import ColumnMoments, SurveyResult

QUARTILE = 0.6744897501960817  # of a standard normal variable
LEAST_WIDTH = float(np.sqrt(np.finfo(np.float64).tiny))  # the smallest width whose square keeps all its digits

# Residuals are added as integers, so they need a bound: one beyond it counts as this. A global stage that has learned
# anything leaves far less, and each doubling costs the sums one of some 22 bits. A class has the target -1 or 1, where
# no smooth loss has a residual of more than 4 for a score of at most 4.
CLASS_BOUND = 16.0
TARGET_BOUND = 4.0  # times the largest target: the bound of a regression


def doubtful_task(recipe: Recipe, task: str, kind: str, labels: Collection[Any] | None) -> str | None:
    """Caution about a task that was not given and that the label leaves in doubt; None without doubt.

    Raises
    ------
    DataError
        for whole numbers that are too many to be taken for classes

    Examples
    --------
    >>> doubtful_task(Recipe(), "regress", "float", {0.0: 5.0, 1.0: 3.0})
    "regress: the label is floating, with 2 whole values; task='classify' makes classes of them"
    """
    if recipe.task != "auto":
        return None
    # More than 100 whole numbers are taken for classes only if the user says so.
    if task == "classify" and kind == "int" and (labels is None or len(labels) > 100):
        n = "more than 10,000" if labels is None else f"{len(labels):,}"
        raise DataError(
            f"The label holds {n} different whole numbers. Use task='regress' to predict a number, or task='classify' "
            "where each of them is a class."
        )
    # Up to 20 whole values of a floating label look like classes.
    few = kind == "float" and labels is not None and len(labels) <= 20
    if task == "regress" and few and all(float(label).is_integer() for label in labels or ()):
        count = len(labels or ())
        return f"regress: the label is floating, with {count} whole values; task='classify' makes classes of them"
    return None


def resolve_task(recipe: Recipe, kind: str | None) -> str:
    """ "classify" or "regress": a floating label or a regression loss asks for a regression.

    Parameters
    ----------
    kind : "bool", "int", "float" or "text", of the label
    """
    loss = parse_loss(recipe.loss)
    if loss.predicts_numbers(recipe.task):
        if kind == "text":
            hint = loss.hint_for_classes
            raise DataError(f"The label holds text, which cannot be a regression target. Use {hint}.")
        return "regress"
    if recipe.task == "classify":
        return "classify"
    if kind == "float" and not loss.regresses:
        raise RecipeError(
            f"The label is floating, so task='auto' means a regression, and loss={loss.text!r} is for classes. "
            "Use loss='squared', or task='classify' if the numbers are names of classes."
        )
    if kind in ("int", "bool") and loss.regresses:
        raise RecipeError(
            f"loss={recipe.loss!r} on a label of type {kind} can mean classes or numbers. Say which: task='classify' "
            "or task='regress'."
        )
    return "regress" if kind == "float" else "classify"


@dataclass(frozen=True, eq=False)
class Targets:
    """Raw labels -> targets of a loss.

    Parameters
    ----------
    classes : sorted labels, None for a regression
    center, width : the solver of a regression gets (y - center) / width; several targets have arrays (k,), with their
        own center and width each
    constant : numbers of the targets with one value in all rows, which is their center; their width is 1
    """

    classes: NDArray[Any] | None
    center: Any = 0.0
    width: Any = 1.0
    constant: tuple[int, ...] = ()

    @property
    def outputs(self) -> int:
        """Columns of scores."""
        if self.classes is None:
            return int(np.size(self.width))
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def widths(self) -> NDArray[np.float64]:
        """Width of each column of scores."""
        return np.full(self.outputs, self.width, np.float64)

    @property
    def text(self) -> bool:
        """True if the labels are text."""
        return self.classes is not None and self.classes.dtype.kind == "U"

    @property
    def unit(self) -> float:
        """Unit of the solver's errors: the width of the label; 1 for several targets."""
        return 1.0 if np.ndim(self.width) else float(self.width)

    def rmse(self, squared: float, n: int) -> float:
        """RMSE of a regression, in `unit`, from a sum of squared errors over n rows; over all targets together."""
        return self.unit * float(np.sqrt(squared / (max(n, 1) * self.outputs)))

    def wrong(self, Y: NDArray[np.floating], S: NDArray[np.floating]) -> NDArray[np.bool_]:
        """The rows of a classification whose scores decide for another class than their targets."""
        return np.asarray((S > 0)[:, 0] != (Y > 0)[:, 0] if S.shape[1] == 1 else S.argmax(axis=1) != Y.argmax(axis=1))

    def merit(self, right: float, n: int) -> dict[str, float]:
        """Accuracy of `right` answers on n rows; of a regression the rmse, `right` the sum of squared errors."""
        if self.classes is None:
            return {"rmse": self.rmse(right, n)}
        return {"accuracy": right / max(n, 1)}

    def codes(self, y: NDArray[Any], describe: Callable[[int], str] = "row {} of a block".format) -> NDArray[np.intp]:
        """Class numbers (n,); a label that is not among the classes is refused, and its row described."""
        assert self.classes is not None
        text = self.text
        if text != (y.dtype.kind == "U"):
            kinds = {True: "text", False: "numbers"}
            raise DataError(
                f"{describe(0)}: the label {y.tolist()[0]!r} is {kinds[not text]}, and those of the training were "
                f"{kinds[text]}: {self._some()}."
            )
        codes = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        unseen = self.classes[codes] != y
        if unseen.any():
            row = int(unseen.argmax())
            label = y[row].item()
            near = nearest_name(label, self.classes.tolist()) if isinstance(label, str) else ""
            raise MissingLabelError(
                f"{describe(row)}: no row of the training had the label {label!r}; the classes are {self._some()}."
                + (near if near.startswith(" Did") else "")
            )
        return codes

    def _some(self) -> str:
        assert self.classes is not None
        names = [str(c) for c in self.classes.tolist()]
        return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")

    def of(self, y: NDArray[Any]) -> NDArray[np.float32]:
        """Targets (n, outputs)."""
        if self.classes is None:
            targets = ((y.astype(np.float64) - self.center) / self.width).astype(np.float32)
            return np.asarray(targets[:, None] if targets.ndim == 1 else targets)
        return signs(self.codes(y), len(self.classes))

    def weigh_classes(self, class_weight: Any, counts: Mapping[Any, float]) -> NDArray[np.float64] | None:
        """One weight for each class, None for equal ones; "balanced" is n / (n_classes * count).

        Classes of these counts are as many rows with their weights as without, or more: smaller weights are shares.
        """
        given = self.read_class_weights(class_weight, counts)
        if given is None or class_weight == "balanced":
            return given
        share = self.weigh_rows(given, counts, 0.0) / sum(counts.values())
        return given / share if 0 < share < 1 else given

    def read_class_weights(self, class_weight: Any, counts: Mapping[Any, float]) -> NDArray[np.float64] | None:
        """The weights of classes as they are given."""
        if class_weight is None or self.classes is None:
            return None
        seen = np.array([counts[c] for c in self.classes.tolist()], dtype=np.float64)
        if class_weight == "balanced":
            return np.asarray(seen.sum() / (len(seen) * np.maximum(seen, 1)))
        unknown = [c for c in class_weight if c not in self.classes.tolist()]
        if unknown:
            raise RecipeError(f"class_weight names {unknown[0]!r}, which is not a class; there are {self._some()}.")
        weights = np.array([float(class_weight.get(c, 1.0)) for c in self.classes.tolist()])
        if not (weights @ seen):
            raise RecipeError(
                f"class_weight={class_weight!r} gives all rows a weight of 0. Give some class a larger one."
            )
        return weights

    def weigh_rows(self, of_class: NDArray[np.float64] | None, counts: Mapping[Any, float], rows: float) -> float:
        """Sum of the weights of all rows with these weights of their classes; `rows` is the sum without these."""
        if of_class is None or self.classes is None:
            return rows
        return float(of_class @ np.array([counts[c] for c in self.classes.tolist()]))


def _center(moments: ColumnMoments, span: NDArray[np.float64], label: str | None) -> Targets:
    """The targets of a regression, each with its own mean and deviation."""
    low, high = span
    # The deviation of a target far from 0 may be less than the rounding of its mean, so the values say whether it is
    # constant.
    widths = np.where(low == high, 1.0, np.sqrt(moments.variance))
    bad = ~np.isfinite(widths) | (widths < LEAST_WIDTH)
    if bad.any():
        j = int(bad.argmax())
        raise DataError(
            f"{name_of_target(label, j, len(widths))} goes from {low[j]:.6g} to {high[j]:.6g}, and the square of its "
            "deviation does not fit float64. Multiply it by a number that makes it neither so large nor so small."
        )
    return Targets(None, np.where(low == high, low, moments.mean), widths, tuple(np.flatnonzero(low == high).tolist()))


def center_robustly(targets: Targets, y: NDArray[Any], weight: NDArray[np.float64] | None) -> Targets:
    """The targets with their medians, and the deviations of normal laws with their quartiles in these rows.

    Rows far off, up to a quarter of all, hardly move either. A target with equal quartiles keeps mean and deviation.

    Examples
    --------
    >>> found = center_robustly(Targets(None), np.array([1.0, 2.0, 3.0, 1e9]), None)
    >>> float(found.center), round(float(found.width), 4)
    (2.0, 1.4826)
    """
    quarters, Y = (0.25, 0.5, 0.75), y.astype(np.float64)
    low, center, high = np.quantile(Y, quarters, axis=0, method="inverted_cdf", weights=weight)
    width = (high - low) / (2 * QUARTILE)
    known = width >= LEAST_WIDTH
    return replace(targets, center=np.where(known, center, targets.center), width=np.where(known, width, targets.width))


def name_of_target(label: str | None, j: int, targets: int) -> str:
    """The name of one of several targets, or of the only one, in a sentence."""
    return f"Target {j} of the label {label!r}" if targets > 1 else f"The label {label!r}"


def make_targets(recipe: Recipe, survey: SurveyResult, label: str | None, n: int) -> tuple[Targets, dict[Any, float]]:
    """Targets of the recipe's task by the survey of the labels of n rows; and the weight of each class."""
    if survey.weight == 0:
        raise no_weight(n)
    if recipe.task == "regress":
        assert survey.target is not None
        assert survey.span is not None
        targets = _center(survey.target, survey.span, label)
        if parse_loss(recipe.loss).robust:
            targets = center_robustly(targets, survey.reservoir.y, survey.reservoir.weight)
        if survey.reservoir.y.ndim == 1:
            targets = replace(
                targets, center=float(np.ravel(targets.center)[0]), width=float(np.ravel(targets.width)[0])
            )
        return targets, {}
    if survey.reservoir.y.ndim == 2:
        raise DataError(
            f"The label {label!r} has {survey.reservoir.y.shape[1]} targets, and a classifier learns one. Use "
            "task='regress', or fit each target alone."
        )
    counts = survey.labels
    if counts is None:
        raise DataError(
            f"The label {label!r} has over 10,000 different values, too many for classes. "
            "Use task='regress' with loss='squared', or another label."
        )
    if len(counts) < 2:
        only = next(iter(counts))
        raise DataError(
            f"The label {label!r} has the one value {only!r} in all {n:,} rows; a classifier needs two classes."
        )
    dtype = survey.reservoir.y.dtype
    return Targets(np.array(sorted(counts), dtype=dtype if dtype.kind != "U" else None)), counts


def residual_bound(targets: Targets, survey: SurveyResult) -> float:
    """The bound of a residual."""
    if targets.classes is not None:
        return CLASS_BOUND
    assert survey.span is not None
    return TARGET_BOUND * max(1.0, float(np.abs((survey.span - targets.center) / targets.width).max()))
