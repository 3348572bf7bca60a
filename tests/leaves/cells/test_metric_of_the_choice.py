"""Cells take the metric that a choice has learned: rows are as far apart for them as for its kernel, up to a factor."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.features import Scaling
from dkernel.leaves.cells.cell_machine import CellInputs
from dkernel.leaves.cells.stage import root_of_choice

X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 10.0, 0.1]
ROTATION = np.linalg.cholesky(np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.2], [0.0, 0.2, 0.5]]))


@pytest.mark.parametrize("kind", ["standard", "global"])
def test_distances_are_those_of_the_kernel_up_to_a_factor(kind):
    moments = X.mean(axis=0), X.var(axis=0), X.min(axis=0), X.max(axis=0)
    scaling = replace(Scaling.of(kind, *moments), rotation=ROTATION)
    inputs = CellInputs(X.mean(axis=0), 1 / X.std(axis=0))
    rows = inputs(X)
    moved = rows @ root_of_choice(scaling, inputs, rows)
    ratio = np.linalg.norm(moved[:10] - moved[10:20], axis=1)
    ratio /= np.linalg.norm(scaling.apply(X[:10]) - scaling.apply(X[10:20]), axis=1)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
    np.testing.assert_allclose(np.mean(moved**2), np.mean(rows**2), rtol=1e-5)


def test_without_a_learned_metric_cells_learn_one():
    scaling = Scaling("standard", np.zeros(3), np.ones(3))
    assert root_of_choice(scaling, CellInputs(np.zeros(3), np.ones(3)), X.astype(np.float32)) is None
