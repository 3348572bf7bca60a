"""Fourier maps: the law of their error, and the two ways to their columns."""

import json
import pickle

import numpy as np
import pytest

from dkernel.errors import DKernelError, ModelFileError, RecipeError, UnsupportedError
from dkernel.features import FourierMap, map_from
from dkernel.kernels import Gaussian, Laplacian, Linear
from dkernel.numerics.tiling import TILE_ROWS

P, D = 5, 64


def pairs_of_points():
    """16 pairs from near to far."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16, P))
    step = rng.standard_normal((16, P))
    step *= (np.linspace(0.1, 3.0, 16) / np.linalg.norm(step, axis=1))[:, None]
    return X, X + step


def approximations(kernel, seeds, form, sampling, columns=D):
    """k-hat of each pair for each seed, (seeds, pairs)."""
    X, Z = pairs_of_points()
    out = []
    for seed in range(seeds):
        phi = FourierMap.draw(kernel, P, columns, seed, sampling, form)
        out.append((phi(X) * phi(Z)).sum(axis=1))
    return np.array(out)


def exact(kernel):
    X, Z = pairs_of_points()
    return np.array([kernel(x[None], z[None])[0, 0] for x, z in zip(X, Z, strict=True)])


GAUSSIAN, LAPLACIAN = Gaussian(0.4), Laplacian(0.3)  # whose law has no directions


@pytest.mark.parametrize("form", ["pairs", "offset"])
@pytest.mark.parametrize(
    ("kernel", "sampling"),
    [
        *[(GAUSSIAN, sampling) for sampling in ("iid", "orthogonal", "sobol")],
        *[(LAPLACIAN, sampling) for sampling in ("iid", "sobol")],
    ],
    ids=repr,
)
def test_unbiased(kernel, sampling, form):
    found = approximations(kernel, 400, form, sampling)
    error = found.mean(axis=0) - exact(kernel)
    assert (np.abs(error) <= 4 * found.std(axis=0) / 400**0.5 + 1e-4).all()


@pytest.mark.parametrize("form", ["pairs", "offset"])
@pytest.mark.parametrize("kernel", [Gaussian(0.4), Laplacian(0.3)], ids=repr)
def test_the_variance_of_independent_draws_is_the_formula(kernel, form):
    """pairs: (1 + k(2δ) - 2 k(δ)^2) / D; offset: (1 + k(2δ) / 2 - k(δ)^2) / D."""
    found = approximations(kernel, 3000, form, "iid", columns=16)
    k = exact(kernel)
    X, Z = pairs_of_points()
    twice = np.array([kernel(x[None], (2 * z - x)[None])[0, 0] for x, z in zip(X, Z, strict=True)])
    law = 1 + twice - 2 * k**2 if form == "pairs" else 1 + twice / 2 - k**2
    ratio = 16 * found.var(axis=0) / law
    assert (np.abs(ratio - 1) <= 0.15).all(), ratio


def test_orthogonal_directions_have_the_smaller_error():
    kernel = Gaussian(0.4)
    near = slice(2, 6)
    spread = {s: approximations(kernel, 300, "pairs", s, 40).var(axis=0)[near].mean() for s in ("iid", "orthogonal")}
    assert spread["orthogonal"] < 0.6 * spread["iid"]


def test_a_row_of_pairs_has_norm_1():
    phi = FourierMap.draw(Gaussian(0.4), P, 600, seed=1)
    X = 10 * np.random.default_rng(0).standard_normal((50, P))
    np.testing.assert_allclose((phi(X) ** 2).sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("form", ["pairs", "offset"])
@pytest.mark.parametrize("columns", [2, 100, 512, 514, 1300])
def test_float32_tiles_are_the_float64_columns(form, columns):
    map = FourierMap.draw(Gaussian(0.4), P, columns, seed=1, form=form)
    X = np.random.default_rng(0).standard_normal((TILE_ROWS, P)).astype(np.float32)
    F = map.components(X)
    assert F.shape == (TILE_ROWS, columns)
    np.testing.assert_allclose(map.components(X, "float32"), F, atol=2e-5)
    covered = []
    rows = map.rows(X)
    for first, tiles, width in map.groups:
        out = np.full((tiles, TILE_ROWS, width), np.nan, np.float32)
        map.fill(rows, first, out)
        for t in range(tiles):
            start = first + t * width
            np.testing.assert_allclose(out[t], F[:, start : start + width], atol=1e-5)
            covered += range(start, start + width)
    assert covered == list(range(columns))


@pytest.mark.parametrize("form", ["pairs", "offset"])
def test_pickle_and_spec_make_it_again(form):
    map = FourierMap.draw(Gaussian(0.4), P, 600, seed=3, form=form)
    X = np.random.default_rng(0).standard_normal((TILE_ROWS, P)).astype(np.float32)
    map.fill(map.rows(X), 0, np.empty((*map.groups[0][1:2], TILE_ROWS, map.groups[0][2]), np.float32))
    for again in (pickle.loads(pickle.dumps(map)), map_from(json.loads(json.dumps(map.spec())), map.arrays())):
        np.testing.assert_array_equal(again(X), map(X))
        assert again.groups == map.groups
        assert again.kernel == map.kernel


@pytest.mark.parametrize("n_in", [3, 12, 13, 64, 65, 100])
@pytest.mark.parametrize("kernel", [Gaussian(0.1), Laplacian(0.1), Gaussian(0.1) * Laplacian(0.1)], ids=repr)
def test_every_dimension_has_a_sampling(kernel, n_in):
    map = FourierMap.draw(kernel, n_in, 32, seed=0)
    assert map.frequencies.shape == (16, n_in)
    np.testing.assert_array_equal(FourierMap.draw(kernel, n_in, 32, seed=0).frequencies, map.frequencies)
    assert not np.array_equal(FourierMap.draw(kernel, n_in, 32, seed=1).frequencies, map.frequencies)


def test_coordinates_measure_the_weights_of_the_map():
    map = FourierMap.draw(Gaussian(0.4), P, 64, seed=1)
    X = np.random.default_rng(0).standard_normal((7, P))
    alpha = np.random.default_rng(1).standard_normal(64)
    w = alpha / map.whitening
    coordinates = map.coordinates()
    np.testing.assert_allclose(map.components(X) @ coordinates.expand(alpha), map(X) @ w)
    np.testing.assert_allclose(coordinates.metric * (alpha @ alpha), w @ w)


@pytest.mark.parametrize("n", [3, 0, -2])
def test_pairs_are_even(n):
    with pytest.raises(RecipeError, match=f"n_components={n}: sine and cosine come in pairs"):
        FourierMap.draw(Gaussian(1.0), 2, n, seed=0)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(1.0) + Laplacian(1.0), 0.5 * Gaussian(1.0)], ids=repr)
def test_only_kernels_with_a_spectral_law(kernel):
    with pytest.raises(UnsupportedError, match="features='nystrom'"):
        FourierMap.draw(kernel, 2, 4, seed=0)


def test_only_the_forms_there_are():
    with pytest.raises(DKernelError, match="form"):
        FourierMap.draw(Gaussian(1.0), 2, 4, seed=0, form="sine")


def test_a_map_of_unknown_kind_is_refused():
    with pytest.raises(ModelFileError, match="'sketch' is unknown; known are"):
        map_from({"kind": "sketch"}, {})


@pytest.mark.parametrize("sampling", ["iid", "structured"])
def test_waves_are_the_pairs_as_complex_numbers(sampling):
    map = FourierMap.draw(Gaussian(0.4), P, 1200, seed=1, sampling=sampling, form="exponential")
    X = np.random.default_rng(0).standard_normal((50, P))
    waves = map.waves(X, "float64")
    assert waves.dtype == np.complex128
    assert map.waves(X.astype(np.float32), "float32").dtype == np.complex64
    np.testing.assert_allclose((waves @ waves.conj().T).real, map(X) @ map(X).T, atol=1e-12)
    np.testing.assert_allclose(waves, np.exp(1j * X @ map.frequencies.T) / 600**0.5, atol=1e-12)
