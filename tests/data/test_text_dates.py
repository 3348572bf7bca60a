"""Dates and durations that are stored as text, for a model that knows the column as such: the answers are the same."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dkernel
from dkernel.errors import DataError

rng = np.random.default_rng(0)
WHEN = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8760, 300), "h"))
FRAME = pd.DataFrame({"when": WHEN, "x": rng.normal(size=300)})
TEXT = FRAME.assign(when=WHEN.dt.strftime("%Y-%m-%d %H:%M"))
FORMS = {
    "text": TEXT,
    "objects": TEXT.astype({"when": object}),
    "categories": TEXT.astype({"when": "category"}),
    "of Arrow": TEXT.astype({"when": pd.ArrowDtype(pa.large_string())}),
    "with a T": TEXT.assign(when=TEXT.when.str.replace(" ", "T")),
    "of Dask": dd.from_pandas(TEXT, npartitions=3),
}


@pytest.fixture(scope="module")
def machine():
    y = np.sin(WHEN.dt.hour / 4) + FRAME.x
    return dkernel.KernelRegressor("gaussian", n_components=64, local="none").fit(FRAME, y)


@pytest.mark.parametrize("form", FORMS)
def test_a_frame_with_text_of_dates(form, machine):
    np.testing.assert_array_equal(np.asarray(machine.predict(FORMS[form])), machine.predict(FRAME))


@pytest.mark.parametrize("form", [".parquet", ".csv"])
def test_a_file_with_text_of_dates(form, machine, run_to, tmp_path):
    dkernel.save(machine, tmp_path / "model")
    getattr(TEXT, f"to_{form[1:]}")(tmp_path / f"rows{form}", index=False)
    run_to("score", tmp_path / "model", tmp_path / f"rows{form}", "--out", tmp_path / "out.parquet")
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet").score, machine.predict(FRAME))


def test_a_missing_word_is_missing(machine):
    holes = TEXT.assign(when=TEXT.when.where(FRAME.x > 0, "NaT"))
    np.testing.assert_array_equal(machine.predict(holes), machine.predict(FRAME.assign(when=WHEN.where(FRAME.x > 0))))


@pytest.mark.parametrize("word", ["08.07.2023", "noon"])
def test_another_word_is_refused_with_its_row(word, machine):
    rows = TEXT.copy()
    rows.loc[7, "when"] = word
    with pytest.raises(DataError, match=f"row 7 of X, column 'when': '{word}' is not a date or time"):
        machine.predict(rows)


LASTS = FRAME.assign(when=pd.to_timedelta(rng.integers(-90_000, 900_000, 300), "s").where(FRAME.x < 2))
WORDS = LASTS.assign(when=[str(value) if value == value else "" for value in LASTS.when])
SOON = WORDS.assign(when=WORDS.when.mask(WORDS.index == 7, "soon"))


@pytest.fixture(scope="module")
def of_durations():
    y = np.cos(LASTS.when.fillna(pd.Timedelta(0)).dt.total_seconds() / 2e5) + LASTS.x
    return dkernel.KernelRegressor("gaussian", n_components=64, local="none").fit(LASTS, y)


@pytest.mark.parametrize("rows", [WORDS, dd.from_pandas(WORDS, npartitions=3)], ids=["frame", "of Dask"])
def test_a_frame_with_text_of_durations(rows, of_durations):
    np.testing.assert_array_equal(np.asarray(of_durations.predict(rows)), of_durations.predict(LASTS))
    with pytest.raises(DataError, match="row 7 of X, column 'when': 'soon' is not a duration"):
        of_durations.predict(SOON)


@pytest.mark.parametrize(("words", "more"), [(WORDS, []), (SOON, ["--max-bad-rows", "1"])], ids=["all", "a bad row"])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_file_with_text_of_durations(form, words, more, of_durations, run_to, tmp_path):
    dkernel.save(of_durations, tmp_path / "model")
    getattr(words, f"to_{form}")(tmp_path / f"rows.{form}", index=False)
    run_to("score", tmp_path / "model", tmp_path / f"rows.{form}", "--out", tmp_path / "out.parquet", *more)
    expected = of_durations.predict(LASTS)
    expected = np.delete(expected, 7) if more else expected
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet").score, expected)
