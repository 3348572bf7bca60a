"""The race of the ways: which are fitted in full, and which leave before a kernel is chosen for them."""

from types import SimpleNamespace

import numpy as np
import pytest

from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.selection.race import Race
from dkernel.training.selection.ways import GRIDS_ALONE, Way

pytestmark = pytest.mark.skipif("cells" not in LOCAL_STAGES, reason="there is no leaf cells, which runs in a race")

KERNEL, CELLS = Way(), Way("none", "cells")
GRIDS, BOTH = Way("kernel", "grids"), Way("kernel", "cells")
MANY = 2 * LEAST_COMPONENTS
ROWS = (1024, 2048, 4096)
SPREAD = np.array([0.9, 1.1])  # of the rows that judge


def race(losses, costs, n=20_000, effort="normal", rows=ROWS):
    """A race of ways whose mean losses on some rungs are known."""
    judge = SimpleNamespace(split=SimpleNamespace(X=np.zeros((max(rows), 1)), weight_judged=None))
    found = Race(judge, n, effort, costs, LOCAL_STAGES)
    found.ways = list(losses)
    for way, means in losses.items():
        found.curves[way] = {k: mean * SPREAD for k, mean in zip(rows, means, strict=True)}
    found.drop_losers(0.0)
    return found


@pytest.mark.parametrize(("n", "loss"), [(16_384, 1 / 128), (1024, 1 / 64)])  # fewer rows than it has seen
def test_a_power_of_the_rows_goes_on(n, loss):
    found = race({KERNEL: [rows**-0.5 for rows in ROWS]}, {KERNEL: 9.0}, n=n)
    assert np.exp(found.predict(KERNEL)) == pytest.approx(loss)


def test_a_clear_winner_is_fitted_alone():
    won = race({GRIDS_ALONE: (0.4, 0.35, 0.3), GRIDS: (0.3, 0.25, 0.2)}, {GRIDS_ALONE: 1.0, GRIDS: 9.0})
    assert won.ways_to_fit() == (GRIDS,)


def test_one_point_of_a_curve_ends_no_race():
    found = race({KERNEL: (0.29, 0.28, 0.1), GRIDS: (0.9, 0.8, 0.6)}, {KERNEL: 9.0, GRIDS: 10.0}, n=10**6)
    found.ways = [KERNEL, GRIDS]
    points = {way: found.curves[way].pop(4096) for way in found.ways}
    for curve in found.curves.values():
        del curve[1024]
    found.drop_losers(3.0)
    assert found.ways == [KERNEL, GRIDS]
    for way, losses in points.items():
        found.curves[way][4096] = losses
    found.drop_losers(3.0)
    assert found.ways == [KERNEL]


def test_a_way_with_many_times_the_loss_leaves():
    """Of almost exact answers, so its own error is many times the loss of the best."""
    ways = {GRIDS_ALONE: (400.0, 200.0, 100.0), GRIDS: (0.4, 0.2, 0.1)}
    assert race(ways, {GRIDS_ALONE: 2.0, GRIDS: 5.0}, n=5000).ways_to_fit() == (GRIDS,)


@pytest.mark.parametrize(
    ("costs", "fitted"),
    [
        ({GRIDS_ALONE: 2.0, CELLS: 5.0}, (GRIDS_ALONE,)),  # much cheaper
        ({GRIDS_ALONE: 4.5, CELLS: 5.0}, (CELLS,)),  # another fit adds more than half
    ],
)
def test_of_two_that_are_alike_the_cheap_one_is_fitted(costs, fitted):
    tied = race({GRIDS_ALONE: (0.4, 0.3, 0.2001), CELLS: (0.4, 0.3, 0.2)}, costs)
    assert tied.ways_to_fit() == fitted


@pytest.mark.parametrize(
    ("losses", "components", "following"),
    [
        ({GRIDS_ALONE: 0.2001, KERNEL: 0.2}, MANY, KERNEL),
        ({GRIDS_ALONE: 0.1, KERNEL: 0.2}, MANY, None),  # components have lost
        ({GRIDS: 0.2, CELLS: 0.2001}, MANY, None),  # all components are fitted
        ({BOTH: 0.2, GRIDS: 0.4, KERNEL: 0.5}, MANY, GRIDS),  # another local stage, if it leaves components alone
        ({BOTH: 0.2, KERNEL: 0.4}, MANY, KERNEL),
        ({BOTH: 0.2, KERNEL: 0.4}, LEAST_COMPONENTS, None),  # the fit of the cells has as many
        ({CELLS: 0.2, BOTH: 0.3, GRIDS_ALONE: 0.4}, MANY, GRIDS_ALONE),
    ],
)
def test_a_stage_that_gains_nothing_is_followed_by_the_next_way(losses, components, following):
    costs = {KERNEL: 9.0, GRIDS: 10.0, CELLS: 14.0, BOTH: 8.0, GRIDS_ALONE: 4.0}
    found = race({way: (2 * loss, 1.5 * loss, loss) for way, loss in losses.items()}, costs)
    assert found.fallback(components) == following


