"""The preconditioner of a sketch against the matrix that it stands for."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.errors import DataError
from dkernel.losses.losses import LOSSES
from dkernel.model import serialization
from dkernel.solvers.lowrank_preconditioner import Sketch
from tests import reference

M, N, Q = 300, 200, 40
CUTS = [90, N]


def features(metric, seed=0):
    """Rows in the coordinates w, the intercept last."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((M, N)) * np.linspace(1.0, 0.02, N) / np.sqrt(metric)
    return np.concatenate([F, np.ones((M, 1))], axis=1)


def sketch_of(A, metric, q=Q):
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(A @ (A.T @ rng.standard_normal((len(A), q))))[0]
    B = (basis.T @ A).astype(np.float32)
    return Sketch.of([np.ascontiguousarray(part) for part in np.split(B, CUTS, axis=1)], metric, len(A)), B.astype(
        float
    )


def dense(B, metric, rho):
    """The formula of `solvers.lowrank_preconditioner` with every matrix there is, in the coordinates v."""
    mu, U = np.linalg.eigh(B @ B.T / M)
    V = B.T @ U / np.sqrt(M * mu)
    tail = mu[0] + rho
    P = (np.eye(N + 1) - V @ np.diag(1 - tail / (mu + rho)) @ V.T) / tail
    scale = np.append(np.full(N, metric**-0.5), 1.0)
    return scale[:, None] * P * scale


@pytest.mark.parametrize("metric", [1.0, 50.0])
@pytest.mark.parametrize("rho", [0.0, 1e-3, 1.0])
def test_solve_is_the_dense_formula(metric, rho):
    sketch, B = sketch_of(features(metric), metric)
    held = np.random.default_rng(2).standard_normal((60, N + 1))
    scale = np.append(np.full(N, metric**-0.5), 1.0)
    P = sketch.at(rho, sketch.project(np.split((held * scale).T, CUTS)))
    g = np.random.default_rng(3).standard_normal((N + 1, 3))
    kept, expected = g.copy(), dense(B, metric, rho)
    assert np.abs(P.solve(g) - expected @ g).max() <= 1e-5 * np.abs(expected @ g).max()
    both = P.half_transposed(P.half(g))
    assert np.abs(both - expected @ g).max() <= 1e-5 * np.abs(expected @ g).max()
    np.testing.assert_array_equal(g, kept)
    forms = np.einsum("ij,jk,ik->i", held, expected, held)
    np.testing.assert_allclose([P.leverage, P.peak], [np.quantile(forms, 0.95), forms.max()], rtol=1e-4)


def test_on_its_span_it_is_the_inverse_of_the_covariance():
    """With as many rows of the sketch as there are features there is nothing beyond the span."""
    A = features(1.0)
    sketch, _ = sketch_of(A, 1.0, q=N + 1)
    P = sketch.at(0.01, sketch.project(np.split(A[:20].T, CUTS)))
    inverse = np.linalg.inv(A.T @ A / M + 0.01 * np.eye(N + 1))
    g = np.random.default_rng(3).standard_normal((N + 1, 2))
    assert np.abs(P.solve(g) - inverse @ g).max() <= 1e-4 * np.abs(inverse @ g).max()


def test_directions_are_taken_down_as_by_their_definition():
    sketch, B = sketch_of(features(1.0), 1.0)
    plain = sketch.at(0.01, sketch.project(np.split(features(1.0, 5)[:9].T, CUTS)))
    U, values = np.linalg.qr(np.random.default_rng(4).standard_normal((N + 1, 3)))[0], np.array([4.0, 2.0, 1.5])
    tamed = replace(plain, directions=U, values=values)
    g = np.random.default_rng(3).standard_normal((N + 1, 2))
    w, V = np.linalg.eigh(dense(B, 1.0, 0.01))
    root = (V * np.sqrt(w)) @ V.T
    expected = root @ (np.eye(N + 1) - U @ np.diag(1 - 1 / values) @ U.T) @ root @ g
    assert np.abs(tamed.solve(g) - expected).max() <= 1e-4 * np.abs(expected).max()
    assert tamed.step(100.0, LOSSES["squared"]) == plain.step(100.0, LOSSES["squared"])


@pytest.mark.parametrize("target", [5.0, 25.0])
def test_the_ridge_gives_the_effective_dimension(target):
    sketch, B = sketch_of(features(1.0), 1.0)
    rho = sketch.ridge(target, 0.0)
    S = B.T @ B / M
    assert abs(reference.effective_dimension(S, np.eye(N + 1), rho) / target - 1) <= 1e-3
    assert sketch.ridge(target, 2 * rho) == 2 * rho


def test_directions_that_are_none_are_left_out():
    A = features(1.0)
    A[:, 5:-1] = 0.0
    sketch, _ = sketch_of(A, 1.0)
    assert len(sketch.values) == 6
    P = sketch.at(1e-3, sketch.project(np.split(A[:9].T, CUTS)))
    inverse = np.linalg.inv(A.T @ A / M + 1e-3 * np.eye(N + 1))
    g = A.T @ np.random.default_rng(3).standard_normal((M, 1))
    assert np.abs(P.solve(g) - inverse @ g).max() <= 1e-3 * np.abs(inverse @ g).max()


def test_a_sample_of_nothing_is_refused():
    with pytest.raises(DataError, match="all zero"):
        Sketch.of([np.zeros((4, 9), np.float32)], 1.0, 10.0)


def test_a_checkpoint_keeps_the_sketch_once_for_all_its_preconditioners():
    sketch, _ = sketch_of(features(1.0), 1.0)
    held = sketch.project(np.split(features(1.0)[:9].T, CUTS))
    made = [sketch.at(rho, held) for rho in (1e-3, 1e-2)]
    tree, arrays = serialization.encode_value(made)
    assert sum(array.nbytes == sketch.slices[0].nbytes for array in arrays.values()) == 1
    again = serialization.decode_value(tree, arrays)
    g = np.random.default_rng(3).standard_normal((N + 1, 2))
    for one, other in zip(made, again, strict=True):
        np.testing.assert_array_equal(one.solve(g), other.solve(g))
    assert again[0].sketch is again[1].sketch
