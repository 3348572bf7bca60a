"""The look at data before a fit: what it names, from how many rows, in Python and by the command."""

import json

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.cli.help import in_options
from dkernel.cli.train import train_command
from dkernel.errors import DataError

N = 600


def table():
    rng = np.random.default_rng(0)
    gone = rng.random(N) < 0.4
    return pd.DataFrame(
        {
            "id": [f"C{i}" for i in rng.permutation(N)],
            "age": np.where(rng.random(N) < 0.05, -999, rng.integers(18, 90, N)),
            "height": (height := rng.normal(size=N)),
            "again": height,
            "pay": rng.choice(["card", "cash", "?"], N),
            "machine": np.repeat([f"M{i:02}" for i in range(30)], 20),
            "reason": np.where(gone, rng.choice(["R1", "R2"], N), None),
            "same": 1.0,
            "gap": np.where(rng.random(N) < 0.25, np.nan, rng.normal(size=N)),
            "gone": np.where(gone, "yes", "no"),
        }
    )


def test_a_look_names_types_and_what_to_check():
    rows = table()
    seen = dkernel.look(rows.drop(columns="gone"), rows["gone"])
    assert (seen.rows, seen.seen) == (N, N)
    assert seen.columns["age"] == "number -999 to 89"
    assert seen.columns["reason"].startswith("category of 2 levels: 'R1', 'R2', missing 6")
    assert seen.columns["gap"].endswith("missing 26 %")
    told = {
        "identifiers": "id", "far values": "age -999", "equal": "again and height", "no values": "pay '?'",
        "groups": "machine", "too good": "reason", "constant": "same",
    }  # fmt: skip
    assert {name: text.split(":")[0] for name, text in seen.checks.items()} == told
    assert seen.checks["groups"].endswith("with holdout_by='group:machine'")
    assert all(text in seen._repr_html_() for text in ("again and height", "<td>number -999 to 89</td>"))


def test_columns_that_a_fit_refuses_are_named_beside_the_others(run_to, here):
    rows = table().assign(day="26.05.2023", pay=[f"1,{i % 900 + 100}.5" for i in range(N)])
    seen = dkernel.look(rows.drop(columns="gone"), rows["gone"])
    assert {"day", "pay"} <= seen.checks.keys()
    assert "day" not in seen.columns
    rows.to_csv("t.csv", index=False)
    said = run_to("train", "t.csv", "--label", "gone", "--dry-run", code=65)
    assert "too good     reason: alone says the label" in said.stdout
    assert "Plan:" not in said.stdout
    assert all(text in said.stderr for text in ("2 columns cannot be read", "--formats 'day=%d.%m.%Y'"))
    options = ["--formats", "day=%d.%m.%Y", "--formats", "pay=1,234.5", "--dry-run"]
    assert "Plan:\n  rows      600 of " in run_to("train", "t.csv", "--label", "gone", *options).stdout
    assert list(here.iterdir()) == [here / "t.csv"]


def test_some_units_of_many_files_are_read(tmp_path):
    for i in range(40):
        frame = pd.DataFrame({"x": np.arange(5000.0) + 5000 * i, "y": float(i)})
        frame.assign(y=frame["x"] % 7).to_parquet(tmp_path / f"{i:02}.parquet")
    seen = dkernel.look(tmp_path, "y")
    assert seen.rows == 200_000
    assert seen.seen == 65_000
    assert seen.columns["x"].startswith("number 0 to 199999")  # of the first and the last file
    assert seen.label == "numbers 0 to 6"


def test_numbers_with_gaps_whole_labels_sparse_rows_and_sources(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[::10, 1] = np.nan
    assert dkernel.look(X, np.arange(300)).columns["1"].endswith("missing 10 %")
    assert dkernel.look(X, np.arange(300)).label == "numbers 0 to 299"
    sparse = pytest.importorskip("scipy.sparse").random(300, 20_000, 0.01, "csr", rng=0)
    assert dkernel.look(sparse, np.arange(300) % 2).columns == {}
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    assert dkernel.look(tmp_path / "t.csv", "c").columns.keys() == {"a", "b"}
    with pytest.raises(DataError, match="no label to look at"):
        dkernel.look(dkernel.open_source(tmp_path / "t.csv"))


@pytest.mark.usefixtures("here")
def test_forty_columns_have_a_line_and_json_has_all(run_to):
    pd.DataFrame(np.random.default_rng(0).normal(size=(100, 60))).assign(y=[0, 1] * 50).to_csv("wide.csv", index=False)
    said = run_to("train", "wide.csv", "--label", "y", "--dry-run").stdout.split("Plan:")[0]
    assert len(said.splitlines()) == 42
    assert "and 20 more (--json has all)" in said
    found = json.loads(run_to("train", "wide.csv", "--label", "y", "--dry-run", "--json").stdout)
    assert len(found["look"]["columns"]) == 60
    assert found["n"] == 100


def test_python_and_the_command_say_the_same_to_check_each_in_its_forms(run_to, here):
    rows = table().drop(columns=["reason", "gap"])
    rows.to_csv("t.csv", index=False)
    words = ["--kernel", "linear", "--n-components", "16", "--local", "none", "--holdout", "0.2"]
    told = run_to("train", "t.csv", "--label", "gone", "--out", here / "m", *words).stdout.partition("Check:\n")[2]
    settings = {"n_components": 16, "local": "none", "holdout": 0.2}
    machine = dkernel.KernelClassifier("linear", **settings).fit(rows.drop(columns="gone"), rows["gone"])
    summary = machine.summary().partition("Check:\n")[2]
    assert "--" not in summary
    assert in_options(summary, train_command).splitlines() == told.splitlines()
    assert {"identifiers", "far values", "no values", "constant"} <= {line[2:14].strip() for line in told.splitlines()}
