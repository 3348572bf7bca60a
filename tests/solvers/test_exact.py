"""What may not move the optimum on all rows: their order, the names of the classes, the unit of the target."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dkernel import KernelClassifier, KernelRegressor
from tests.streaming.sources import rings

X, CODES = rings(300, p=4)
NUMBERS = (X[:, 0] ** 2 + X[:, 1]).astype(float)
NAMES = {
    "text": np.array(["inner", "rim"])[CODES],
    "other numbers": CODES + 5,
    "floats": CODES.astype(float),
    "bool": CODES > 0,
}


@pytest.fixture(scope="module")
def classifier():
    return KernelClassifier().fit(X, CODES)


@pytest.fixture(scope="module")
def regressor():
    return KernelRegressor().fit(X, NUMBERS)


@pytest.mark.parametrize("labels", NAMES.values(), ids=NAMES)
def test_names_of_classes(classifier, labels):
    other = KernelClassifier().fit(X, labels)
    assert np.array_equal(other.decision_function(X), classifier.decision_function(X))


@pytest.mark.parametrize(("factor", "offset"), [(10.0, 0.0), (1e-3, 0.0), (1.0, 5.0)])
def test_unit_of_the_target(regressor, factor, offset):
    other = KernelRegressor().fit(X, NUMBERS * factor + offset)
    np.testing.assert_allclose((other.predict(X) - offset) / factor, regressor.predict(X), rtol=0, atol=1e-6)


def test_order_of_the_rows(classifier, regressor):
    order = np.random.default_rng(0).permutation(len(X))
    for machine, y in ((classifier, CODES), (regressor, NUMBERS)):
        other = type(machine)().fit(X[order], y[order])
        assert np.array_equal(other.predict(X), machine.predict(X))


def test_a_kernel_that_no_alpha_of_the_sample_suits():
    machine = KernelRegressor("gaussian", gamma=1e300, local="none").fit(X, NUMBERS)
    np.testing.assert_allclose(machine.predict(X + 1), NUMBERS.mean(), rtol=0.1)


def test_a_tiny_alpha_of_a_robust_loss():
    machine = KernelRegressor("gaussian", gamma=1.0, loss="huber", alpha=0.0, local="none").fit(X, NUMBERS)
    np.testing.assert_allclose(machine.predict(X), NUMBERS, atol=1e-5)


@pytest.mark.parametrize("loss", ["quantile(0.5)", "epsilon_insensitive(0)"])
def test_an_alpha_of_0_of_a_loss_with_kinks_goes_through_the_numbers(loss):
    machine = KernelRegressor("gaussian", gamma=1.0, loss=loss, alpha=0.0, local="none").fit(X, NUMBERS)
    np.testing.assert_allclose(machine.predict(X), NUMBERS, atol=1e-3)


def test_an_alpha_that_leaves_too_few_digits_is_told():
    machine = KernelRegressor("gaussian", gamma=1.0, loss="huber(0.001)", alpha=0.0, local="none")
    with pytest.warns(ConvergenceWarning, match="was not fully converged in .*Give it a larger alpha"):
        machine.fit(X, NUMBERS)
    assert "too few digits" in machine.chosen_["solver"]
