"""Losses of a score: value, derivative, curvature bound, and the decision that a score stands for.

Classification losses see one column of scores for each class against the rest (one column for two classes) and targets
-1, +1; regression losses see real targets. All are elementwise, in the dtype of the scores.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.checks import nearest_name
from dkernel.errors import RecipeError

__all__ = ["LOSSES", "Hinge", "Logistic", "Loss", "Squared", "SquaredHinge", "loss_named", "signs"]

Array = NDArray[np.floating]


class Loss(ABC):
    """ℓ(y, s). A new loss is one class, and one line in LOSSES."""

    name: ClassVar[str]
    curvature: ClassVar[float]
    """A bound on the second derivative in s, the L of the step size 1 / L; for hinge, which has none, 1 serves."""
    attained: ClassVar[bool] = False
    """Whether every row has that second derivative, wherever its score is; rows of a margin loss fall silent."""
    regresses: ClassVar[bool] = False
    """Whether a real target is this loss's natural use."""

    @abstractmethod
    def value(self, y: Array, s: Array) -> Array:
        """ℓ(y, s), elementwise."""

    @abstractmethod
    def derivative(self, y: Array, s: Array) -> Array:
        """dℓ/ds, elementwise; at a kink, the one-sided value that keeps the set of active rows smallest."""


class Hinge(Loss):
    """max(0, 1 - y s): the support vector machine of the texts.

    Examples
    --------
    >>> Hinge().value(np.array([1.0, -1.0]), np.array([0.25, 0.25])).tolist()
    [0.75, 1.25]
    """

    name = "hinge"
    curvature = 1.0

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
    curvature = 0.25

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
    curvature = 1.0
    attained = True
    regresses = True

    def value(self, y: Array, s: Array) -> Array:
        return 0.5 * (s - y) ** 2

    def derivative(self, y: Array, s: Array) -> Array:
        return s - y


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredHinge(), Hinge(), Logistic(), Squared())}


def loss_named(name: str) -> Loss:
    """The loss of that name."""
    if name not in LOSSES:
        raise RecipeError(f"loss={name!r} is unknown.{nearest_name(name, list(LOSSES))}")
    return LOSSES[name]


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
