"""The laws of every loss."""

import numpy as np
import pytest
import scipy.special

from dkernel.errors import RecipeError
from dkernel.losses.losses import LOSSES, Logistic, Softmax, parse_loss, signs
from dkernel.model.recipe import Recipe
from tests.reference import LOSS_SLOPES, LOSS_VALUES

S = np.linspace(-6, 6, 2401)[:, None] + 1.234e-4  # no kink falls on it
APART = {name: loss for name, loss in LOSSES.items() if name != "softmax"}
TARGETS = {name: (-1.0, 1.0, 0.3, -5.5) if loss.regresses else (-1.0, 1.0) for name, loss in APART.items()}
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


@pytest.mark.parametrize(("name", "y"), [case for case in CASES if LOSSES[case[0]].smooth])
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
    assert all(parse_loss(name).name == name == parse_loss(name).text for name in LOSSES)
    with pytest.raises(RecipeError, match=r"loss='hing' is unknown\. Did you mean 'hinge'"):
        parse_loss("hing")


@pytest.mark.parametrize("text", ["huber(0.5)", "epsilon_insensitive(0.0)", "quantile(0.9)"])
def test_a_loss_with_a_number(text):
    loss = parse_loss(text.replace("(", " ( "))
    assert loss.text == text
    assert loss == parse_loss(loss.text)
    assert Recipe(loss=text).loss == text == Recipe.from_dict(Recipe(loss=text).to_dict()).loss
    assert loss != LOSSES[loss.name]
    y = np.full_like(S, 0.3)
    slope = (loss.value(y, S + 1e-6) - loss.value(y, S - 1e-6)) / 2e-6
    np.testing.assert_allclose(loss.derivative(y, S), slope, atol=1e-5)


def test_the_usual_number_is_the_plain_name():
    assert Recipe(loss="huber(1.35)") == Recipe(loss="huber")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quantile(1)", "above 0 and below 1, as in quantile(0.5)"),
        ("quantile(nan)", "above 0 and below 1"),
        ("huber(0)", "above 0, as in huber(1.35)"),
        ("huber(inf)", "above 0"),
        ("epsilon_insensitive(-1)", "of at least 0"),
        ("epsilon_insensitive(x)", "of at least 0"),
        ("hinge(2)", "hinge takes no number"),
        ("hubert(2)", "Did you mean 'huber'"),
        ("huber(2", "loss='huber(2' is unknown"),
    ],
)
def test_refuses_numbers_that_are_none(text, said):
    with pytest.raises(RecipeError) as refused:
        Recipe(loss=text)
    assert said in str(refused.value)


def test_at_its_quantile_a_sample_has_the_smallest_quantile_loss():
    y = np.random.default_rng(0).standard_exponential(2001)
    grid = np.quantile(y, np.linspace(0.5, 0.99, 50))
    total = [LOSSES["quantile"].__class__(0.9).value(y, np.full_like(y, s)).sum() for s in grid]
    assert abs(grid[int(np.argmin(total))] - np.quantile(y, 0.9)) < 0.1


def test_softmax_is_the_logarithm_of_the_probability():
    rng = np.random.default_rng(0)
    s, Y = rng.normal(size=(40, 4)) * 3, signs(rng.integers(4, size=40), 4).astype(float)
    probability = scipy.special.softmax(s, axis=1)
    value, slope = Softmax().value(Y, s), Softmax().derivative(Y, s)
    np.testing.assert_allclose(value.sum(axis=1), -np.log(probability[Y > 0]), atol=1e-12)
    for k in range(4):
        h = 1e-6 * np.eye(4)[k]
        by_differences = (Softmax().value(Y, s + h) - Softmax().value(Y, s - h)).sum(axis=1) / 2e-6
        np.testing.assert_allclose(slope[:, k], by_differences, atol=1e-7)


def test_the_curvature_of_softmax_is_a_bound_and_the_best_one():
    largest = 0.0
    for p in np.random.default_rng(0).dirichlet([0.1, 0.1, 0.1], 500):
        largest = max(largest, np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1])
    assert 0.49 < largest <= Softmax.curvature


def test_softmax_of_two_classes_is_logistic():
    assert isinstance(Softmax().of(1), Logistic)
    assert isinstance(Softmax().of(3), Softmax)
    s = np.linspace(-3, 3, 7)
    two = Softmax().value(np.array([-1.0, 1.0]), np.stack([np.zeros(7), s], axis=1)).sum(axis=1)
    np.testing.assert_allclose(two, Logistic().value(np.ones(7), s), atol=1e-12)


def test_a_perceptron_is_judged_by_mistakes():
    y, s = np.ones(3), np.array([-2.0, 0.0, 1e-9])
    assert LOSSES["perceptron"].judging_value(y, s).tolist() == [1.0, 1.0, 0.0]
    assert LOSSES["hinge"].judging_value(y, s).tolist() == LOSSES["hinge"].value(y, s).tolist()


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


@pytest.mark.parametrize("name", ["logistic", "softmax", "squared"])
def test_the_hessian_is_the_slope_of_the_derivative(name):
    loss, rng = parse_loss(name), np.random.default_rng(0)
    s, moved = rng.normal(size=(500, 100)), rng.normal(size=(500, 100))  # NumPy reuses the memory of large arrays
    y = np.where(rng.integers(0, 100, 500)[:, None] == np.arange(100), 1.0, -1.0)
    h, change = loss.hessian(y, s)
    slope = (loss.derivative(y, s + 1e-6 * moved) - loss.derivative(y, s - 1e-6 * moved)) / 2e-6
    for _ in range(2):
        np.testing.assert_allclose(change(moved), slope, atol=1e-4)
    alone = np.where(np.arange(100) == 3, moved, 0.0)
    np.testing.assert_allclose(change(alone)[:, 3], (h * moved)[:, 3], atol=1e-12)