def test_two_that_share_components_are_both_fitted():
    losses = {KERNEL: (0.4, 0.3, 0.2001), GRIDS: (0.4, 0.3, 0.2)}
    assert race(losses, {KERNEL: 9.0, GRIDS: 10.0}).ways_to_fit() == (GRIDS, KERNEL)


def test_cells_share_no_components_with_grids():
    """They learn the rest of few components, and grids that of as many as there may be."""
    losses = {KERNEL: (0.5, 0.4, 0.3), GRIDS: (0.4, 0.3, 0.2), BOTH: (0.4, 0.3, 0.2001)}
    found = race(losses, {KERNEL: 9.0, GRIDS: 10.0, BOTH: 11.0})
    assert (found.added_seconds(GRIDS, KERNEL), found.added_seconds(BOTH, GRIDS)) == (1.0, 11.0)
    assert found.ways_to_fit() == (GRIDS,)


def test_a_high_effort_fits_all_that_are_left_and_a_low_one_the_cheapest():
    losses, costs = {GRIDS_ALONE: (0.4, 0.3, 0.2001), CELLS: (0.4, 0.3, 0.2)}, {GRIDS_ALONE: 4.5, CELLS: 5.0}
    assert race(losses, costs, effort="high").ways_to_fit() == (GRIDS_ALONE, CELLS)
    assert race(losses, costs, effort="low").ways_to_fit() == (GRIDS_ALONE,)


@pytest.mark.parametrize(
    ("reached", "on_sample", "margin", "left"),
    [
        (np.inf, 0.1, 0.0, [GRIDS_ALONE, KERNEL, CELLS]),  # grids are not fitted
        (0.25, 0.3, 0.0, [KERNEL, CELLS]),
        (0.15, 0.3, 0.0, [KERNEL]),
        (0.05, 0.3, 0.0, []),
        (0.05, 0.3, 3.0, [KERNEL]),  # whose kernel is not chosen
        (0.25, 0.15, 3.0, [KERNEL]),  # cells do not lead on the sample
    ],
)
def test_beside_fitted_grids_only_ways_that_lead_them_are_left(reached, on_sample, margin, left):
    losses = {GRIDS_ALONE: (0.5, 0.4, on_sample), KERNEL: (0.4, 0.2, 0.1), CELLS: (0.4, 0.3, 0.2)}
    found = race(losses, dict.fromkeys(losses, 9.0), n=4096)
    found.ways, found.reached = list(losses), reached
    found.drop_beaten(margin)
    assert found.ways == left
    assert set(found.ways_to_fit()) <= set(left)


def test_it_says_what_a_local_stage_wins():
    found = race({KERNEL: (0.5, 0.45, 0.4), GRIDS: (0.4, 0.36, 0.32)}, {KERNEL: 9.0, GRIDS: 10.0}, n=4096)
    assert found.explain().endswith("; grids: a predicted 20% less loss than components")


@pytest.mark.parametrize("losses", [(2e-3, 0.0), (0.0, 0.0), (1e-3, 0.0)])
def test_beside_a_loss_of_0_no_way_leaves(losses):
    found = race({GRIDS: losses, GRIDS_ALONE: (2e-3, 1e-3)}, {GRIDS: 9.0, GRIDS_ALONE: 8.0}, rows=(2048, 4096))
    assert found.ways == [GRIDS, GRIDS_ALONE]
    assert "components + grids 0, grids " in found.explain()


def test_ways_beside_perfect_components_have_no_share():
    found = race({KERNEL: (1e-3, 0.0), GRIDS_ALONE: (9e-3, 5e-3)}, {KERNEL: 9.0, GRIDS_ALONE: 8.0}, rows=(2048, 4096))
    found.reached = 0.0
    assert "%" not in found.explain()
    found.drop_beaten(0.0)
    assert found.ways == []
