"""The search for the settings of grids: what it finds, what it costs, and that no number of threads changes it."""

import numpy as np
import pytest

from dkernel import KernelRegressor
from dkernel.features import Scaling
from dkernel.losses.losses import parse_loss
from dkernel.model.local.grid_machine import GridSettings
from dkernel.model.local.inputs import GridInputs
from dkernel.training.grids.search import STEPS, GridRows, GridTrials, first_settings, gain_slopes, search_settings
from dkernel.training.grids.stage import SEARCHED, automatic_grids, tried_rows

INPUTS = GridInputs(np.zeros(8), ((6, 7),))  # six numbers, and a category of two


def rows(n, seed, outputs=1, weight=False):
    """The first number matters on a fine scale, the second on a coarse one, the category too, the others do not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)).astype(np.float32)
    X[:, 6:] = np.eye(2)[rng.integers(0, 2, n)]
    y = np.sin(6 * X[:, 0]) + 0.5 * X[:, 1] + X[:, 6] + 0.3 * rng.normal(size=n)
    Y = np.repeat(y.astype(np.float32)[:, None], outputs, axis=1)
    return GridRows(INPUTS(X), Y, np.zeros_like(Y), rng.integers(1, 4, n).astype(float) if weight else None)


def trials(n=4000, threads=1, loss="squared", **kind):
    return GridTrials(parse_loss(loss), 32.0, INPUTS, 0, rows(n, 0, **kind), rows(2000, 1, **kind), threads)


def start():
    return first_settings(INPUTS, Scaling("standard", np.zeros(8), np.ones(8)))


@pytest.mark.parametrize("kind", [{}, {"outputs": 2}, {"weight": True}], ids=str)
def test_inputs_that_matter_are_used_and_found_at_their_scale(kind):
    before, (found, scores) = trials(**kind), search_settings(trials(**kind), start())
    first = before.mean_loss(before.fit(start(), 256, 1.0)[0])
    assert before.mean_loss(scores) < 0.8 * first
    assert found.used[[0, 6]].min() > 2 * found.used[2:6].max()
    assert found.gamma[0] > 2 * found.gamma[1]
    assert found.gamma[6] == 1.0


def test_neither_threads_nor_another_run_changes_a_bit():
    one, many = (search_settings(trials(70_000, threads), start(), steps=2) for threads in (1, 3))
    np.testing.assert_array_equal(one[0].gamma, many[0].gamma)
    np.testing.assert_array_equal(one[0].used, many[0].used)
    np.testing.assert_array_equal(one[1], many[1])


def test_slopes_are_those_of_a_regression_of_the_gains():
    settings = GridSettings(np.ones(7), np.full(7, 0.5), 10.0)
    grids, rng = settings.draw(INPUTS, 256, 0), np.random.default_rng(0)
    uses = grids.inverse > 0
    finer = np.where(uses, np.log(np.where(uses, grids.inverse, 1)), 0)
    gains = 2.0 * uses[:, 3] - 1.0 * finer[:, 1] + 0.1 * rng.normal(size=256)
    of_finer, of_uses = gain_slopes(grids, np.split(gains, 4), INPUTS.categorical)
    assert (np.abs(of_finer).argmax(), np.abs(of_uses).argmax()) == (1, 3)
    assert of_finer[1] < -10
    assert of_uses[3] > 10
    assert np.abs(np.delete(of_finer, 1)).max() < 4
    assert of_finer[6] == 0
    nothing = gain_slopes(grids, [np.zeros(256)], INPUTS.categorical)
    assert not np.concatenate(nothing).any()


def test_a_search_ends_with_the_best_of_its_steps():
    tried = trials()
    scores = [search_settings(tried, start(), steps)[1] for steps in (1, STEPS)]
    assert tried.mean_loss(scores[1]) <= tried.mean_loss(scores[0])


@pytest.mark.parametrize("n", [10_000, 300_000, 2_000_000, 10**8])
def test_a_search_costs_no_more_than_the_grids_or_little(n):
    grids = automatic_grids(n)
    assert tried_rows(n, 28, 28, grids) * SEARCHED <= max(n * grids, 2**16 * SEARCHED)
    assert tried_rows(n, 2000, 2000, grids) * 2000 * 4 <= 2**26
    assert tried_rows(n, 2000, 50, grids) * 2000 * 4 <= 2**28


@pytest.mark.parametrize("n", [150, 1200])
@pytest.mark.parametrize("loss", ["squared", "quantile(0.9)", "epsilon_insensitive(0.1)"])
def test_a_race_takes_losses_with_kinks_and_few_rows(loss, n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    machine = KernelRegressor(local="grids", loss=loss, holdout=0.2).fit(X, np.sin(X[:, 0]))
    assert np.corrcoef(machine.predict(X), np.sin(X[:, 0]))[0, 1] > 0.9
