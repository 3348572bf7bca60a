"""A model card says what the header says, in front matter that a hub reads and tables that a person reads."""

import json

import pytest
import yaml


def front_matter(page):
    """The lines between the first two rulers."""
    return yaml.safe_load(page.split("---\n")[1])


def test_a_hub_reads_task_and_figures(run, model):
    result = run("card", model)
    assert result.exit_code == 0, result.output
    header, found = json.loads(run("show", model, "--json").stdout), front_matter(result.stdout)
    assert (found["library_name"], found["pipeline_tag"]) == ("dkernel", "tabular-classification")
    metrics = found["model-index"][0]["results"][0]["metrics"]
    figures = {metric["type"]: metric["value"] for metric in metrics}
    assert figures["accuracy"] == pytest.approx(header["facts"]["holdout"]["accuracy"], abs=1e-6)


def test_a_person_reads_data_choices_figures_and_limits(run, model):
    page = run("card", model).stdout
    for words in (
        "## Data",
        "in (",
        "| columns | 3: a, b, c |",
        "## Figures",
        "## How sure",
        "predict_set",
        "of the holdout",
        "## Limits",
        "Gaussian(gamma=0.3)",
    ):
        assert words in page


def test_a_file_is_replaced_only_when_asked(run, model, tmp_path):
    place = tmp_path / "README.md"
    assert run("card", model, "--out", place).exit_code == 0
    before = place.read_text()
    again = run("card", model, "--out", place)
    assert again.exit_code == 65
    assert "--overwrite" in again.output
    assert run("card", model, "--out", place, "--overwrite").exit_code == 0
    assert place.read_text() == before
