"""Dates, times of day and durations stored as text get the same answers as columns of such a type."""

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.errors import DataError

rng = np.random.default_rng(0)
WHEN = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8760, 300), "h"))
FRAME = pd.DataFrame({"when": WHEN, "x": rng.normal(size=300)})
DATES = FRAME.assign(when=WHEN.where(FRAME.x < 2))
LASTS = FRAME.assign(when=pd.to_timedelta(rng.integers(-90_000, 900_000, 300), "s").where(FRAME.x < 2))
TIMES = FRAME.assign(when=WHEN.dt.time.where(FRAME.x < 2, None))
ROWS = {"a date or time": DATES, "a duration": LASTS, "a time of day": TIMES}
TEXTS = {
    "a date or time": DATES.assign(when=DATES.when.dt.strftime("%Y-%m-%d %H:%M").fillna("NaT")),
    "a duration": LASTS.assign(when=[str(value) if value == value else "" for value in LASTS.when]),
    "a time of day": TIMES.assign(when=[value.isoformat() if value else "" for value in TIMES.when]),
}
ANOTHER = {"a date or time": "10:30", "a duration": "10:30", "a time of day": "2024-01-05"}


@pytest.fixture(scope="module", params=ROWS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def machine(kind):
    y = np.sin(WHEN.rank() / 30) + FRAME.x
    return dkernel.KernelRegressor("gaussian", n_components=64, local="none").fit(ROWS[kind], y)


def with_word(kind, word):
    return TEXTS[kind].assign(when=TEXTS[kind].when.mask(FRAME.index == 7, word))


@pytest.mark.parametrize("word", ["08.07.2023", "noon", "another"])
def test_another_word_is_refused_with_its_row(word, kind, machine):
    word = ANOTHER.get(kind) if word == "another" else word
    with pytest.raises(DataError, match=f"row 7 of X, column 'when': '{word}' is not {kind}"):
        machine.predict(with_word(kind, word))


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_file_with_another_word_leaves_out_its_row(form, kind, machine, run_to, tmp_path):
    dkernel.save(machine, tmp_path / "model")
    getattr(with_word(kind, "soon"), f"to_{form}")(tmp_path / f"rows.{form}", index=False)
    job = ["score", tmp_path / "model", tmp_path / f"rows.{form}", "--out", tmp_path / "out.parquet"]
    run_to(*job, "--max-bad-rows", "1")
    expected = np.delete(machine.predict(ROWS[kind]), 7)
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet").score, expected)
