"""The race of the ways: which are fitted beside those of a trial, and which leave before a kernel is chosen."""

from types import SimpleNamespace

import numpy as np
import pytest

from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.selection.race import Race
from dkernel.training.selection.rungs import FINALIST_RUNG, race_ways
from dkernel.training.selection.ways import GRIDS_ALONE, Way

pytestmark = pytest.mark.skipif("cells" not in LOCAL_STAGES, reason="there is no leaf cells, which runs in a race")

KERNEL, CELLS = Way(), Way("none", "cells")
GRIDS, BOTH = Way("kernel", "grids"), Way("kernel", "cells")
ROWS = (2048, 4096)
SPREAD = np.array([0.9, 1.1])  # of the rows that judge


def race(losses, tried=(), n=20_000, reached=np.inf):
    """A race of ways whose mean losses on the samples are known."""
    judge = SimpleNamespace(split=SimpleNamespace(X=np.zeros((max(ROWS), 1)), weight_judged=None))
    found = Race(judge, n, [way for way in losses if way not in tried], tried, LOCAL_STAGES, reached=reached)
    for way, means in losses.items():
        found.curves[way] = {k: mean * SPREAD for k, mean in zip(ROWS, means, strict=True)}
    return found


@pytest.mark.parametrize(("n", "loss"), [(16_384, 1 / 128), (1024, 1 / 64)])  # fewer rows than it has seen
def test_a_power_of_the_rows_goes_on(n, loss):
    found = race({KERNEL: [rows**-0.5 for rows in ROWS]}, n=n)
    assert np.exp(found.predict(KERNEL)) == pytest.approx(loss)


def test_of_few_rows_all_ways_but_cells_are_tried_without_a_race():
    found = race({}, (GRIDS_ALONE, KERNEL, GRIDS))
    assert not found.is_open
    assert found.ways_to_fit() == (KERNEL, GRIDS)  # grids alone are fitted already
    assert found.explain() == "grids or components or components + grids"


@pytest.mark.parametrize(
    ("of_cells", "fitted"),
    [
        ((0.4, 0.19), (KERNEL, GRIDS, BOTH)),
        ((0.3, 0.21), (KERNEL, GRIDS)),  # worse on the sample
        ((0.2, 0.19), (KERNEL, GRIDS)),  # by the curve
    ],
)
def test_cells_are_fitted_where_they_are_better_than_all_others(of_cells, fitted):
    losses = {GRIDS_ALONE: (0.5, 0.4), KERNEL: (0.4, 0.2), GRIDS: (0.4, 0.35), BOTH: of_cells}
    found = race(losses, (GRIDS_ALONE, KERNEL, GRIDS), reached=0.05)
    found.drop_beaten()
    assert found.ways_to_fit() == fitted


@pytest.mark.parametrize(("on_sample", "left"), [(0.3, [KERNEL, CELLS]), (0.15, [KERNEL]), (0.05, [])])
def test_of_many_rows_ways_that_lead_grids_on_the_sample_are_left(on_sample, left):
    losses = {GRIDS_ALONE: (0.4, on_sample), KERNEL: (0.11, 0.1), CELLS: (0.21, 0.2)}
    found = race(losses, (GRIDS_ALONE,), n=70_000)
    found.drop_beaten()
    assert found.ways == left
    assert set(found.ways_to_fit()) <= set(left)


def test_without_a_trial_the_best_is_fitted_with_those_of_its_components():
    losses = {KERNEL: (0.4, 0.21), GRIDS: (0.4, 0.2), BOTH: (0.4, 0.3), CELLS: (0.5, 0.4)}
    assert race(losses).ways_to_fit() == (KERNEL, GRIDS)  # cells learn the rest of few components


@pytest.mark.parametrize("losses", [(2e-3, 0.0), (0.0, 0.0)])
def test_beside_a_loss_of_0_no_way_leads(losses):
    found = race({GRIDS: losses, BOTH: (1e-3, 0.0)}, (GRIDS,), reached=1.0)
    found.drop_beaten()
    assert found.ways == []
    assert "0 of components + grids" in found.explain()


def test_cells_are_not_raced_where_grids_alone_are_better_than_the_kernel():
    found = race({BOTH: (0.2, 0.1)}, (GRIDS_ALONE, KERNEL, GRIDS), reached=0.3)
    search = SimpleNamespace(race=found, loss_of=lambda loss: loss)
    assert race_ways(search, [0.4], FINALIST_RUNG) == [0.4]
    assert found.ways == []
