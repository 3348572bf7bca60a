"""Every kernel is a kernel for scikit-learn's exact machines, and lives in a model file."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from dkernel.features import NystromMap, Scaling
from dkernel.model import model_file
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from tests.kernels.catalogue import CATALOGUE

each = pytest.mark.parametrize("member", CATALOGUE, ids=repr)
ROWS = np.random.default_rng(0).standard_normal((30, 5))


@each
def test_support_vector_machine(member):
    X = member.data(ROWS)
    y = X[:, 0] > np.median(X[:, 0])
    own = clone(SVC(kernel=member.kernel, C=2.0)).fit(X[:20], y[:20])
    given = SVC(kernel="precomputed", C=2.0).fit(member.kernel(X[:20]), y[:20])
    np.testing.assert_allclose(
        own.decision_function(X[20:]), given.decision_function(member.kernel(X[20:], X[:20])), atol=1e-6
    )


@each
def test_kernel_ridge(member):
    X = member.data(ROWS)
    y = np.sin(X[:, 0])
    own = KernelRidge(kernel=member.kernel, alpha=0.5).fit(X[:20], y[:20])
    given = KernelRidge(kernel="precomputed", alpha=0.5).fit(member.kernel(X[:20]), y[:20])
    np.testing.assert_allclose(own.predict(X[20:]), given.predict(member.kernel(X[20:], X[:20])), rtol=1e-6, atol=1e-8)


@each
def test_model_file(member, tmp_path):
    X = member.data(ROWS).astype(np.float32)
    p = X.shape[1]
    model = Model(
        recipe=Recipe(solver="psgd", kernel=repr(member.kernel), task="regress", loss="squared"),
        scaling=Scaling("none", np.zeros(p), np.ones(p)),
        map=NystromMap(member.kernel, X[:10]),
        coef=np.linspace(-1, 1, 10)[:, None],
        intercept=np.zeros(1),
        classes=None,
        columns=tuple(map(str, range(p))),
        label="y",
    )
    model_file.save(model, tmp_path / "m.safetensors")
    again = model_file.load_model(tmp_path / "m.safetensors")
    assert again.map.kernel == member.kernel
    assert again.recipe == model.recipe
    assert again.scores(X).tobytes() == model.scores(X).tobytes()
