"""Fits whose columns are too many for squares, the limit lowered to what a test can train."""

import re

import dask.array as da
import numpy as np
import pytest

from dkernel import save
from dkernel.data.block import Block
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import MemoryBudgetError
from dkernel.features import NystromMap
from dkernel.features.base import Coordinates
from dkernel.features.block_coordinates import BlockBasis
from dkernel.kernels import Gaussian
from dkernel.model.recipe import Recipe
from dkernel.solvers import sketch
from dkernel.solvers.covariance import needs_sketch
from dkernel.solvers.gram import FoldedGram
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.schedule import RowSlice
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import Plan
from tests.solvers.objectives import objective_of

RECIPE = Recipe(
    solver="psgd",
    kernel="Gaussian(gamma=0.3)",
    metric="identity",
    scale="none",
    n_components=1536,
    task="classify",
    rounds=8,
)


def data(n=6000, chunks=1500):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] > 0
    return from_arrays(da.from_array(X, chunks=(chunks, 4)), da.from_array(y.astype(int), chunks=chunks)), X, y


@pytest.fixture
def wide(monkeypatch):
    for place in (
        "dkernel.solvers.covariance",
        "dkernel.features.nystrom",
        "dkernel.solvers.certificate",
        "dkernel.solvers.setup_cost",
    ):
        monkeypatch.setattr(f"{place}.MOST_DENSE", 1000)
    monkeypatch.setattr(sketch, "SKETCH_ROWS", 1024)
    monkeypatch.setattr("dkernel.features.nystrom.BLOCK_COLUMNS", 512)
    monkeypatch.setattr(sketch, "BLOCK_COLUMNS", 512)


def fitted(executor, **kw):
    source, X, y = data()
    result = train(source, RECIPE.replace(**kw), executor)
    return result.model, float(np.mean(result.model.predict(X[:2000]) != y[:2000]))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_serial_and_threads_give_the_same_bytes_and_learn(features, tmp_path):
    model, error = fitted(SerialExecutor(), features=features)
    assert error < 0.06
    assert same(model, fitted(ThreadsExecutor(2), features=features)[0], tmp_path)


def same(one, other, folder):
    save(one, folder / "one")
    save(other, folder / "other")
    return (folder / "one").read_bytes() == (folder / "other").read_bytes()


@pytest.mark.usefixtures("wide")
def test_weights_are_in_the_sketch():
    """Rows of weight 0 are not there."""
    rng = np.random.default_rng(1)
    X, weight = rng.standard_normal((700, 3)).astype(np.float32), (np.arange(700) % 2).astype(float)
    map = NystromMap(Gaussian(gamma=0.4), X[:512])
    found = [made(X, weight, map), made(X[weight > 0], weight[weight > 0], map)]
    np.testing.assert_array_equal(found[0].values, found[1].values)


def made(X, weight, map, n=512):
    rows, coordinates = Block(X, np.zeros(len(X)), weight), Coordinates(n, 1.0, map.blocks)
    return sketch.sketch_covariance(SerialExecutor(), "k", objective_of(map), coordinates, rows)


@pytest.mark.usefixtures("wide")
def test_the_sketch_is_that_of_the_features_of_the_sample():
    """Its covariance is the sample's, where the sketch has as many rows as the kernel has directions."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 3)).astype(np.float32)
    map = NystromMap(Gaussian(gamma=0.02), X[:600])
    found = made(X, np.ones(900), map, 600)
    basis = map.blocks
    A = np.concatenate([basis.T @ map.components(X).T, np.ones((1, 900))]).T
    expected = np.linalg.eigvalsh(A.T @ A / 900)[::-1]
    # Columns are float32, and whitening makes their rounding larger.
    np.testing.assert_allclose(found.values[:40], expected[:40], rtol=1e-3, atol=1e-6)


def test_blocks_are_the_mean_of_their_nystrom_approximations():
    rng = np.random.default_rng(0)
    Z, X = rng.standard_normal((90, 3)), rng.standard_normal((20, 3))
    kernel = Gaussian(gamma=0.5)
    parts = [NystromMap(kernel, Z[i : i + 30]) for i in range(0, 90, 30)]
    basis = BlockBasis([np.linalg.cholesky(part.gram) for part in parts])
    whole = basis.T @ kernel(X, Z).T
    mean = np.mean([part(X) @ part(X).T for part in parts], axis=0)
    np.testing.assert_allclose(whole.T @ whole, mean, atol=1e-6)
    v, a = rng.standard_normal((90, 2)), rng.standard_normal((90, 2))
    np.testing.assert_allclose(np.sum(a * (basis @ v)), np.sum((basis.T @ a) * v))
    np.testing.assert_allclose(basis @ basis.undone(a), a, rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("wide")
def test_the_certificate_is_that_of_the_blocks():
    rng = np.random.default_rng(0)
    Z, X = rng.standard_normal((1200, 3)), rng.standard_normal((20, 3))
    map = NystromMap(Gaussian(gamma=0.5), Z)
    phi = map.blocks.T @ map.components(X).T
    np.testing.assert_allclose(map.residual(X), 1 - np.sum(phi**2, axis=0), atol=1e-9)
    assert needs_sketch(map.coordinates())


GIB = 2**30


def planned(D, features, n=500_000, p=54, limit=None):
    X = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (n, p), (0, 0))
    source = from_arrays(X, np.lib.stride_tricks.as_strided(np.zeros(1), (n,), (0,)))
    recipe = Recipe(solver="psgd", n_components=D, features=features, kernel="Gaussian(gamma=0.1)", task="classify")
    return Plan.of(source, recipe, ThreadsExecutor(2, memory_limit=limit).describe())


@pytest.mark.parametrize(("D", "features"), [(100_000, "fourier"), (500_000, "fourier"), (50_000, "nystrom")])
def test_very_many_columns_fit_in_eight_gib(D, features):
    plan = planned(D, features)
    assert plan.here_bytes < 8 * GIB


def test_what_a_plan_says_grows_with_the_columns_and_not_their_square():
    small, large = (planned(D, "fourier") for D in (40_000, 80_000))
    assert large.peaks.client < 2.2 * small.peaks.client
    assert large.costs["setup"].flops < 2.5 * small.costs["setup"].flops


@pytest.mark.parametrize("block", [7, 30, 100])
def test_a_gram_matrix_in_blocks_is_that_of_all_columns(monkeypatch, block):
    monkeypatch.setattr("dkernel.solvers.gram.MIRRORED", block)
    monkeypatch.setattr("dkernel.model.model.COMPONENT_STRIP", 16)
    F, kernel = np.random.default_rng(0).standard_normal((50, 31)), Gaussian(gamma=0.05)
    statistic = FoldedGram(objective_of(NystromMap(kernel, F[:30])), 1)
    total = statistic.finish(statistic.step(Block(F, np.zeros(50), None), RowSlice.whole(50), None))[0].gram
    np.testing.assert_array_equal(total, total.T)
    np.testing.assert_allclose(total[:-1, :-1], kernel(F, F[:30]).T @ kernel(F, F[:30]), atol=1e-9)


def test_a_worker_too_small_for_very_many_columns_is_told_what_fits():
    plan = planned(200_000, "fourier", limit=8 * GIB)
    limit = plan.worker_bytes - 2**27
    with pytest.raises(MemoryBudgetError) as refused:
        planned(200_000, "fourier", limit=limit).check_memory()
    columns = int(re.search(r"n_components=(\d+)", str(refused.value))[1])
    assert 20_000 < columns < 200_000
    assert planned(columns, "fourier", limit=8 * GIB).worker_bytes <= limit
