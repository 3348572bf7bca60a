"""Importances are those of scikit-learn's permutation, on the holdout or on other rows, by column."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.inspection import permutation_importance

from dkernel import KernelClassifier, KernelRegressor, load, save
from dkernel.errors import UnsupportedError
from dkernel.model.wording import format_with_error

QUICK = {"gamma": 0.2, "n_components": 64, "alpha": 1e-4, "metric": "identity", "local": "none", "solver": "psgd"}
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.normal(size=6000), "noise": RNG.normal(size=6000), "city": RNG.choice(["x", "y"], 6000)})
NUMBER = TABLE["a"] * np.where(TABLE["city"] == "x", 1.0, -1.0)


def test_those_of_the_holdout_are_those_of_scikit_learn():
    machine = KernelRegressor("gaussian", **QUICK).fit(TABLE, NUMBER)
    found = machine.feature_importances_
    expected = permutation_importance(machine, TABLE[-2000:], NUMBER[-2000:], random_state=0)
    np.testing.assert_allclose(found, expected.importances_mean, atol=0.15)
    assert abs(found[1]) < 0.02
    classifier = KernelClassifier("gaussian", **QUICK).fit(TABLE, NUMBER > 0)
    assert classifier.feature_importances_[[0, 2]].min() > 0.3


@pytest.mark.parametrize(
    ("n", "settings"),
    [
        (300, {}),
        (3200, {}),
        (300, {"loss": "hinge"}),
        (3200, {"n_components": 100}),
        (300, {"features": "fourier", "n_components": 50}),
    ],
    ids=str,
)
def test_of_few_rows_they_are_of_the_folds_by_fits_that_had_not_seen_them(n, settings):
    X, y = TABLE[["a", "noise"]][:n], TABLE["a"][:n] ** 2 > 0.4
    machine = KernelClassifier("gaussian", gamma=0.3, solver="exact", **settings).fit(X, y)
    right = [(model.predict(rows.X) == rows.y).mean() for model, rows, _ in machine._finished[0].left_out]
    assert np.mean(right) == pytest.approx(machine.model_.facts["holdout"]["accuracy"], abs=0.002)
    found = machine.feature_importances_
    assert found[0] > 0.2 > 0.03 > abs(found[1])


@pytest.mark.parametrize("way", ["of a file", "of blocks", "without a holdout", "sparse"])
def test_where_no_row_was_left_out_it_says_what_to_use(way, tmp_path):
    X, machine = TABLE[["a", "noise"]].to_numpy()[:3000], KernelRegressor("gaussian", **QUICK)
    if way == "of a file":
        save(machine.fit(X, X[:, 0]), tmp_path / "m")
        machine = load(tmp_path / "m")
    elif way == "of blocks":
        machine.partial_fit(X, X[:, 0])
    elif way == "sparse":
        KernelRegressor.fit(machine, sparse.csr_array(np.pad(X, ((0, 0), (0, 5000)))), X[:, 0])
    else:
        machine.set_params(holdout=0).fit(X, X[:, 0])
    assert not hasattr(machine, "feature_importances_")
    with pytest.raises(UnsupportedError, match="permutation_importance"):
        _ = machine.feature_importances_


def test_the_command_prints_the_largest_first(run_to, tmp_path):
    save(KernelRegressor("gaussian", **QUICK).fit(TABLE, NUMBER.rename("z")), tmp_path / "m")
    TABLE.assign(z=NUMBER).to_parquet(tmp_path / "rows.parquet")
    words = ["evaluate", tmp_path / "m", tmp_path / "rows.parquet", "--label", "z", "--importance"]
    found = json.loads(run_to(*words, "--json").stdout)["importance"]
    assert found["rows"] == 6000
    assert list(found["columns"])[2] == "noise"
    assert 0 < found["columns"]["a"]["deviation"] < 0.1 < found["columns"]["a"]["mean"]
    lines = run_to(*words).stdout
    assert "what it costs of the r2 to shuffle a column, on 6,000 rows" in lines
    assert re.search(r"^ {18}noise: -?0\.0\d+ ± 0\.0\d+$", lines, re.MULTILINE)


def test_terminal_page_json_and_python_have_the_same(run_to, tmp_path):
    pytest.importorskip("matplotlib")
    machine = KernelRegressor("gaussian", **QUICK).fit(TABLE, NUMBER.rename("z"), eval_set=(TABLE[:900], NUMBER[:900]))
    save(machine, tmp_path / "m")
    TABLE.assign(z=NUMBER)[:900].to_parquet(tmp_path / "rows.parquet")
    words = ["evaluate", tmp_path / "m", tmp_path / "rows.parquet", "--label", "z", "--report", tmp_path / "p.html"]
    found = json.loads(run_to(*words, "--importance", "--json").stdout)["importance"]["columns"]
    np.testing.assert_allclose([found[name]["mean"] for name in TABLE], machine.feature_importances_, atol=0.02)
    said = dict(re.findall(r"^ {18}(\w+): (.* ± .*)$", run_to(*words, "--importance").stdout, re.MULTILINE))
    assert said == {name: format_with_error(*each.values()) for name, each in found.items()}
    run_to(*words)
    machine.report(tmp_path / "fit.html")
    shown = [
        dict(re.findall(r"<th>(a|city|noise)</th>.*?<td>([^<]* ± [^<]*)</td>", (tmp_path / page).read_text("utf-8")))
        for page in ("p.html", "fit.html")
    ]
    assert shown[0] == said
    rounded = [float(shown[1][name].partition(" ")[0]) for name in TABLE]
    np.testing.assert_allclose(rounded, machine.feature_importances_, atol=5e-4)
