"""Dates in a format that is given: the answers are those of dates, wherever the same text stands."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

import dkernel
from dkernel.errors import DataError, DKernelWarning, RecipeError

rng = np.random.default_rng(0)
FORMATS = {"when": "%m/%d/%y %H:%M", "day": "%d.%m.%Y", "number": "%Y%m%d", "hour": "%I:%M %p"}
TIMES = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8760, 300), "h"))
DATES = pd.DataFrame({"when": TIMES, "day": TIMES.dt.floor("D"), "number": TIMES.dt.floor("D")})
DATES = DATES.assign(hour=pd.Timestamp("1970-01-01") + (TIMES - TIMES.dt.floor("D")), x=rng.normal(size=300))
TEXT = DATES.assign(**{name: DATES[name].dt.strftime(form) for name, form in FORMATS.items()})
TEXT = TEXT.assign(number=TEXT.number.astype(int))
Y = pd.Series(np.sin(TIMES.dt.hour / 4) + TIMES.dt.month + DATES.x, name="y")
SETTINGS = {"kernel": "gaussian", "n_components": 64, "local": "none", "dtype": "float32"}
WORDS = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
WORDS += [f"--formats={name}={form}" for name, form in FORMATS.items()]
TWICE = ["day=%d.%m.%Y", "day=%m.%d.%Y"]
FORMS = {
    "text": TEXT,
    "dates": DATES,
    "categories": TEXT.astype({"day": "category"}),
    "of Arrow": TEXT.convert_dtypes(dtype_backend="pyarrow"),
    "of views": TEXT.astype({"day": pd.ArrowDtype(pa.string_view())}),
    "of Dask": dd.from_pandas(TEXT, npartitions=3),
}


@pytest.fixture(scope="module")
def known():
    """What a fit to dates answers."""
    return dkernel.KernelRegressor(**SETTINGS).fit(DATES, Y).predict(DATES)


@pytest.fixture(scope="module")
def machine():
    return dkernel.KernelRegressor(formats=FORMATS, **SETTINGS).fit(TEXT, Y)


@pytest.mark.parametrize("form", FORMS)
def test_frames(form, machine, known):
    np.testing.assert_array_equal(np.asarray(machine.predict(FORMS[form])), known)


def test_a_fit_to_a_frame_of_dask(known):
    y = dd.from_pandas(Y, npartitions=3)
    machine = dkernel.KernelRegressor(formats=FORMATS, **SETTINGS).fit(FORMS["of Dask"], y)
    np.testing.assert_allclose(machine.predict(TEXT), known, rtol=1e-4)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files(kind, known, run_to, tmp_path):
    model, rows, out = tmp_path / "model", tmp_path / f"rows.{kind}", tmp_path / "out.parquet"
    getattr(TEXT.assign(y=Y), f"to_{kind}")(rows, index=False)
    run_to("train", rows, "--label", "y", "--out", model, "--quiet", *WORDS)
    run_to("score", model, rows, "--out", out, "--write", "score")
    np.testing.assert_array_equal(pd.read_parquet(out).score, known)
    loaded = dkernel.load(model)
    np.testing.assert_array_equal(loaded.predict(TEXT), known)
    assert clone(loaded).formats == FORMATS
    assert dkernel.open_source(rows, label="y", formats=FORMATS).encoding.formats == FORMATS


def test_a_cluster_makes_the_same_bytes(run_to, tmp_path, shared_cluster):
    TEXT.assign(y=Y).to_parquet(tmp_path / "rows.parquet", index=False)
    for name, place in {"cluster": ["--scheduler", shared_cluster.scheduler_address], "serial": []}.items():
        run_to("train", tmp_path / "rows.parquet", "--label=y", "--out", tmp_path / name, "--quiet", *WORDS, *place)
    assert (tmp_path / "cluster").read_bytes() == (tmp_path / "serial").read_bytes()


def test_a_config_says_it_again(run_to, tmp_path):
    (tmp_path / "job.toml").write_text(run_to("train", *WORDS, "--print-config").output)
    again = run_to("train", "--config", tmp_path / "job.toml", "--print-config").output
    assert 'formats = ["when=%m/%d/%y %H:%M", "day=%d.%m.%Y"' in again


def test_a_missing_word_is_missing(machine):
    holes, there = TEXT.assign(day=TEXT.day.where(DATES.x > 0, "-")), DATES.day.where(DATES.x > 0)
    np.testing.assert_array_equal(machine.predict(holes), machine.predict(DATES.assign(day=there)))


def test_another_word_is_refused_with_its_row(machine):
    rows = TEXT.copy()
    rows.loc[7, "day"] = "2023-07-08"
    with pytest.raises(DataError, match=r"row 7 of X, column .day.: .2023-07-08. is no date as %d\.%m\.%Y"):
        machine.predict(rows)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_bad_rows_are_left_out(kind, tmp_path):
    rows = TEXT.assign(y=Y)
    rows.loc[7, "day"] = "soon"
    getattr(rows, f"to_{kind}")(tmp_path / f"rows.{kind}", index=False)
    with pytest.warns(DKernelWarning, match="soon"):
        source = dkernel.open_source(tmp_path / f"rows.{kind}", label="y", formats=FORMATS, max_bad_rows=1)
    assert source.n_rows == 299
    assert source.rejected.to_pylist()[0]["reason"] == "'soon' is no date as %d.%m.%Y"


def test_the_last_rows_are_held_out(run_to, tmp_path):
    TEXT.assign(y=Y).to_csv(tmp_path / "rows.csv", index=False)
    job = ["train", tmp_path / "rows.csv", "--label=y", "--out", tmp_path / "m", "--quiet", "--holdout-by=time:day"]
    run_to(*job, *WORDS)
    columns = dkernel.load(tmp_path / "m").model_.encoding.columns
    assert [column.name for column in columns] == ["when", "day", "number", "hour", "x"]
    assert [column.last is not None for column in columns] == [False, True, False, False, False]
    for more in ("--dates=seconds", "--exclude=day"):
        run_to(*job, "--overwrite", more, *WORDS)
        assert dkernel.load(tmp_path / "m").model_.columns == ("when", "number", "hour", "x")


@pytest.mark.parametrize(
    "given", [{"day": "dd.mm.yyyy"}, {"day": "%Q"}, {"day": 3}, ["day"], "%d.%m.%Y", 3, [3], TWICE]
)
def test_a_format_of_no_date_is_refused(given):
    with pytest.raises(RecipeError, match="formats"):
        dkernel.KernelRegressor(formats=given).fit(TEXT, Y)


@pytest.mark.parametrize(("X", "words"), [(TEXT.drop(columns="day"), "no feature 'day'"), (np.eye(3), "array")])
def test_a_column_that_is_not_there_is_refused(X, words):
    with pytest.raises(DataError, match=words):
        dkernel.KernelRegressor(formats={"day": "%d.%m.%Y"}).fit(X, np.arange(float(len(X))))
