"""Variances that have a formula, and what orthogonal, structured and low-discrepancy draws make of them."""

import numpy as np
import pytest

from dkernel.features import FourierMap, MaclaurinMap, choose_map
from dkernel.kernels import Gaussian, Laplacian, Polynomial


def found(draw, X, Z, seeds):
    values = []
    both = np.concatenate([X, Z])
    for seed in range(seeds):
        F = draw(seed)(both)
        values.append((F[: len(X)] * F[len(X) :]).sum(axis=1))
    return np.array(values)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_products_of_signs(degree):
    """(|x|²|z|² + 2 (⟨x, z⟩² - Σ x_i² z_i²))^q - ⟨x, z⟩^2q, over D."""
    X, Z = np.random.default_rng(1).standard_normal((2, 8, 6)) / 6**0.5
    kernel = Polynomial(degree=degree, c=0.0)
    values = found(lambda seed: MaclaurinMap.draw(kernel, 6, 64, seed), X, Z, 3000)
    dot = (X * Z).sum(axis=1)
    second = (X**2).sum(axis=1) * (Z**2).sum(axis=1) + 2 * (dot**2 - (X**2 * Z**2).sum(axis=1))
    law = second**degree - dot ** (2 * degree)
    assert abs(np.mean(64 * values.var(axis=0) / law) - 1) <= 0.15


@pytest.mark.parametrize("degree", [2, 3])
def test_tensor_sketches_stay_under_their_bound(degree):
    X, Z = np.random.default_rng(1).standard_normal((2, 8, 6)) / 6**0.5
    kernel = Polynomial(degree=degree, c=0.0)
    values = found(lambda seed: choose_map(kernel, 6, 64, "tensorsketch", seed=seed), X, Z, 1500)
    bound = (2 + 3**degree) * ((X**2).sum(axis=1) * (Z**2).sum(axis=1)) ** degree
    ratio = 64 * values.var(axis=0) / bound
    assert (ratio <= 1).all()
    assert ratio.max() > 0.01


def ratio(kernel, p, distance, sampling, columns, seeds=120):
    """Mean squared error beside the theory of independent pairs, (1 + k(2δ) - 2 k(δ)²) / D, over 6 directions."""
    step = np.random.default_rng(2).standard_normal((6, p))
    step *= distance / np.linalg.norm(step, axis=1, keepdims=True)
    X = np.zeros((6, p))
    k = np.array([kernel(x[None], z[None])[0, 0] for x, z in zip(X, step, strict=True)])
    twice = np.array([kernel(x[None], z[None])[0, 0] for x, z in zip(X, 2 * step, strict=True)])
    values = found(lambda seed: FourierMap.draw(kernel, p, columns, seed, sampling), X, step, seeds)
    return float(np.mean((values - k) ** 2) / np.mean((1 + twice - 2 * k**2) / columns))


@pytest.mark.parametrize("p", [8, 18, 64])
@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
def test_orthogonal_and_structured_directions(sampling, p):
    assert ratio(Gaussian(0.5), p, 1.0, sampling, 512) < 0.35


@pytest.mark.parametrize(("sampling", "most"), [("sobol", 0.2), ("halton", 0.35)])
@pytest.mark.parametrize("distance", [0.5, 1.0])
def test_low_discrepancy_in_few_columns(sampling, most, distance):
    assert ratio(Gaussian(0.5), 8, distance, sampling, 512) < most


def test_low_discrepancy_helps_the_laplacian():
    assert ratio(Laplacian(0.1), 8, 0.5, "sobol", 512) < 0.6


def test_independent_draws_and_fastfood_are_what_they_are():
    assert ratio(Gaussian(0.5), 8, 1.0, "iid", 256, 600) == pytest.approx(1, abs=0.15)
    assert 0.9 < ratio(Gaussian(0.5), 18, 1.0, "fastfood", 512) < 2.0
