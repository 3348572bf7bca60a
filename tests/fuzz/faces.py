"""The answers of one model through every face: numpy, pandas, Dask arrays and frames, single rows, the model itself."""

import warnings
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from dkernel import KernelClassifier, KernelRegressor
from dkernel.model.model import Model
from tests.processor import WIDE

SINGLE_ROWS = 3


def machine_of(model: Model) -> Any:
    """The estimator that has this model, as after a fit."""
    if model.classes is None:
        machine: Any = KernelRegressor(loss=model.recipe.loss)
    else:
        machine = KernelClassifier(loss=model.recipe.loss, calibration=model.recipe.calibration)
        machine.classes_ = model.classes
    machine.model_ = model
    machine.n_features_in_ = len(model.columns)
    machine.feature_names_in_ = np.array(model.columns, dtype=object)
    return machine


def answers_of(machine: Any) -> dict[str, Callable[[Any], Any]]:
    """What the estimator can be asked of every row."""
    names = ["predict", "decision_function", "predict_proba"]
    return {name: getattr(machine, name) for name in names if hasattr(machine, name)}


def check_faces(machine: Any, loaded: Model, test: pd.DataFrame) -> dict[str, np.ndarray]:
    """Every answer is finite and the same through every face, bit by bit; the answers."""
    X = test.to_numpy()
    n = len(X)
    found = {}
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")  # rows without names are one of the faces
        for name, ask in answers_of(machine).items():
            expected = np.asarray(ask(X))
            check_numbers(name, expected)
            half = max(1, X.shape[1] // 2)
            faces = {
                "pandas": np.asarray(ask(test)),
                "Dask array": ask(da.from_array(X, chunks=(max(1, n // 3), half))).compute(),
                "Dask frame": np.asarray(ask(dd.from_pandas(test, npartitions=3)).compute()),
                "again": np.asarray(ask(X)),
            }
            for face, answer in faces.items():
                _same(f"{name} of {face}", answer, expected)
            for i in range(0, n, max(1, n // SINGLE_ROWS)):
                _same(f"{name} of row {i} alone", np.asarray(ask(X[i : i + 1])), expected[i : i + 1])
            found[name] = expected
        _same("predict of the loaded model", loaded.predict(X), found["predict"])
        scores = loaded.scores(X)
        check_numbers("scores of the loaded model", scores)
        if "decision_function" in found:
            _same("scores of the loaded model", np.squeeze(scores, axis=1) if scores.shape[1] == 1 else scores,
                  found["decision_function"])  # fmt: skip
    if "predict_proba" in found:
        check_probabilities(found["predict_proba"])
    return found


def check_numbers(what: str, values: np.ndarray) -> None:
    """All of them finite, where they are numbers."""
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values)
        assert not bad.any(), f"{what}: {int(bad.sum())} of {values.size} values are not finite"


def check_probabilities(p: np.ndarray) -> None:
    assert p.min() >= 0, f"a probability of {p.min()}"
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6, err_msg="sum of the probabilities of a row")


def _same(what: str, found: Any, expected: np.ndarray) -> None:
    found = np.asarray(found)
    assert found.shape == expected.shape, f"{what}: shape {found.shape} where {expected.shape} was expected"
    text = {found.dtype.kind, expected.dtype.kind} <= set("OUT")  # pandas has a type of its own for it
    assert text or found.dtype.kind == expected.dtype.kind, f"{what}: {found.dtype} where {expected.dtype} was expected"
    if not WIDE and found.dtype.kind == "f":
        # A row's place among the rows moves the last bits of its columns: 3.4e-5 of the largest score with cells.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max(), err_msg=what)
    elif not np.array_equal(found, expected):
        bad = np.flatnonzero(~np.all(np.atleast_2d((found == expected).T).T, axis=-1))
        where = int(bad[0]) if found.ndim > 1 else int(np.flatnonzero(found != expected)[0])
        raise AssertionError(f"{what} differs: row {where} is {found[where]!r}, not {expected[where]!r}")
