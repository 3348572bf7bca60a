"""Error against cost, and the parts of the local stage: the numbers of the pictures, and that pages show them."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from dkernel import KernelClassifier, KernelRegressor
from dkernel.data.block import Block
from dkernel.report.numbers import judge, local_regions, regions
from dkernel.report.tradeoffs import error_by_components, error_by_seconds

X = np.random.default_rng(0).uniform(size=(900, 2)).astype(np.float32)
Y = (np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1])).astype(np.float64)
HELD = Block(X[:300], Y[:300])


def machine(**settings):
    return KernelRegressor("gaussian", gamma=3.0, n_components=64, **settings).fit(X, Y)


def titles(page):
    return re.findall(r"<h3>([^<]*)</h3>", page)


def test_all_components_are_the_model_and_few_are_worse():
    fitted = machine(local="none", solver="normal")
    found = judge(fitted.model_, HELD)
    cost = error_by_components(fitted.model_, HELD, found)
    assert cost.holdout[:, 0].tolist() == [16.0, 32.0, 64.0]
    assert cost.holdout[-1, 1] == found.merits["RMSE"] < 0.9 * cost.holdout[0, 1]
    drawn = KernelClassifier("gaussian", gamma=3.0, n_components=64, features="fourier").fit(X, Y > 0)
    assert error_by_components(drawn.model_, HELD, found) is None  # without landmarks


def test_a_line_has_the_time_at_which_its_rows_were_done():
    history = [{"pass": 1, "rows": 50, "loss": 1.0, "accuracy": 0.5},
               {"pass": 1, "rows": 50, "loss": 1.0, "accuracy": 0.6},
               {"holdout": "pass-0", "loss": 1.0, "accuracy": 0.75, "rows": 9},
               {"grids": 16, "rows": 100, "loss": 1.0, "accuracy": 1.0, "holdout_loss": 1.0, "holdout_accuracy": 0.875},
               {"cells": 1, "rows": 7, "parts": 1, "of": 1}]  # fmt: skip
    trail = [("survey", 0.0, 0), ("survey", 1.0, 100), ("pass 1/1", 1.0, 0), ("pass 1/1", 3.0, 100), ("grids", 5.0, 0),
             ("grids", 6.0, 100), ("finish", 7.0, 0)]  # fmt: skip
    cost = error_by_seconds(history, trail, None)
    assert (cost.name, cost.rounds.tolist(), cost.holdout.tolist()) == (
        "error", [[2.0, 0.5], [3.0, 0.4]], [[3.0, 0.25], [6.0, 0.125]],
    )  # fmt: skip


@pytest.mark.parametrize(("local", "title"), [("cells(rows=200)", "Cells"), ("grids(n_grids=16)", "Bins of one grid")])
def test_a_model_of_two_features_shows_the_parts_of_its_local_stage(local, title, tmp_path):
    """A report of a fit with cells ended with KeyError: its lines of the history have no loss."""
    fitted = machine(local=local, solver="psgd")
    fitted.report(tmp_path / "fit.html")
    shown = titles((tmp_path / "fit.html").read_text())
    assert {title, "Decision regions", "Error against seconds", "Error against components"} <= set(shown)
    plane = regions(fitted.model_, HELD, judge(fitted.model_, HELD))
    parts = local_regions(fitted.model_, plane)
    assert len(np.unique(parts)) >= 4
    assert (np.diff(parts, axis=1) != 0).mean() < 0.2  # they are areas
