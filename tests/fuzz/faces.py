"""The answers of one model through every face: numpy, pandas, Dask arrays and frames, single rows, the loaded model."""

import warnings
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tests.processor import WIDE

SINGLE_ROWS = 3
# Of the largest score: a row's place among the rows moves the last bits of its columns, with cells by 3.4e-5.
ROUNDING = 0.0 if WIDE else 1e-4


def check_faces(machine: Any, loaded: Any, test: pd.DataFrame) -> NDArray[np.floating]:
    """The scores (n, C) of the rows, which every face of the machine and of the loaded one gives as well."""
    X, n = test.to_numpy(), len(test)
    faces = {
        "again": X,
        "pandas": test,
        "Dask array": da.from_array(X, chunks=(max(1, n // 3), max(1, X.shape[1] // 2))),
        "Dask frame": dd.from_pandas(test, npartitions=3),
    }
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")  # rows without names are one of the faces
        scores = _ask(machine, X)
        _compare("the loaded model", _ask(loaded, X), scores)
        for face, rows in faces.items():
            _compare(face, _ask(machine, rows), scores)
        for i in range(0, n, max(1, n // SINGLE_ROWS)):
            _compare(f"row {i} alone", _ask(machine, X[i : i + 1]), scores[i : i + 1])
    return scores


def _ask(machine: Any, rows: Any) -> NDArray[np.floating]:
    """The scores of rows; labels and probabilities are those of these scores, bit by bit.

    What rounding leaves of a score a steep curve of probabilities makes larger, and a step of one as large as the step:
    scores alone are compared within a bound.
    """
    found = np.asarray(machine.predict(rows))
    if machine.model_.classes is None:
        return found.reshape(len(found), -1)
    scores = np.ascontiguousarray(machine.decision_function(rows)).reshape(len(found), -1)
    np.testing.assert_array_equal(found, machine.model_.labels(scores))
    if hasattr(machine, "predict_proba"):
        p = np.asarray(machine.predict_proba(rows))
        np.testing.assert_array_equal(p, machine.model_.probabilities(scores))
        assert p.min() >= 0, f"a probability of {p.min()}"
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6, err_msg="sum of the probabilities of a row")
    return scores


def _compare(face: str, found: NDArray[np.floating], scores: NDArray[np.floating]) -> None:
    assert np.isfinite(found).all(), f"{face}: {(~np.isfinite(found)).sum()} of {found.size} scores are not finite"
    within = ROUNDING * np.abs(scores).max()
    np.testing.assert_allclose(found, scores, rtol=0, atol=within, strict=True, err_msg=f"scores of {face}")
