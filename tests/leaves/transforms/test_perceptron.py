"""The exact kernel perceptron against the loop of the texts, and what is proved of it."""

from decimal import Decimal

import dask.array as da
import numpy as np
import pytest
import scipy.sparse

from dkernel import KernelClassifier, KernelPerceptron
from dkernel.errors import DataError
from dkernel.kernels import Gaussian
from tests.estimators.data import ball
from tests.reference import perceptron
from tests.streaming.sources import rings


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
    X, _ = rings(20)
    with pytest.raises(DataError, match="1 class"):
        KernelPerceptron().fit(X, np.zeros(20))
    with pytest.raises(DataError, match="Use KernelClassifier"):
        KernelPerceptron().fit(np.zeros((20_001, 1)), np.arange(20_001) % 2)


def test_wide_sparse_rows_stay_sparse():
    X, y = ball(120)
    wide = scipy.sparse.csr_array(np.pad(X, ((0, 0), (0, 6000))))
    machine, twin = KernelPerceptron(gamma=0.4).fit(wide, y), KernelPerceptron(gamma=0.4).fit(X, y)
    assert scipy.sparse.issparse(machine.support_vectors_)
    np.testing.assert_allclose(machine.decision_function(wide), twin.decision_function(X), atol=1e-9)
    chunks = da.from_array(wide.toarray(), chunks=(50, -1)).map_blocks(scipy.sparse.csr_array)
    np.testing.assert_array_equal(machine.predict(chunks), twin.predict(X))


@pytest.mark.parametrize(
    "labels", [[0, 1], [False, True], [0.0, 1.0], ["a", "b"], [b"a", b"b"], list(map(Decimal, "01"))]
)
@pytest.mark.parametrize("dtype", [None, object])
def test_classes_are_those_of_a_classifier(labels, dtype):
    X, y = rings(60)
    y = np.array(labels, dtype)[y.astype(int)]
    found = [machine(gamma=0.2).fit(X, y).classes_ for machine in (KernelPerceptron, KernelClassifier)]
    assert found[0].dtype == found[1].dtype
    assert found[0].tolist() == found[1].tolist()
