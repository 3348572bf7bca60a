"""Models of tables leave dkernel with their encoding: the same answers from a data frame, and from inputs by name."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from tests.leaves.export.feeds import answers, feeds

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


@pytest.fixture(scope="module", params=["seconds", "calendar", "held"])
def machine(request):
    columns, dates = ["city", "size", "n"], request.param.replace("held", "calendar")
    made = KernelClassifier(loss="logistic", categorical_features=columns, dates=dates, **SETTINGS)
    made.fit(*table())
    if request.param == "held":
        encoding, _, _ = made.model_.encoding.hold("when", pd.Timestamp("2024-05-01").timestamp())
        made.model_ = replace(made.model_, encoding=encoding)
    assert len(made.model_.encoding.columns[-1].levels) > 12
    return made


def new_rows():
    """Rows with all that training had, and with values that it never saw."""
    frame, _ = table(300, 1)
    frame["city"] = frame["city"].where(frame.index != 7, "Chur")
    frame["size"] = frame["size"].where(frame.index != 8)
    frame["n"] = frame["n"].astype("Int64").where(frame.index != 9)
    return frame


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_graph_takes_the_columns_by_name(machine, dtype):
    frame = new_rows()
    graph = dkernel.to_onnx(machine, dtype)
    assert [value.name for value in graph.graph.input] == list(frame.columns)
    found = answers(graph, feeds(machine, frame, graph))
    expected = machine.decision_function(frame)
    np.testing.assert_allclose(found["score"][:, 0], expected, rtol=0, atol=5e-5 * np.abs(expected).max())
    np.testing.assert_allclose(found["probability"], machine.predict_proba(frame), atol=1e-4)
    sure = np.abs(expected) > 1e-3
    assert (found["label"][sure] == machine.predict(frame)[sure]).all()


def test_numbers_with_missing_values_leave_as_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X[:, 0] * X[:, 1]
    X[rng.random(X.shape) < 0.1] = np.nan
    for missing in ("indicator", "mean"):
        machine = KernelRegressor(missing=missing, **SETTINGS).fit(X, y)
        expected = machine.predict(X)
        graph = dkernel.to_onnx(machine, "float64")
        given = {"X": X} if missing == "mean" else {str(j): X[:, [j]] for j in range(3)}
        np.testing.assert_allclose(answers(graph, given)["score"][:, 0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:.*unknown categories")
@pytest.mark.parametrize("holes", [False, True])
def test_rare_values_that_say_nothing_leave_without_inputs(holes):
    frame, y = table(2000)
    alike = pd.Series(y).groupby(y).cumcount() % 400  # each value has all labels equally often
    frame["zip"] = [f"é{i}" for i in alike]
    if holes:
        frame.loc[::7, "zip"] = None
    machine = KernelClassifier(categorical_features=["city", "size", "n", "zip"], **SETTINGS).fit(frame, y)
    assert machine.model_.encoding.columns[-1].means.outputs == ()
    frame.loc[1, "zip"] = "one that nobody saw"
    frame.loc[2, "zip"] = None
    expected = machine.decision_function(frame)
    graph = dkernel.to_onnx(machine, "float64")
    score = answers(graph, feeds(machine, frame, graph))["score"]
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
    graph = dkernel.to_onnx(machine, "float64")
    score = answers(graph, feeds(machine, frame, graph))["score"]
    np.testing.assert_allclose(score.reshape(expected.shape), expected, rtol=0, atol=5e-5 * np.abs(expected).max())
