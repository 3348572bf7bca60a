"""The compiled loops are their numpy twins, and the walk over tiles is a plain product."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.features import FourierMap, NystromMap, Scaling
from dkernel.kernels import Gaussian, Laplacian
from dkernel.model.model import ScaledComponents
from dkernel.numerics import tiling
from tests.numerics import references
from tests.processor import place_moves_bits


def rng(seed=0):
    return np.random.default_rng(seed)


def turns(limit):
    z = rng().uniform(-limit, limit, 40_000)
    exact = [0.0, 0.25, 0.5, 0.75, 1.0, limit, -limit, 0.125, 1e-7, -1e-7]
    return np.concatenate([z, exact]).astype(np.float32)


@pytest.mark.parametrize("limit", [0.5, 3.0, 2.0**10, 2.0**22, 2.0**24, 1e13, 3e38])
def test_cos_is_its_twin(limit):
    tile, twin = turns(limit), turns(limit)
    tiling.cos_turns_inplace(tile)
    references.cos_turns_inplace(twin)
    assert np.abs(tile - twin).max() <= 2e-6


@pytest.mark.parametrize("limit", [0.5, 3.0, 2.0**10, 2.0**22, 2.0**24, 1e13, 3e38])
def test_sine_and_cosine_are_their_twins(limit):
    z = turns(limit)
    tile = np.stack([z, np.full_like(z, 7)])
    twin = tile.copy()
    tiling.sincos_turns_inplace(tile)
    references.sincos_turns_inplace(twin)
    assert np.abs(tile - twin).max() <= 2e-6
    assert np.abs((tile.astype(float) ** 2).sum(axis=0) - 1).max() <= 6e-6


def test_exp2_is_its_twin():
    z = np.concatenate([rng().uniform(-126, 0, 40_000), -np.logspace(-8, 2, 500), np.arange(-126.0, 1)])
    tile = z.astype(np.float32).reshape(-1, 1)
    twin = tile.copy()
    tiling.exp2_inplace(tile)
    references.exp2_inplace(twin)
    assert np.abs(tile / twin - 1).max() <= 1e-6


def test_exp2_clamps_its_exponent():
    tile = np.array([1e-3, 5.0, 1e30, -127.0, -1e30, -0.0], dtype=np.float32)
    tiling.exp2_inplace(tile)
    assert tile.tolist() == [1.0, 1.0, 1.0, 2.0**-126, 2.0**-126, 1.0]


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 17), (256, 54, 512)])
def test_l1_is_its_twin(shape):
    n, p, m = shape
    X, Z = rng().standard_normal((n, p)).astype(np.float32), rng(1).standard_normal((p, m)).astype(np.float32)
    out, twin = np.full((n, m), np.nan, np.float32), np.empty((n, m), np.float32)
    tiling.l1_distances(X, Z, out)
    references.l1_distances(X[:20], Z, twin[:20])
    np.testing.assert_allclose(out[:20], twin[:20], rtol=1e-5, atol=1e-5)


def maps(p):
    scale = 0.5 / p
    Z = rng(2).standard_normal((1100, p)).astype(np.float32)
    return {
        "nystrom": NystromMap(Gaussian(scale), Z),
        "laplacian": NystromMap(Laplacian(scale), Z[:520]),
        "pairs": FourierMap.draw(Gaussian(scale), p, 1100, seed=1, sampling="iid"),
        "offset": FourierMap.draw(Gaussian(scale), p, 700, seed=1, sampling="iid", form="offset"),
    }


def case(name, p, outputs, n):
    scaling = Scaling("standard", rng(3).standard_normal(p), 1 + rng(4).random(p))
    columns = ScaledComponents(scaling, maps(p)[name])
    D = columns.map.n_components
    coef, intercept = rng(5).standard_normal((D, outputs)) / D**0.5, rng(6).standard_normal(outputs)
    return columns, rng(7).standard_normal((n, p)).astype(np.float32), coef, intercept


@pytest.mark.parametrize("name", ["nystrom", "laplacian", "pairs", "offset"])
@pytest.mark.parametrize("n", [1, 255, 256, 600])
def test_scores_are_the_plain_product(name, n):
    columns, X, coef, intercept = case(name, 5, 3, n)
    S = tiling.scores(columns, X, coef, intercept)
    plain = columns.map.components(columns.scaling.apply(X)) @ coef + intercept
    assert S.dtype == np.float32
    assert S.shape == (n, 3)
    np.testing.assert_allclose(S, plain, atol=2e-5)


@pytest.mark.parametrize("name", ["nystrom", "laplacian", "pairs", "offset"])
@pytest.mark.parametrize("n", [1, 256, 600])
def test_accumulate_is_the_plain_product(name, n):
    columns, X, coef, intercept = case(name, 5, 3, n)
    Y = rng(8).standard_normal((n, 3)).astype(np.float32)
    starts = []

    def residual(S, first):
        starts.append((first, len(S)))
        return S - Y[first : first + len(S)]

    G, g = tiling.accumulate(columns, X, coef, intercept, residual)
    F = columns.map.components(columns.scaling.apply(X))
    R = F @ coef + intercept - Y
    np.testing.assert_allclose(G, F.T @ R, atol=1e-4 * n**0.5)
    np.testing.assert_allclose(g, R.sum(axis=0), atol=1e-4 * n**0.5)
    assert G.dtype == g.dtype == np.float64
    assert starts == [(i, min(256, n - i)) for i in range(0, n, 256)]


ANYWHERE = [
    *(
        (name, p, rotated, dtype)
        for name in ("nystrom", "pairs")
        for p in (4, 28)
        for rotated, dtype in ((False, "float32"), (True, "float32"), (False, "float64"))
    ),
    ("laplacian", 4, False, "float32"),
    ("laplacian", 784, False, "float32"),
]
# The columns or the product with a metric are those of BLAS.
BY_BLAS = [
    ("nystrom", 28, True, "float64"),
    ("nystrom", 784, False, "float32"),
    ("pairs", 784, False, "float32"),
    ("offset", 28, False, "float32"),
    ("laplacian", 784, True, "float32"),
]


@pytest.mark.parametrize("outputs", [1, 7])
@pytest.mark.parametrize(
    ("name", "p", "rotated", "dtype"), [*ANYWHERE, *(pytest.param(*each, marks=place_moves_bits) for each in BY_BLAS)]
)
def test_a_row_has_the_same_bits_alone_in_a_batch_and_anywhere_in_it(name, p, rotated, dtype, outputs):
    columns, X, coef, intercept = case(name, p, outputs, 300)
    if rotated:
        rotation = rng(9).standard_normal((p, p)) / p**0.5
        columns = ScaledComponents(replace(columns.scaling, rotation=rotation), columns.map)
    X = X.astype(dtype)
    whole = columns.scores(X, coef, intercept)
    for i in (0, 1, 17, 255, 256, 299):
        alone = columns.scores(X[i : i + 1], coef, intercept)
        assert alone.tobytes() == whole[i : i + 1].tobytes()
    turned = columns.scores(np.ascontiguousarray(X[::-1]), coef, intercept)
    assert turned[::-1].tobytes() == whole.tobytes()
    shifted = columns.scores(X[3:260], coef, intercept)
    assert shifted.tobytes() == whole[3:260].tobytes()


def test_what_pads_a_tile_does_not_enter_the_gradient():
    columns, X, coef, intercept = case("nystrom", 4, 2, 40)
    G, g = tiling.accumulate(columns, X, coef, intercept, lambda S, _: np.ones_like(S))
    np.testing.assert_allclose(g, [40, 40])
    np.testing.assert_allclose(
        G[:, 0], columns.map.components(columns.scaling.apply(X)).sum(axis=0), rtol=1e-4, atol=1e-5
    )


def test_a_large_tile_before_leaves_nothing_for_a_small_one_after():
    big, small = case("nystrom", 4, 2, 600), case("pairs", 4, 1, 10)
    before = tiling.accumulate(*small, lambda S, _: S)
    tiling.accumulate(*big, lambda S, _: S)
    after = tiling.accumulate(*small, lambda S, _: S)
    assert before[0].tobytes() == after[0].tobytes()


def test_an_empty_block_has_no_scores_and_no_gradient():
    columns, X, coef, intercept = case("nystrom", 4, 2, 0)
    assert tiling.scores(columns, X, coef, intercept).shape == (0, 2)
    G, g = tiling.accumulate(columns, X, coef, intercept, lambda S, _: S)
    assert not G.any()
    assert not g.any()
