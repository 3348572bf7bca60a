"""Every kernel is a kernel for scikit-learn's exact machines."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from tests.kernels.catalogue import CATALOGUE

ROWS = np.random.default_rng(0).standard_normal((30, 5))


@pytest.mark.parametrize(
    ("machine", "answer"), [(SVC(C=2.0), "decision_function"), (KernelRidge(alpha=0.5), "predict")]
)
@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_a_machine_takes_it_as_its_gram_matrix(member, machine, answer):
    X = member.data(ROWS)
    y = (X[:, 0] > np.median(X[:, 0])) * 1.0
    own = clone(machine).set_params(kernel=member.kernel).fit(X[:20], y[:20])
    given = clone(machine).set_params(kernel="precomputed").fit(member.kernel(X[:20]), y[:20])
    expected = getattr(given, answer)(member.kernel(X[20:], X[:20]))
    np.testing.assert_allclose(getattr(own, answer)(X[20:]), expected, rtol=1e-6, atol=1e-6)
