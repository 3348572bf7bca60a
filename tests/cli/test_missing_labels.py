"""A missing label: the command says how many rows --max-bad-rows has to leave out, Python which row has none."""

import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DataError


def rows(text):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400)})
    frame["y"] = np.where(frame["x"] > 0, "yes", "no") if text else frame["x"] + 0.1 * rng.normal(size=400)
    frame.loc[[17, *range(100, 125)], "y"] = None
    return frame


@pytest.mark.usefixtures("here")
@pytest.mark.filterwarnings("ignore:26 bad rows")
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_the_refusal_names_the_number_to_leave_out(run_to, name, text):
    frame = rows(text)
    frame.to_csv(name, index=False) if name == "t.csv" else frame.to_parquet(name, index=False, row_group_size=60)
    words = ["train", name, "--label", "y", "--out", "m", "--quiet", "--kernel", "gaussian", "--gamma", "0.5"]
    refused = run_to(*words, code=65)
    assert f"{name}, " in refused.stderr
    assert "26 rows are bad in all: --max-bad-rows 26 leaves them out." in refused.stderr
    run_to(*words, "--max-bad-rows", "26")
    refused = run_to("evaluate", "m", name, code=65)
    assert "26 rows are bad in all: --max-bad-rows 26 leaves them out." in refused.stderr


def test_a_dry_run_names_it_where_it_reads_such_a_row(run_to, tmp_path):
    rows(text=True).to_csv(tmp_path / "t.csv", index=False)
    refused = run_to("train", tmp_path / "t.csv", "--label", "y", "--dry-run", code=65)
    assert "26 rows are bad in all: --max-bad-rows 26 leaves them out." in refused.stderr


@pytest.mark.parametrize(
    "kind", [list, lambda y: np.array(y, object), pd.Series, lambda y: pd.Series(y).convert_dtypes()]
)
@pytest.mark.parametrize("text", [False, True])
def test_python_names_the_first_row_without_a_label(kind, text):
    frame = rows(text)
    machine = KernelClassifier() if text else KernelRegressor()
    with pytest.raises(DataError, match=r"y contains NaN: row 17 has no label \(and 25 more\)"):
        machine.fit(frame[["x", "z"]], kind(frame["y"].tolist()))
