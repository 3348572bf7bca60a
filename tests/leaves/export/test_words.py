"""Exports take the words of categories that dkernel takes, and columns of any name and type."""

import datetime as dt
import decimal

import numpy as np
import onnx
import pandas as pd
import pytest

import dkernel
from dkernel import KernelClassifier
from dkernel.data.encoding.words import DATE, NUMBER, in_kind, spellings
from tests.leaves.export.feeds import answers, feeds

N = 300
RNG = np.random.default_rng(0)
X, CODES = RNG.normal(size=N), RNG.integers(0, 3, N)
Y = (CODES == 1) ^ (X > 0)
SETTINGS = {
    "kernel": "gaussian",
    "gamma": 1.0,
    "n_components": 64,
    "features": "fourier",
    "local": "none",
    "alpha": 1e-3,
    "metric": "identity",
    "scale": "standard",
    "passes": 1,
}


def values(*three, gaps=False, dtype=object):
    """A column of three values by CODES, of which every fifth may be missing."""
    column = pd.Series([three[code] for code in CODES], dtype=object)
    return (column.where(np.arange(N) % 5 > 0) if gaps else column).astype(dtype)


MOMENTS = [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02 03:04:05.5"), pd.Timestamp("1969-07-20")]
CATEGORIES = {
    "whole numbers with gaps": values(0, 1, 2, gaps=True, dtype="category"),
    "nullable numbers": values(0, 1, 2, gaps=True, dtype="Int64"),
    "fractions": values(0.5, 1.0, 2.0, dtype="category"),
    "float32": values(0.1, 0.2, 1e-9, gaps=True, dtype="float32"),
    "large and small": values(1e22, 1e-9, 2.0**53),
    "decimals": values(*map(decimal.Decimal, ("1.50", "2.00", "0.25")), gaps=True),
    "truth values": values(True, False, True, gaps=True),
    "nullable truth values": values(True, False, True, gaps=True, dtype="boolean"),
    "dates": values(*(moment.date() for moment in MOMENTS), gaps=True),
    "moments": values(*MOMENTS, gaps=True, dtype="datetime64[ns]"),
    "moments in seconds": values(*(m.floor("s") for m in MOMENTS), gaps=True, dtype="datetime64[s]"),
    "moments of a zone": values(*(m.tz_localize("Europe/Rome") for m in MOMENTS), gaps=True).astype(
        "datetime64[us, Europe/Rome]"
    ),
    "times": values(dt.time(1), dt.time(2, 3, 4, 500), dt.time(23, 59), gaps=True),
    "durations": values(*(pd.Timedelta(hours, "h") for hours in (1, 25, -3)), gaps=True, dtype="timedelta64[ns]"),
    "texts": values("a", "b", "", gaps=True),
    "padded texts": values("01", "02", "12"),
}


def check(machine, frame):
    """The graph has the scores of the machine."""
    expected = machine.decision_function(frame)
    graph = dkernel.to_onnx(machine, "float64")
    onnx.checker.check_model(graph, full_check=True)
    score = answers(graph, feeds(machine, frame, graph))["score"]
    np.testing.assert_allclose(score[:, 0], expected, rtol=0, atol=5e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", CATEGORIES)
def test_a_named_category_has_the_same_words_everywhere(name):
    frame = pd.DataFrame({"x": X, "c": CATEGORIES[name]})
    machine = KernelClassifier(categorical_features=["c"], **SETTINGS).fit(frame, Y)
    frame.loc[:3, "x"] += 0.5
    if name == "moments of a zone":
        frame["c"] = frame["c"].dt.tz_convert("UTC")
    check(machine, frame)


NAMES = ["home__type", "remainder", "transformers", "verbose", "label", "score", "score_", "probability", "cast_1"]


def test_columns_may_have_the_names_of_steps_inputs_and_outputs():
    frame = pd.DataFrame({name: RNG.choice(["a", "b"], N) if i % 2 else X + i for i, name in enumerate(NAMES)})
    machine = KernelClassifier(loss="logistic", **SETTINGS).fit(frame, Y)
    check(machine, frame)
    given = {value.doc_string: value.name for value in dkernel.to_onnx(machine).graph.input}
    assert list(given) == NAMES
    renamed = {"label": "label_", "score": "score__", "probability": "probability_"}
    assert {column: name for column, name in given.items() if column != name} == renamed


@pytest.mark.parametrize("dates", ["calendar", "seconds"])
@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.date_range("2024-01-01", periods=N, freq="7h", tz="America/New_York")),
        pd.Series(pd.to_timedelta(1000 * RNG.normal(size=N), "s")),
        pd.Series(pd.to_timedelta(RNG.integers(-999, 999, N), "s").as_unit("s")),
        pd.Series([dt.timedelta(0, 600 * x) for x in X], dtype=object),
        pd.Series(pd.date_range("1950-01-01", periods=N, freq="9D").date),
        values(dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 5, 6)),
        pd.Series(np.where(CODES == 1, True, np.where(CODES == 2, False, None)), dtype="boolean"),
        pd.Series(np.where(CODES == 1, True, np.where(CODES == 2, False, None)), dtype=object),
    ],
    ids=[
        "zone",
        "nanoseconds",
        "seconds",
        "objects",
        "dates",
        "years 1 and 9999",
        "nullable truth values",
        "truth values and None",
    ],
)
def test_dates_and_truth_values_of_every_type_leave(column, dates):
    frame = pd.DataFrame({"x": X, "d": column, "s": CATEGORIES["texts"]})
    frame.loc[::7, "d"] = None
    check(KernelClassifier(dates=dates, **SETTINGS).fit(frame, Y), frame)


@pytest.mark.parametrize("kind", ["number", "%02d", "%.2f", "bool", "date", "time", "duration", "text"])
def test_spellings_have_the_word_that_they_spell(kind):
    words = {"bool": ["True", "False"], "date": ["2024-01-01", "1969-07-20 01:02:03.5"], "text": ["a", "01", ""],
             "time": ["01:00:00", "23:59:59.25"]}.get(kind, ["1", "-2.5", "1e+22", "1e-09", "0.1"])  # fmt: skip
    for word in (in_kind(word, kind) for word in words):
        assert spellings(word, kind)[0] == word
        assert {in_kind(text, kind) for text in spellings(word, kind)} == {word}
    assert spellings("0.1", NUMBER)[:3] == ("0.1", "0.10000000149011612", "0.10")
    assert "2024-01-01T00:00:00" in spellings("2024-01-01", DATE)
