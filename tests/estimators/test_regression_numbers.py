"""Predictions have the digits of the targets: offsets and units cost nothing, in whatever form they leave."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from dkernel import KernelRegressor
from dkernel.errors import ConstantLabelWarning, UnsupportedError
from tests.combinations import every_two
from tests.estimators.data import SMALL, wave

OFFSETS = [(1e8, 1.0), (1.7e9, 100.0), (1e39, 1e38), (0.0, 1e-150), (1e13, 1.0)]


def machine(**more):
    return KernelRegressor(**{**SMALL, "random_state": 0, **more})


@pytest.mark.parametrize(("solver", "offset"), every_two(["auto", "psgd"], OFFSETS))
def test_a_fit_is_as_good_as_without_the_offset(solver, offset):
    center, width = offset
    X, y = wave(1500)
    plain = r2_score(y, machine(solver=solver).fit(X, y).predict(X))
    far = center + width * y
    found = machine(solver=solver).fit(X, far).predict(X)
    assert found.dtype == np.float64
    assert r2_score((far - center) / width, (found - center) / width) == pytest.approx(
        plain, abs=0.01
    )  # the order of equal rows, so the landmarks, are others


def test_several_targets_have_each_their_own():
    X, y = wave(1500)
    Y = np.column_stack([center + width * y for center, width in OFFSETS])
    fitted = machine().fit(X, Y)
    found = fitted.predict(X)
    assert found.dtype == np.float64
    for j, (center, width) in enumerate(OFFSETS):
        assert r2_score(y, (found[:, j] - center) / width) > 0.9


def test_collections_of_dask_have_the_same_numbers():
    X, y = wave(1500)
    far = 1.7e9 + y
    fitted = machine().fit(X, far)
    lazy = fitted.predict(da.from_array(X, chunks=(400, 3)))
    assert lazy.dtype == np.float64
    assert np.array_equal(lazy.compute(), fitted.predict(X))
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]), npartitions=2)
    named = machine().fit(frame, dd.from_pandas(pd.Series(far), npartitions=2))
    assert named.predict(frame).dtype == np.float64
    assert r2_score(y, named.predict(frame).compute() - 1.7e9) > 0.9


def test_blocks_that_come_one_by_one():
    X, y = wave(4000)
    fitted = machine()
    for first in range(0, 4000, 500):
        fitted.partial_fit(X[first : first + 500], 1.7e9 + y[first : first + 500])
    assert r2_score(y, fitted.predict(X) - 1.7e9) > 0.85


def test_it_leaves_as_a_graph():
    ort = pytest.importorskip("onnxruntime")
    from dkernel import to_onnx

    X, y = wave(1500)
    fitted = machine().fit(X, 1.7e9 + y)
    session = ort.InferenceSession(to_onnx(fitted, dtype="float64").SerializeToString())
    [score] = session.run(["score"], {"X": X.astype(np.float64)})
    assert np.abs(score[:, 0] - fitted.predict(X)).max() < 1e-3
    with pytest.raises(UnsupportedError, match="dtype='float64'"):
        to_onnx(machine().fit(X, 1e39 * y))


def test_a_constant_target_is_told_from_one_of_few_digits():
    X, y = wave(500)
    with pytest.warns(ConstantLabelWarning, match=r"Target 1 .* one value in all rows"):
        machine().fit(X, np.column_stack([y, np.full(500, 1e12 + 0.1)]))
    machine().fit(X, 1e15 + np.round(y))
