"""What training saw of the columns: in the model, after loading, in `show`, whatever door the rows took."""

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.data.schema import ColumnSchema
from dkernel.errors import DataError

N = 300
SETTINGS = {"kernel": "gaussian", "gamma": 1.0, "n_components": 16, "alpha": 1e-3, "local": "none"}


def make_frame(zone: str | None = "UTC") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=N).round(3),
            "whole": rng.integers(0, 9, N),
            "when": pd.date_range("2024-01-01", periods=N, freq="h", tz=zone).as_unit("us"),
            "word": rng.choice(list("cab"), N),
        }
    )
    frame.loc[::10, "x"] = np.nan
    return frame


def fit(frame: pd.DataFrame, **settings) -> dkernel.KernelClassifier:
    return dkernel.KernelClassifier(**SETTINGS, **settings).fit(frame, np.arange(N) % 2)


def test_a_model_keeps_what_training_saw_of_each_column(tmp_path, run):
    frame = make_frame()
    machine = fit(frame)
    schema = machine.schema_
    assert list(schema) == list(frame.columns)
    assert schema["whole"] == ColumnSchema("number", None, 0.0, (0.0, 8.0))
    assert schema["x"].range == pytest.approx((frame["x"].min(), frame["x"].max()), rel=1e-6)
    assert schema["x"].missing == 0.1
    assert (schema["when"].type, schema["when"].zoned) == ("date", True)
    assert schema["when"].range[0] == frame["when"].min().timestamp()
    assert schema["word"] == ColumnSchema("category", missing=0.0, levels=("a", "b", "c"))
    dkernel.save(machine, tmp_path / "m")
    assert dkernel.load(tmp_path / "m").schema_ == schema
    assert "when   date with a zone 2024-01-01 to 2024-01-13" in run("show", tmp_path / "m").stdout


def test_numbers_alone_have_a_range():
    frame = make_frame()[["whole"]]
    assert fit(frame).schema_ == {"whole": ColumnSchema("number", None, 0.0, (0.0, 8.0))}
    assert fit(make_frame()[["x"]], missing="mean").schema_["x"].missing is None


@pytest.mark.parametrize("zone", [None, "Europe/Rome"])
def test_times_of_another_kind_than_in_training_are_refused(zone):
    machine = fit(make_frame(zone))
    other = make_frame(None if zone else "UTC")
    for call in (machine.predict, lambda X: machine.score(X, np.arange(N) % 2)):
        with pytest.raises(DataError, match="Column 'when': the times have"):
            call(other)
    same = other.assign(when=other["when"].dt.tz_localize(zone) if zone else other["when"].dt.tz_localize(None))
    machine.predict(same)
