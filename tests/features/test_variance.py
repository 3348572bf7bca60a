"""Variances that have a formula, and what orthogonal, structured and low-discrepancy draws make of them."""

import numpy as np
import pytest

from dkernel.features import FourierMap, StackedMap, choose_map
from dkernel.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Polynomial,
)
from dkernel.leaves.maps.maclaurin import MaclaurinMap
from dkernel.leaves.maps.relu import ReluMap

SEEDS = 1000  # The variance of so many values is off by a twentieth, and every law is held to three.


def found(draw, X, Z, seeds=SEEDS, dtype="float64"):
    """The approximation of each pair for each seed, (seeds, pairs); float32 is quicker for structured maps."""
    values = []
    both = np.concatenate([X, Z])
    for seed in range(seeds):
        map = draw(seed)
        F = map.components(both, dtype) * map.whitening
        values.append((F[: len(X)] * F[len(X) :]).sum(axis=1))
    return np.array(values)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_products_of_signs(degree):
    """(|x|²|z|² + 2 (⟨x, z⟩² - Σ x_i² z_i²))^q - ⟨x, z⟩^2q, over D."""
    X, Z = pairs_of_rows()
    kernel = Polynomial(degree=degree, c=0.0)
    values = found(lambda seed: MaclaurinMap.draw(kernel, 6, 64, seed), X, Z)
    dot = (X * Z).sum(axis=1)
    second = (X**2).sum(axis=1) * (Z**2).sum(axis=1) + 2 * (dot**2 - (X**2 * Z**2).sum(axis=1))
    law = second**degree - dot ** (2 * degree)
    assert abs(np.mean(64 * values.var(axis=0) / law) - 1) <= 0.15


def pairs_of_rows(p=6):
    return np.random.default_rng(1).standard_normal((2, 8, p)) / p**0.5


def of_pairs(kernel, X, Z):
    return np.array([kernel(x[None], z[None])[0, 0] for x, z in zip(X, Z, strict=True)])


def waves_law(kernel, X, Z, form="pairs"):
    """Times D: pairs 1 + k(2δ) - 2 k(δ)^2, offset 1 + k(2δ) / 2 - k(δ)^2."""
    k, twice = of_pairs(kernel, X, Z), of_pairs(kernel, X, 2 * Z - X)
    return 1 + twice - 2 * k**2 if form == "pairs" else 1 + twice / 2 - k**2


@pytest.mark.parametrize("form", ["pairs", "offset", "exponential"])
@pytest.mark.parametrize(
    "kernel", [Gaussian(gamma=0.4), Laplacian(gamma=0.3), Gaussian(gamma=0.9).on([0, 3])], ids=repr
)
def test_independent_waves(kernel, form):
    """Of the frequencies of every kernel tests/kernels/test_spectral.py has the law."""
    X, Z = pairs_of_rows()
    values = found(lambda seed: choose_map(kernel, 6, 16, "fourier", "iid", form, seed), X, Z, 1500)
    law = waves_law(kernel, X, Z, "offset" if form == "offset" else "pairs")
    np.testing.assert_allclose(16 * values.var(axis=0) / law, 1, atol=0.15)


def test_sums_multiples_and_averages_of_waves():
    """Σ w² times the variance of each term; an average of L maps is as one map of L times the columns."""
    X, Z = pairs_of_rows()
    one, two = Gaussian(gamma=0.4), Laplacian(gamma=0.3)
    values = found(lambda seed: choose_map(0.5 * one + 2.0 * two, 6, 32, "random", "iid", seed=seed), X, Z)
    law = (0.25 * waves_law(one, X, Z) + 4.0 * waves_law(two, X, Z)) / 16
    np.testing.assert_allclose(values.var(axis=0) / law, 1, atol=0.15)

    def averaged(seed):
        return StackedMap.average([FourierMap.draw(one, 6, 16, 5 * seed + i, "iid") for i in range(5)])

    values = found(averaged, X, Z)
    np.testing.assert_allclose(values.var(axis=0) * 80 / waves_law(one, X, Z), 1, atol=0.15)


@pytest.mark.parametrize("order", [0, 1])
def test_neurons(order):
    """4 E[(w·x)^2n (w·z)^2n; both > 0] - k^2 = 2 k_2n - k^2, over D, with k_2 the arc-cosine kernel of order 2."""
    X, Z = pairs_of_rows()
    kernel = ArcCosine(order=order)
    size = np.linalg.norm(X, axis=1) * np.linalg.norm(Z, axis=1)
    cos = (X * Z).sum(axis=1) / size
    angle = np.arccos(cos)
    k2 = size**2 * (3 * np.sin(angle) * cos + (np.pi - angle) * (1 + 2 * cos**2)) / np.pi
    k = of_pairs(kernel, X, Z)
    values = found(lambda seed: ReluMap.draw(kernel, 6, 32, seed, "iid"), X, Z, 4000)
    np.testing.assert_allclose(32 * values.var(axis=0) / (2 * (k2 if order else k) - k**2), 1, atol=0.15)


