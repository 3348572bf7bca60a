"""Losses for classes: of scores and targets -1, +1. All are elementwise but softmax, which sees the scores of a row
together.
"""

from collections.abc import Callable

import numpy as np

from dkernel.losses.loss import Loss, sigmoid
from dkernel.numerics.array_types import Floats


class Hinge(Loss):
    """max(0, 1 - y s): the support vector machine.

    Examples
    --------
    >>> Hinge().value(np.array([1.0, -1.0]), np.array([0.25, 0.25])).tolist()
    [0.75, 1.25]
    """

    name = "hinge"
    curvature = 1.0
    smooth = False
    jump = 1.0
    boxed = True

    def value(self, y: Floats, s: Floats) -> Floats:
        return np.maximum(1 - y * s, 0)

    def derivative(self, y: Floats, s: Floats) -> Floats:
        return np.where(y * s < 1, -y, np.zeros_like(y))

    def sides(self, y: Floats, w: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:
        return np.zeros_like(y), [(y, w, -np.ones_like(y))]


class SquaredHinge(Loss):
    """max(0, 1 - y s)^2 / 2.

    Examples
    --------
    >>> SquaredHinge().value(np.array([1.0]), np.array([0.0])).tolist()
    [0.5]
    """

    name = "squared_hinge"
    curvature = 1.0

    def value(self, y: Floats, s: Floats) -> Floats:
        return 0.5 * np.maximum(1 - y * s, 0) ** 2

    def derivative(self, y: Floats, s: Floats) -> Floats:
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
    probable = True

    def value(self, y: Floats, s: Floats) -> Floats:
        return np.logaddexp(np.zeros_like(s), -y * s)

    def derivative(self, y: Floats, s: Floats) -> Floats:
        return -y * sigmoid(-y * s)


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
    curvature = 0.5  # the largest row sum of |diag p - p p^T|, 2 p (1 - p)
    probable = True

    def of(self, outputs: int) -> Loss:
        """Loss of `outputs` scores; for two classes the logistic loss, as only the difference of both counts."""
        return Logistic() if outputs == 1 else self

    def value(self, y: Floats, s: Floats) -> Floats:
        top = s.max(axis=-1, keepdims=True)
        total = top + np.log(np.exp(s - top).sum(axis=-1, keepdims=True))
        return np.where(y > 0, total - s, np.zeros_like(s))

    def derivative(self, y: Floats, s: Floats) -> Floats:
        return self.probabilities(s) - (y > 0)

    def hessian(self, y: Floats, s: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:  # noqa: ARG002
        p = self.probabilities(s)
        return p * (1 - p), lambda moved: p * (moved - (p * moved).sum(axis=-1, keepdims=True))

    def probabilities(self, s: Floats) -> Floats:
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))

    def class_probabilities(self, s: Floats) -> Floats:
        return np.asarray(self.probabilities(s), np.float64)


class Perceptron(Loss):
    """max(0, -y s): only mistakes count, and how large they are. Zero scores have no loss, so mistakes are what judges.

    Source: Rosenblatt 1958; the mistakes of a round are learned from together.

    Examples
    --------
    >>> Perceptron().value(np.array([1.0, -1.0]), np.array([0.25, 0.25])).tolist()
    [0.0, 0.25]
    """

    name = "perceptron"
    curvature = 1.0
    smooth = False
    jump = 1.0

    def value(self, y: Floats, s: Floats) -> Floats:
        return np.maximum(-y * s, 0)

    def derivative(self, y: Floats, s: Floats) -> Floats:
        # A score of 0 is no decision: a machine that begins there would stay there.
        return np.where(y * s <= 0, -y, np.zeros_like(y))

    def held_out_value(self, y: Floats, s: Floats) -> Floats:
        return (y * s <= 0).astype(s.dtype)


MARGIN_LOSSES: tuple[Loss, ...] = (SquaredHinge(), Hinge(), Logistic(), Softmax(), Perceptron())
