"""The laws that every feature map obeys: the mean of its kernel, its rate, its two ways to columns, its stored form."""

import json
import pickle

import numpy as np
import pytest

from dkernel.features import Scaling, map_from
from dkernel.model.model import Model
from dkernel.model.model_file import load_model, save
from dkernel.model.recipe import Recipe
from dkernel.numerics import tiling
from dkernel.numerics.tiling import TILE_COMPONENTS, TILE_ROWS
from tests.features.catalogue import CATALOGUE, EXACT, RANDOM


def approximations(member, columns, seeds):
    """k-hat of each pair for each seed, (seeds, pairs)."""
    X, Z = member.pairs()
    both = np.concatenate([X, Z])
    found = []
    for seed in seeds:
        F = member.draw(columns, seed)(both)
        found.append((F[: len(X)] * F[len(X) :]).sum(axis=1))
    return np.array(found)


def values(member):
    X, Z = member.pairs()
    return np.array([member.kernel(x[None], z[None])[0, 0] for x, z in zip(X, Z, strict=True)])


DRAWS = 150  # of which the mean is taken: a bias of a third of a deviation is seen


@pytest.mark.parametrize("member", RANDOM, ids=repr)
def test_unbiased(member):
    found = approximations(member, member.columns, range(DRAWS))
    error = found.mean(axis=0) - values(member)
    scale = np.abs(values(member)).max()
    assert (np.abs(error) <= 4 * found.std(axis=0) / DRAWS**0.5 + 2e-4 * scale).all(), error / found.std(axis=0)


@pytest.mark.parametrize("member", EXACT, ids=repr)
def test_exact_maps_are_exact(member):
    k = values(member)
    np.testing.assert_allclose(approximations(member, member.columns, [0])[0], k, atol=member.error * np.abs(k).max())


def slope_of(member, sizes, seeds):
    """d log error / d log columns."""
    k = values(member)
    errors = [np.sqrt(np.mean((approximations(member, n, range(seeds)) - k) ** 2)) for n in sizes]
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


def once_a_way(members):
    """By default the first of each way of drawing; the same way with other kernels is slow."""
    first = {member.name: member for member in reversed(members)}
    return [m if first[m.name] is m else pytest.param(m, marks=pytest.mark.slow) for m in members]


@pytest.mark.parametrize("member", once_a_way([m for m in RANDOM if m.slope]), ids=repr)
def test_the_error_falls_as_the_root_of_the_columns(member):
    assert slope_of(member, [member.columns * 2**j for j in range(4)], 150) == pytest.approx(member.slope, abs=0.07)


@pytest.mark.slow
@pytest.mark.parametrize("member", [m for m in RANDOM if m.slope], ids=repr)
def test_and_so_it_does_up_to_16_384_columns(member):
    # At least so fast: a sketch of many more columns than there are monomials has hardly a collision.
    assert slope_of(member, [2**j for j in range(8, 15)], 100) < member.slope + 0.07


@pytest.mark.parametrize("member", [m for m in RANDOM if m.low_discrepancy], ids=repr)
def test_low_discrepancy_falls_faster(member):
    assert slope_of(member, [64, 256, 1024], 60) < -0.5


def near(found, wanted):
    """float32 beside float64; a phase of many turns, from the tail of a heavy law, has lost digits."""
    error = np.abs(found - wanted) / max(1.0, np.abs(wanted).max())
    return np.mean(error > 2e-5) <= 0.02 and error.max() <= 0.05


@pytest.mark.parametrize(
    ("member", "columns"), [(m, n) for i, m in enumerate(CATALOGUE) for n in (None, (600, 1301)[i % 2])], ids=repr
)
def test_float32_tiles_are_the_float64_columns(member, columns):
    map = member.draw(columns or member.columns, 3)
    X = np.concatenate([*member.pairs(TILE_ROWS // 2)]).astype(np.float32)
    F = map.components(X)
    assert F.shape == (TILE_ROWS, map.n_components)
    assert map.components(X, "float32").dtype == np.float32
    assert near(map.components(X, "float32"), F)
    covered = []
    rows = map.rows(X)
    for first, k, width in map.groups:
        assert k * width <= 2 * TILE_COMPONENTS
        out = np.full((k, TILE_ROWS, width), np.nan, np.float32)
        map.fill(rows, first, out)
        for t in range(k):
            start = first + t * width
            assert near(out[t], F[:, start : start + width])
            covered += range(start, start + width)
    assert covered == list(range(map.n_components))


@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_the_seed_decides(member):
    X, _ = member.pairs()
    one, again, other = (member.draw(member.columns, seed)(X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert member.exact == np.array_equal(one, other)


@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_a_number_whitens_and_measures(member):
    map = member.draw(member.columns, 1)
    X, _ = member.pairs()
    alpha = np.random.default_rng(1).standard_normal(map.n_components)
    w = alpha / map.whitening
    coordinates = map.coordinates()
    assert (coordinates.n, coordinates.basis, map.n_out) == (map.n_components, None, map.n_components)
    np.testing.assert_allclose(map.components(X) @ alpha, map(X) @ w)
    np.testing.assert_allclose(coordinates.metric * (alpha @ alpha), w @ w)


def model_of(map, n_in):
    rng = np.random.default_rng(5)
    return Model(
        recipe=Recipe(solver="psgd", kernel=repr(map.kernel), gamma=0.3, n_components=map.n_components),
        scaling=Scaling("none", np.zeros(n_in), np.ones(n_in)),
        map=map,
        coef=rng.standard_normal((map.n_components, 1)),
        intercept=np.array([0.3]),
        classes=None,
        columns=tuple(f"x{i}" for i in range(n_in)),
        label="y",
    )


@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_text_pickle_and_file_make_it_again(member, tmp_path):
    map = member.draw(member.columns, 3)
    X = member.pairs(TILE_ROWS)[0].astype(np.float32)
    map(X), tiling.scores(map, X, np.ones((map.n_components, 1)), np.zeros(1))
    save(model_of(map, member.n_in), tmp_path / "model.safetensors")
    for again in (
        pickle.loads(pickle.dumps(map)),
        map_from(json.loads(json.dumps(map.spec())), map.arrays()),
        load_model(tmp_path / "model.safetensors").map,
    ):
        np.testing.assert_array_equal(again(X), map(X))
        assert (again.groups, again.kernel, again.n_in) == (map.groups, map.kernel, map.n_in)
        assert again.spec() == map.spec()
    assert map.kernel == member.kernel


@pytest.mark.parametrize("member", CATALOGUE, ids=repr)
def test_a_row_has_the_same_bits_alone(member):
    model = model_of(member.draw(600, 3), member.n_in)
    X = np.concatenate([*member.pairs(250)]).astype(np.float32)
    S = model.scores(X)
    for i in (0, 7, 256, 400, 499):
        np.testing.assert_array_equal(model.scores(X[i : i + 1])[0], S[i])
    np.testing.assert_array_equal(model.scores(X[3:290]), S[3:290])
