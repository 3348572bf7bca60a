"""The Gram matrix of columns as the passes have them is good enough for a preconditioner."""

import numpy as np
import pytest
import scipy.linalg as sl

from dkernel.data.block import Block
from dkernel.features import FourierMap, NystromMap, Scaling
from dkernel.kernels import ArcCosine, Gaussian
from dkernel.model.model import ScaledComponents
from dkernel.numerics.random_streams import stream
from dkernel.solvers.gram import FoldedGram, Gram
from dkernel.solvers.preconditioner import factorize, ridge_for
from dkernel.streaming.schedule import RowSlice
from tests.solvers.objectives import objective_of

KERNEL, ROWS = Gaussian(gamma=0.02), 1500


def rows_of(p, seed=0):
    return np.random.default_rng(seed).standard_normal((ROWS, p)).astype(np.float32)


def grams(map, X):
    objective, block, piece = objective_of(map), Block(X, np.zeros(ROWS), None), RowSlice.whole(ROWS)
    quickly, exactly = Gram(objective), FoldedGram(objective, 1)
    found = quickly.finish(quickly.step(block, piece, None))
    return found.gram / ROWS, exactly.finish(exactly.step(block, piece, None))[0].gram / ROWS


@pytest.mark.parametrize(("p", "least", "most"), [(20, 0.98, 1.02), (3, -1.0, 1.2)])
def test_a_step_for_quick_landmark_columns_is_stable_on_exact_ones(p, least, most):
    """Of three columns the landmarks' Gram matrix has eigenvalues far below all rounding, where one says as little as
    the other: steps have some room for that."""
    X = rows_of(p)
    map = NystromMap(KERNEL, X[:300])
    assert objective_of(map).components.pass_dtype == "tiles"
    found, exact = grams(map, X)
    metric = map.coordinates().metric
    rho = ridge_for(found, metric, 225, 0.0, stream(0, "trace"))
    L = factorize(found, metric, rho, objective_of(map).components.with_intercept(X[:9])).factor
    ridge = rho * sl.block_diag(metric, [[1.0]])
    ratio = sl.eigvalsh(sl.solve_triangular(L, sl.solve_triangular(L, exact + ridge, lower=True).T, lower=True))
    assert least < ratio[0] <= ratio[-1] < most


def test_fourier_columns_have_that_of_float64():
    map = FourierMap.draw(KERNEL, 20, 256, 0)
    found, exact = grams(map, rows_of(20))
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_columns_of_a_kernel_without_a_compiled_walk_are_made_in_float64():
    X = rows_of(5)
    map = NystromMap(ArcCosine(), X[:40])
    assert objective_of(map).components.pass_dtype == "float64"
    np.testing.assert_array_equal(*grams(map, X))


@pytest.mark.parametrize("kept", ["float32", "float64"])
def test_columns_made_by_tiles_are_those_of_the_map(kept):
    X = rows_of(7)[:700]
    map = NystromMap(KERNEL, X[:90])
    F = np.full((len(X), 91), np.nan, kept)
    assert objective_of(map).components.with_intercept(X, "tiles", F) is F
    np.testing.assert_allclose(F, objective_of(map).components.with_intercept(X), atol=3e-6)


def test_tiles_are_columns_of_rows_scaled_in_float64():
    """In float32 all rows of this offset would be one, and those of this size infinite."""
    x = rows_of(3).astype(np.float64)[:300]
    map = NystromMap(KERNEL, x[:20].astype(np.float32))
    for shift, size in ((1e9, 1.0), (0.0, 1e200)):
        scaling = Scaling("standard", np.full(3, shift), np.full(3, 1 / size))
        found = ScaledComponents(scaling, map).with_intercept(shift + size * x, "tiles")
        expected = np.exp2(-np.log2(np.e) * KERNEL.gamma * np.square(x[:, None] - x[None, :20]).sum(axis=2))
        np.testing.assert_allclose(found[:, :20], expected, rtol=0, atol=2e-6)
