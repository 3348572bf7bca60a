"""The exact kernel perceptron against the loop of the texts, and what is proved of it."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from dkernel import KernelPerceptron
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import Gaussian
from tests.estimators.data import ball
from tests.reference import perceptron
from tests.streaming.sources import rings


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([KernelPerceptron(max_iter=20)])
def test_what_scikit_learn_expects_of_an_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("passes", [1, 3])
def test_it_is_the_loop_of_the_texts(passes, bias):
    X, y = rings(120)
    machine = KernelPerceptron(gamma=0.2, max_iter=passes, fit_intercept=bias).fit(X, y)
    alpha, b, mistakes = perceptron(Gaussian(gamma=0.2)(X.astype(float), X.astype(float)), 2 * y - 1, passes, bias)
    found = np.zeros(len(X))
    found[machine.support_] = machine.dual_coef_[0]
    np.testing.assert_array_equal(found, alpha)
    assert machine.mistakes_.tolist() == [mistakes]
    assert machine.intercept_.tolist() == [b]
    np.testing.assert_array_equal(np.abs(machine.dual_coef_).sum(), mistakes)


def test_what_can_be_separated_is_and_in_no_more_mistakes_than_proved():
    X, y = rings(200)  # a Gaussian separates any labels of rows that differ
    machine = KernelPerceptron(gamma=0.5, max_iter=1000).fit(X, y)
    assert machine.converged_
    assert np.array_equal(machine.predict(X), y)
    assert machine.n_iter_ < 1000
    K, Y = Gaussian(gamma=0.5)(X.astype(float), X.astype(float)), 2.0 * y - 1
    # The intercept is one more feature, 1: w with scores equal to the labels has margin 1 and the squared norm
    # Y^T (K + 1)^{-1} Y, and k(x, x) + 1 = 2.
    assert machine.mistakes_[0] <= 2 * Y @ np.linalg.solve(K + 1, Y)


def test_more_classes_are_each_against_the_rest():
    X, y = rings(150, classes=3)
    names = np.array(["in", "mid", "out"])[y]
    machine = KernelPerceptron(gamma=0.5, max_iter=500).fit(X, names)
    assert machine.dual_coef_.shape == (3, len(machine.support_))
    assert machine.decision_function(X).shape == (150, 3)
    assert machine.score(X, names) == 1.0
    for k in range(3):
        alone = KernelPerceptron(gamma=0.5, max_iter=machine.n_iter_).fit(X, y == k)
        scores = alone.decision_function(X[:20])
        np.testing.assert_allclose(machine.decision_function(X[:20])[:, k], scores, atol=1e-10)


def test_refusals():
    X, y = rings(20)
    with pytest.raises(RecipeError, match="max_iter=0"):
        KernelPerceptron(max_iter=0).fit(X, y)
    with pytest.raises(RecipeError, match="fit_intercept='yes'"):
        KernelPerceptron(fit_intercept="yes").fit(X, y)
    with pytest.raises(DataError, match="1 class"):
        KernelPerceptron().fit(X, np.zeros(20))
    with pytest.raises(DataError, match="Use KernelClassifier"):
        KernelPerceptron().fit(np.zeros((20_001, 1)), np.arange(20_001) % 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_of_dask_are_answered_lazily_in_their_chunks(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.array(["a", "b", "c"])[np.digitize((X**2).sum(axis=1), [2.0, 4.0][: classes - 1])]
    machine = KernelPerceptron(gamma=0.4).fit(X[:100], y[:100])

    def refuse(_):
        raise AssertionError("this was computed")

    unread = da.from_array(X, chunks=(60, 2)).map_blocks(refuse, dtype=float, meta=np.empty((0, 0)))
    assert machine.predict(unread).chunks == ((60, 60, 60, 20),)
    for lazy in (da.from_array(X, chunks=(60, 2)), dd.from_pandas(pd.DataFrame(X), npartitions=3)):
        labels, scores = (getattr(machine, name)(lazy) for name in ("predict", "decision_function"))
        assert isinstance(labels, da.Array if isinstance(lazy, da.Array) else dd.Series)
        np.testing.assert_array_equal(labels.compute(), machine.predict(X))
        np.testing.assert_allclose(scores.compute(), machine.decision_function(X), atol=1e-12)


def test_wide_sparse_rows_stay_sparse():
    X, y = ball(120)
    wide = scipy.sparse.csr_array(np.pad(X, ((0, 0), (0, 6000))))
    machine, twin = KernelPerceptron(gamma=0.4).fit(wide, y), KernelPerceptron(gamma=0.4).fit(X, y)
    assert scipy.sparse.issparse(machine.support_vectors_)
    np.testing.assert_allclose(machine.decision_function(wide), twin.decision_function(X), atol=1e-9)
    chunks = da.from_array(wide.toarray(), chunks=(50, -1)).map_blocks(scipy.sparse.csr_array)
    np.testing.assert_array_equal(machine.predict(chunks), twin.predict(X))
