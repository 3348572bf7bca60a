"""The preconditioner against dense inverses and exact spectra."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.errors import RecipeError
from dkernel.losses.losses import LOSSES
from dkernel.solvers import preconditioner
from dkernel.solvers.preconditioner import effective_dimension, factorize, ridge_for
from tests import reference
from tests.combinations import every_two

N = 400  # a stochastic trace has an error of about (effective dimension)^(-1/2)


def rng(seed=0):
    return np.random.default_rng(seed)


def orthogonal(n, seed):
    return np.linalg.qr(rng(seed).standard_normal((n, n)))[0]


SPECTRA = {
    "geometric": 0.95 ** np.arange(N + 1),
    "polynomial": (1.0 + np.arange(N + 1)) ** -2,
    "flat": np.ones(N + 1),
    "step": np.where(np.arange(N + 1) < 100, 1.0, 1e-6),
    "low rank": np.where(np.arange(N + 1) < 300, 1.0 + np.arange(N + 1), 0.0),
}


def covariance(name):
    Q = orthogonal(N + 1, 1)
    return (Q * SPECTRA[name]) @ Q.T


def metric(name):
    if name == "one":
        return 1.0
    if name == "number":
        return 37.5
    values = np.linspace(0.5, 4.0, N) if name == "mild matrix" else 0.98 ** np.arange(N)
    Q = orthogonal(N, 2)
    M = (Q * values) @ Q.T
    return 0.5 * (M + M.T)


METRICS = ["number", "mild matrix", "matrix"]


def full(M):
    """The metric of all coordinates, the intercept's 1 last."""
    out = np.eye(N + 1)
    out[:N, :N] = M * np.eye(N) if isinstance(M, float) else M
    return out


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("rho", [1e-3, 1.0])
def test_solve_is_the_dense_inverse(kind, rho):
    S, M = covariance("polynomial"), metric(kind)
    before = S.copy()
    P = factorize(S, M, rho, rng().standard_normal((50, N + 1)))
    g = rng(3).standard_normal((N + 1, 4))
    kept = g.copy()
    np.testing.assert_allclose(P.solve(g), np.linalg.inv(S + rho * full(M)) @ g, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(S, before)
    np.testing.assert_array_equal(g, kept)


@pytest.mark.parametrize("kind", METRICS)
def test_leverage_is_the_95th_percentile_of_the_rows_forms(kind):
    S, M = covariance("geometric"), metric(kind)
    held = rng(4).standard_normal((500, N + 1))
    inverse = np.linalg.inv(S + 0.1 * full(M))
    forms = np.einsum("ij,jk,ik->i", held, inverse, held)
    np.testing.assert_allclose(factorize(S, M, 0.1, held).leverage, np.quantile(forms, 0.95), rtol=1e-8)


@pytest.mark.parametrize(
    ("kind", "spectrum", "target"), every_two(list(METRICS), ["polynomial", "flat", "low rank"], [80.0, 240.0])
)
def test_ridge_gives_the_effective_dimension(kind, spectrum, target):
    S, M = covariance(spectrum), metric(kind)
    rho = ridge_for(S, M, target, 0.0, rng(5))
    assert abs(reference.effective_dimension(S, full(M), rho) / target - 1) <= 0.15


@pytest.mark.parametrize(("power", "fewest", "most"), [(0.5, 16, 24), (1.5, 24, 24)])
def test_of_many_coordinates_no_more_steps_are_made_than_move_the_ridge(monkeypatch, power, fewest, most):
    n, steps = 1100, []
    eigenvalues = np.arange(1.0, n + 1) ** -power
    product = preconditioner._times
    monkeypatch.setattr(preconditioner, "_times", lambda S, v: steps.append(1) or product(S, v))
    found = ridge_for(np.diag(eigenvalues), 1.0, 700.0, 0.0, rng(5))
    assert fewest <= len(steps) <= most
    assert abs(effective_dimension(eigenvalues, np.ones(n), found) / 700 - 1) <= 0.15


@pytest.mark.parametrize("kind", ["one", "matrix"])
def test_ridge_of_a_spectrum_with_a_step(kind):
    """Between 100 large eigenvalues and 300 tiny ones the dimension is nearly flat in rho."""
    S, M = covariance("step"), metric(kind)
    rho = ridge_for(S, M, 95.0, 0.0, rng(5))
    assert abs(reference.effective_dimension(S, full(M), rho) / 95.0 - 1) <= 0.1


def test_ridge_never_falls_below_its_floor():
    S = covariance("geometric")
    np.testing.assert_allclose(ridge_for(S, 1.0, 10.0, 123.0, rng()), 123.0 * np.linalg.eigvalsh(S)[-1])


def test_one_column_and_its_intercept():
    S = np.array([[2.0, 0.0], [0.0, 1.0]])
    rho = ridge_for(S, 1.0, 1.0, 0.0, rng())
    np.testing.assert_allclose(rho, reference.ridge_at(S, np.eye(2), 1.0), rtol=0.3)


def test_effective_dimension_is_its_sum():
    np.testing.assert_allclose(effective_dimension(np.array([1.0, 3.0]), np.array([2.0, 0.5]), 1.0), 1.0 + 0.375)


def test_the_step_shrinks_with_the_batch_below_one_over_curvature():
    P = factorize(np.eye(N + 1), 1.0, 0.0, np.ones((10, N + 1)))
    np.testing.assert_allclose([P.leverage, P.peak], N + 1)
    for loss in LOSSES.values():
        steps = [P.step(batch, loss) for batch in (1, 10, 100, 10**4, 10**9)]
        assert steps == sorted(steps)
        assert steps[0] <= 1 / (N + 1) / loss.curvature * (1 + 1e-9)
        assert steps[-1] == 1 / loss.curvature


def test_a_large_eigenvalue_on_other_rows_makes_the_step_safe():
    P = replace(factorize(np.eye(N + 1), 1.0, 0.0, np.ones((10, N + 1))), largest=4.0)
    assert P.step(10**9, LOSSES["squared"]) * 4.0 < 2


def test_directions_are_taken_down_to_1():
    """P as a dense matrix: L^{-T} (I - U diag(1 - 1 / values) U^T) L^{-1}."""
    P = factorize(covariance("polynomial"), metric("matrix"), 0.1, np.ones((10, N + 1)))
    U, values = np.linalg.qr(rng(6).standard_normal((N + 1, 3)))[0], np.array([8.0, 3.0, 1.5])
    tamed = replace(P, directions=U, values=values)
    inverse = np.linalg.inv(P.factor)
    dense = inverse.T @ (np.eye(N + 1) - (U * (1 - 1 / values)) @ U.T) @ inverse
    g = rng(7).standard_normal((N + 1, 2))
    np.testing.assert_allclose(tamed.solve(g), dense @ g, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(P.half_transposed(P.half(g)), P.solve(g))


@pytest.mark.parametrize("columns", [N, 600])
def test_a_factor_in_the_covariances_place_is_the_same(columns):
    """Also of one that has none without a ridge of its own: each column is there twice."""
    F = rng(8).standard_normal((2 * columns, columns))
    F = np.concatenate([F, F, np.ones((len(F), 1))], axis=1)
    S, M = F.T @ F / len(F), np.zeros((2 * columns, 2 * columns))
    apart = factorize(S, M, 0.0, F[:5])
    consumed = S.copy()
    L = factorize(consumed, M, 0.0, F[:5], consumed=True).factor
    assert L is consumed
    np.testing.assert_array_equal(L, apart.factor)
    np.testing.assert_allclose(L @ L.T, S, atol=1e-6)
    assert not np.triu(L, 1).any()


def test_what_is_no_kernel_is_refused_with_its_eigenvalue():
    metric = np.diag([1.0, -0.5, 2.0])
    with pytest.raises(RecipeError, match=r"eigenvalue -0\.5 \(the largest is 2\)"):
        ridge_for(np.eye(4), metric, 1.0, 0.0, np.random.default_rng(0))
