"""A loss with kinks over a window: its derivative, the bound of its curvature, and its distance from the loss."""

import numpy as np
import pytest

from dkernel.losses.losses import LOSSES
from dkernel.losses.smoothing import SmoothedLoss

KINKED = [loss for loss in LOSSES.values() if not loss.smooth]


@pytest.mark.parametrize("width", [2.0, 0.1])
@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
def test_the_derivative_is_that_of_the_mean_over_the_window(loss, width):
    smooth = SmoothedLoss(loss, width)
    s, y = np.linspace(-3, 3, 601), np.ones(601)
    window = np.linspace(-width / 2, width / 2, 2001)
    mean = np.array([np.trapezoid(loss.value(1.0, t + window), window) / width for t in s])
    np.testing.assert_allclose(smooth.derivative(y, s)[1:-1], np.gradient(mean, s)[1:-1], atol=0.02 / width)
    slopes = np.diff(smooth.derivative(y, s)) / np.diff(s)
    assert slopes.min() >= -1e-9
    assert slopes.max() <= smooth.curvature + 1e-9
    above = mean - loss.value(y, s)
    assert above.min() >= -1e-6
    assert above.max() <= loss.jump * width / 8 + 1e-6


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
def test_float32_scores_have_float32_derivatives(loss):
    s = np.linspace(-1, 1, 5, dtype=np.float32)
    assert SmoothedLoss(loss, 0.5).derivative(np.ones_like(s), s).dtype == np.float32
