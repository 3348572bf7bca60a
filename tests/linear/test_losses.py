"""The laws of every loss."""

import numpy as np
import pytest

from dkernel.errors import RecipeError
from dkernel.linear.losses import LOSSES, loss_named, signs
from tests.reference import LOSS_SLOPES, LOSS_VALUES

S = np.linspace(-6, 6, 2401)[:, None] + 1.234e-4  # no kink falls on it
TARGETS = {name: (-1.0, 1.0, 0.3, -7.5) if loss.regresses else (-1.0, 1.0) for name, loss in LOSSES.items()}
CASES = [(name, y) for name, targets in TARGETS.items() for y in targets]


@pytest.mark.parametrize(("name", "y"), CASES)
def test_value_and_derivative_are_the_definition(name, y):
    y = np.full_like(S, y)
    np.testing.assert_allclose(LOSSES[name].value(y, S), LOSS_VALUES[name](y, S), atol=1e-12)
    np.testing.assert_allclose(LOSSES[name].derivative(y, S), LOSS_SLOPES[name](y, S), atol=1e-12)


@pytest.mark.parametrize(("name", "y"), CASES)
def test_the_derivative_is_the_slope_of_the_value(name, y):
    y, h = np.full_like(S, y), 1e-6
    slope = (LOSSES[name].value(y, S + h) - LOSSES[name].value(y, S - h)) / (2 * h)
    np.testing.assert_allclose(LOSSES[name].derivative(y, S), slope, atol=1e-5)


@pytest.mark.parametrize(("name", "y"), CASES)
def test_convex_and_never_negative(name, y):
    y = np.full_like(S, y)
    assert LOSSES[name].value(y, S).min() >= 0
    assert np.diff(LOSSES[name].derivative(y, S), axis=0).min() >= -1e-12


@pytest.mark.parametrize(("name", "y"), [case for case in CASES if case[0] != "hinge"])
def test_the_curvature_is_a_bound_and_the_best_one(name, y):
    steps = np.diff(LOSSES[name].derivative(np.full_like(S, y), S), axis=0) / np.diff(S, axis=0)
    assert steps.max() <= LOSSES[name].curvature * (1 + 1e-6)
    assert steps.max() >= LOSSES[name].curvature * (1 - 1e-4)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_and_shape_stay(name, dtype):
    y, s = np.ones((5, 3), dtype), np.linspace(-1, 3, 15, dtype=dtype).reshape(5, 3)
    for out in (LOSSES[name].value(y, s), LOSSES[name].derivative(y, s)):
        assert out.dtype == dtype
        assert out.shape == (5, 3)


@pytest.mark.parametrize("name", LOSSES)
def test_scores_far_out_are_no_trouble(name):
    s = np.array([-3e4, 3e4], np.float32)
    for y in (np.full(2, -1, np.float32), np.full(2, 1, np.float32)):
        assert np.isfinite(LOSSES[name].value(y, s)).all()
        assert np.isfinite(LOSSES[name].derivative(y, s)).all()


def test_a_row_at_the_margin_is_not_active():
    one = np.ones(1)
    assert LOSSES["hinge"].derivative(one, one) == 0
    assert LOSSES["squared_hinge"].derivative(one, one) == 0


def test_losses_by_name():
    assert all(loss_named(name).name == name for name in LOSSES)
    with pytest.raises(RecipeError, match=r"loss='hing' is unknown\. Did you mean 'hinge'"):
        loss_named("hing")


@pytest.mark.parametrize("n", [2, 3, 26])
def test_signs(n):
    codes = np.random.default_rng(0).integers(n, size=100)
    Y = signs(codes, n)
    assert Y.dtype == np.float32
    assert Y.shape == (100, 1 if n == 2 else n)
    if n == 2:
        np.testing.assert_array_equal(Y[:, 0], np.where(codes == 1, 1, -1))
    else:
        np.testing.assert_array_equal(Y.sum(axis=1), 2 - n)
        np.testing.assert_array_equal(Y.argmax(axis=1), codes)
