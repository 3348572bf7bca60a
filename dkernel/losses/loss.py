"""The base class of the losses of a score: value, derivative, curvature bound."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.losses.scoring import BY_LOSS, judging_rows
from dkernel.numerics.array_types import Floats

# An interior-point method ends near the bound of a coefficient, not on it. On 1,000 rows of C = 0.1 to 100 the smallest
# ones of libsvm's support vectors were 6e-6 of the largest, and those of the other rows 1e-6 and less here.
NO_SUPPORT = 1e-6
APART = 1e-5  # curvature is the difference of the slopes at scores so far to either side


class Loss(ABC):
    """Loss ℓ(y, s) of a target and a score. A new loss is one class, and one line in LOSSES.

    See Also
    --------
    KernelClassifier : Takes a loss by its name.
    """

    name: ClassVar[str]
    curvature: ClassVar[float]
    """A bound on the second derivative in s, the L of the step size 1 / L; a loss with kinks has none, and 1 serves."""
    constant_curvature: ClassVar[bool] = False
    """True if every row has that second derivative, wherever its score is; rows of a margin loss fall silent."""
    regresses: ClassVar[bool] = False
    """True if a real target is this loss's natural use."""
    classifies: ClassVar[bool] = True
    """True if targets -1, +1 have a use with it."""
    smooth: ClassVar[bool] = True
    """True if the derivative is continuous, as a batch solver needs it."""
    jump: ClassVar[float] = 0.0
    """Largest slope less the smallest, for a loss with kinks."""
    boxed: ClassVar[bool] = False
    """True if it is lines with corners, so that the dual is a quadratic program in a box."""
    probable: ClassVar[bool] = False
    """True if its minimizer's scores stand for probabilities."""
    quadratic: ClassVar[bool] = False
    """True if the optimum solves linear equations."""
    robust: ClassVar[bool] = False
    """True if it is for rows far off: these may not widen the unit of its number, the deviation of the targets."""
    joint: ClassVar[bool] = False
    """True if the scores of a row count together, so that outputs cannot be solved for one by one."""
    needed: ClassVar[str] = ""
    """Condition on the number of a loss that has one, in words."""
    scoring = BY_LOSS
    """Name of the scorer by which rows that were left out judge."""

    @property
    def smoothable(self) -> bool:
        """True if it is smooth, or its kinks can be smoothed in a window: targets that are numbers have a unit."""
        return self.smooth or self.regresses

    @property
    def support_tolerance(self) -> float:
        """Share of the largest coefficient of an exact machine up to which a row does not support it."""
        return NO_SUPPORT if self.boxed else 0.0

    @property
    def usual_calibration(self) -> str:
        """Calibration that "auto" stands for: none where scores stand for probabilities."""
        return "none" if self.probable else "temperature"

    @property
    def smooth_counterpart(self) -> str:
        """Name of a loss without kinks for the same targets."""
        return "huber" if self.regresses else "squared_hinge"

    @property
    def number(self) -> float:
        """Parameter of the loss, 0 of a loss without one."""
        return float(getattr(self, fields(self)[0].name)) if is_dataclass(self) else 0.0

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

    def predicts_numbers(self, task: str) -> str:
        """Say why the answers are numbers: "task" or "loss"; "" where they may be classes.

        Parameters
        ----------
        task : {"auto", "classify", "regress"}
            Task of a recipe.

        Returns
        -------
        str
            Name of the parameter that decides it.
        """
        return "task" if task == "regress" else "" if self.classifies else "loss"

    @property
    def hint_for_classes(self) -> str:
        """Words that a recipe needs for classes."""
        return "task='classify'" if self.classifies else "task='classify' and a loss for classes"

    def unseen_class_score(self, rows: int) -> float:
        """Give the score of a class that no row of the training had.

        Parameters
        ----------
        rows : int
            Rows of the training.

        Returns
        -------
        float
            Minus log(1 + rows), as sure as a logistic model is of what it never saw; of margins -1.
        """
        return -float(np.log1p(rows)) if self.probable and not self.joint else -1.0

    def judged_by(self, scoring: str) -> Self:
        """Give the loss whose held-out rows are judged by a scorer.

        Parameters
        ----------
        scoring : str
            One of SCORERS, or "loss".

        Returns
        -------
        Loss
            The same loss.
        """
        made = copy(self)
        object.__setattr__(made, "scoring", scoring)
        return made

    def judging_value(self, y: Floats, s: Floats) -> Floats:
        """Compute the value by which held-out rows are judged.

        All comparisons of fits, of their settings and of when they end ask this. The values of a scorer are of all rows
        together.

        Parameters
        ----------
        y : ndarray of shape (n, outputs)
            Targets.
        s : ndarray of shape (n, outputs)
            Scores.

        Returns
        -------
        ndarray of shape (n, outputs)
            Values, whose mean is to be small.
        """
        if self.scoring == BY_LOSS:
            return self.held_out_value(y, s)
        return judging_rows(self.scoring, y, s, self.class_probabilities)

    def held_out_value(self, y: Floats, s: Floats) -> Floats:
        """Compute the loss of held-out rows, or another value where a small loss says nothing.

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

    def probabilities(self, s: Floats) -> Floats:
        """Compute the probability of each output that scores stand for, where the loss is `probable`.

        Parameters
        ----------
        s : ndarray
            Scores.

        Returns
        -------
        ndarray
            1 / (1 + exp(-s)), of the shape of s.
        """
        return sigmoid(s)

    def class_probabilities(self, s: Floats) -> Floats:
        """Compute the probabilities of the classes, where the loss is `probable`.

        Parameters
        ----------
        s : ndarray of shape (n, outputs)
            Scores.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, of sum 1.
        """
        return expand_probabilities(np.asarray(self.probabilities(s), np.float64))

    def hessian(self, y: Floats, s: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """Compute the second derivatives in the scores, by differences of the first ones.

        Parameters
        ----------
        y : ndarray
            Targets.
        s : ndarray
            Scores.

        Returns
        -------
        tuple
            Those of each output by itself, of the shape of s; and a function: changes of s to those of the derivative.
        """
        ahead, behind = (self.derivative(y, s + e) for e in (APART, -APART))
        h = (ahead - behind) / (2 * APART)
        return h, lambda moved: h * moved

    def sides(self, y: Floats, w: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:  # noqa: ARG002
        """Give the conjugate of w ℓ(y, .), of a loss that is `boxed`: of β⁰ + Σ σ x, 0 <= x <= u, it is Σ c x.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        w : ndarray of shape (n,)
            Weights.

        Returns
        -------
        tuple
            The number β⁰ (n,), and of each side its signs σ, upper bounds u and costs c (n,).

        Raises
        ------
        UnsupportedError
            If the loss is not boxed.
        """
        raise UnsupportedError(f"The loss {self.text} has no box: hinge, epsilon_insensitive and quantile have one.")

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
        """Text that `parse_loss` reads: the name, with a parameter that is not the default."""
        if not is_dataclass(self) or self == type(self)():
            return self.name
        return f"{self.name}({self.number!r})"

    @abstractmethod
    def value(self, y: Floats, s: Floats) -> Floats:
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
    def derivative(self, y: Floats, s: Floats) -> Floats:
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


def sigmoid(s: NDArray[np.floating]) -> NDArray[np.floating]:
    """1 / (1 + exp(-s)), as e / (1 + e) where s is negative: exp(-|s|) cannot overflow."""
    e = np.exp(-np.abs(s))
    return np.asarray(np.where(s >= 0, 1.0, e) / (1.0 + e))


def expand_probabilities(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities (n, n_classes) of those of one of two classes, or of each class against the rest."""
    if p.shape[1] == 1:
        return np.concatenate([1.0 - p, p], axis=1)
    p = np.maximum(p, 1e-300)  # all classes may refuse a row
    return np.asarray(p / p.sum(axis=1, keepdims=True))
