"""Frequencies that are made again from their seed are those of a matrix, bit for bit."""

import pickle

import numpy as np
import pytest

from dkernel.errors import ModelFileError
from dkernel.features.base import in_tiles, map_from
from dkernel.features.random import projections
from dkernel.features.random.fourier import FourierMap
from dkernel.features.random.projections import SEEDED, Dense, Seeded
from dkernel.kernels import Gaussian, Laplacian
from dkernel.numerics.random_streams import stream


@pytest.fixture(name="X")
def rows():
    return np.random.default_rng(0).standard_normal((300, 7)).astype(np.float32)


def seeded(monkeypatch, sampling="orthogonal", form="pairs", kernel=None, n=2600):
    monkeypatch.setattr("dkernel.features.random.fourier.MOST_STORED", 100)
    map = FourierMap.draw(kernel or Gaussian(gamma=0.3), 7, n, 3, sampling, form)
    assert isinstance(map.projection, Seeded)
    return map


@pytest.mark.parametrize("form", ["pairs", "offset"])
@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "sobol"])
def test_the_columns_are_those_of_the_matrix(monkeypatch, X, sampling, form):
    map = seeded(monkeypatch, sampling, form)
    stored = FourierMap(map.kernel, Dense(map.frequencies, sampling), map.offsets, form)
    assert map.groups == stored.groups
    np.testing.assert_array_equal(in_tiles(map, X), in_tiles(stored, X))
    np.testing.assert_array_equal(map.components(X), stored.components(X))


def test_each_block_is_a_draw_of_its_own(monkeypatch):
    map = seeded(monkeypatch, "iid")
    law = map.kernel.frequencies(7, SEEDED, stream(3, "frequencies", 2), sampling="iid")
    np.testing.assert_array_equal(map.frequencies[2 * SEEDED : 3 * SEEDED], law)
    assert len(map.frequencies) == 1300


def test_neither_what_is_kept_nor_the_order_of_the_tiles_moves_a_bit(monkeypatch, X):
    whole = in_tiles(seeded(monkeypatch), X)
    monkeypatch.setattr(projections, "MOST_KEPT", 0)
    map = pickle.loads(pickle.dumps(seeded(monkeypatch)))
    backwards = [in_tiles(map, X, [group]) for group in reversed(map.groups)]
    np.testing.assert_array_equal(np.concatenate(backwards[::-1], axis=1), whole)
    assert not map._turns._blocks


def test_no_more_is_kept_than_there_is_room_for(monkeypatch, X):
    block = SEEDED * 7 * 4
    monkeypatch.setattr(projections, "MOST_KEPT", 3 * block)
    map = seeded(monkeypatch)
    in_tiles(map, X)
    assert len(map._turns._blocks) == 3


def test_a_worker_and_a_model_file_get_a_few_numbers(monkeypatch, X):
    map = seeded(monkeypatch)
    assert map.arrays() == {}
    assert len(pickle.dumps(map)) < 500
    again = map_from(map.spec(), map.arrays())
    np.testing.assert_array_equal(in_tiles(again, X), in_tiles(map, X))


def test_a_small_matrix_is_stored():
    assert isinstance(FourierMap.draw(Gaussian(gamma=0.3), 7, 2600, 3).projection, Dense)


@pytest.mark.parametrize("kernel", [Gaussian(gamma=0.3), Laplacian(gamma=0.2)], ids=repr)
def test_inner_products_are_the_kernel(monkeypatch, X, kernel):
    map = seeded(monkeypatch, "auto", kernel=kernel, n=20_000)
    phi = in_tiles(map, X[:40]).astype(np.float64) * map.whitening
    assert np.abs(phi @ phi.T - kernel(X[:40])).max() < 0.05


@pytest.mark.parametrize("wrong", [{"frequencies": -1}, {"frequencies": 2**40}, {"seed": "x"}, {"n_in": 1.5}])
def test_a_file_of_other_numbers_is_refused(monkeypatch, wrong):
    with pytest.raises(ModelFileError, match="cannot be drawn"):
        map_from({**seeded(monkeypatch).spec(), **wrong}, {})
