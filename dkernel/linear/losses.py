"""Losses of a score: value, derivative, curvature bound, and the decision that a score stands for.

Classification losses see one column of scores for each class against the rest (one column for two classes) and targets
-1, +1; regression losses see real targets, centred and with standard deviation 1, and that is the unit of the numbers
that some of them take. All are elementwise but softmax, which sees the scores of a row, the last axis, together; all in
the dtype of the scores.
"""

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.validation import nearest_name

__all__ = [
    "LOSSES",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Perceptron",
    "Quantile",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "loss_named",
    "signs",
]

Array = NDArray[np.floating]


class Loss(ABC):
    """Loss ℓ(y, s) of a target and a score. A new loss is one class, and one line in LOSSES.

    See Also
    --------
    KernelClassifier : Takes a loss by its name.
    """

    name: ClassVar[str]
    curvature: ClassVar[float]
    """A bound on the second derivative in s, the L of the step size 1 / L; a loss with kinks has none, and 1 serves."""
    attained: ClassVar[bool] = False
    """True if every row has that second derivative, wherever its score is; rows of a margin loss fall silent."""
    regresses: ClassVar[bool] = False
    """True if a real target is this loss's natural use."""
    classifies: ClassVar[bool] = True
    """True if targets -1, +1 have a use with it."""
    smooth: ClassVar[bool] = True
    """True if the derivative is continuous, as a batch solver needs it."""
    jump: ClassVar[float] = 0.0
    """Of a loss with kinks, the largest slope less the smallest."""
    boxed: ClassVar[bool] = False
    """True if it is lines with corners, so that the dual is a quadratic program in a box."""
    probable: ClassVar[bool] = False
    """True if its minimizer's scores stand for probabilities."""
    quadratic: ClassVar[bool] = False
    """True if the optimum solves linear equations."""
    joint: ClassVar[bool] = False
    """True if the scores of a row count together, so that outputs cannot be solved for one by one."""
    sklearn_name: ClassVar[str] = ""
    """Name in scikit-learn's SGDClassifier, "" where it has none."""
    needed: ClassVar[str] = ""
    """Of its number, where it takes one, as a condition in words."""

    @property
    def number(self) -> float:
        """Parameter of the loss, 0 of a loss without one."""
        return _number(self) if is_dataclass(self) else 0.0

    def of(self, outputs: int) -> "Loss":  # noqa: ARG002
        """Give the loss that does the work of this one on several columns of scores.

        Parameters
        ----------
        outputs : int
            Columns of scores.

        Returns
        -------
        Loss
            The loss.
        """
        return self

    def judged(self, y: Array, s: Array) -> Array:
        """Compute the value by which held-out rows are judged: the loss, but where a small one says nothing.

        Parameters
        ----------
        y : ndarray
            Targets.
        s : ndarray
            Scores.

        Returns
        -------
        ndarray
            Values, of the shape of s.
        """
        return self.value(y, s)

    def is_valid(self) -> bool:
        """Check the parameter of the loss.

        Returns
        -------
        bool
            True for a value that the loss can have.
        """
        return True

    @property
    def text(self) -> str:
        """Text that `loss_named` reads: the name, with a parameter that is not the default."""
        if not is_dataclass(self) or self == LOSSES[self.name]:
            return self.name
        return f"{self.name}({_number(self)!r})"

    @abstractmethod
    def value(self, y: Array, s: Array) -> Array:
        """Compute ℓ(y, s), elementwise; of a loss that sees columns together, their shares of it.

        Parameters
        ----------
        y : ndarray
            Targets.
        s : ndarray
            Scores.

        Returns
        -------
        ndarray
            Values, of the shape of s.
        """

    @abstractmethod
    def derivative(self, y: Array, s: Array) -> Array:
        """Compute dℓ/ds, elementwise; at a kink, the one-sided value that keeps the set of active rows smallest.

        Parameters
        ----------
        y : ndarray
            Targets.
        s : ndarray
            Scores.

        Returns
        -------
        ndarray
            Derivatives, of the shape of s.
        """


class Hinge(Loss):
    """max(0, 1 - y s): the support vector machine of the texts.

    Examples
    --------
    >>> Hinge().value(np.array([1.0, -1.0]), np.array([0.25, 0.25])).tolist()
    [0.75, 1.25]
    """

    name = "hinge"
    sklearn_name = "hinge"
    curvature = 1.0
    smooth = False
    jump = 1.0
    boxed = True

    def value(self, y: Array, s: Array) -> Array:
        return np.maximum(1 - y * s, 0)

    def derivative(self, y: Array, s: Array) -> Array:
        return np.where(y * s < 1, -y, np.zeros_like(y))


