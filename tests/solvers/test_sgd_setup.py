"""What is taken down before the passes, against eigenvalues of the whole matrix."""

import numpy as np
import pytest
import scipy.linalg as sl

from dkernel import KernelClassifier
from dkernel.data.block import Block
from dkernel.features import NystromMap
from dkernel.kernels import Gaussian
from dkernel.solvers import sgd_setup
from dkernel.solvers.alphas import ALPHA_PATH, FEW_HOLDOUT, MOMENTUM_STEPS, SHARE, alpha_paths
from dkernel.solvers.covariance import damp_directions
from dkernel.solvers.driver import HEADS
from dkernel.solvers.fit_problem import FitRun, SampledObjective
from dkernel.solvers.preconditioner import factorize
from dkernel.solvers.reservoir_split import ReservoirSplit
from dkernel.solvers.sgd_round import PSGD
from dkernel.solvers.sgd_setup import warm_start
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from tests.solvers.objectives import objective_of


def damped(columns, rows=2000):
    """P of few rows a column before and after, and the matrix of rows not seen between its halves."""
    X = np.random.default_rng(0).standard_normal((columns + 3 * columns + rows, 6)).astype(np.float32)
    landmarks, sample, unseen = np.split(X, [columns, 4 * columns])
    map = NystromMap(Gaussian(gamma=0.3), landmarks)
    objective = objective_of(map)
    blocks = [Block(part, np.zeros(len(part))) for part in (unseen, sample, landmarks)]
    holdout, fitted, chosen = blocks
    split = ReservoirSplit(holdout, chosen, chosen, fitted, fitted, fitted, -1)
    sampled = SampledObjective(FitRun(SerialExecutor(), "test", Progress("none")), objective, map.coordinates(), split)
    F, G = (objective.components.with_intercept(part) for part in (sample, unseen))
    P = factorize(F.T @ F / len(F), sampled.coordinates.metric, 1e-5, G[:100])
    half = sl.solve_triangular(P.factor, G.T, lower=True)
    return *damp_directions(sampled, P), half @ half.T / len(G)


def test_directions_that_are_far_larger_on_other_rows_are_taken_down():
    P, largest, S = damped(400)
    np.testing.assert_allclose(largest, sl.eigvalsh(S)[-1], rtol=0.02)
    np.testing.assert_allclose(P.directions.T @ P.directions, np.eye(len(P.values)), atol=1e-9)
    assert (P.values > 1).all()
    shrink = np.eye(P.n) - (P.directions * (1 - 1 / np.sqrt(P.values))) @ P.directions.T
    rest = sl.eigvalsh(shrink @ S @ shrink)[-1]
    assert rest < 0.6 * largest
    assert P.largest <= rest * 1.001
    assert rest < 1.7 * P.largest  # the step that P.largest bounds is then stable on these rows, or nearly


@pytest.mark.parametrize("columns", [1, 5, 90])
def test_of_few_columns_all_directions_are_known(columns):
    P, largest, S = damped(columns)
    np.testing.assert_allclose(largest, max(1.0, sl.eigvalsh(S)[-1]), rtol=1e-3)
    shrink = np.eye(P.n) - (P.directions * (1 - 1 / np.sqrt(P.values))) @ P.directions.T
    assert sl.eigvalsh(shrink @ S @ shrink)[-1] < 1.001
    assert P.largest >= 1


