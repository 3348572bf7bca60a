"""Words for a gamma inside a selection of columns stand for the numbers of these columns."""

import numpy as np
import pytest

from dkernel import Gaussian, KernelClassifier, Laplacian, NystromFeatures
from dkernel.kernels import parse
from dkernel.kernels.distances import median_distance
from dkernel.training.selection import bandwidth

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(600, 2)), 50 * RNG.normal(size=(600, 3))], axis=1)
Y = X[:, 0] > 0
KERNEL = Gaussian(gamma="median").on([0, 1]) + 2 * Laplacian(gamma="median").on([2, 3, 4])


def test_a_median_is_looked_for_once_in_a_scaling(monkeypatch):
    asked = []
    monkeypatch.setattr(bandwidth, "median_distance", lambda *of: asked.append(of) or median_distance(*of))
    KernelClassifier("gaussian", n_components=40, scale="standard", metric="identity").fit(X[:300], Y[:300])
    assert len(asked) == 1


def median_gamma(Z, metric):
    i, j = np.triu_indices(len(Z), 1)
    if metric == "l1":
        return 1 / np.median(np.abs(Z[i] - Z[j]).sum(axis=1))
    return 1 / (2 * np.median(np.sqrt(((Z[i] - Z[j]) ** 2).sum(axis=1))) ** 2)


@pytest.mark.parametrize("word", ["median", "auto"])
def test_each_selection_has_the_median_of_its_own_columns(word):
    kernel = parse(repr(KERNEL).replace("median", word))
    first, second = NystromFeatures(kernel, n_components=20).fit(X).kernel_.members
    assert first.kernel.gamma == pytest.approx(median_gamma(X[:, :2], "l2"), rel=1e-6)
    assert second.kernel.kernel.gamma == pytest.approx(median_gamma(X[:, 2:], "l1"), rel=1e-6)


def test_a_selection_in_a_selection_counts_from_its_own_columns():
    kernel = Gaussian(gamma="median").on([1]).on([2, 4])
    found = NystromFeatures(kernel, n_components=20).fit(X).kernel_
    assert found.kernel.kernel.gamma == pytest.approx(median_gamma(X[:, 4:5], "l2"), rel=1e-6)


def test_scale_counts_the_columns_of_the_selection():
    found = NystromFeatures(Gaussian(gamma="scale").on([2, 3, 4]), n_components=20).fit(X).kernel_
    assert found.kernel.gamma == pytest.approx(1 / (3 * X[:, 2:].var()), rel=1e-6)


def test_a_fit_moves_the_parts_together():
    kernel = Gaussian(gamma="auto").on([0, 1]) + Gaussian(gamma="auto").on([2, 3, 4])
    machine = KernelClassifier(kernel, n_components=40, alpha=1e-4, scale="none").fit(X, Y)
    first, second = (part.kernel.gamma for part in parse(machine.model_.recipe.kernel).members)
    # The same number of times their medians, which are 50 or so apart.
    assert first / second == pytest.approx(median_gamma(X[:, :2], "l2") / median_gamma(X[:, 2:], "l2"), rel=0.15)
