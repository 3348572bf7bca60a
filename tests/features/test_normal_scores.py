"""Normal scores: ranks of a sample as quantiles of a normal distribution, whatever the columns are."""

import numpy as np
import pytest
from sklearn.preprocessing import QuantileTransformer

from dkernel.features import Scaling
from dkernel.features.normal_scores import FEW_VALUES, MOST_KNOTS, NormalScores

rng = np.random.default_rng(0)
X = np.column_stack([np.exp(3 * rng.normal(size=5000)), rng.integers(0, 40, 5000), rng.normal(size=5000) ** 3])
LEVELS = rng.integers(0, FEW_VALUES, (5000, 1)).astype(float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_they_are_those_of_scikit_learn_beside_the_ends(dtype):
    block = X.astype(dtype)
    wanted = QuantileTransformer(output_distribution="normal", n_quantiles=5000, subsample=None).fit_transform(block)
    found = NormalScores.of(block).apply(block)
    assert found.dtype == dtype
    inside = np.abs(wanted) < 2
    assert np.abs(found - wanted)[inside].max() < 0.02
    assert (np.diff(found[np.argsort(block[:, 0]), 0]) >= 0).all()


def test_a_row_has_the_same_scores_alone_and_in_any_block():
    curves = NormalScores.of(X)
    whole = curves.apply(X)
    for rows in (slice(7, 8), slice(0, 200), slice(0, 3000)):
        np.testing.assert_array_equal(curves.apply(np.asfortranarray(X[rows])), whole[rows])


def test_rows_beyond_the_sample_have_the_scores_of_its_ends():
    ends = NormalScores.of(X).apply(np.array([X.min(axis=0), X.max(axis=0)]))
    np.testing.assert_array_equal(NormalScores.of(X).apply(np.array([[-1e30] * 3, [1e30] * 3])), ends)


def test_few_values_and_columns_that_are_kept_stay_as_they_are():
    curves = NormalScores.of(np.hstack([X, LEVELS]), unchanged=np.array([False, True, False, False]))
    assert np.diff(curves.ends, prepend=0).tolist() == [MOST_KNOTS, 0, MOST_KNOTS, 0]
    np.testing.assert_array_equal(curves.apply(np.hstack([X, LEVELS]))[:, [1, 3]], np.hstack([X[:, 1:2], LEVELS]))


def test_a_row_of_weight_k_is_k_rows():
    weight = rng.integers(1, 4, len(X)).astype(float)
    found = NormalScores.of(X, weight), NormalScores.of(np.repeat(X, weight.astype(int), axis=0))
    for name, array in found[0].arrays().items():
        np.testing.assert_allclose(array, found[1].arrays()[name], err_msg=name)


def test_ranks_alone_count():
    few = X[:200]
    risen = np.exp(np.cbrt(few))
    np.testing.assert_array_equal(NormalScores.of(few).apply(few), NormalScores.of(risen).apply(risen))


def test_the_scaling_has_columns_of_variance_1_and_reads_back():
    block = np.hstack([X, LEVELS]).astype(np.float32)
    scaling = Scaling.of_quantiles(block)
    Y = scaling.apply(block).astype(float)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(Y.var(axis=0), 1, rtol=1e-4)
    again = Scaling.build(scaling.spec(), scaling.arrays())
    np.testing.assert_array_equal(again.apply(block), scaling.apply(block))


@pytest.mark.parametrize(
    "change",
    [
        {"knots": np.array([1.0, 1.0])},
        {"values": np.array([0.0])},
        {"values": np.array([1.0, 0.0])},
        {"values": np.array([0, 1])},
        {"ends": np.array([2, 2])},
        {"ends": np.array([3])},
        {"ends": np.array([2.0])},
    ],
)
def test_curves_that_do_not_rise_or_fit_are_none(change):
    arrays = {"knots": np.array([0.0, 1.0]), "values": np.array([-1.0, 1.0]), "ends": np.array([2])}
    assert NormalScores.build(arrays).fits(1)
    assert not NormalScores.build(arrays | change).fits(1)
