"""The loop of all solvers, run with a solver that is nowhere but here."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from dkernel.leaf_table import LEAF_OF_SOLVER
from dkernel.model import serialization, solver_table
from dkernel.model.journal import State
from dkernel.model.parameters import PARAMETERS
from dkernel.model.recipe import Recipe
from dkernel.model.serialization import stored
from dkernel.model.solver_table import SolverEntry
from dkernel.solvers.catalogue import SOLVER_CLASSES, solver_class
from dkernel.solvers.driver import Solver, SolverResult
from dkernel.solvers.objective import Gradient
from dkernel.solvers.sgd_round import expand_coefficients, mean_gradient
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import train
from tests.streaming.sources import source_of, waves
from tests.training.fits import digest

READINGS = 4
ENTRY = SolverEntry()


@dataclass(frozen=True, eq=False)
class DescentState(State):
    v: Any


class Descent(Solver[DescentState]):
    """Gradient descent with a step of 1."""

    phase = "descent"

    def start(self):
        return DescentState(np.zeros((self.problem.coordinates.n + 1, 1)))

    def plan(self, state):
        if state.steps == READINGS:
            return None
        statistic, name = Gradient(self.problem.objective), f"descent-{state.steps}"
        return partial(self.reduce_all, statistic, expand_coefficients(self.problem.coordinates, state.v), name)

    def advance(self, state, found):
        line = {"pass": state.steps + 1, "round": 1, "rows": found.n, "loss": float(found.loss[0] / found.weight)}
        v = state.v - mean_gradient(self.problem.coordinates, found)
        return replace(state, v=v, history=(*state.history, line), steps=state.steps + 1)

    def finish(self, state):
        alpha = float(self.problem.alpha)
        return SolverResult(state.v, alpha, 1.0, "descent", list(state.history), {}, tried=[alpha])


@pytest.fixture
def fit(monkeypatch):
    """A fit by the solver, which is entered in the two catalogues and nowhere else."""
    monkeypatch.setattr(serialization, "CODECS", dict(serialization.CODECS))
    stored("Descent")(DescentState)
    monkeypatch.setitem(solver_table.SOLVERS, "descent", ENTRY)
    monkeypatch.setitem(SOLVER_CLASSES, "descent", Descent)
    monkeypatch.setitem(PARAMETERS, "solver", replace(PARAMETERS["solver"], words=tuple(solver_table.SOLVERS)))
    X, y = waves(600)
    recipe = Recipe(kernel="Gaussian(gamma=0.15)", n_components=20, loss="squared", alpha=1e-4, solver="descent")

    def run(**options):
        return train(source_of(X, y, [(300,), (200, 100)]), recipe, SerialExecutor(), **options)

    return run


def test_a_solver_is_a_class_and_two_lines(fit):
    result = fit()
    losses = [line["loss"] for line in result.history]
    assert len(losses) == READINGS
    assert losses[-1] < losses[0]
    assert result.model.recipe.solver == "descent"


@pytest.mark.parametrize("lines", range(1, READINGS + 1))
def test_it_is_stopped_and_goes_on_to_the_same_bytes(lines, fit, tmp_path):
    def stop(line):
        if line["pass"] == lines:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(callback=stop, checkpoint=Checkpoint(tmp_path / "kept"))
    told = []
    resumed = fit(callback=told.append, checkpoint=Checkpoint(tmp_path / "kept"))
    assert [line["pass"] for line in told] == list(range(lines + 1, READINGS + 1))
    assert resumed.resumed == f"step {lines} of descent"
    assert digest(resumed, tmp_path) == digest(fit(), tmp_path)


@pytest.mark.parametrize("solver", ["pcg", "lbfgs"])
def test_a_callback_ends_a_solver_that_goes_to_the_optimum(solver):
    X, y = waves(600)
    recipe = Recipe(kernel="Gaussian(gamma=0.15)", n_components=20, loss="squared", alpha=1e-6, solver=solver)
    told = []

    def enough(line):
        told.append(line)
        return line.get("pass") == 2

    facts = train(source_of(X, y, [(600,)]), recipe, SerialExecutor(), callback=enough).model.facts["solver"]
    assert [line["pass"] for line in told] == [1, 2]
    assert (facts["passes"], facts["converged"]) == (2, False)


def test_every_solver_of_the_catalogue_is_there():
    assert SOLVER_CLASSES.keys() | LEAF_OF_SOLVER.keys() == solver_table.SOLVERS.keys()
    assert all(solver_class(word).phase for word in solver_table.SOLVERS)
