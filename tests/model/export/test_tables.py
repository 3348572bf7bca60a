"""Models of tables leave dkernel with their encoding: the same answers from a data frame, and from inputs by name."""

import zlib

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor

SETTINGS = {"n_components": 64, "gamma": 0.3, "alpha": 1e-3, "metric": "identity"}


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "city": rng.choice(["Basel", "Genève", "Zug"], n),
            "size": pd.Categorical(rng.choice(["S", "M"], n)),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8760, n), "h"),
            "n": rng.integers(0, 5, n),
            "flag": rng.random(n) > 0.5,
            "gain": np.where(rng.random(n) < 0.7, 0.0, rng.integers(0, 20, n) * 0.3),
        }
    )
    y = (frame["city"] == "Zug") ^ (frame["when"] > pd.Timestamp("2024-07-01")) ^ (frame["x"] > 0)
    frame.loc[rng.random(n) < 0.1, "x"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    frame.loc[rng.random(n) < 0.1, "when"] = pd.NaT
    frame.loc[rng.random(n) < 0.1, "gain"] = np.nan
    return frame, np.where(y, "yes", "no")


@pytest.fixture(scope="module", params=["seconds", "calendar"])
def machine(request):
    columns = ["city", "size", "n"]
    made = KernelClassifier(loss="logistic", categorical_features=columns, dates=request.param, **SETTINGS)
    made.fit(*table())
    assert len(made.model_.encoding.columns[-1].levels) > 12
    return made


def new_rows():
    """Rows with all that training had, and with values that it never saw."""
    frame, _ = table(300, 1)
    frame["city"] = frame["city"].where(frame.index != 7, "Chur")
    frame["size"] = frame["size"].where(frame.index != 8)
    frame["n"] = frame["n"].where(frame.index != 9)
    return frame


def feeds(machine, frame, dtype):
    found = {}
    for name, kind in machine.model_.encoding.kinds.items():
        column = frame[name]
        if kind == "category":
            text = column.astype("object").where(column.notna(), "")
            found[name] = np.array([str(int(v)) if isinstance(v, float) else str(v) for v in text], object)[:, None]
        elif kind == "date":
            seconds = (column - pd.Timestamp(0)) / pd.Timedelta(1, "s")
            found[name] = seconds.to_numpy(np.float64)[:, None]
        else:
            found[name] = column.to_numpy(dtype)[:, None]
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_graph_takes_the_columns_by_name(machine, dtype):
    frame = new_rows()
    graph = dkernel.to_onnx(machine, dtype)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == list(frame.columns)
    label, score, probability = session.run(["label", "score", "probability"], feeds(machine, frame, dtype))
    expected = machine.decision_function(frame)
    np.testing.assert_allclose(score[:, 0], expected, rtol=0, atol=5e-5 * np.abs(expected).max())
    np.testing.assert_allclose(probability, machine.predict_proba(frame), atol=1e-4)
    sure = np.abs(expected) > 1e-3
    assert (label[sure] == machine.predict(frame)[sure]).all()


def test_numbers_with_missing_values_leave_as_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X[:, 0] * X[:, 1]
    X[rng.random(X.shape) < 0.1] = np.nan
    for missing in ("indicator", "mean"):
        machine = KernelRegressor(missing=missing, **SETTINGS).fit(X, y)
        expected = machine.predict(X)
        graph = dkernel.to_onnx(machine, "float64")
        session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
        given = {"X": X} if missing == "mean" else {str(j): X[:, [j]] for j in range(3)}
        (score,) = session.run(["score"], given)
        np.testing.assert_allclose(score[:, 0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:.*unknown categories")
@pytest.mark.parametrize("holes", [False, True])
def test_rare_values_leave_with_their_hash(holes):
    frame, y = table(2000)
    alike = pd.Series(y).groupby(y).cumcount() % 400  # each value has all labels equally often
    frame["zip"] = [f"é{i}" for i in alike]
    if holes:
        frame.loc[::7, "zip"] = None
    machine = KernelClassifier(categorical_features=["city", "size", "n", "zip"], **SETTINGS).fit(frame, y)
    assert machine.model_.encoding.columns[-1].buckets
    frame.loc[1, "zip"] = "one that nobody saw"
    frame.loc[2, "zip"] = None
    expected = machine.decision_function(frame)
    given = feeds(machine, frame, "float64")
    given["zip#crc32"] = np.array([[zlib.crc32(text.encode())] for text in given["zip"][:, 0]], np.int64)
    session = onnxruntime.InferenceSession(
        dkernel.to_onnx(machine, "float64").SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (score,) = session.run(["score"], given)
    np.testing.assert_allclose(score[:, 0], expected, rtol=0, atol=5e-5 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:.*unknown categories")
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_means_of_many_values_leave_too(classes):
    rng = np.random.default_rng(0)
    shop = rng.integers(0, 150, 1500)
    y = rng.normal(size=150)[shop] + 0.2 * rng.normal(size=1500)
    words = np.array([f"shop {i}" for i in shop], object)
    words[rng.random(1500) < 0.05] = None
    frame = pd.DataFrame({"x": rng.normal(size=1500), "shop": words})
    label = y if not classes else np.array(["a", "b", "c"])[np.digitize(y, [0.0, 1.0][: classes - 1])]
    machine = (KernelClassifier if classes else KernelRegressor)(**SETTINGS).fit(frame, label)
    assert len(machine.model_.encoding.columns[1].means.outputs) == {0: 1, 2: 1, 3: 3}[classes]
    frame.loc[:3, "shop"] = "one that nobody saw"
    expected = machine.decision_function(frame) if classes else machine.predict(frame)
    session = onnxruntime.InferenceSession(
        dkernel.to_onnx(machine, "float64").SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (score,) = session.run(["score"], feeds(machine, frame, "float64"))
    np.testing.assert_allclose(score.reshape(expected.shape), expected, rtol=0, atol=5e-5 * np.abs(expected).max())
