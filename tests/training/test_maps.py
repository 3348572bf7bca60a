"""Fits on maps other than Nystrom's: they learn, their choice is recorded, and the file scores the same."""

import numpy as np
import pytest

from dkernel import KernelClassifier, load, save
from dkernel.errors import UnsupportedError


def ring(n, p=4, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, p)).astype(np.float32)
    return X, (X**2).sum(axis=1) > p


@pytest.mark.parametrize(
    ("kernel", "features", "n_components", "words"),
    [
        ("Gaussian(gamma=0.2) + 0.5 * Polynomial(degree=2)", "random", 128, "stacked of fourier (sobol), monomials"),
        ("Polynomial(degree=2)", "exact", 128, "monomials"),
        ("Polynomial(degree=2)", "maclaurin", 128, "maclaurin"),
        ("Polynomial(degree=2)", "tensorsketch", 128, "tensorsketch of monomials"),
        ("ArcCosine(order=1)", "random", 256, "relu"),
    ],
)
def test_a_fit(kernel, features, n_components, words, tmp_path):
    X, y = ring(4000)
    machine = KernelClassifier(kernel, features=features, n_components=n_components, alpha=1e-4).fit(X, y)
    X_test, y_test = ring(1000, seed=1)
    assert machine.score(X_test, y_test) > 0.9
    assert machine.model_.facts["chosen"]["features"] == words
    assert machine.model_.recipe.features == features
    save(machine, tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors").model_
    np.testing.assert_array_equal(again.scores(X_test[:50])[:, 0], machine.decision_function(X_test[:50]))


@pytest.mark.parametrize(("most", "features", "words"), [(128, "nystrom", None), (127, "random", "fourier (sobol)")])
def test_auto_is_recorded(most, features, words, monkeypatch, tmp_path):
    """Up to so many columns landmarks, above them the map that suits the kernel; the file says which."""
    monkeypatch.setattr("dkernel.features.choose.MOST_LANDMARKS", most)
    machine = KernelClassifier("gaussian", gamma=0.2, n_components=128, alpha=1e-4).fit(*ring(3000))
    save(machine, tmp_path / "m.safetensors")
    model = load(tmp_path / "m.safetensors").model_
    assert (model.recipe.features, model.facts.get("chosen", {}).get("features")) == (features, words)
    assert model.map.kind == ("fourier" if words else "nystrom")


def test_a_kernel_without_the_map_is_refused_before_the_data_are_read():
    X, y = ring(300)
    with pytest.raises(UnsupportedError, match="features='nystrom'"):
        KernelClassifier("Polynomial(degree=2)", features="fourier", n_components=32).fit(X, y)