@pytest.mark.parametrize(
    ("degree", "D"),
    [(2, 63), (3, 64), pytest.param(3, 63, marks=pytest.mark.slow), pytest.param(2, 64, marks=pytest.mark.slow)],
)
def test_tensor_sketches(degree, D):
    """With a = ⟨x, z⟩², b = |x|²|z|² - s, c = a - s, s = Σ x_i² z_i²: of the pairs of terms that meet in one cell.

    ((a + b)^q + (a + c)^q - 2 a^q) / D of pairs that differ in one way in every factor that they differ in, and
    ((a + b + c)^q - (a + b)^q - (a + c)^q + a^q) m / D² of those that differ in both ways, with m = 2 for even D, as
    2 h = 0 has two solutions modulo D then, else 1.
    """
    X, Z = pairs_of_rows()
    kernel = Polynomial(degree=degree, c=0.0)
    values = found(lambda seed: choose_map(kernel, 6, D, "tensorsketch", seed=seed), X, Z)
    dot, s = (X * Z).sum(axis=1), (X**2 * Z**2).sum(axis=1)
    a, q = dot**2, degree
    b, c = (X**2).sum(axis=1) * (Z**2).sum(axis=1) - s, a - s
    one = (a + b) ** q + (a + c) ** q - 2 * a**q
    both = (a + b + c) ** q - (a + b) ** q - (a + c) ** q + a**q
    law = one / D + both * (2 - D % 2) / D**2
    assert abs(np.mean(values.var(axis=0) / law) - 1) <= 0.15


def ratio(kernel, p, distance, sampling, columns, seeds=120):
    """Mean squared error beside the theory of independent pairs, (1 + k(2δ) - 2 k(δ)²) / D, over 6 directions."""
    step = np.random.default_rng(2).standard_normal((6, p))
    step *= distance / np.linalg.norm(step, axis=1, keepdims=True)
    X = np.zeros((6, p))
    dtype = "float32" if sampling == "structured" else "float64"
    values = found(lambda seed: FourierMap.draw(kernel, p, columns, seed, sampling), X, step, seeds, dtype)
    law = waves_law(kernel, X, step) / columns
    return float(np.mean((values - of_pairs(kernel, X, step)) ** 2) / np.mean(law))


@pytest.mark.parametrize(
    ("sampling", "kernel", "p", "distance", "most"),
    [
        *(("orthogonal", Gaussian(0.5), p, 1.0, 0.35) for p in (8, 18, 54, 64)),
        *(("structured", Gaussian(0.5), p, 1.0, 0.35) for p in (8, 18, 54, 64)),
        *(("sobol", Gaussian(0.5), 8, distance, 0.2) for distance in (0.25, 0.5, 1.0)),
        *(("sobol", Laplacian(0.1), 8, distance, 0.6) for distance in (0.3, 0.5, 1.0)),
        # A product is drawn from one sequence.
        *(("sobol", Gaussian(0.25) * Gaussian(0.25), 4, distance, 0.3) for distance in (0.5, 1.0)),
    ],
    ids=str,
)
def test_draws_with_structure_have_a_smaller_error(sampling, kernel, p, distance, most):
    assert ratio(kernel, p, distance, sampling, 512) < most


@pytest.mark.parametrize("p", [16, 18, 54, 90])
def test_structured_directions_have_no_bias(p):
    """Of 400 seeds, near and far, where all columns of a block are used."""
    X, Z = np.zeros((2, 6, p))
    Z[:] = np.random.default_rng(3).standard_normal((6, p))
    Z *= (np.array([0.3, 0.6, 1.0, 1.5, 2.0, 3.0]) / np.linalg.norm(Z, axis=1))[:, None]
    kernel = Gaussian(gamma=0.5)
    values = found(lambda seed: FourierMap.draw(kernel, p, 512, seed, "structured"), X, Z, 400, "float32")
    error = values.mean(axis=0) - of_pairs(kernel, X, Z)
    assert (np.abs(error) < 4 * values.std(axis=0) / 20).all()


def test_independent_draws_and_fastfood_are_what_they_are():
    assert ratio(Gaussian(0.5), 8, 1.0, "iid", 256, 600) == pytest.approx(1, abs=0.15)
    assert 0.9 < ratio(Gaussian(0.5), 18, 1.0, "fastfood", 512) < 2.0
