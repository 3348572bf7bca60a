"""Each stage of a fit, with each solver, map and local stage, allocates no more than it states."""

import tracemalloc

import numpy as np
import pytest

from dkernel.data.opening import open_source
from dkernel.features.choose import FEATURES
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.streaming.cost import THREADS_BASE, Cost
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.row_memory import RowMemory
from dkernel.training.fit import train
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.planning.memory_plan import Plan
from dkernel.training.planning.stage_costs import Peaks
from tests.streaming.sources import rings

# Tiles of rows and the like, which are as large in every fit: the bytes of an idle process, which a plan adds, have
# room for them.
ROOM = 7 * 2**20
KNOWN = Recipe(
    solver="psgd",
    kernel="gaussian",
    metric="identity",
    gamma=0.1,
    scale="standard",
    alpha=1e-6,
    local="none",
    n_components=1024,
    task="classify",
    rounds=4,
    passes=1,
)
POLYNOMIAL = {"kernel": "Polynomial(degree=2, c=1.0)", "gamma": "auto"}
FREE = {"kernel": "auto", "gamma": "auto"}
CASES = {
    "psgd nystrom none": {},
    "psgd fourier none": {"features": "fourier"},
    "psgd random none": {"features": "random"},
    "psgd maclaurin none": {"features": "maclaurin", **POLYNOMIAL},
    "psgd tensorsketch none": {"features": "tensorsketch", **POLYNOMIAL},
    "psgd exact none": {"features": "exact", **POLYNOMIAL},
    "psgd none grids": {"features": "none", "n_components": "auto", **FREE, "local": "grids(n_grids=64)"},
    "normal nystrom grids": {"solver": "normal", "loss": "squared", "local": "grids(n_grids=64)"},
    "psgd nystrom cells": {"local": "cells(rows=300)"},
    "auto auto none": {"solver": "auto", "gamma": "auto", "scale": "auto", "alpha": "auto", "features": "auto"},
    "exact nystrom none": {"solver": "exact", "n_components": "auto"},
    "normal nystrom none": {"solver": "normal", "loss": "squared", "alpha": "auto"},
    "pcg nystrom none": {"solver": "pcg", "loss": "squared"},
    "lbfgs nystrom none": {"solver": "lbfgs", "loss": "logistic"},
}
ALWAYS = ("psgd nystrom none", "normal nystrom none", "psgd nystrom cells")


class MeasuringProgress(Progress):
    """The most bytes of Python and numpy in each phase; BLAS and compiled loops have their own."""

    def __init__(self):
        super().__init__("none")
        self.begun, self.peaks = "open", {}

    def phase(self, name, *args, **more):
        self.peaks[self.begun] = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        super().phase(name, *args, **more)
        self.begun = name


def write(folder, n, p=8):
    """A folder of four files of two rings."""
    X, y = rings(n, p=p)
    table = np.zeros(n, [*((f"x{j}", "f4") for j in range(p)), ("y", "i8")])
    for j in range(p):
        table[f"x{j}"] = X[:, j]
    table["y"] = y
    for i, part in enumerate(np.array_split(table, 4)):
        np.save(folder / f"{i}.npy", part)
    return open_source(str(folder), label="y")


def stated(plan, stages):
    """Bytes of a fit, beside those of an idle process, while these stages work."""
    kept = ("left_bytes", "throughout_bytes", "client_throughout_bytes")
    others = {name: Cost(**{word: getattr(cost, word) for word in kept}) for name, cost in plan.costs.items()}
    costs = others | {name: plan.costs[name] for name in stages}
    peaks = Peaks.of(costs, RowMemory.of(plan.source), plan.machine)
    return peaks.client + (peaks.with_rows if plan.keeps_rows else peaks.worker) - THREADS_BASE


# What the name of a phase begins with -> the stages that work in it; the setup states the squares that solvers have.
PHASES = {"open": (), "survey": ("survey",), "choose": ("choice", "setup"), "prepare": ("setup",), "finish": ()}
PHASES |= dict.fromkeys(("pass", "polish", "normal", "leave", "solve"), ("setup", "solve"))


def stages_in(phase, plan):
    """The stages that work in a phase; what a solver that prepares nothing has made is there until the end."""
    of_local = [name for name in plan.local if name in phase]
    found = of_local or next(stages for word, stages in PHASES.items() if phase.startswith(word))
    return found if SOLVERS[plan.recipe.solver].prepared else ("setup", *found)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else pytest.mark.slow) for n in CASES])
def test_no_phase_allocates_more_than_stated(name, tmp_path):
    recipe, executor, progress = KNOWN.replace(**CASES[name]), SerialExecutor(), MeasuringProgress()
    source = write(tmp_path, 1500 if name.startswith("exact") else 6000)
    train(source, recipe, executor)  # what is imported and compiled once
    tracemalloc.start()
    try:
        train(source, recipe, executor, progress=progress)
        progress.phase("over")
    finally:
        tracemalloc.stop()
    plan = Plan.of(source, recipe, executor.describe())
    limits = {phase: stated(plan, stages_in(phase, plan)) + ROOM for phase in progress.peaks}
    assert {phase: peak for phase, peak in progress.peaks.items() if peak > limits[phase]} == {}


def test_every_solver_map_and_local_stage_has_a_case():
    words = {word for name in CASES for word in name.split()}
    assert words >= {*SOLVERS, *FEATURES, *LOCAL_STAGES}
