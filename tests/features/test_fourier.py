"""Fourier maps: the two ways to their columns, and what they refuse; their law is that of every map."""

import numpy as np
import pytest

from dkernel.errors import DKernelError, ModelFileError, RecipeError
from dkernel.features import FourierMap, map_from
from dkernel.kernels import Gaussian, Laplacian
from dkernel.numerics.tiling import TILE_ROWS

P = 5


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


@pytest.mark.parametrize("n_in", [3, 12, 13, 64, 65, 100])
@pytest.mark.parametrize("kernel", [Gaussian(0.1), Laplacian(0.1), Gaussian(0.1) * Laplacian(0.1)], ids=repr)
def test_every_dimension_has_a_sampling(kernel, n_in):
    map = FourierMap.draw(kernel, n_in, 32, seed=0)
    assert map.frequencies.shape == (16, n_in)
    np.testing.assert_array_equal(FourierMap.draw(kernel, n_in, 32, seed=0).frequencies, map.frequencies)
    assert not np.array_equal(FourierMap.draw(kernel, n_in, 32, seed=1).frequencies, map.frequencies)


@pytest.mark.parametrize("n", [3, 0, -2])
def test_pairs_are_even(n):
    with pytest.raises(RecipeError, match=f"n_components={n}: sine and cosine come in pairs"):
        FourierMap.draw(Gaussian(1.0), 2, n, seed=0)


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
