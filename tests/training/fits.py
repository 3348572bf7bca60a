"""A small fit of 20 rounds, for the tests that stop it, and what they ask of it."""

from pathlib import Path

import numpy as np

from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import train
from tests.streaming.sources import rings, source_of

UNITS = [(300, 200), (400,), (300, 1, 199)]
ROUNDS = 20
RECIPE = Recipe(
    solver="psgd", n_components=16, kernel="gaussian", metric="identity", gamma=0.15, rounds=ROUNDS, alpha=1e-6
)
GRIDS, CELLS = RECIPE.replace(local="grids(n_grids=48)"), RECIPE.replace(local="cells(rows=200)")


class StoppedError(Exception):
    """Ends a fit where a test wants it."""


def stop_at(**place):
    """A callback that ends a fit at the line of its history that says so."""

    def stop(line):
        if place.items() <= line.items():
            raise StoppedError

    return stop


def a_source(seed=0, text=True):
    X, y = rings(1400, seed)
    return source_of(X, np.array([f"ring {k}" for k in y]) if text else y, UNITS)


def fit(folder, executor=None, *, recipe=RECIPE, source=None, resume=True, **options):
    """The result of the fit with its checkpoint in `folder`; without one if that is None."""
    checkpoint = None if folder is None else Checkpoint(folder, resume)
    return train(source or a_source(), recipe, executor or SerialExecutor(), checkpoint=checkpoint, **options)


def digest(result, folder: Path):
    """sha256 of the model's file."""
    return model_file.save(result.model, folder / "model.safetensors")
