"""KernelCCA against dense kernel CCA, scikit-learn's linear CCA, and from chunks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cross_decomposition import CCA

import dkernel
from dkernel import Gaussian, KernelCCA, Laplacian
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, RecipeError
from tests.estimators.data import chunked
from tests.reference import kernel_cca


def views(n, seed=0):
    """Two views of an angle, with no linear correlation between them, and a column of noise each."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    X = np.stack([np.cos(angle), rng.normal(size=n)], axis=1)
    return X, np.stack([np.sin(angle) ** 2, rng.normal(size=n), rng.normal(size=n)], axis=1)


def test_all_rows_as_landmarks_give_dense_kernel_cca():
    X, Y = views(150)
    machine = KernelCCA(
        3, kernel=Gaussian(gamma=0.5), kernel_y=Laplacian(gamma=0.3), n_map_components=150, alpha=1e-2
    ).fit(X, Y)
    F, G, correlations = kernel_cca(Gaussian(gamma=0.5)(X), Laplacian(gamma=0.3)(Y), 1e-2, 3)
    np.testing.assert_allclose(machine.correlations_, correlations, rtol=1e-8)
    for mine, exact in zip(machine.transform(X, Y), (F, G), strict=True):
        signs = np.sign((mine * exact).sum(axis=0))
        np.testing.assert_allclose(mine * signs, exact, atol=1e-6)
    np.testing.assert_array_equal(machine.fit_transform(X, Y), machine.transform(X))


def test_a_linear_kernel_is_scikit_learns_cca():
    rng = np.random.default_rng(0)
    L = rng.normal(size=(400, 2))
    X = np.concatenate([L + 0.3 * rng.normal(size=(400, 2)), rng.normal(size=(400, 2))], axis=1)
    Y = np.concatenate([L @ [[1, 0.5], [-0.3, 1]] + 0.2 * rng.normal(size=(400, 2)), rng.normal(size=(400, 1))], axis=1)
    machine = KernelCCA(2, kernel="linear", alpha=1e-9).fit(X, Y)
    twin = CCA(2, scale=False, max_iter=5000, tol=1e-12).fit(X, Y)
    wanted = [np.corrcoef(f, g)[0, 1] for f, g in zip(*(Z.T for Z in twin.transform(X, Y)), strict=True)]
    np.testing.assert_allclose(machine.correlations_, wanted, rtol=1e-6)
    for mine, theirs in zip(machine.transform(X, Y), twin.transform(X, Y), strict=True):
        for j in range(2):
            assert abs(np.corrcoef(mine[:, j], theirs[:, j])[0, 1]) == pytest.approx(1, abs=1e-6)


def test_it_sees_what_lines_do_not_on_new_rows_too():
    X, Y = views(2000)
    new = views(1000, seed=1)
    machine = KernelCCA(1, gamma=0.5, n_map_components=128, random_state=0).fit(X, Y)
    assert machine.correlations(*new)[0] > 0.95
    assert KernelCCA(1, kernel="linear").fit(X, Y).correlations(*new)[0] < 0.2
    noise = KernelCCA(1, gamma=0.5, n_map_components=128).fit(X, np.random.default_rng(5).normal(size=(2000, 3)))
    assert noise.correlations(new[0], np.random.default_rng(6).normal(size=(1000, 3)))[0] < 0.2


def test_chunks_of_either_view_give_the_same():
    X, Y = views(500)
    whole = KernelCCA(2, gamma=0.5, n_map_components=40).fit(X, Y)
    rows = chunked(X, 170), chunked(Y, 90)
    for given in (rows, (rows[0], Y)):
        made = KernelCCA(2, gamma=0.5, n_map_components=40).fit(*given)
        np.testing.assert_allclose(made.correlations_, whole.correlations_, rtol=1e-9)
    assert [Z.chunks[0] for Z in made.transform(*rows)] == [Z.chunks[0] for Z in rows]


def test_one_column_is_a_view():
    X, Y = views(400)
    machine = KernelCCA(1, gamma=0.5, n_map_components=64).fit(pd.DataFrame(X, columns=["a", "b"]), pd.Series(Y[:, 0]))
    assert machine.correlations_[0] > 0.9
    assert machine.get_feature_names_out().tolist() == ["kernelcca0"]


def test_refusals():
    X, Y = views(60)
    with pytest.raises(RecipeError, match=r"alpha=0\.0"):
        KernelCCA(alpha=0.0).fit(X, Y)
    with pytest.raises(DataError, match="60 and 59 rows"):
        KernelCCA().fit(X, Y[:-1])
    with pytest.raises(DataError, match="60 and 59 rows"):
        KernelCCA().fit(chunked(X, 20), chunked(Y[:-1], 20))
    with pytest.raises(DataError, match="a Source is one"):
        KernelCCA().fit(from_arrays(X), Y)
    with pytest.raises(dkernel.errors.ModelFileError, match="cannot be saved"):
        dkernel.save(KernelCCA(n_map_components=16).fit(X, Y), "m")
