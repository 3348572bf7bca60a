"""A holdout of whole groups or of the last rows: nothing that is learned sees it, whatever the files and chunks."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dkernel import KernelRegressor
from dkernel.data.opening import open_source
from dkernel.errors import DataError, RecipeError
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.divide_rows import divide_source, mask_groups
from dkernel.training.fit import train

N = 3000
QUICK = Recipe(
    solver="psgd", kernel="Gaussian(gamma=0.3)", n_components=32, alpha=1e-3, metric="identity", task="regress"
)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, N), "D")
    return pd.DataFrame(
        {
            "id": np.arange(N, dtype=np.float64),
            "site": rng.choice([f"s{i}" for i in range(60)], N),
            "day": day,
            "y": rng.normal(size=N),
        }
    )


def opened(table, folder, by, files=1, form="parquet", row_group=None):
    """The rows as a source that keeps a column, in so many files."""
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(table)), files)):
        place = folder / f"{i}.{form}"
        if form == "csv":
            table.iloc[part].to_csv(place, index=False)
        else:
            table.iloc[part].to_parquet(place, row_group_size=row_group)
    others = [name for name in ("site", "day") if name != by]
    return open_source([folder], label="y", keep=(by,), exclude=others, dtype="float64")


def ids(source):
    return source.X[:, 0].compute(scheduler="sync").astype(int)


LAYOUTS = [{}, {"files": 7}, {"files": 2, "row_group": 400}, {"files": 3, "form": "csv"}]


@pytest.mark.parametrize("by", ["group:site", "time:day"])
def test_no_layout_puts_a_group_or_a_moment_on_both_sides(by, tmp_path):
    table, column, found = rows(), by.split(":")[1], []
    for i, layout in enumerate(LAYOUTS):
        recipe = QUICK.replace(holdout_by=by, holdout=0.1)
        source, held, said = divide_source(opened(table, tmp_path / str(i), column, **layout), recipe, SerialExecutor())
        learned, judged = ids(source), held.X[:, 0].astype(int)
        assert source.n_rows == len(learned) == N - len(judged)
        assert sorted([*learned, *judged]) == list(range(N))
        assert source.kept == ()
        assert said.startswith(f"{len(judged):,} rows, ")
        if by == "group:site":
            assert not set(table["site"][learned]) & set(table["site"][judged])
            assert 0.1 * N <= len(judged) < 0.1 * N + 100  # a group has some 50 rows
        else:
            assert table["day"][learned].max() < table["day"][judged].min()
            assert len(judged) == pytest.approx(0.1 * N, abs=20)
        found.append(sorted(judged))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    "form",
    [
        lambda day: day.dt.tz_localize("UTC"),
        lambda day: day.dt.tz_localize("UTC").dt.tz_convert("America/Lima"),
        lambda day: day.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        lambda day: (day + pd.Timedelta("1h")).dt.strftime("%Y-%m-%d %H:%M:%S+01:00"),
        lambda day: day.dt.strftime("%Y%m%d").astype(int),
        lambda day: day.astype("int64").map(Decimal),
        lambda day: day - day.min(),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_any_form_of_the_times_leaves_the_same_rows_out(form, suffix, tmp_path):
    table, recipe = rows(), QUICK.replace(holdout_by="time:day", holdout=0.1)
    expected = table["day"] > table["day"].sort_values().iloc[int(0.9 * N) - 1]
    own = table.assign(day=form(table["day"]))
    if suffix == "csv" and own["day"].dtype.kind == "m":
        own["day"] = own["day"].dt.days
    _, held, _ = divide_source(opened(own, tmp_path / "all", "day", 3, suffix), recipe, SerialExecutor())
    assert sorted(held.X[:, 0].astype(int)) == np.flatnonzero(expected).tolist()


def test_groups_of_files_of_two_widths_are_on_one_side(tmp_path):
    table = rows().assign(site=lambda t: t["site"].str[1:].astype(float) / 10)
    table[: N // 2].astype({"site": "float32"}).to_parquet(tmp_path / "0.parquet")
    table[N // 2 :].to_parquet(tmp_path / "1.parquet")
    source = open_source([tmp_path], label="y", keep=("site",), exclude=["day"], dtype="float64")
    recipe = QUICK.replace(holdout_by="group:site", holdout=0.1)
    source, held, said = divide_source(source, recipe, SerialExecutor())
    assert "of 60 groups" in said
    assert not {*table["site"][ids(source)]} & {*table["site"][held.X[:, 0].astype(int)]}


def test_the_model_is_that_of_the_rows_that_are_left(tmp_path):
    table = rows()
    source = opened(table, tmp_path / "all", "site", files=3)
    recipe = QUICK.replace(holdout_by="group:site", holdout=0.1)
    models = [train(source, recipe, executor).model for executor in (SerialExecutor(), ThreadsExecutor(3))]
    assert models[0].facts["rows"] + models[0].facts["holdout"]["rows"] == N
    assert "of 60 groups of 'site', a column that is no feature" in models[0].facts["chosen"]["holdout"]
    assert models[0].facts["conformal"]["rows"] == models[0].facts["holdout"]["rows"]
    assert "site" in models[0].known_columns
    assert model_file.compute_digest(models[0]) == model_file.compute_digest(models[1])
    divided_source, held, _ = divide_source(source, recipe, SerialExecutor())
    again = train(divided_source, QUICK, SerialExecutor(), validation=held).model
    assert again.coef.tobytes() == models[0].coef.tobytes()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_later_times_keep_their_calendar_and_hold_their_trend(suffix, tmp_path):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2023-01-02") + pd.to_timedelta(np.sort(rng.integers(0, 900 * 86_400, N)), "s")
    table = pd.DataFrame({"x": rng.normal(size=N), "day": day, "y": day.day_of_week > 4})
    path = tmp_path / f"t.{suffix}"
    table.to_parquet(path) if suffix == "parquet" else table.to_csv(path, index=False)
    source = open_source([path], label="y", keep=("day",), time_column="day", label_as="numbers")
    assert source.columns == open_source([path], label="y").columns  # those of a fit to all rows
    recipe = QUICK.replace(holdout_by="time:day", holdout=0.1, n_components=256, task="classify", loss="squared")
    _, judged, said = divide_source(source, recipe, SerialExecutor())
    assert "whose calendar is a feature" in said
    result = train(source, recipe, SerialExecutor())
    model_file.save(result.model, tmp_path / "m")
    model = model_file.load_model(tmp_path / "m")
    assert "ordered" not in result.chosen
    assert model.facts["holdout"]["accuracy"] > 0.9

    def encode(rows):
        return model.encoding.encode(pa.Table.from_pandas(rows[["x", "day"]]))[0]

    later = table[table["day"] > table["day"][int(0.9 * N) - 1]]
    assert sorted(encode(later).tolist()) == sorted(judged.X.tolist())
    spread = np.ptp(encode(later)[:, list(model.places["day"])], axis=0)
    assert (spread > 0).tolist() == [False] * 2 + [True] * 6
    far = later.assign(day=later["day"] + pd.Timedelta(7000, "D"))  # whole weeks
    np.testing.assert_array_equal(encode(far)[:, -4:], encode(later)[:, -4:])
    assert np.isfinite(model.predict(encode(far)).astype(float)).all()


def test_the_advice_to_the_command_has_two_lines_and_helps(run_to, tmp_path):
    times = pd.date_range("2025-01-01", periods=N, freq="10min")
    x = np.random.default_rng(0).normal(size=N)
    table = pd.DataFrame({"timestamp": times, "x": x, "y": x + 3.0 * (times.hour >= 12)})
    table[:2000].to_csv(tmp_path / "t.csv", index=False)
    table[2000:].to_csv(tmp_path / "new.csv", index=False)
    words = ("train", tmp_path / "t.csv", "--label", "y", "--local", "none", "--n-components", "64", "--out")
    said = run_to(*words, tmp_path / "m", "--solver", "psgd").stdout.split("  ordered ")[1]
    two = " ".join(" ".join(said.splitlines()[:2]).split())
    assert two.startswith("timestamp: its times are at equal steps, so rows left out lie between others; judge by the")
    assert two.endswith("last: --holdout-by time:timestamp (its calendar stays, its trend ends)")
    told = run_to(*words, tmp_path / "n", "--holdout-by", "time:timestamp").stdout
    assert "ordered" not in told
    assert "whose calendar is a feature" in " ".join(told.split())
    assert model_file.load_model(tmp_path / "n").inputs == model_file.load_model(tmp_path / "m").inputs
    figures = json.loads(run_to("evaluate", tmp_path / "n", tmp_path / "new.csv", "--label", "y", "--json").stdout)
    assert figures["rmse"] < 1.0
    run_to(*words, tmp_path / "o", "--holdout-by", "time:timestamp", "--exclude", "timestamp")
    assert "timestamp" not in model_file.load_model(tmp_path / "o").columns


def test_the_estimator_leaves_the_same_groups_out(tmp_path):
    table = rows()
    recipe = QUICK.replace(holdout_by="group:site", holdout=0.1)
    _, held, _ = divide_source(opened(table, tmp_path / "all", "site"), recipe, SerialExecutor())
    mask = mask_groups(table["site"].to_numpy(), recipe)
    assert sorted(held.X[:, 0].astype(int)) == np.flatnonzero(mask).tolist()
    machine = KernelRegressor("Gaussian(gamma=0.3)", n_components=32, alpha=1e-3, metric="identity", holdout=0.1)
    machine.fit(table[["id"]], table["y"], groups=table["site"])
    assert machine.model_.facts["rows"] == N - mask.sum()


@pytest.mark.parametrize(
    ("change", "by", "words"),
    [
        ({"site": "one"}, "group:site", "There is one group"),
        ({"day": pd.Timestamp("2024-01-01")}, "time:day", "has one moment"),
        ({"site": lambda t: t["site"].where(t.index != 7)}, "group:site", "missing value"),
        ({"day": lambda t: t["day"].where(t.index != 7)}, "time:day", "missing value"),
        ({"day": "noon"}, "time:day", "'noon'"),
        ({"site": lambda t: np.where(t.index < N - 1, "small", "big")}, "group:site", "more than half"),
    ],
)
def test_columns_that_divide_nothing_are_refused(change, by, words, tmp_path):
    table = rows().assign(**change)
    source = opened(table, tmp_path / "all", by.split(":")[1])
    seed_free = QUICK.replace(holdout_by=by)
    if words == "more than half":
        seed_free = seed_free.replace(holdout=0.9)
    with pytest.raises(DataError, match=words):
        train(source, seed_free, SerialExecutor())


def test_no_holdout_cannot_be_divided(tmp_path):
    source = opened(rows(), tmp_path / "all", "site")
    with pytest.raises(RecipeError, match="holdout=0 leaves no row out"):
        train(source, QUICK.replace(holdout_by="group:site", holdout=0.0), SerialExecutor())


@pytest.mark.parametrize("value", ["site", "group:", "groups:site", 3])
def test_rules_that_mean_nothing_are_refused(value):
    with pytest.raises(RecipeError, match="holdout_by"):
        Recipe(solver="psgd", holdout_by=value)
