"""What is taken down before the passes, against eigenvalues of the whole matrix."""

import numpy as np
import pytest
import scipy.linalg as sl

from dkernel.data.block import Block
from dkernel.execution.local import SerialExecutor
from dkernel.features import NystromMap, Scaling
from dkernel.kernels import Gaussian
from dkernel.linear.losses import loss_named
from dkernel.linear.preconditioner import factorize
from dkernel.model import ScaledComponents
from dkernel.problem.components import with_intercept
from dkernel.problem.objective import Problem
from dkernel.problem.reservoir_split import ReservoirSplit
from dkernel.problem.targets import Targets
from dkernel.solving.sgd_setup import FAR, FEW_HOLDOUT, SHARE, SampleEvaluator, _tamed, alpha_paths


def tamed(columns, rows=2000):
    """P of few rows a column before and after, and the matrix of rows not seen between its halves."""
    X = np.random.default_rng(0).standard_normal((columns + 3 * columns + rows, 6)).astype(np.float32)
    landmarks, sample, unseen = np.split(X, [columns, 4 * columns])
    map = NystromMap(Gaussian(gamma=0.3), landmarks)
    problem = Problem(
        ScaledComponents(Scaling("none", np.zeros(6), np.ones(6)), map), loss_named("squared"), Targets(None)
    )
    evaluator = SampleEvaluator(SerialExecutor(), "test", problem, map.coordinates())
    F, G = (with_intercept(problem.components, part) for part in (sample, unseen))
    P = factorize(F.T @ F / len(F), evaluator.coordinates.metric, 1e-5, G[:100])
    blocks = [Block(part, np.zeros(len(part))) for part in (unseen, sample, landmarks)]
    holdout, fitted, chosen = blocks
    split = ReservoirSplit(holdout, chosen, chosen, fitted, fitted, fitted, -1)
    half = sl.solve_triangular(P.factor, G.T, lower=True)
    return *_tamed(evaluator, split, P), half @ half.T / len(G)


def test_directions_that_are_far_larger_on_other_rows_are_taken_down():
    P, largest, S = tamed(400)
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
    P, largest, S = tamed(columns)
    np.testing.assert_allclose(largest, max(1.0, sl.eigvalsh(S)[-1]), rtol=1e-3)
    shrink = np.eye(P.n) - (P.directions * (1 - 1 / np.sqrt(P.values))) @ P.directions.T
    assert sl.eigvalsh(shrink @ S @ shrink)[-1] < 1.001
    assert P.largest >= 1


@pytest.mark.parametrize(
    ("best", "outputs", "large", "holdout", "wanted"),
    [
        (4, 1, False, FEW_HOLDOUT - 1, [(4, 1.0)]),
        (4, 1, False, FEW_HOLDOUT, [(2, 1.0), (3, 1.0), (4, 1.0)]),
        (1, 1, False, FEW_HOLDOUT, [(0, 1.0), (1, 1.0)]),
        (4, 7, False, FEW_HOLDOUT, [(3, 1.0), (4, 1.0)]),
        (4, 26, False, FEW_HOLDOUT, [(4, 1.0)]),
        (4, 1, True, FEW_HOLDOUT, [(3, 1.0)]),
        (4, 1, True, 1000, [(2, 1.0), (2, FAR), (3, 1.0), (4, SHARE)]),
        (4, 7, True, 1000, [(3, SHARE), (3, 1.0)]),
    ],
)
def test_smaller_alphas_than_the_sample_wants_go_on_where_the_holdout_can_tell(best, outputs, large, holdout, wanted):
    assert alpha_paths(best, [10.0**k for k in range(-9, -2)], outputs, large, holdout) == wanted
