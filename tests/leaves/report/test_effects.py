"""What the features do: importances find the ones that matter, and pages show them for fits, tests and estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from dkernel import KernelClassifier, KernelRegressor, Tuner
from dkernel.data.block import Block
from dkernel.errors import UnsupportedError
from dkernel.leaves.report.effects import dependences, find_importances, strongest
from tests.cli.conftest import FEATURES

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(600, 3)).astype(np.float32), columns=["big", "small", "none"])
Y = (2 * np.sin(X["big"]) + 0.5 * X["small"]).to_numpy(np.float64)


@pytest.fixture(scope="module")
def machine():
    return KernelRegressor("gaussian", metric="diagonal", n_components=64, solver="psgd").fit(X, Y)


@pytest.fixture(scope="module")
def rows():
    return Block(X.to_numpy(), Y)


def test_the_features_that_matter_come_first(machine, rows):
    found = find_importances([(machine.model_, rows)])["columns"]
    lost = {name: each["mean"] for name, each in found.items()}
    assert list(lost) == ["big", "small", "none"]
    assert lost["big"] > 1 > lost["small"] > 0.1 > abs(lost["none"])
    assert strongest(machine.model_)[0][0] == "big"


def test_a_partial_dependence_is_the_function(machine, rows):
    (found,) = dependences([(machine.model_, rows)], ["big"])
    wave = 2 * np.sin(found.values)
    centred = found.answers[:, 0] - found.answers[:, 0].mean()
    assert np.abs(centred - (wave - wave.mean())).max() < 0.3


@pytest.mark.parametrize("columns", range(1, 8))
def test_no_picture_is_alone_or_shows_a_value_that_no_row_has(columns):
    few = RNG.integers(0, 2, (40, columns)).astype(np.float32)
    model = KernelRegressor("gaussian", n_components=8).fit(few, few.sum(axis=1)).model_
    found = dependences([(model, Block(few, None))], list(model.places))
    assert len(found) == {5: 4, 7: 6}.get(columns, columns)
    assert {value for each in found for value in each.values} == {0, 1}


def test_raw_columns_are_varied_before_their_encoding():
    """A number with holes, a text and a date had no partial dependence: each has several inputs."""
    n = 3000
    time = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 400 * 24, n), "h")
    table = pd.DataFrame({"time": time, "city": RNG.choice(["Bern", "Rome", "Oslo"], n), "warmth": RNG.normal(size=n)})
    y = (time.hour >= 12) + 2.0 * (time.day_of_week >= 5) + 4.0 * (table["city"] == "Rome") + 2 * table["warmth"]
    table.loc[::50, "warmth"] = np.nan
    table.loc[::7, "city"] = None
    result = KernelRegressor("gaussian", n_components=400, solver="psgd", local="none").fit(table, y)._finished[0]
    city, warmth, weekday, hour = dependences([(result.model, result.holdout)], ["city", "warmth", "time"])
    assert city.values[0] == "Rome"
    assert "missing" in city.values
    assert city.answers[0, 0] - city.answers[2:, 0].mean() == pytest.approx(4, abs=1)
    assert np.polyfit(warmth.values, warmth.answers[:, 0], 1)[0] == pytest.approx(2, abs=0.5)
    assert (weekday.name, hour.name) == ("time, weekday", "time, hour (UTC)")
    assert weekday.answers[5:].mean() - weekday.answers[:5].mean() == pytest.approx(2, abs=0.5)
    assert hour.answers[14:22].mean() - hour.answers[2:10].mean() == pytest.approx(1, abs=0.5)


def test_the_parts_of_a_date_that_move_the_answer_most_are_shown():
    time = pd.Timestamp("2021-01-15") + pd.to_timedelta(RNG.integers(0, 4 * 365, 3000), "D")
    for y, shown in ((5.0 * time.month.isin([6, 7]), "month"), (3.0 * (time.year - 2021), "year")):
        machine = KernelRegressor("gaussian", n_components=256, solver="psgd", local="none")
        result = machine.fit(pd.DataFrame({"day": time}), y + RNG.normal(size=3000))._finished[0]
        first, second = dependences([(result.model, result.holdout)], ["day"])
        assert first.name == f"day, {shown}"
        if shown == "month":
            assert {first.values[i] for i in np.argsort(-first.answers[:, 0])[:2]} == {"June", "July"}
        else:
            assert second.name == "day, month"
            assert np.polyfit(first.values, first.answers[:, 0], 1)[0] == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize("odd", [-999.0, 1e9])
def test_codes_and_far_values_do_not_stretch_an_axis(odd):
    age = np.where(RNG.random(2000) < 0.04, odd, RNG.uniform(18, 90, 2000))
    table = pd.DataFrame({"age": age, "rare": np.where(RNG.random(2000) < 0.2, RNG.uniform(1, 9, 2000), 0.0)})
    model = KernelRegressor("gaussian", n_components=64).fit(table, table["rare"]).model_
    found = dependences([(model, Block(table.to_numpy(), None))], ["age", "rare"])
    assert [each.values.min() >= 0 and each.values.max() <= 90 for each in found] == [True, True]
    assert all(len(each.values) > 3 for each in found)


def test_an_estimator_writes_the_page_of_its_fit(machine, tmp_path):
    machine.report(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    for title in ("How good: RMSE", "Which columns matter", "big", "Time, by phase"):
        assert f"<h3>{title}</h3>" in page
    again = pickle.loads(pickle.dumps(machine))
    assert (again.predict(X) == machine.predict(X)).all()
    with pytest.raises(UnsupportedError, match="call it after fit"):
        again.report(tmp_path / "again.html")


def test_few_rows_that_are_solved_exactly_are_judged_by_their_folds(tmp_path):
    KernelRegressor("gaussian", n_components=64).fit(X, Y).report(tmp_path / "exact.html")
    text = (tmp_path / "exact.html").read_text()
    for title in ("How good: RMSE", "Which columns matter", "big", "Residuals"):
        assert f"<h3>{title}</h3>" in text


def test_a_search_writes_the_page_of_its_search(tmp_path):
    machine = KernelClassifier("gaussian", metric="identity", n_components=32)
    Tuner(machine, {"gamma": [0.1, 1.0], "alpha": [1e-5]}).fit(X, Y > 0).report(tmp_path / "search.html")
    assert "<h3>Leaderboard</h3>" in (tmp_path / "search.html").read_text()


@pytest.mark.parametrize("label", ["y", pytest.param("price", marks=pytest.mark.slow)])
def test_evaluate_writes_the_page_of_a_test(run_to, data, tmp_path, label):
    model, page = tmp_path / "m", tmp_path / "test.html"
    exclude = ["--exclude", {"y": "price", "price": "y"}[label] + ",id,note"]
    options = [*exclude, *FEATURES[2:], "--label", label]
    run_to("train", data / "train.parquet", *options, "--out", model)
    before = run_to("evaluate", model, data / "test.parquet", *exclude).stdout
    result = run_to("evaluate", model, data / "test.parquet", *exclude, "--report", page)
    assert result.stdout == before
    text = page.read_text()
    for title in ("How sure", "Which columns matter", *{"y": ("Classes", "ROC"), "price": ("Residuals",)}[label]):
        assert f"<h3>{title}</h3>" in text
    assert "500 rows of test.parquet.<" in text
    run_to("evaluate", model, data / "test.parquet", *exclude, "--report", data / "test.parquet", code=65)


def test_a_table_with_categories_has_its_inputs_on_the_page(run_to, tmp_path):
    table = pd.DataFrame({"city": ["Bern", "Rome", "Oslo"] * 200, "warmth": RNG.normal(size=600)})
    table["y"] = np.where((table["city"] == "Rome") == (table["warmth"] > 0), "yes", "no")
    table.to_csv(tmp_path / "t.csv", index=False)
    machine = KernelClassifier("gaussian", metric="diagonal", n_components=64).fit(
        table[["city", "warmth"]], table["y"]
    )
    assert machine.feature_weights_.index.tolist() == ["city", "warmth"]
    assert machine.feature_weights_.sum() == pytest.approx(1)
    machine.report(tmp_path / "fit.html")
    options = ["--label", "y", "--kernel", "gaussian", "--metric", "diagonal", "--n-components", "64"]
    run_to("train", tmp_path / "t.csv", *options, "--out", tmp_path / "m")
    run_to("show", tmp_path / "m")
    run_to("evaluate", tmp_path / "m", tmp_path / "t.csv", "--report", tmp_path / "test.html")
    text = (tmp_path / "test.html").read_text()
    for title in ("Which columns matter", "warmth", "city"):
        assert f"<h3>{title}</h3>" in text


def test_a_column_is_shuffled_with_all_its_inputs():
    n = 1200
    table = pd.DataFrame({"city": RNG.choice([f"city {i}" for i in range(40)], n), "day": RNG.normal(size=n)})
    table["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 400, n), "D")
    high = table["city"].str[5:].astype(int) >= 20
    machine = KernelRegressor("gaussian", gamma=0.01, metric="identity", n_components=128, solver="psgd", alpha=1e-6)
    machine = machine.fit(table, high + 0.0)
    assert len(machine.model_.inputs) > 40  # more than a picture shows
    result = machine._finished[0]
    found = find_importances([(machine.model_, result.holdout)])["columns"]
    assert set(found) == {"city", "day", "when"}
    assert next(iter(found)) == "city"


def test_why_there_are_no_effects_is_said(tmp_path):
    wide = pd.DataFrame(RNG.normal(size=(600, 120)), columns=[f"c{i}" for i in range(120)])
    settings = {"gamma": 0.01, "metric": "identity", "n_components": 32, "solver": "psgd"}
    for table, more, said in (
        (wide, {}, "more than 100 columns, and no learned"),
        (X, {"holdout": 0}, "were left out"),
    ):
        KernelRegressor("gaussian", **settings, **more).fit(table, Y).report(tmp_path / "r.html")
        assert said in (tmp_path / "r.html").read_text()
