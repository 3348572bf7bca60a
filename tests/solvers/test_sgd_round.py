"""P-SGD as a pure state machine, and where it ends."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.losses.losses import LOSSES
from dkernel.solvers import sgd_round
from dkernel.solvers.preconditioner import factorize
from dkernel.solvers.sgd_round import CLIP, LENGTH_ROUNDS, PSGD, WINDOWS


def rng(seed=0):
    return np.random.default_rng(seed)


def problem(n=2000, D=30, outputs=2):
    """Features with a decaying spectrum and a 1, targets, a matrix metric."""
    F = rng().standard_normal((n, D)) * 0.8 ** np.arange(D)
    F = np.column_stack([F, np.ones(n)])
    Y = F @ rng(1).standard_normal((D + 1, outputs)) * 3 + 0.1 * rng(2).standard_normal((n, outputs))
    Q = np.linalg.qr(rng(3).standard_normal((D, D)))[0]
    return F, Y, (Q * np.linspace(0.5, 2, D)) @ Q.T


def solver(F, M, alphas, outputs, sample=500):
    S = F[:sample].T @ F[:sample] / sample
    held = F[sample : 2 * sample]
    made = {alpha: factorize(S, M, max(alpha, 1e-4), held) for alpha in alphas}
    return PSGD([made[alpha] for alpha in alphas], alphas, M, LOSSES["squared"], outputs)


def run(psgd, F, Y, passes, rounds=16):
    state = psgd.start(np.zeros((F.shape[1], psgd.outputs * len(psgd.alphas))))
    Y = np.tile(Y, len(psgd.alphas))
    for epoch in range(passes):
        state = psgd.start(state.v)
        for rows in np.array_split(np.arange(len(F)), rounds):
            gradient = F[rows].T @ (F[rows] @ state.v - Y[rows]) / len(rows)
            state = psgd.advance(state, gradient, len(rows), rounds, 1 / (1 + 3 * epoch))
    return psgd.candidates(state, rounds)


def ridge(F, Y, M, alpha):
    A = F.T @ F / len(F)
    A[:-1, :-1] += alpha * (M * np.eye(len(A) - 1) if isinstance(M, float) else M)
    return np.linalg.solve(A, F.T @ Y / len(F))


def test_a_gradient_that_is_far_longer_than_usual_makes_no_longer_step():
    F, Y, M = problem()
    psgd = solver(F, M, [1e-4, 1e-2], 2)
    state = psgd.start(np.zeros((len(M) + 1, 4)))
    gradient = np.tile(-F.T @ Y / len(F), 2)
    first = psgd.advance(state, gradient, 500, 16)
    again = psgd.advance(first, gradient, 500, 16, pull=np.zeros_like(first.v))
    usual = again.v - first.v
    assert again.usual == pytest.approx(first.usual)
    for times, expected in ((0.5, 0.5), (CLIP, CLIP), (100.0, CLIP), (1e6, CLIP)):
        long = psgd.advance(first, gradient * times, 500, 16, pull=np.zeros_like(first.v))
        np.testing.assert_allclose(long.v - first.v, expected * usual, rtol=1e-10)
        np.testing.assert_allclose(long.usual / first.usual, 1 + (expected - 1) / LENGTH_ROUNDS, rtol=1e-10)
    # Each head for itself: a target is learned as it would be alone.
    mixed = gradient * np.array([100.0, 1.0, 1.0, 1.0])
    moved = psgd.advance(first, mixed, 500, 16, pull=np.zeros_like(first.v)).v - first.v
    np.testing.assert_allclose(moved, usual * [CLIP, 1.0, 1.0, 1.0], rtol=1e-10)


def test_steps_that_overshoot_in_some_rounds_grow_less(monkeypatch):
    """A direction that one round in eight has, far beyond what the step is stable for."""
    F, Y, M = problem(outputs=1)
    psgd = solver(F, M, [1e-4], 1)
    bad = np.zeros((len(M) + 1, 1))
    bad[5] = 3.0 / np.sqrt(float(psgd.preconditioners[0].solve(np.eye(len(bad))[:, 5:6])[5, 0]))

    def error():
        state = psgd.start(np.zeros_like(bad))
        for i in range(64):
            rows = slice(i * 30, i * 30 + 100)
            gradient = F[rows].T @ (F[rows] @ state.v - Y[rows]) / 100
            state = psgd.advance(state, gradient + (bad * (bad.T @ state.v) if i % 8 == 7 else 0.0), 100, 64)
        return np.sqrt(np.mean((F @ state.v - Y) ** 2))

    short = error()
    monkeypatch.setattr(sgd_round, "CLIP", np.inf)
    assert short < 0.2 * error()


@pytest.mark.parametrize("metric", ["matrix", 2.5])
def test_many_passes_end_at_the_exact_ridge_solution(metric):
    F, Y, M = problem()
    M = M if metric == "matrix" else metric
    alphas = [1e-4, 1e-2]
    found = run(solver(F, M, alphas, 2), F, Y, passes=100)["average"]
    for j, alpha in enumerate(alphas):
        exact = F @ ridge(F, Y, M, alpha)
        assert np.sqrt(np.mean((F @ found[:, 2 * j : 2 * j + 2] - exact) ** 2)) <= 1e-4 * exact.std()


def test_heads_of_different_alphas_do_not_touch_each_other():
    F, Y, M = problem()
    together = run(solver(F, M, [1e-4, 1e-2], 2), F, Y, passes=2)
    for j, alpha in enumerate([1e-4, 1e-2]):
        alone = run(solver(F, M, [alpha], 2), F, Y, passes=2)
        for name in alone:
            np.testing.assert_allclose(together[name][:, 2 * j : 2 * j + 2], alone[name], rtol=1e-9, atol=1e-12)


def test_a_step_changes_neither_its_state_nor_its_gradient():
    F, _, M = problem()
    psgd = solver(F, M, [1e-4], 2)
    state = psgd.advance(psgd.start(np.ones((31, 2))), np.ones((31, 2)), 100, 1)
    gradient = rng(4).standard_normal((31, 2))
    kept = gradient.copy(), state.v.copy(), {name: total.copy() for name, total in state.sums.items()}, state.done
    once, twice = (psgd.advance(state, gradient, 100, 4) for _ in range(2))
    np.testing.assert_array_equal(gradient, kept[0])
    np.testing.assert_array_equal(state.v, kept[1])
    assert all((state.sums[name] == total).all() for name, total in kept[2].items())
    assert state.done == kept[3] == 1
    assert once.v.tobytes() == twice.v.tobytes()
    assert once.done == 2


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 32, 64])
def test_each_window_is_the_mean_of_the_last_iterates(rounds):
    F, _, M = problem()
    psgd = solver(F, M, [1e-4], 2)
    state, seen = psgd.start(np.zeros((31, 2))), []
    for _ in range(rounds):
        state = psgd.advance(state, rng(len(seen)).standard_normal((31, 2)), 100, rounds)
        seen.append(state.v)
    found = psgd.candidates(state, rounds)
    for name, share in WINDOWS.items():
        counted = psgd.count_rounds(name, rounds)
        assert counted == max(1, round(share * rounds))
        np.testing.assert_allclose(found[name], np.mean(seen[rounds - counted :], axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found["last"], seen[-1])
    assert set(found) == {*WINDOWS, "last"}


def test_a_round_without_rows_moves_nothing_and_counts():
    F, _, M = problem()
    psgd = solver(F, M, [1e-4], 2)
    state = psgd.advance(psgd.start(np.ones((31, 2))), np.zeros((31, 2)), 0, 1)
    np.testing.assert_array_equal(state.v, 1)
    np.testing.assert_array_equal(psgd.candidates(state, 1)["average"], 1)


def test_the_intercept_is_not_penalized():
    F, _, M = problem()
    psgd = solver(F, M, [10.0], 2)
    v = np.zeros((31, 2))
    v[-1] = 5.0
    np.testing.assert_array_equal(psgd.advance(psgd.start(v), np.zeros_like(v), 100, 1).v, v)


def test_momentum_goes_farther_where_the_preconditioner_overestimates():
    F, Y, M = problem()
    P = factorize(F.T @ F / len(F), M, 0.1, F[:500])
    psgd = PSGD([P, P], [1e-6] * 2, M, LOSSES["squared"], 2, shares=[1.0, 16.0])
    state, exact = psgd.start(np.zeros((31, 4))), ridge(F, Y, M, 1e-6)
    for _ in range(64):
        state = psgd.advance(state, F.T @ (F @ state.v - np.tile(Y, 2)) / len(F), 1e6, 64)
    found = psgd.candidates(state, 64)["average"]
    whole, far = (np.mean((F @ (found[:, heads] - exact)) ** 2) for heads in (slice(0, 2), slice(2, 4)))
    assert far < 0.2 * whole


@pytest.mark.parametrize(
    ("share", "batch", "rounds", "steps"),
    [(1, 99, 64, 1), (0.25, 99, 64, 1), (16, 99, 64, 16), (16, 5, 64, 5), (16, 0.5, 64, 1), (16, 99, 20, 5)],
)
def test_momentum_is_bounded_by_the_noise_of_a_round_and_by_the_rounds(share, batch, rounds, steps):
    np.testing.assert_allclose(PSGD.momentum(np.array([share]), batch, rounds), 1 - 1 / steps)


def test_a_pass_begins_at_rest():
    F, _, M = problem()
    psgd = replace(solver(F, M, [1e-4], 2), shares=[16.0])
    moving = psgd.advance(psgd.start(np.zeros((31, 2))), rng(4).standard_normal((31, 2)), 10_000, 64)
    assert moving.moved is not None
    assert psgd.start(moving.v).moved is None
