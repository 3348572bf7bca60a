"""Probabilities of margins against a direct maximization of the likelihood, and the laws that they keep."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from dkernel.losses.calibration import BENDS, ENOUGH, POWERS, Calibration
from dkernel.losses.metrics import class_of_scores


def rows(outputs, n=400, seed=0):
    """Scores near 2 P - 1 with some noise, the numbers of the classes, and weights."""
    rng = np.random.default_rng(seed)
    K = max(2, outputs)
    P = rng.dirichlet(np.full(K, 0.3), n) if outputs > 1 else rng.beta(0.3, 0.6, (n, 1)) @ np.array([[-1, 1]]) + [1, 0]
    codes = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    S = 2 * P[:, -outputs:] - 1 + 0.2 * rng.normal(size=(n, outputs))
    return S.astype(np.float32), codes, rng.uniform(0.5, 2, n)


def rows_of_rare_classes(n=1500):
    """Scores of which those of rare classes are not as small as those of frequent ones, where the row is of another."""
    rng = np.random.default_rng(1)
    codes = rng.choice(5, n, p=[0.6, 0.3, 0.08, 0.015, 0.005])
    S = rng.normal(size=(n, 5)) - [2.5, 2.0, 1.5, 1.2, 1.1]
    S[np.arange(n), codes] += 3.0
    return S, codes, np.ones(n)


CASES = {"two": rows(1), "three": rows(3), "rare": rows_of_rare_classes()}


def maximize(S, codes, weight):
    """The same by the definition: every bend and power, and for each the slope of the largest likelihood."""
    T = np.concatenate([-S, S], axis=1) if S.shape[1] == 1 else S
    T, n, K = T.astype(float), weight.sum(), max(2, S.shape[1])
    missed = 1 / (n + 2)
    Y = np.full(T.shape, missed / (K - 1))
    Y[np.arange(len(T)), codes] = 1 - missed
    counts = np.array([weight[codes == k].sum() for k in range(K)])

    def logits(T, log_slope, bend, power):
        F = np.arcsinh(bend + abs(bend) * T) if bend else T
        a = np.exp(log_slope) * ((counts.max() + 1) / (counts + 1)) ** power
        return log_softmax(-a * (F.max(axis=1, keepdims=True) - F), axis=1)

    def fit(bend, power):
        def loss(log_slope):
            return -(weight @ (Y * logits(T, log_slope, bend, power)).sum(axis=1))

        found = minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9})
        return found.fun, (found.x, bend, power)

    best = min((fit(bend, 0.0) for bend in BENDS[: None if K > 2 else BENDS.index(max(BENDS)) + 1]), key=lambda f: f[0])
    rarer = min((fit(best[1][1], power) for power in POWERS), key=lambda f: f[0])
    chosen = rarer[1] if best[0] - rarer[0] > ENOUGH else best[1]
    return np.exp(logits(T, *chosen)), chosen


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_the_maximum_of_the_smoothed_likelihood(case):
    wanted, (_, bend, power) = maximize(*case)
    found = Calibration.fit(*case)
    np.testing.assert_allclose(found(case[0]), wanted, atol=1e-6)
    assert found.bend == [bend]
    assert (np.ptp(found.slope) > 0) == (power > 0) == (case is CASES["rare"])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("outputs", [1, 3, 8])
def test_squared_hinge_scores_without_noise_give_the_law(outputs, seed):
    rng = np.random.default_rng(seed)
    K = max(2, outputs)
    P = rng.dirichlet(np.full(K, 0.5), 4000)
    codes = (P.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    found = Calibration.fit(2 * P[:, -outputs:] - 1, codes, np.ones(4000))
    assert np.abs(found(2 * P[:, -outputs:] - 1) - P).mean() < 0.02


@given(
    st.integers(1, 5).flatmap(
        lambda c: st.lists(st.lists(st.integers(-40, 40), min_size=c, max_size=c), min_size=2, max_size=12)
    ),
    st.integers(0, 2**31),
)
def test_the_label_is_most_probable_and_probabilities_rise_with_scores(scores, seed):
    S = np.array(scores) / 16
    S = S if S.shape[1] != 2 else S[:, :1]
    K, rng = max(2, S.shape[1]), np.random.default_rng(seed)
    found = Calibration.fit(S, rng.integers(0, K, len(S)), rng.uniform(0.1, 3, len(S)))
    P = found(S)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    each = np.arange(len(S))
    assert (P[each, class_of_scores(S)] == P.max(axis=1)).all()
    for k in range(S.shape[1]):
        more = S.copy()
        more[:, k] += rng.uniform(0, 2, len(S))
        column = k if S.shape[1] > 1 else 1
        assert (found(more)[:, column] >= P[:, column] - 1e-12).all()
        others = np.delete(found(more) - P, column, axis=1)
        assert (others <= 1e-12).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_copies_are_weights(outputs):
    S, codes, _ = rows(outputs)
    copies = np.random.default_rng(1).integers(0, 4, len(S))
    whole = Calibration.fit(S, codes, copies.astype(float))
    repeated = Calibration.fit(np.repeat(S, copies, axis=0), np.repeat(codes, copies), np.ones(copies.sum()))
    np.testing.assert_allclose(whole(S), repeated(S), atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_names_of_classes_do_not_count(outputs):
    S, codes, weight = rows(outputs)
    order = np.roll(np.arange(max(2, outputs)), 1)  # class k is now called order[k]
    again = Calibration.fit(-S if outputs == 1 else S[:, np.argsort(order)], order[codes], weight)
    turned = again(-S if outputs == 1 else S[:, np.argsort(order)])[:, order]
    np.testing.assert_allclose(turned, Calibration.fit(S, codes, weight)(S), atol=1e-9)


@pytest.mark.parametrize(
    ("scores", "codes"),
    [
        ([0.3], [1]),
        ([0.3, 0.3, 0.3], [1, 0, 1]),
        ([0.0, 0.0], [1, 0]),
        ([-1e6, -3, 3, 1e6], [0, 0, 1, 1]),
        ([1, 2, 3], [1, 1, 1]),
        ([3, 2, 1], [0, 0, 1]),
        ([-1e30, 1e30], [0, 1]),
    ],
    ids=["one row", "one score", "zeros", "no error", "one class", "mostly wrong", "huge"],
)
def test_few_and_odd_rows_give_probabilities(scores, codes):
    S = np.array(scores, np.float32)[:, None]
    found = Calibration.fit(S, np.array(codes), np.ones(len(S)))
    P = found(np.array([[-1e8], [0.0], [0.3], [1e8]], np.float32))
    assert np.isfinite(P).all()
    assert ((P >= 0) & (P <= 1)).all()
    assert found.fits(1)
    again = Calibration.build(found.arrays())
    np.testing.assert_array_equal(again(S), found(S))


def test_rows_without_an_error_say_no_more_than_they_can():
    S = np.repeat([[1.0], [-1.0]], 50, axis=0)
    P = Calibration.fit(S, np.repeat([1, 0], 50), np.ones(100))(S)
    np.testing.assert_allclose(P.max(axis=1), 1 - 1 / 102)


def test_what_is_no_calibration_is_told_from_one():
    one = np.ones(3)
    assert Calibration(one, np.zeros(1)).fits(3)
    assert Calibration(one[:2], -one[:1]).fits(1)
    for bad in [
        Calibration(one[:2], np.zeros(1)),
        Calibration(one, np.zeros(2)),
        Calibration(one * [1, 0, 1], np.zeros(1)),
        Calibration(one.astype(np.float32), np.zeros(1)),
        Calibration(one, np.zeros(1, np.int64)),
    ]:
        assert not bad.fits(3)
