import json

import pytest

EXCLUDE = ["--exclude", "price,id,note"]


def test_figures_of_a_classifier(run, model, data):
    result = run("evaluate", model, data / "test.parquet", "--label", "y", *EXCLUDE, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) >= {"n", "accuracy", "error", "auc", "log_loss", "per_class"}
    assert found["n"] == 500
    assert found["accuracy"] + found["error"] == pytest.approx(1)
    assert 0.8 < found["accuracy"] <= 1
    assert 0.8 < found["auc"] <= 1


def test_for_people_and_by_the_label_of_the_training(run, model, data):
    result = run("evaluate", model, data / "test.parquet", "--allow-extra", "--progress", "none")
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.stdout
    assert "log_loss" in result.stdout  # the scores of the fit are calibrated
    assert [line.split()[0] for line in result.stdout.splitlines()[-3:]] == ["class", "'in'", "'out'"]
    assert result.stderr == ""


def test_quiet_leaves_the_figures(run, model, data):
    result = run("evaluate", model, data / "test.parquet", "--allow-extra", "-q")
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.stdout
    assert result.stderr == ""


def test_a_label_column_that_is_not_there(run, model, data):
    result = run("evaluate", model, data / "test.parquet", "--label", "yy", *EXCLUDE)
    assert result.exit_code == 65
    assert "'yy'" in result.stderr


def test_a_model_that_is_none(run, data):
    result = run("evaluate", data / "test.parquet", data / "test.parquet")
    assert result.exit_code == 65
    assert "is not a dkernel model" in result.stderr