class SquaredHinge(Loss):
    """max(0, 1 - y s)^2 / 2.

    Examples
    --------
    >>> SquaredHinge().value(np.array([1.0]), np.array([0.0])).tolist()
    [0.5]
    """

    name = "squared_hinge"
    sklearn_name = "squared_hinge"
    curvature = 1.0

    def value(self, y: Array, s: Array) -> Array:
        return 0.5 * np.maximum(1 - y * s, 0) ** 2

    def derivative(self, y: Array, s: Array) -> Array:
        return -y * np.maximum(1 - y * s, 0)


class Logistic(Loss):
    """log(1 + exp(-y s)).

    Examples
    --------
    >>> Logistic().value(np.array([1.0]), np.array([1000.0])).tolist()
    [0.0]
    """

    name = "logistic"
    sklearn_name = "log_loss"
    curvature = 0.25
    probable = True

    def value(self, y: Array, s: Array) -> Array:
        return np.logaddexp(np.zeros_like(s), -y * s)

    def derivative(self, y: Array, s: Array) -> Array:
        # exp(-|m|) cannot overflow: 1 / (1 + e^m) is e / (1 + e) for m >= 0 and 1 / (1 + e) below.
        margin = y * s
        e = np.exp(-np.abs(margin))
        return -y * np.where(margin >= 0, e, np.ones_like(e)) / (1 + e)


class Squared(Loss):
    """(s - y)^2 / 2: ridge regression; on targets -1, +1 also a classifier.

    Examples
    --------
    >>> Squared().derivative(np.array([1.0]), np.array([3.0])).tolist()
    [2.0]
    """

    name = "squared"
    quadratic = True
    sklearn_name = "squared_error"
    curvature = 1.0
    attained = True
    regresses = True

    def value(self, y: Array, s: Array) -> Array:
        return 0.5 * (s - y) ** 2

    def derivative(self, y: Array, s: Array) -> Array:
        return s - y


class Softmax(Loss):
    """log(sum over classes k of exp(s_k)) - s_c, c the class of the row: logistic regression of many classes at once.

    Examples
    --------
    >>> y, s = np.array([[-1.0, 1.0, -1.0]]), np.zeros((1, 3))
    >>> Softmax().value(y, s).round(4).tolist(), Softmax().derivative(y, s).round(4).tolist()
    ([[0.0, 1.0986, 0.0]], [[0.3333, -0.6667, 0.3333]])
    """

    name = "softmax"
    joint = True
    sklearn_name = "log_loss"  # of two classes it is the logistic loss
    curvature = 0.5  # of diag p - p p^T, whose rows sum to p (1 - p) twice over
    probable = True

    def of(self, outputs: int) -> Loss:
        """Of two classes only the difference of their scores counts, which is one column and the logistic loss."""
        return Logistic() if outputs == 1 else self

    def value(self, y: Array, s: Array) -> Array:
        top = s.max(axis=-1, keepdims=True)
        total = top + np.log(np.exp(s - top).sum(axis=-1, keepdims=True))
        return np.where(y > 0, total - s, np.zeros_like(s))

    def derivative(self, y: Array, s: Array) -> Array:
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) - (y > 0)


