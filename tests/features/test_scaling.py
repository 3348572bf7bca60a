"""Scaling: what each kind does to each column, whatever the columns are."""

import numpy as np
import pytest
import scipy.sparse as sp

from dkernel.errors import RecipeError
from dkernel.features import Scaling
from dkernel.features.scaling import SCALINGS, SPARSE
from dkernel.numerics.sparse_rows import SparseRows


def of(kind, X):
    X64 = X.astype(np.float64)
    if kind == "quantile":
        return Scaling.of_quantiles(X)
    return Scaling.of(kind, X64.mean(axis=0), X64.var(axis=0), X64.min(axis=0), X64.max(axis=0))


@pytest.fixture(name="X")
def block():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((1000, 4)) * [1, 10, 0.01, 3] + [0, 50, -1, 0]).astype(np.float32)


def test_standard_brings_each_column_to_mean_0_and_variance_1(X):
    Y = of("standard", X).apply(X).astype(float)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(Y.var(axis=0), 1, rtol=1e-4)


def test_minmax_brings_each_column_to_0_and_1(X):
    Y = of("minmax", X).apply(X)
    np.testing.assert_allclose(Y.min(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(Y.max(axis=0), 1, atol=1e-5)


def test_global_keeps_the_proportions_of_the_columns(X):
    Y = of("global", X).apply(X).astype(float)
    np.testing.assert_allclose(Y.var(axis=0).mean(), 1, rtol=1e-4)
    np.testing.assert_allclose(Y.var(axis=0) / Y.var(axis=0)[0], X.var(axis=0) / X.var(axis=0)[0], rtol=1e-3)


def test_none_changes_nothing(X):
    np.testing.assert_array_equal(of("none", X).apply(X), X)


KEPT = {"none": lambda value: value, "maxabs": np.sign}  # that do not centre


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("value", [0.0, 7.0, -3e4, 16777216.0])
def test_a_constant_column_is_centred_and_never_blown_up(X, kind, value):
    X = np.column_stack([X, np.full(len(X), value)]).astype(np.float32)
    Y = of(kind, X).apply(X)
    assert np.isfinite(Y).all()
    np.testing.assert_array_equal(Y[:, -1], KEPT.get(kind, np.zeros_like)(value))


@pytest.mark.parametrize("kind", SCALINGS)
def test_only_constant_columns(kind):
    X = np.full((5, 2), 3.0, np.float32)
    Y = of(kind, X).apply(X)
    np.testing.assert_array_equal(Y, KEPT.get(kind, np.zeros_like)(X))


def test_sparse_rows_are_scaled_as_the_rows_are():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((50, 5000)) * 10 * (rng.random((50, 5000)) < 0.02)).astype(np.float32)
    rows, largest = SparseRows.of(sp.csr_array(X)), np.abs(X).max(axis=0)
    for kind in SPARSE:
        found, wanted = Scaling.of_sparse(kind, largest), of(kind, X)
        np.testing.assert_array_equal(found.apply(rows).tocsr().toarray(), wanted.apply(X))
        assert Scaling.build(found.spec(), found.arrays()).kind == kind
    assert np.abs(Scaling.of_sparse("maxabs", largest).apply(rows).data).max() == 1
    with pytest.raises(RecipeError, match="scale='standard' shifts the columns"):
        Scaling.of_sparse("standard", largest)


@pytest.mark.parametrize("kind", ["standard", "minmax", "global"])
def test_rounding_noise_is_no_scale(kind):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal(500), 1e3 * (1 + 1e-9 * rng.standard_normal(500))])
    assert np.abs(of(kind, X).apply(X)[:, 1]).max() < 1e-3


def test_a_float64_column_with_a_large_offset_keeps_its_digits():
    x = 1e8 + np.arange(100.0)[:, None]
    Y = of("standard", x).apply(x)
    assert Y.dtype == np.float32
    np.testing.assert_allclose(Y[:, 0], (np.arange(100) - 49.5) / np.arange(100).std(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_result_is_a_block(X, dtype):
    before = X.copy()
    Y = of("standard", X).apply(np.asfortranarray(X), dtype)
    assert Y.dtype == dtype
    assert Y.flags.c_contiguous
    np.testing.assert_array_equal(X, before)


def test_spec_and_arrays_make_it_again(X):
    scaling = of("minmax", X)
    again = Scaling.build(scaling.spec(), scaling.arrays())
    assert again.kind == "minmax"
    np.testing.assert_array_equal(again.apply(X), scaling.apply(X))
