import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dkernel.losses.metrics import MOST_BINS, ScoreHistogram, area_under_curve, paired_difference


def histogram(scores, positive, weight, parts):
    total = None
    for part in np.array_split(np.arange(len(scores)), parts):
        one = ScoreHistogram.of(scores[part], positive[part], weight[part])
        total = one if total is None else total.merge(one)
    return total


@pytest.mark.parametrize("centre", [0.0, 1.0, -1000.0], ids=str)
def test_many_different_scores_cost_bins_and_not_the_figure(centre):
    rng = np.random.default_rng(0)
    positive = rng.random(300_000) < 0.3
    scores = (centre + 0.5 * rng.normal(size=300_000) + 0.4 * positive).astype(np.float32)
    weight = rng.uniform(0.5, 2, 300_000)
    found = histogram(scores, positive, weight, 40)
    assert len(found.bins) <= MOST_BINS
    assert area_under_curve(found) == pytest.approx(roc_auc_score(positive, scores, sample_weight=weight), abs=1e-5)


def test_few_scores_ties_and_signed_zeros_are_exact():
    rng = np.random.default_rng(1)
    scores = rng.choice(np.float32([-np.inf, -2.5, -1e-42, -0.0, 0.0, 1e-42, 3, np.inf]), 500)
    positive = rng.random(500) < 0.5
    found = area_under_curve(histogram(scores, positive, np.ones(500), 7))
    finite = np.clip(np.nan_to_num(scores, posinf=9, neginf=-9).astype(np.float64), -9, 9)
    assert found == pytest.approx(roc_auc_score(positive, finite), abs=1e-12)


def test_rows_of_one_kind_have_no_curve():
    assert area_under_curve(ScoreHistogram.of(np.float32([1, 2]), np.array([True, True]), np.ones(2))) is None


def test_any_split_is_the_same_total():
    rng = np.random.default_rng(2)
    scores, positive = rng.normal(size=4000).astype(np.float32), rng.random(4000) < 0.5
    one, other = (histogram(scores, positive, np.ones(4000), parts) for parts in (1, 13))
    np.testing.assert_array_equal(one.bins, other.bins)
    np.testing.assert_array_equal(one.weight, other.weight)


@pytest.mark.parametrize("exponent", [-900, -400, 0, 400, 900])
def test_a_paired_difference_has_the_unit_of_its_losses(exponent):
    one, other, weight = np.random.default_rng(3).random((3, 50))
    expected = np.ldexp(paired_difference(one, other, weight), exponent)
    np.testing.assert_array_equal(paired_difference(*np.ldexp([one, other], exponent), weight), expected)
