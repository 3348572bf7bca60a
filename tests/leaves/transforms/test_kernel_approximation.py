"""scikit-learn's own tests of its kernel approximations, run on our transformers; rewritten where a part is common.

Not common: the dtype of fitted attributes (ours are float64), kernels by scikit-learn's names and callables with
parameters, "precomputed", a default gamma of 1 / n_features, sparse answers, the skewed chi-squared kernel, devices.
"""

import numpy as np
import pytest
from sklearn.utils.fixes import CSR_CONTAINERS

from dkernel import (
    AdditiveChi2,
    FourierFeatures,
    Gaussian,
    KernelFeatures,
    NystromFeatures,
    Polynomial,
)
from tests.combinations import every_two

theirs = pytest.importorskip("sklearn.tests.test_kernel_approximation")
CSR = CSR_CONTAINERS[0]


class Sampler(FourierFeatures):
    """Ours in the words of RBFSampler."""

    def __init__(self, *, gamma=1.0, n_components=101, random_state=None):
        super().__init__("gaussian", gamma=gamma, n_components=n_components, random_state=random_state)

    random_weights_ = property(lambda self: self.frequencies_.T)
    random_offset_ = property(lambda self: self.map_.offsets)
    _gamma = property(lambda self: self.kernel_.gamma)


def sketch(*, gamma, degree, coef0, n_components, random_state):
    """Ours in the words of PolynomialCountSketch: (g x.z + c)^d = g^d (x.z + c / g)^d."""
    kernel = gamma**degree * Polynomial(degree=degree, c=coef0 / gamma)
    return KernelFeatures(kernel, features="tensorsketch", n_components=n_components, random_state=random_state)


def nystroem(*, gamma, n_components):
    return NystromFeatures(Gaussian(gamma=gamma), n_components=n_components)


@pytest.mark.parametrize(
    "name", ["test_rbf_sampler", "test_rbf_sampler_gamma_scale", "test_rbf_sampler_dtype_equivalence"]
)
def test_the_sampler_of_a_gaussian(name, monkeypatch):
    monkeypatch.setattr(theirs, "RBFSampler", Sampler)
    getattr(theirs, name)()


SKETCHES = [(1, 500), (2, 500), (3, 5000)]  # degree, components


@pytest.mark.parametrize(("gamma", "size", "coef0"), every_two([0.1, 1, 2.5], SKETCHES, [0, 2.5]))
def test_the_sketch_of_a_polynomial(gamma, size, coef0, monkeypatch):
    monkeypatch.setattr(theirs, "PolynomialCountSketch", sketch)
    degree, n_components = size
    theirs.test_polynomial_count_sketch(gamma, degree, coef0, n_components)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("coef0", [0, 2.5])
def test_the_sketch_of_sparse_rows(degree, coef0, monkeypatch):
    monkeypatch.setattr(theirs, "PolynomialCountSketch", sketch)
    theirs.test_polynomial_count_sketch_dense_sparse(1.0, degree, coef0, CSR)


def test_equal_landmarks(monkeypatch):
    monkeypatch.setattr(theirs, "Nystroem", nystroem)
    theirs.test_nystroem_singular_kernel()


@pytest.mark.parametrize("kind", [FourierFeatures, KernelFeatures, NystromFeatures])
def test_names_of_the_columns(kind):
    theirs.test_get_feature_names_out(kind)


def test_lists_and_sparse_rows(monkeypatch):
    chi2 = lambda: KernelFeatures(AdditiveChi2(), features="random", n_components=32)  # noqa: E731
    for name, kind in {"AdditiveChi2Sampler": chi2, "SkewedChi2Sampler": chi2, "RBFSampler": Sampler}.items():
        monkeypatch.setattr(theirs, name, kind)
    theirs.test_input_validation(CSR)


def test_the_additive_chi_squared_kernel():
    X, Y = theirs.X, theirs.Y
    exact = (2 * X[:, None] * Y[None] / (X[:, None] + Y[None])).sum(axis=2)
    features = KernelFeatures(AdditiveChi2(), features="random", n_components=250).fit(X)
    np.testing.assert_array_almost_equal(features.transform(X) @ features.transform(Y).T, exact, 1)
    np.testing.assert_array_equal(features.transform(CSR(Y)), features.transform(Y))
    with pytest.raises(ValueError, match="negative value"):
        features.transform(-Y)
