"""Columns that drift: the index against plain formulas, what is found and what is not, and where it is told."""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel.data.block import Block
from dkernel.errors import DriftWarning
from dkernel.inference.drift import DRIFTED, _index_of_levels, _index_of_number, find_drift, measure_moments

N = 1000


def table(n=N, seed=0, age=40.0, spread=10.0, basel=0.5, gaps=0.05, begin="2024"):
    rng = np.random.default_rng(seed)
    rest = (1 - basel) / 2
    age = np.where(rng.random(n) < gaps, np.nan, rng.normal(age, spread, n))
    city = rng.choice(["Basel", "Zug", "Bern"], n, p=[basel, rest, rest])
    return pd.DataFrame({"age": age, "city": city, "pay": rng.lognormal(size=n), "flag": 1.0}).assign(
        when=pd.Timestamp(begin) + pd.to_timedelta(rng.integers(0, 200, n), "D")
    )


@pytest.fixture(scope="module", params=["standard", "global", "minmax", "none"])
def machine(request):
    frame = table()
    machine = dkernel.KernelRegressor("gaussian", gamma=0.5, n_components=16, scale=request.param, local="none")
    return machine.fit(frame, frame["pay"])


def scored(machine, frame, folder, **options):
    frame.to_parquet(folder / "new.parquet", index=False)
    return dkernel.score(machine, folder / "new.parquet", folder / "scores", overwrite=True, **options)


@pytest.mark.parametrize("n", [1, 10, 100, 20_000])
def test_rows_like_those_of_the_training_have_not_drifted(machine, tmp_path, n):
    assert scored(machine, table(n, seed=n), tmp_path).drifted == {}


@pytest.mark.parametrize(
    ("change", "column", "training", "here"),
    [
        ({"age": 55.0}, "age", {"mean": 40, "deviation": 10}, {"mean": 55, "deviation": 10}),
        ({"spread": 25.0}, "age", {"mean": 40, "deviation": 10}, {"mean": 40, "deviation": 25}),
        ({"basel": 0.05}, "city", {"Basel": 0.5}, {"Basel": 0.05}),
        ({"gaps": 0.6}, "age", {"missing": 0.05}, {"missing": 0.6}),
    ],
)
def test_a_column_that_drifted_is_named_with_its_figures(machine, tmp_path, change, column, training, here):
    with pytest.warns(DriftWarning, match=f"a column has other values than in training: {column}: ") as said:
        result = scored(machine, table(seed=7, **change), tmp_path)
    assert len(said) == 1
    (found,) = result.drifted.values()
    assert list(result.drifted) == [column]
    assert found["index"] > DRIFTED
    assert found["training"] == pytest.approx(training, rel=0.1, abs=0.02)
    assert found["here"] == pytest.approx(here, rel=0.1, abs=0.8 if "mean" in here else 0.03)
    manifest = json.loads((tmp_path / "scores" / "_manifest.json").read_text())
    assert manifest["drifted"] == result.drifted
    with pytest.warns(DriftWarning, match=column):
        assert scored(machine, table(seed=7, **change), tmp_path).drifted == result.drifted


def test_dates_are_told_as_dates(machine, tmp_path):
    with pytest.warns(DriftWarning, match=r"when: mean 2024-04-\d\d, deviation 5\d.*days in training; mean 2025-"):
        scored(machine, table(begin="2025", seed=3), tmp_path)


def test_values_without_a_level_are_a_level(machine, tmp_path):
    frame = table(seed=5).assign(city="Genf")
    with pytest.warns(match="city") as said:
        scored(machine, frame, tmp_path)
    assert {type(each.message).__name__ for each in said} == {"DriftWarning", "UnknownCategoriesWarning"}


def test_the_moments_of_parts_are_those_of_all_rows(machine, tmp_path):
    (tmp_path / "new").mkdir()
    frame = table(seed=7, age=60.0)
    for i in range(4):
        frame[i::4].to_parquet(tmp_path / "new" / f"{i}.parquet", index=False)
    with pytest.warns(DriftWarning):
        parts = dkernel.score(machine, tmp_path / "new", tmp_path / "a").drifted
    with pytest.warns(DriftWarning):
        assert scored(machine, frame, tmp_path).drifted == parts


