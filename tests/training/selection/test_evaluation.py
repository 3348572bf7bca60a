"""A candidate is judged by the ridge path that numpy finds, the same bits on any number of threads."""

import numpy as np
import pytest

from dkernel.data.block import Block
from dkernel.features import Scaling
from dkernel.kernels import Gaussian, Laplacian, Linear
from dkernel.losses.losses import parse_loss
from dkernel.solvers.targets import Targets
from dkernel.training.selection.evaluation import JUDGING_ALPHAS, Fidelity, FitValidationSplit, evaluate_candidate

LEVEL = Fidelity(40, 301, 150)
SCALING = Scaling("none", np.zeros(3), np.ones(3))


def halves(weighted=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((451, 3)).astype(np.float32)
    y = ((X**2).sum(axis=1) > 2.4).astype(int)
    rows = Block(X, y, rng.integers(1, 4, 451).astype(float) if weighted else None)
    return FitValidationSplit.of(parse_loss("squared_hinge"), Targets(np.array([0, 1])), rows, LEVEL)


def plain(kernel, half):
    """The smallest loss of the path, with float64 columns and a solver of its own."""
    Z, y = half.X[: LEVEL.components].astype(float), 2.0 * half.y[:, None] - 1
    w = np.ones(len(y)) if half.weight is None else half.weight
    F, G = (np.c_[kernel(X.astype(float), Z), np.ones(len(X))] for X in (half.X, half.X_judged))
    ridge = np.zeros((len(Z) + 1,) * 2)
    ridge[:-1, :-1] = kernel(Z, Z)
    losses = []
    for alpha in JUDGING_ALPHAS:
        coef = np.linalg.lstsq(F.T @ (w[:, None] * F) / w.sum() + alpha * ridge, F.T @ (w[:, None] * y) / w.sum())[0]
        each = half.loss.judging_value(2.0 * half.y_judged[:, None] - 1, G @ coef)[:, 0]
        losses.append(np.average(each, weights=half.weight_judged))
    return min(losses)


@pytest.mark.parametrize("kernel", [Gaussian(gamma=0.3), Laplacian(gamma=0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_of_the_path_is_that_of_numpy_and_threads_move_no_bit(kernel, weighted):
    half = halves(weighted)
    found = evaluate_candidate(kernel, SCALING, half, LEVEL)
    assert found.loss == pytest.approx(plain(kernel, half), rel=2e-3)
    assert found.coef.shape == (LEVEL.components, 1)
    for threads in (2, 5):
        again = evaluate_candidate(kernel, SCALING, half, LEVEL, threads)
        assert again.loss == found.loss
        np.testing.assert_array_equal(again.coef, found.coef)


@pytest.mark.parametrize("near", JUDGING_ALPHAS)
def test_the_path_finds_the_same_alpha_wherever_it_begins(near):
    half = halves()
    whole = evaluate_candidate(Gaussian(gamma=0.3), SCALING, half, LEVEL)
    found = evaluate_candidate(Gaussian(gamma=0.3), SCALING, half, LEVEL, near=near)
    assert (found.alpha, found.loss) == (whole.alpha, whole.loss)


@pytest.mark.parametrize("rows", [30, 60])
def test_a_linear_kernel_of_more_features_than_rows_is_judged_by_its_rows(rows):
    """By the rows in place of the features: of 25,600 features the square of these was 5 GB."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows + 50, 40)).astype(np.float32)
    y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(len(X))
    level = Fidelity(20, rows, 30)
    half = FitValidationSplit.of(parse_loss("squared"), Targets(None), Block(X, y), level)
    found = evaluate_candidate(Linear(), Scaling("none", np.zeros(40), np.ones(40)), half, level, plain=True)
    F, G = (np.c_[rows_of.astype(float), np.ones(len(rows_of))] for rows_of in (half.X, half.X_judged))
    ridge = found.alpha * len(F) * np.diag(np.append(np.ones(40), 0.0))
    v = np.linalg.solve(F.T @ F + ridge, F.T @ half.y[:, None])
    assert found.loss == pytest.approx(0.5 * np.mean((G @ v - half.y_judged[:, None]) ** 2), rel=1e-3)
    assert len(found.coef) == min(rows, 40)


def test_a_candidate_without_any_solution_is_no_error_and_the_worst():
    half = halves()
    half.X[7] = np.nan  # what no reader lets through
    found = evaluate_candidate(Gaussian(gamma=0.3), SCALING, half, LEVEL)
    assert found.loss == np.inf
    assert not found.coef.any()


def test_one_row_is_enough_to_be_judged_on():
    found = evaluate_candidate(Gaussian(gamma=0.3), SCALING, halves(), Fidelity(1, 1, 1))
    assert np.isfinite(found.loss)
