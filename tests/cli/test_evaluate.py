import json

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
