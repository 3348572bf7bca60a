import json
import re

import pandas as pd
import pytest

EXCLUDE = ["--exclude", "price,id,note"]


def test_figures_of_a_classifier(run_to, model, data):
    result = run_to("evaluate", model, data / "test.parquet", "--label", "y", *EXCLUDE, "--json")
    found = json.loads(result.stdout)
    assert set(found) >= {"n", "accuracy", "error", "auc", "log_loss", "per_class"}
    assert found["n"] == 500
    assert found["accuracy"] + found["error"] == pytest.approx(1)
    assert 0.8 < found["accuracy"] <= 1
    assert 0.8 < found["auc"] <= 1


@pytest.mark.filterwarnings("default")
def test_later_rows_are_told_apart_from_those_of_the_training(run_to, model, data, tmp_path):
    """The reader of a larger error sees the figure of the training, and the columns that have drifted."""
    rows = pd.read_parquet(data / "test.parquet")
    name = next(name for name in rows if name not in ("y", "price", "id", "note"))
    rows.assign(**{name: rows[name] + 9.0}).to_parquet(tmp_path / "late.parquet")
    for path, drifts in ((data / "test.parquet", False), (tmp_path / "late.parquet", True)):
        said = run_to("evaluate", model, path, "--label", "y", *EXCLUDE)
        assert re.search(r"in training +accuracy 0\.\d+ on [\d,]+ rows left out", said.stdout)
        assert (f"warning: a column has other values than in training: {name}: mean" in said.stderr) == drifts
        assert "drifted" not in said.stdout
