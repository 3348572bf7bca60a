"""Weights of tables are copies of rows: in levels, missing values, means and one-hot values of numbers."""

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.errors import DataError

TABLES = {"categorical": "auto", "missing": "indicator"}


def table(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=n), "s": rng.choice([*"abc"], n)})
    return frame, frame["x"].to_numpy() + (frame["s"] == "a") + 0.1 * rng.normal(size=n), rng


def of_a_missing_value():
    frame, y, _ = table()
    frame.loc[0, "x"] = np.nan
    return frame, y, np.append(0, np.ones(299, int))


def of_many_missing_values():
    frame, y, rng = table()
    frame.loc[::4, "x"] = np.nan
    return frame, y, rng.integers(1, 4, 300)


def of_numbers_alone():
    frame, y, weight = of_many_missing_values()
    return frame[["x"]], y, weight


def of_a_level():
    frame, y, _ = table()
    frame.loc[0, "s"] = "new"
    return frame, y, np.append(0, np.ones(299, int))


def of_many_values_and_rows_of_weight_0():
    rng = np.random.default_rng(0)
    zips, effects = rng.integers(0, 150, 1500), rng.normal(size=150)
    frame = pd.DataFrame({"zip": [f"z{i}" for i in zips], "x": rng.normal(size=1500)})
    return frame, effects[zips] + frame["x"].to_numpy(), rng.integers(0, 2, 1500)


def of_codes_among_numbers():
    frame, y, rng = table()
    gains = [7688.0, 99999, 5.5, 17.25, 3, 1e4, 2e4, 7, 8, 9.5, 11, 13, 15, 16]
    frame["gain"] = np.where(rng.random(300) < 0.6, 0, rng.choice(gains, 300))
    return frame, y, rng.integers(0, 4, 300)


CASES = [
    of_a_missing_value,
    of_many_missing_values,
    of_numbers_alone,
    of_a_level,
    of_codes_among_numbers,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_weights_and_copies_make_the_same_file(case, tmp_path):
    frame, y, weight = case()
    copies = np.repeat(np.arange(len(frame)), weight)
    machine = KernelRegressor("gaussian", gamma=0.3, n_components=64)
    dkernel.save(machine.fit(frame, y, sample_weight=weight), tmp_path / "weighted")
    dkernel.save(machine.fit(frame.iloc[copies].reset_index(drop=True), y[copies]), tmp_path / "copied")
    assert (tmp_path / "weighted").read_bytes() == (tmp_path / "copied").read_bytes()


def test_means_of_the_label_over_all_rows_are_those_of_the_copies():
    frame, y, _ = of_many_values_and_rows_of_weight_0()
    weight = np.random.default_rng(5).integers(0, 4, len(frame))
    copies = np.repeat(np.arange(len(frame)), weight)
    for label in (y, y > 0, np.digitize(y, [-1, 1])):
        weighted = from_arrays(frame, label, weight, **TABLES).encoding
        assert weighted == from_arrays(frame.iloc[copies], label[copies], **TABLES).encoding
        assert weighted.columns[0].means is not None


@pytest.mark.parametrize("scale", [1e-3, 0.37, 1.0])
def test_small_weights_count_as_rows(scale):
    frame, y, _ = of_many_values_and_rows_of_weight_0()
    some = frame.assign(x=frame["x"].where(frame["x"] < 1))
    plain = from_arrays(some, y, **TABLES).encoding
    scaled = from_arrays(some, y, np.full(len(y), scale), **TABLES).encoding
    assert scaled.names == plain.names
    found, expected = (np.array([mean for _, mean in e.columns[0].means.values]) for e in (scaled, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_weights_that_are_all_0_are_refused_by_name(tmp_path):
    frame, y, _ = table()
    with pytest.raises(DataError, match="weights are 0 in all rows"):
        from_arrays(frame, y, np.zeros(300), **TABLES)
    frame.assign(y=y, w=0.0).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="weights are 0 in all rows"):
        open_source(tmp_path / "t.csv", label="y", weight="w")
