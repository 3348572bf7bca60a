"""Conformity scores and widths: against the definition, and against the law of coverage."""

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.model.conformal import MOST_SCORES, Conformal
from dkernel.model.local_width import fit_width


def table(scores, weight=None, stratum=None, groups=None):
    n = len(scores)
    ones, zeros = np.ones(n), np.zeros(n, int)
    return Conformal.of(scores, ones if weight is None else weight, zeros if stratum is None else stratum, groups)


@pytest.mark.parametrize("n", [1, 9, 10, 19, 200, 1000])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_quantile_is_that_of_the_definition(n, coverage):
    scores = np.random.default_rng(n).exponential(size=n)
    rank = int(np.ceil(coverage * (n + 1) - 1e-9))
    expected = np.sort(scores)[rank - 1] if rank <= n else np.inf
    assert table(scores).quantile(coverage) == expected


def test_the_mean_coverage_is_that_of_its_law():
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        q = table(rng.normal(size=99) ** 2).quantile(0.9)
        found.append(np.mean(rng.normal(size=500) ** 2 <= q))
    # Beta(90, 10): mean 0.9, deviation 0.03; the mean of 400 draws has a twentieth of that.
    assert np.mean(found) == pytest.approx(0.9, abs=0.005)
    assert np.std(found) == pytest.approx(0.033, abs=0.006)


def test_many_scores_are_few_and_none_is_rounded_down():
    scores = np.random.default_rng(0).exponential(size=16_384)
    short = table(scores)
    assert len(short.scores) <= MOST_SCORES
    assert short.rows == 16_384
    for coverage in (0.5, 0.9, 0.99):
        share = np.mean(scores <= short.quantile(coverage))
        assert coverage <= share <= coverage + 1.5 / MOST_SCORES


def test_a_row_of_weight_three_is_like_three_rows():
    rng = np.random.default_rng(1)
    scores, weight = rng.exponential(size=300), rng.integers(1, 4, size=300)
    apart = table(np.repeat(scores, weight))
    assert table(scores, weight.astype(float)).quantile(0.9) == pytest.approx(apart.quantile(0.9), rel=0.1)


def test_each_class_and_each_group_has_a_quantile_of_its_own():
    rng = np.random.default_rng(2)
    stratum, groups = rng.integers(0, 3, size=900), rng.choice(["a", "b"], size=900)
    scores = rng.exponential(size=900) * (1 + stratum) * np.where(groups == "a", 1.0, 5.0)
    found = table(scores, stratum=stratum, groups=groups)
    assert found.groups == ("a", "b")
    some = (stratum == 2) & (groups == "b")
    assert found.quantile(0.9, 2, 1) == table(scores[some]).quantile(0.9)
    limits = found.limits(0.9, 3, by_class=True, groups=["b", "a"])
    assert limits.shape == (2, 3)
    assert limits[0, 2] == found.quantile(0.9, 2, 1)
    assert (limits[0] > limits[1]).all()


def test_joined_tables_are_the_table_of_all_rows():
    scores = np.random.default_rng(3).exponential(size=500)
    both = table(scores[:300]).join(table(scores[300:]))
    assert both.quantile(0.9) == table(scores).quantile(0.9)
    assert both.rows == 500


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda t: t.radii(1.0, 1), RecipeError, "a share above 0 and below 1"),
        (lambda t: t.radii("0.9", 1), RecipeError, "coverage='0.9'"),
        (lambda t: t.radii(0.99, 1), DataError, "needs 99 rows"),
        (lambda t: t.radii(0.9, 1, ["a"]), UnsupportedError, "have no groups"),
    ],
)
def test_refusals(ask, error, words):
    with pytest.raises(error, match=words):
        ask(table(np.arange(50.0)))


def test_a_width_follows_the_errors_and_is_the_same_row_by_row():
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, size=(3000, 2)).astype(np.float32)
    S = rng.normal(size=(3000, 1))
    deviation = np.exp(1.5 * Z[:, :1])
    width, own = fit_width(Z, S, np.abs(rng.normal(size=(3000, 1))) * deviation, np.ones(3000))
    found = width(Z, S)
    assert np.corrcoef(np.log(found[:, 0]), 1.5 * Z[:, 0])[0, 1] > 0.95
    assert np.corrcoef(np.log(own[:, 0]), 1.5 * Z[:, 0])[0, 1] > 0.95
    np.testing.assert_allclose(width(Z[:1], S[:1]), found[:1], rtol=1e-6)


def test_errors_of_one_size_have_no_width():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1000, 4)).astype(np.float32)
    width, own = fit_width(Z, rng.normal(size=(1000, 1)), np.abs(rng.normal(size=(1000, 1))), np.ones(1000))
    assert width is None
    assert (own == 1).all()


def test_the_error_of_a_price_may_grow_with_the_price():
    rng = np.random.default_rng(0)
    S = rng.uniform(1, 100, size=(2000, 1))
    width, _ = fit_width(None, S, np.abs(rng.normal(size=(2000, 1))) * S, np.ones(2000))
    cheap, dear = width(None, np.array([[5.0], [90.0]]))[:, 0]
    assert 5 < dear / cheap < 40
