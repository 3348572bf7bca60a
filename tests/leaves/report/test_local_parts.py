"""The parts of the local stage: the numbers of the pictures, and that pages show them."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from dkernel import KernelRegressor
from dkernel.data.block import Block
from dkernel.leaves.report.numbers import judge, local_regions, regions

X = np.random.default_rng(0).uniform(size=(900, 2)).astype(np.float32)
Y = (np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1])).astype(np.float64)
HELD = Block(X[:300], Y[:300])


def machine(**settings):
    return KernelRegressor("gaussian", gamma=3.0, n_components=64, **settings).fit(X, Y)


def titles(page):
    return re.findall(r"<h3>([^<]*)</h3>", page)


@pytest.mark.parametrize(("local", "title"), [("cells(rows=200)", "Cells"), ("grids(n_grids=16)", "Bins of one grid")])
def test_a_model_of_two_features_shows_the_parts_of_its_local_stage(local, title, tmp_path):
    """A report of a fit with cells ended with KeyError: its lines of the history have no loss."""
    fitted = machine(local=local, solver="psgd")
    fitted.report(tmp_path / "fit.html")
    shown = titles((tmp_path / "fit.html").read_text())
    assert {title, "Decision regions"} <= set(shown)
    plane = regions(fitted.model_, HELD, judge([(fitted.model_, HELD)]))
    name, parts = local_regions(fitted.model_, plane)
    assert name == title
    assert len(np.unique(parts)) >= 4
    assert (np.diff(parts, axis=1) != 0).mean() < 0.2  # they are areas
