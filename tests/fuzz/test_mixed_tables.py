"""A model of a table predicts the same of a row alone, in a block and in other chunks, and when it is exported.

Within 2e-5 of the largest score: coefficients that cancel each other leave rounding, and float32 is too coarse for it.
"""

import warnings
from contextlib import suppress

import dask
import dask.dataframe as dd
import numpy as np
import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import UnsupportedError
from tests.fuzz.mixed_tables import table

TOLERANCE = 2e-5
SETTINGS = (
    {},
    {"n_components": 32, "solver": "exact", "alpha": 1e-8},
    {"n_components": 64, "solver": "psgd"},
    {"n_components": 48, "solver": "lbfgs", "alpha": 1e-8},
)


def differences(seed, settings):
    """The largest difference from the scores of the whole table, a share of the largest score, of each other way."""
    frame, y = table(seed)
    make = KernelRegressor if y.dtype.kind == "f" else KernelClassifier
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        machine = make("gaussian", local="none", random_state=0, **settings).fit(frame, y)
        name = "predict" if y.dtype.kind == "f" else "decision_function"
        ask = getattr(machine, name)
        whole = np.asarray(ask(frame), np.float64)
        ways = {
            "alone": np.concatenate([ask(frame.iloc[[i]]) for i in range(0, len(frame), len(frame) // 5)]),
            "chunks": np.asarray(ask(dd.from_pandas(frame, npartitions=3, sort=False)).compute()),
        }
        with suppress(UnsupportedError):  # a hash of many categories has no counterpart
            ways["exported"] = getattr(machine.to_sklearn(), name)(frame)
    rows = {"alone": slice(0, None, len(frame) // 5)}
    largest = np.abs(whole).max()
    return {way: np.abs(found - whole[rows.get(way, slice(None))]).max() / largest for way, found in ways.items()}


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.get("solver", "chosen"))
@pytest.mark.parametrize("seed", [2, 9])
def test_every_way_to_predict_says_the_same(seed, settings):
    assert max(differences(seed, settings).values()) <= TOLERANCE


@pytest.mark.slow
def test_every_way_to_predict_says_the_same_of_many_tables():
    wrong = {}
    for seed in range(200):
        found = differences(seed, SETTINGS[seed % len(SETTINGS)])
        if not max(found.values()) <= TOLERANCE:
            wrong[seed] = found
    assert not wrong