@pytest.mark.parametrize(
    ("best", "outputs", "large", "holdout", "unfinished", "wanted"),
    [
        (4, 1, False, FEW_HOLDOUT - 1, 0, [(4, 1.0)]),
        (4, 1, False, FEW_HOLDOUT - 1, 2, [(2, 1.0), (3, 1.0), (4, 1.0)]),
        (4, 1, False, FEW_HOLDOUT, 0, [(2, 1.0), (3, 1.0), (4, 1.0)]),
        (4, 1, False, FEW_HOLDOUT, 3, [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]),
        (1, 1, False, FEW_HOLDOUT, 0, [(0, 1.0), (1, 1.0)]),
        (4, 7, False, FEW_HOLDOUT, 0, [(3, 1.0), (4, 1.0)]),
        (4, 26, False, FEW_HOLDOUT, 0, [(4, 1.0)]),
        (4, 1, True, FEW_HOLDOUT, 0, [(3, 1.0)]),
        (4, 1, True, 1000, 0, [(2, 1.0), (2, MOMENTUM_STEPS), (3, 1.0), (4, SHARE)]),
        (4, 7, True, 1000, 0, [(3, SHARE), (3, 1.0)]),
    ],
)
def test_smaller_alphas_stay_where_the_holdout_can_judge_them(best, outputs, large, holdout, unfinished, wanted):
    assert alpha_paths(best, [10.0**k for k in range(-9, -2)], outputs, large, holdout, unfinished) == wanted


@pytest.mark.parametrize("large", [False, True])
def test_the_plan_counts_as_many_heads_as_there_may_be(large):
    alphas = ALPHA_PATH
    counts = [len(alpha_paths(best, alphas, 1, large, 1000, best)) for best in range(len(alphas))]
    assert max(counts) <= HEADS


class Elsewhere(SerialExecutor):
    """Counts the calls that it would send to other processes, which have more cores than this one."""

    slots, sent = 10_000, 0

    def compute(self, calls, ahead=(), read_on=()):
        self.sent += len(calls)
        return super().compute(calls, ahead, read_on)

    def executor_for_local_rows(self, small, large):  # noqa: ARG002
        return SerialExecutor() if small else self


@pytest.mark.parametrize("rows", [50, 3000])
def test_a_start_of_little_work_is_made_in_this_process_to_the_same_bits(rows, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 6)).astype(np.float32)
    map, block = NystromMap(Gaussian(gamma=0.3), X[:20]), Block(X, np.sign(X[:, 0]))
    objective = objective_of(map, "squared_hinge", np.array([-1.0, 1.0]))
    found = []
    for little in (True, False):
        monkeypatch.setattr(sgd_setup, "LITTLE_FLOPS", np.inf if little else 0.0)
        executor = Elsewhere()
        split = ReservoirSplit(block, block, block, block, block, block, -1)
        run, coordinates = FitRun(executor, "test", Progress("none")), map.coordinates()
        F = objective.components.with_intercept(X)
        P = factorize(F.T @ F / len(F), coordinates.metric, 1e-5, F[:100])
        solver = PSGD([P], [1e-3], coordinates.metric, objective.loss, 1)
        sampled = SampledObjective(run, objective, coordinates, split)
        found.append(warm_start(sampled, solver, np.zeros((map.n_components + 1, 1)), range(2)))
        assert (executor.sent == 0) == little
    np.testing.assert_array_equal(*found)
    assert np.abs(found[0]).max() > 0


def test_many_classes_use_the_one_alpha_of_the_choice():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = (2 * X @ rng.normal(size=(4, 60)) + rng.gumbel(size=(1500, 60))).argmax(axis=1)
    fit = KernelClassifier(kernel="gaussian", solver="psgd", n_components=64, local="none").fit(X, y)
    assert fit.alpha_ >= 1e-6


def test_a_path_of_few_components_that_ends_worse_than_no_score_goes_on(monkeypatch):
    """Of many columns and noisy labels, where the choice's few components needed a far smaller alpha."""
    monkeypatch.setattr(sgd_setup, "alpha_path", lambda outputs, near=None: ALPHA_PATH[: 3 if near else None])  # noqa: ARG005
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 300))
    y = np.sign(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=4000))
    fit = KernelClassifier("gaussian", gamma=0.002, solver="psgd", n_components=1500, local="none", metric="identity")
    assert fit.fit(X, y).alpha_ > ALPHA_PATH[2]
    assert fit.score(X, y) > 0.7