def test_many_columns_are_one_line(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    names = list("abcdef")
    machine = dkernel.KernelRegressor("gaussian", gamma=0.5, n_components=16).fit(
        pd.DataFrame(X, columns=names), X[:, 0]
    )
    with pytest.warns(DriftWarning, match=r"6 columns have other .*; and 3 more, which the manifest") as said:
        result = scored(machine, pd.DataFrame(X + np.arange(1, 7), columns=names), tmp_path)
    assert "training: f: mean" in str(said[0].message), "the most drifted first"
    assert list(result.drifted) == names


def test_the_index_is_that_of_two_normal_laws_and_of_shares():
    n = 1e9
    index = _index_of_number(0.5, 0.25 + 2.25, n)
    x = np.linspace(-40, 40, 400_001)
    p, q = (np.exp(-((x - m) ** 2) / 2 / s**2) / s / np.sqrt(2 * np.pi) for m, s in ((2.0, 3.0), (1.0, 2.0)))
    assert index == pytest.approx(((p - q) * np.log(p / q)).sum() * (x[1] - x[0]), rel=1e-5)
    index, _ = _index_of_levels(("a", "b"), np.array([0.2, 0.3]), np.array([0.6, 0.2]), n, 1e9)
    p, q = np.array([0.6, 0.2, 0.2]), np.array([0.2, 0.3, 0.5])
    assert index == pytest.approx(((p - q) * np.log(p / q)).sum(), rel=1e-5)


@pytest.mark.parametrize("rows", [1, 5, 30, 300])
def test_few_rows_hardly_ever_drift_by_chance(machine, rows):
    model, frame = machine.model_, table(200 * rows, seed=9)
    X, _ = model.encoding.encode(pa.Table.from_pandas(frame[list(model.columns)]), "float64")
    found = (find_drift(model, [measure_moments(model, [Block(part)])]) for part in np.split(X, 200))
    assert sum(map(bool, found)) <= 4


def test_sparse_rows_and_texts_are_not_compared(tmp_path):
    texts = [f"{'ab'[i % 2]}{i % 7}" for i in range(200)]
    frame = pd.DataFrame({"t": texts})
    machine = dkernel.KernelClassifier(dkernel.SpectrumKernel(2), n_components=8).fit(frame, np.arange(200) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scored(machine, pd.DataFrame({"t": ["zz"] * 200}), tmp_path).drifted == {}


def test_a_run_that_goes_on_tells_of_all_rows(machine, tmp_path, monkeypatch):
    frame = table(seed=7, age=60.0)
    (tmp_path / "new").mkdir()
    for i in range(4):
        pq.write_table(pa.Table.from_pandas(frame[i::4], preserve_index=False), tmp_path / "new" / f"{i}.parquet")
    with pytest.warns(DriftWarning):
        dkernel.score(machine, tmp_path / "new", tmp_path / "whole")
    from dkernel.data.writers.destination import Staging

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Staging, "commit", stopped)
        with pytest.raises(KeyboardInterrupt):
            dkernel.score(machine, tmp_path / "new", tmp_path / "again")
    with pytest.warns(DriftWarning):
        assert dkernel.score(machine, tmp_path / "new", tmp_path / "again").reused == 4
    one, other = (tmp_path / name / "_manifest.json" for name in ("whole", "again"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("metric", ["identity", "diagonal", "full"])
def test_a_learned_metric_is_no_deviation_of_the_training(metric):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3)) * [1.0, 5.0, 20.0]
    settings = {"gamma": 0.5, "n_components": 64, "alpha": 1e-4, "solver": "psgd"}
    model = dkernel.KernelRegressor("gaussian", metric=metric, scale="standard", **settings).fit(X, X[:, 0]).model_
    np.testing.assert_allclose(model.training_moments[1], X.std(axis=0), rtol=0.02)
