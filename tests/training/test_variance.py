"""The variance of a ridge regression against Gaussian process regression with the same numbers, and in use."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from dkernel import KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import UnsupportedError
from dkernel.inference.score import write_scores
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import train
from tests.streaming.sources import source_of, waves

BASE = Recipe(
    kernel="Gaussian(gamma=0.5)", loss="squared", solver="normal", alpha=1e-4, scale="none", metric="identity",
    holdout=0.0, dtype="float64",
)  # fmt: skip


def surface(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, 5 + np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + noise * rng.normal(size=n)


def fit(n=200, executor=None, **changes):
    X, y = surface(n)
    recipe = BASE.replace(**({"n_components": n} | changes))
    landmarks = X if recipe.features in ("auto", "nystrom") and recipe.n_components == n else None
    return train(from_arrays(X, y, dtype="float64"), recipe, executor or SerialExecutor(), landmarks=landmarks).model


def test_all_rows_as_landmarks_give_a_gaussian_process():
    model, (X, y) = fit(), surface(200)
    noise, prior, n = model.variance.scale.tolist()
    assert (n, prior) == (200, pytest.approx(noise / (200 * 1e-4)))
    assert model.facts["noise"] == pytest.approx(0.1, rel=0.15)
    # The intercept may be anything: a constant of a large variance. Its own is added by WhiteKernel.
    wide = prior * RBF(1.0) + ConstantKernel(1e5) + WhiteKernel(noise)
    twin = GaussianProcessRegressor(wide, optimizer=None, alpha=0.0).fit(X, y)
    new = np.random.default_rng(1).uniform(-4, 4, (100, 2))  # half of them far from all rows
    mean, std = twin.predict(new, return_std=True)
    np.testing.assert_allclose(model.std(new), std, rtol=1e-4)
    limits = np.array([y.min(), y.max()]) + 0.1 * np.ptp(y) * np.array([-1, 1])
    np.testing.assert_allclose(model.scores(new)[:, 0], np.clip(mean, *limits), atol=5e-3)
    assert std.max() > 4 * std.min()
    far = np.full((1, 2), 100.0)
    assert model.std(far)[0] ** 2 == pytest.approx(prior + noise * (1 + 1 / n), rel=0.2)


def test_another_map_is_bayesian_linear_regression():
    model, (X, y) = fit(400, features="fourier", n_components=64), surface(400)
    F, G = (model.map.components(Z, "float64") * model.map.whitening for Z in (X, surface(50, seed=1)[0]))
    H = np.cov(F.T, bias=True) + 1e-4 * np.eye(F.shape[1])
    off = G - F.mean(axis=0)
    noise, _, n = model.variance.scale.tolist()
    wanted = noise * (1 + (1 + np.einsum("ij,ij->i", off @ np.linalg.inv(H), off)) / n)
    np.testing.assert_allclose(model.std(surface(50, seed=1)[0]) ** 2, wanted, rtol=1e-6)
    shrunk = F @ np.linalg.solve(H, (F - F.mean(axis=0)).T @ (y - y.mean()) / 400)
    off = y - y.mean() - shrunk + shrunk.mean()
    freedom = 1 + np.trace(np.linalg.solve(H, H - 1e-4 * np.eye(F.shape[1])))
    assert noise == pytest.approx((off**2).sum() / (400 - freedom), rel=1e-5)


def test_nine_labels_in_ten_are_within_1645_deviations():
    X, y = surface(6000)
    machine = KernelRegressor(n_components=150, gamma=0.5, solver="normal", metric="identity").fit(X[:3000], y[:3000])
    mean, std = machine.predict(X[3000:], return_std=True)
    within = np.abs(y[3000:] - mean) < 1.645 * std
    assert within.mean() == pytest.approx(0.9, abs=0.02)
    assert std.dtype == np.float64
    lazy = machine.predict(da.from_array(X[3000:], chunks=(700, 2)), return_std=True)
    assert [type(each) for each in lazy] == [da.Array, da.Array]
    np.testing.assert_array_equal(lazy[1].compute(), std)


def test_the_same_bytes_and_a_file_that_says_it_too(tmp_path):
    X, y = waves(2000)
    source = source_of(X, y, [(500, 700), (800,)])
    recipe = BASE.replace(n_components=60, alpha="auto", dtype="float32", holdout=0.1)
    for name, executor in (("serial", SerialExecutor()), ("threads", ThreadsExecutor(3))):
        model_file.save(train(source, recipe, executor).model, tmp_path / name)
    assert (tmp_path / "serial").read_bytes() == (tmp_path / "threads").read_bytes()
    model = model_file.load_model(tmp_path / "serial")
    out = write_scores(
        model, from_arrays(X, dtype="float32"), tmp_path / "s.parquet", SerialExecutor(), write=["score", "std"]
    )
    found = pd.read_parquet(tmp_path / "s.parquet")
    assert out.columns == tuple(found.columns) == ("score", "std")
    np.testing.assert_array_equal(found["std"], model.std(X))


def test_a_model_that_does_not_know_says_who_does(tmp_path):
    X, y = surface(100)
    machine = KernelRegressor(n_components=20, gamma=0.5, alpha=1e-4).fit(X, y)
    with pytest.raises(UnsupportedError, match="solver='normal'"):
        machine.predict(X, return_std=True)
    with pytest.raises(UnsupportedError, match="solver='normal'"):
        write_scores(machine.model_, from_arrays(X), tmp_path / "s.csv", SerialExecutor(), write=["std"])
