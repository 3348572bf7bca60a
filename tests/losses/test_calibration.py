"""Curves of probabilities against scikit-learn's isotonic regression and a direct maximization of the likelihood."""

import numpy as np
import pytest
import scipy.optimize
from sklearn.isotonic import IsotonicRegression

from dkernel.losses.calibration import CALIBRATIONS, Isotonic, Platt

KINDS = sorted(CALIBRATIONS)


def noisy(n=400, outputs=1, seed=0):
    """Scores, and targets that are the likelier the higher the score."""
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(n, outputs)) * 3 + 1
    Y = np.where(rng.random((n, outputs)) < 1 / (1 + np.exp(-0.7 * S + 0.4)), 1.0, -1.0)
    return S.astype(np.float32), Y.astype(np.float32), rng.uniform(0.5, 2, n)


def test_platt_is_the_maximum_of_the_smoothed_likelihood():
    S, Y, weight = noisy()
    s, y = S[:, 0].astype(float), Y[:, 0]
    ahead, behind = weight[y > 0].sum(), weight[y < 0].sum()
    target = np.where(y > 0, (ahead + 1) / (ahead + 2), 1 / (behind + 2))

    def loss(v):
        return weight @ (np.logaddexp(0, v[0] * s + v[1]) - target * (v[0] * s + v[1]))

    wanted = scipy.optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x
    found = Platt.fit(S, Y, weight)
    np.testing.assert_allclose([found.slope[0], found.offset[0]], wanted, rtol=1e-5)


def test_isotonic_is_scikit_learns_but_for_the_ends():
    S, Y, weight = noisy()
    exact = IsotonicRegression(out_of_bounds="clip").fit(S[:, 0].astype(float), Y[:, 0] > 0, weight)
    new = np.linspace(-15, 15, 500)
    least = 1 / (weight.sum() + 2)
    wanted = exact.predict(new)
    found = Isotonic.fit(S, Y, weight)(new[:, None])[:, 0]
    inner = (wanted > 0.1) & (wanted < 0.9)  # straight lines lead to the ends, which differ
    assert inner.sum() > 50
    np.testing.assert_allclose(found[inner], wanted[inner], atol=1e-12)
    np.testing.assert_allclose(found, wanted, atol=least)
    assert (found.min(), found.max()) == (pytest.approx(least), pytest.approx(1 - least))


@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_weights_and_every_column_is_alone(kind):
    S, Y, _ = noisy(outputs=3)
    copies = np.random.default_rng(1).integers(0, 4, len(S))
    made = CALIBRATIONS[kind]
    whole = made.fit(S, Y, copies.astype(float))
    repeated = made.fit(np.repeat(S, copies, axis=0), np.repeat(Y, copies, axis=0), np.ones(copies.sum()))
    np.testing.assert_allclose(whole(S), repeated(S), atol=1e-7)
    for j in range(3):
        one = made.fit(S[:, j : j + 1], Y[:, j : j + 1], copies.astype(float))
        np.testing.assert_array_equal(one(S[:, j : j + 1])[:, 0], whole(S)[:, j])
    assert (np.diff(whole(np.sort(S, axis=0)), axis=0) >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scores", "targets"),
    [
        ([0.3], [1]),
        ([0.3, 0.3, 0.3], [1, -1, 1]),
        ([-1e6, -3, 3, 1e6], [-1, -1, 1, 1]),
        ([1, 2, 3], [1, 1, 1]),
        ([3, 2, 1], [-1, -1, 1]),
    ],
    ids=["one row", "one score", "no error", "one class", "mostly wrong"],
)
def test_few_and_odd_rows_give_probabilities(kind, scores, targets):
    S, Y = np.array(scores, np.float32)[:, None], np.array(targets, np.float32)[:, None]
    curve = CALIBRATIONS[kind].fit(S, Y, np.ones(len(S)))
    P = curve(np.array([[-1e8], [0.0], [0.3], [1e8]], np.float32))
    assert np.isfinite(P).all()
    assert ((P >= 0) & (P <= 1)).all()
    assert curve.fits(1)
    again = type(curve).build(curve.arrays())
    np.testing.assert_array_equal(again(S), curve(S))


def test_what_is_no_curve_is_told_from_one():
    x, y, ends = np.array([0.0, 1.0, 0.5]), np.array([0.2, 0.3, 0.1]), np.array([2, 3])
    assert Isotonic(x, y, ends).fits(2)
    for bad in [
        Isotonic(np.array([1.0, 0.0, 0.5]), y, ends),
        Isotonic(x, np.array([0.3, 0.2, 0.1]), ends),
        Isotonic(x, y, np.array([3, 3])),
        Isotonic(x, y, np.array([2, 4])),
        Isotonic(x, y * 10, ends),
        Isotonic(x, y, ends.astype(np.int32)),
        Isotonic(x.astype(np.float32), y, ends),
    ]:
        assert not bad.fits(2)
    assert not Isotonic(x, y, ends).fits(3)
    assert not Platt(np.ones(2), np.ones(1)).fits(2)
