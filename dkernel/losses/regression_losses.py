"""Losses for numbers. Targets are centred and have deviation 1, the unit of the numbers that losses take.

It is the standard deviation, and of a robust loss that of a normal law with the targets' quartiles.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dkernel.losses.loss import Loss
from dkernel.numerics.array_types import Floats


class Squared(Loss):
    """(s - y)^2 / 2: ridge regression; on targets -1, +1 also a classifier.

    Examples
    --------
    >>> Squared().derivative(np.array([1.0]), np.array([3.0])).tolist()
    [2.0]
    """

    name = "squared"
    quadratic = True
    curvature = 1.0
    constant_curvature = True
    regresses = True

    def value(self, y: Floats, s: Floats) -> Floats:
        return 0.5 * (s - y) ** 2

    def derivative(self, y: Floats, s: Floats) -> Floats:
        return s - y


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 up to |r| = delta, delta |r| - delta^2 / 2 beyond, r = s - y: far rows pull no harder than near ones.

    Parameters
    ----------
    delta : in deviations of the targets, by their quartiles

    Examples
    --------
    >>> Huber(1.0).value(np.zeros(2), np.array([0.5, 3.0])).tolist()
    [0.125, 2.5]
    """

    delta: float = 1.35
    name: ClassVar[str] = "huber"
    curvature: ClassVar[float] = 1.0
    constant_curvature: ClassVar[bool] = True
    regresses: ClassVar[bool] = True
    classifies: ClassVar[bool] = False
    robust: ClassVar[bool] = True
    needed: ClassVar[str] = "above 0"

    def is_valid(self) -> bool:
        return self.delta > 0

    def value(self, y: Floats, s: Floats) -> Floats:
        near = np.minimum(np.abs(s - y), self.delta)
        return near * (np.abs(s - y) - 0.5 * near)

    def derivative(self, y: Floats, s: Floats) -> Floats:
        return np.clip(s - y, -self.delta, self.delta)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, |s - y| - epsilon): support vector regression.

    Parameters
    ----------
    epsilon : in deviations of the targets, by their quartiles

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
    robust: ClassVar[bool] = True
    needed: ClassVar[str] = "of at least 0"

    def is_valid(self) -> bool:
        return self.epsilon >= 0

    def value(self, y: Floats, s: Floats) -> Floats:
        return np.maximum(np.abs(s - y) - self.epsilon, 0)

    def derivative(self, y: Floats, s: Floats) -> Floats:
        return np.where(np.abs(s - y) > self.epsilon, np.sign(s - y), np.zeros_like(s))

    def sides(self, y: Floats, w: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:
        one = np.ones_like(y)
        return np.zeros_like(y), [(one, w, self.epsilon - y), (-one, w, self.epsilon + y)]


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
    robust: ClassVar[bool] = True
    needed: ClassVar[str] = "above 0 and below 1"

    def is_valid(self) -> bool:
        return 0 < self.q < 1

    def value(self, y: Floats, s: Floats) -> Floats:
        return np.maximum(self.q * (y - s), (1 - self.q) * (s - y))

    def derivative(self, y: Floats, s: Floats) -> Floats:
        rise, fall = np.full_like(s, 1 - self.q), np.full_like(s, -self.q)
        return np.where(s > y, rise, np.where(s < y, fall, np.zeros_like(s)))

    def sides(self, y: Floats, w: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:
        return -(1 - self.q) * w, [(np.ones_like(y), w, -y)]


REGRESSION_LOSSES: tuple[Loss, ...] = (Squared(), Huber(), EpsilonInsensitive(), Quantile())
