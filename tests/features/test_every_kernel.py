"""Landmarks of every kernel of the catalogue: the approximation lies between 0 and the kernel, and a file keeps it."""

import numpy as np
import pytest

from dkernel.features import NystromMap
from dkernel.model.model_file import load_model, save
from tests.features.test_laws import model_of
from tests.kernels.catalogue import CATALOGUE

ROWS = np.random.default_rng(20).standard_normal((40, 5))


@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_a_model_of_it_is_kept_in_a_file(member, tmp_path):
    X = member.data(ROWS).astype(np.float32)
    map = NystromMap(member.kernel, X[:12])
    model = model_of(map, X.shape[1])
    save(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert again.map.kernel == member.kernel
    np.testing.assert_array_equal(again.map.landmarks, map.landmarks)
    np.testing.assert_array_equal(again.scores(X), model.scores(X))


@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_what_is_left_is_a_kernel_too(member):
    """0 ≼ K-hat ≼ K, whatever the rows."""
    copies = np.vstack([np.zeros((3, 5)), np.repeat(ROWS[:4], 3, axis=0), ROWS[:9] * 10])
    for rows in (ROWS, copies):
        X = member.data(rows)
        K = member.kernel(X)
        phi = NystromMap(member.kernel, X[::4])(X)
        values = np.linalg.eigvalsh(K - phi @ phi.T)
        assert values[0] >= -1e-6 * np.abs(np.linalg.eigvalsh(K)).max()
        assert np.isfinite(phi).all()
