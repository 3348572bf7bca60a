"""Full-batch solvers as state machines, against dense optima."""

import numpy as np
import pytest

from dkernel.losses.losses import parse_loss
from dkernel.solvers.alpha_path import AlphaPath
from dkernel.solvers.batch_methods import LBFGS, PCG
from dkernel.solvers.preconditioner import factorize
from tests.reference import optimum

ALPHA = 1e-3


@pytest.mark.parametrize(("machine", "loss"), [(PCG, "squared"), (LBFGS, "squared"), (LBFGS, "logistic")])
def test_a_far_row_that_the_preconditioner_has_not_seen_is_learned(machine, loss):
    """Its curvature is some 20,000 times that of the others together."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6))
    X[0] *= 3000.0
    y = np.sign(X @ rng.standard_normal(6) + 0.3 * rng.standard_normal(500))
    y[0] *= -1
    F, Y, share = np.c_[X, np.ones(500)], y[:, None], np.full(500, 1 / 500)
    kind = parse_loss(loss)
    P = factorize(F[1:].T @ F[1:] / 499, 1.0, ALPHA, F[1:2])
    solver = machine(AlphaPath([P], [ALPHA], 1.0, kind, 1), 1e-9)
    state = solver.start(np.zeros((7, 1)))
    while not solver.is_over(state) and state.passes < 100:
        points = solver.candidates(state)
        scores = [F @ points[:, [j]] for j in range(points.shape[1])]
        values = np.array([share @ kind.value(Y, s).sum(axis=1) for s in scores])
        state = solver.advance(
            state, values, np.hstack([F.T @ (share[:, None] * kind.derivative(Y, s)) for s in scores])
        )
    coef, intercept = optimum(X, Y, loss, ALPHA)
    np.testing.assert_allclose(state.v[:, 0], np.r_[np.ravel(coef), np.ravel(intercept)], rtol=1e-4, atol=1e-6)
