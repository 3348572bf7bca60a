"""Losses with kinks, made smooth: the mean of the loss over a window of scores."""

from dataclasses import dataclass

import numpy as np

from dkernel.losses.losses import Loss
from dkernel.numerics.array_types import F64, Floats


@dataclass(frozen=True)
class SmoothedLoss:
    """The mean of ℓ(y, t) over |t - s| <= width / 2, for solvers that need a derivative without jumps.

    Its derivative is the difference of ℓ at both ends of the window over its width, so a loss needs only its value.
    Where the slopes of ℓ differ by at most `jump`, the second derivative is at most jump / width, and the mean is above
    ℓ by at most jump x width / 8.

    Parameters
    ----------
    loss : with kinks
    width : of the window, in the unit of the scores

    Examples
    --------
    >>> import numpy as np
    >>> from dkernel.losses.losses import Quantile
    >>> loss = SmoothedLoss(Quantile(0.5), 1.0)
    >>> loss.derivative(np.zeros(3), np.array([-0.5, 0.25, 0.5])).tolist(), loss.curvature
    ([-0.5, 0.25, 0.5], 1.0)
    """

    loss: Loss
    width: float

    @property
    def curvature(self) -> float:
        """A bound on the second derivative."""
        return self.loss.jump / self.width

    def derivative(self, y: Floats, s: Floats) -> Floats:
        """The derivative in s, of the shape of s."""
        half = s.dtype.type(self.width / 2)
        return (self.loss.value(y, s + half) - self.loss.value(y, s - half)) / s.dtype.type(self.width)


def window_widths(loss: Loss, widths: tuple[float, float], rounds: int) -> F64:
    """Width of the window in each round, from the first of these to the last; 0 of a loss without kinks."""
    return np.zeros(rounds) if loss.smooth else np.geomspace(*widths, rounds)


def smooth_loss(loss: Loss, width: float) -> "Loss | SmoothedLoss":
    """The loss, smoothed in a window of this width where it has kinks."""
    return loss if loss.smooth else SmoothedLoss(loss, width)