class Perceptron(Loss):
    """max(0, -y s): only mistakes count, and how large they are. Zero scores have no loss, so mistakes are what judges.

    Source: Rosenblatt 1958; the mistakes of a round are learned from together.

    Examples
    --------
    >>> Perceptron().value(np.array([1.0, -1.0]), np.array([0.25, 0.25])).tolist()
    [0.0, 0.25]
    """

    name = "perceptron"
    sklearn_name = "perceptron"
    curvature = 1.0
    smooth = False
    jump = 1.0

    def value(self, y: Array, s: Array) -> Array:
        return np.maximum(-y * s, 0)

    def derivative(self, y: Array, s: Array) -> Array:
        # A score of 0 is no decision: a machine that begins there would stay there.
        return np.where(y * s <= 0, -y, np.zeros_like(y))

    def judged(self, y: Array, s: Array) -> Array:
        return (y * s <= 0).astype(s.dtype)


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 up to |r| = delta, delta |r| - delta^2 / 2 beyond, r = s - y: far rows pull no harder than near ones.

    Parameters
    ----------
    delta : in standard deviations of the targets

    Examples
    --------
    >>> Huber(1.0).value(np.zeros(2), np.array([0.5, 3.0])).tolist()
    [0.125, 2.5]
    """

    delta: float = 1.35
    name: ClassVar[str] = "huber"
    curvature: ClassVar[float] = 1.0
    attained: ClassVar[bool] = True
    regresses: ClassVar[bool] = True
    classifies: ClassVar[bool] = False
    needed: ClassVar[str] = "above 0"

    def is_valid(self) -> bool:
        return self.delta > 0

    def value(self, y: Array, s: Array) -> Array:
        near = np.minimum(np.abs(s - y), self.delta)
        return near * (np.abs(s - y) - 0.5 * near)

    def derivative(self, y: Array, s: Array) -> Array:
        return np.clip(s - y, -self.delta, self.delta)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, |s - y| - epsilon): support vector regression.

    Parameters
    ----------
    epsilon : in standard deviations of the targets

    Examples
    --------
    >>> EpsilonInsensitive(0.25).value(np.zeros(2), np.array([0.25, -1.0])).tolist()
    [0.0, 0.75]
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "epsilon_insensitive"
    curvature: ClassVar[float] = 1.0
    jump: ClassVar[float] = 2.0
    regresses: ClassVar[bool] = True
    classifies: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    boxed: ClassVar[bool] = True
    needed: ClassVar[str] = "of at least 0"

    def is_valid(self) -> bool:
        return self.epsilon >= 0

    def value(self, y: Array, s: Array) -> Array:
        return np.maximum(np.abs(s - y) - self.epsilon, 0)

    def derivative(self, y: Array, s: Array) -> Array:
        return np.where(np.abs(s - y) > self.epsilon, np.sign(s - y), np.zeros_like(s))


@dataclass(frozen=True)
class Quantile(Loss):
    """max(q (y - s), (1 - q) (s - y)): its minimizer is the q-quantile of y at x, for q = 1/2 the median.

    Parameters
    ----------
    q : between 0 and 1; a quantile has no unit

    Examples
    --------
    >>> Quantile(0.75).value(np.zeros(2), np.array([-1.0, 1.0])).tolist()
    [0.75, 0.25]
    """

    q: float = 0.5
    name: ClassVar[str] = "quantile"
    curvature: ClassVar[float] = 1.0
    jump: ClassVar[float] = 1.0
    regresses: ClassVar[bool] = True
    classifies: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    boxed: ClassVar[bool] = True
    needed: ClassVar[str] = "above 0 and below 1"

    def is_valid(self) -> bool:
        return 0 < self.q < 1

    def value(self, y: Array, s: Array) -> Array:
        return np.maximum(self.q * (y - s), (1 - self.q) * (s - y))

    def derivative(self, y: Array, s: Array) -> Array:
        rise, fall = np.full_like(s, 1 - self.q), np.full_like(s, -self.q)
        return np.where(s > y, rise, np.where(s < y, fall, np.zeros_like(s)))


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        SquaredHinge(), Hinge(), Logistic(), Softmax(), Perceptron(),
        Squared(), Huber(), EpsilonInsensitive(), Quantile(),
    )
}  # fmt: skip


def loss_named(text: str) -> Loss:
    """The loss of that name, with its own number where one stands in brackets.

    Examples
    --------
    >>> loss_named("quantile(0.9)"), loss_named("huber").text, loss_named("huber(1.35)").text
    (Quantile(q=0.9), 'huber', 'huber')
    """
    found = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name = found[1] if found else text
    if found is None or name not in LOSSES:
        raise RecipeError(f"loss={text!r} is unknown.{nearest_name(name, list(LOSSES))}")
    usual = LOSSES[name]
    if found[2] is None:
        return usual
    if not usual.needed:
        raise RecipeError(f"loss={text!r}: {name} takes no number. Write loss={name!r}.")
    try:
        number = float(found[2])
        made: Loss = type(usual)(number)  # type: ignore[call-arg]
        fits = math.isfinite(number) and made.is_valid()
    except ValueError:
        fits = False
    if not fits:
        raise RecipeError(
            f"loss={text!r}: the number of {name} is one {usual.needed}, as in {name}({_number(usual)!r})."
        )
    return made


def _number(loss: Loss) -> float:
    return float(getattr(loss, fields(loss)[0].name))  # type: ignore[arg-type]


def signs(codes: NDArray[np.integer], n_classes: int) -> NDArray[np.float32]:
    """-1, +1 targets (rows, C) of class numbers: one column for two classes, else one a class against the rest.

    Examples
    --------
    >>> signs(np.array([0, 2]), 3).tolist()
    [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    if n_classes == 2:
        return (2 * codes - 1).astype(np.float32)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), np.float32(1), np.float32(-1))
