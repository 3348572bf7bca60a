"""The compiled walk of a gradient: what `tiles.accumulate` and the losses say, within the rounding of float32."""

import numpy as np
import pytest

from dkernel.features import FourierMap, NystromMap
from dkernel.kernels import Gaussian
from dkernel.losses.losses import parse_loss
from dkernel.numerics import tiling
from dkernel.numerics.fused import products
from dkernel.numerics.fused.gradient import DERIVATIVES, fused_gradient

pytestmark = pytest.mark.skipif(not products.supports_products(2), reason="no vector registers")
KERNEL = Gaussian(gamma=0.1)


def map_of(name, D, p=5):
    if name == "fourier":
        return FourierMap.draw(KERNEL, p, D, 0)
    return NystromMap(KERNEL, np.random.default_rng(1).normal(size=(D, p)).astype(np.float32))


def both(map, n, heads=1, outputs=1, loss="squared_hinge", weighted=False):
    """What the walk says, and what defines it: gradient, intercept's gradient, scores."""
    rng = np.random.default_rng([n, heads])
    X, Y = rng.normal(size=(n, map.n_in)).astype(np.float32), np.sign(rng.normal(size=(n, outputs))).astype(np.float32)
    coef, shift = (0.3 * rng.normal(size=size).astype(np.float32) for size in ((map.n_components, heads), heads))
    weight = rng.uniform(0.5, 2, (n, 1)).astype(np.float32) if weighted else None
    law, scores = (parse_loss(loss), []) if loss else (None, [])

    def residual(S, start):
        scores.append(S.copy())
        y = np.tile(Y, (1, heads // outputs))[start : start + len(S)]
        R = S if law is None else law.derivative(y, S)
        return R if weight is None else R * weight[start : start + len(S)]

    G, g = tiling.accumulate(map, X, coef, shift, residual)
    how = (law.name, law.number) if law else ("", 0.0)
    return fused_gradient(map.panels, map.rows(X), coef, shift, Y, weight, how), (G, g, np.concatenate(scores))


def assert_near(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=2e-5 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize("D", [2, 64, 130, 500, 2048])
@pytest.mark.parametrize("name", ["fourier", "nystrom"])
def test_any_number_of_columns(name, D):
    assert_near(*both(map_of(name, D), 300))


@pytest.mark.parametrize("n", [1, 3, 4, 257, 2048])
@pytest.mark.parametrize("name", ["fourier", "nystrom"])
def test_any_number_of_rows(name, n):
    assert_near(*both(map_of(name, 96), n))


@pytest.mark.parametrize(("heads", "outputs"), [(3, 1), (4, 1), (6, 3), (9, 1), (100, 4)])
def test_any_number_of_heads(heads, outputs):
    assert_near(*both(map_of("fourier", 96), 200, heads, outputs, weighted=True))


@pytest.mark.parametrize("loss", [*DERIVATIVES, "huber(0.2)", "epsilon_insensitive(0.7)", "quantile(0.9)"])
def test_every_derivative_that_is_compiled(loss):
    name = loss.partition("(")[0]
    assert name in DERIVATIVES
    assert_near(*both(map_of("nystrom", 128), 500, loss=loss, weighted=True))


def test_a_row_that_is_not_learned_from_and_no_rows_at_all():
    map = map_of("fourier", 64)
    G, g, S = fused_gradient(map.panels, *no_rows(map), None, ("squared", 0.0))
    assert not G.any()
    assert not g.any()
    assert S.shape == (0, 2)


def no_rows(map):
    empty = np.zeros((0, map.n_in), np.float32)
    return map.rows(empty), np.zeros((map.n_components, 2), np.float32), np.zeros(2, np.float32), empty[:, :1]


def test_a_column_is_where_its_coefficient_is():
    """One coefficient at a time: the order of cosines and sines, and of the zeros beside them."""
    map = map_of("fourier", 1100)
    X = np.random.default_rng(0).normal(size=(8, map.n_in)).astype(np.float32)
    columns = map.components(X, "float64")
    for j in (0, 255, 256, 511, 512, 1023, 1024, 1061, 1062, 1099):
        coef = np.zeros((map.n_components, 1), np.float32)
        coef[j] = 1
        G, _, S = fused_gradient(
            map.panels, map.rows(X), coef, np.zeros(1, np.float32), np.zeros((8, 1), np.float32), None, ("", 0.0)
        )
        np.testing.assert_allclose(S[:, 0], columns[:, j], atol=2e-6)
        np.testing.assert_allclose(G[:, 0], columns.T @ columns[:, j], atol=2e-5)


def test_maps_that_go_another_way_say_so():
    assert FourierMap.draw(KERNEL, 5, 64, 0, form="offset").panels is None
    assert FourierMap.draw(KERNEL, 5, 64, 0, "structured").panels is None
    assert map_of("nystrom", 64, p=products.MOST_DATA_COLUMNS).panels is None
    assert map_of("fourier", 64, p=products.MOST_DATA_COLUMNS + 1).panels is None
