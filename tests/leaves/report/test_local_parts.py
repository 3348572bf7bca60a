"""Pages of models with a local stage."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from dkernel import KernelRegressor

X = np.random.default_rng(0).uniform(size=(900, 2)).astype(np.float32)
Y = (np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1])).astype(np.float64)


def machine(**settings):
    return KernelRegressor("gaussian", gamma=3.0, n_components=64, **settings).fit(X, Y)


def titles(page):
    return re.findall(r"<h3>([^<]*)</h3>", page)


@pytest.mark.parametrize("local", ["cells(rows=200)", "grids(n_grids=16)"])
def test_a_model_of_two_features_has_a_page(local, tmp_path):
    """A report of a fit with cells ended with KeyError: its lines of the history have no loss."""
    machine(local=local, solver="psgd").report(tmp_path / "fit.html")
    assert {"Residuals", "0", "1"} <= set(titles((tmp_path / "fit.html").read_text()))
