"""A model card says what the header says, in front matter that a hub reads and tables that a person reads."""

import json
import os
from functools import cache

import fsspec
import numpy as np
import pandas as pd
import pytest
import yaml


def front_matter(page):
    """The lines between the first two rulers."""
    return yaml.safe_load(page.split("---\n")[1])


def test_a_hub_reads_task_and_figures(run_to, model):
    result = run_to("show", model, "--markdown")
    header, found = json.loads(run_to("show", model, "--json").stdout), front_matter(result.stdout)
    assert (found["library_name"], found["pipeline_tag"]) == ("dkernel", "tabular-classification")
    metrics = found["model-index"][0]["results"][0]["metrics"]
    figures = {metric["type"]: metric["value"] for metric in metrics}
    assert figures["accuracy"] == pytest.approx(header["facts"]["holdout"]["accuracy"], abs=1e-6)


def test_a_person_reads_data_choices_figures_and_limits(run_to, model):
    page = run_to("show", model, "--markdown").stdout
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


def test_a_file_is_replaced_only_when_asked(run_to, model, tmp_path):
    place = tmp_path / "README.md"
    assert run_to("show", model, "--out", place).stdout == ""
    before = place.read_text()
    assert before == run_to("show", model, "--markdown").stdout
    again = run_to("show", model, "--markdown", "--out", place, code=65)
    assert "--overwrite" in again.output
    run_to("show", model, "--markdown", "--out", place, "--overwrite")
    assert place.read_text() == before


def test_a_card_lies_in_a_store_too(run_to, model):
    run_to("show", model, "--markdown", "--out", "memory://cards/README.md")
    assert fsspec.filesystem("memory").cat_file("/cards/README.md").startswith(b"---\nlibrary_name: dkernel")
    assert "already exists" in run_to("show", model, "--markdown", "--out", "memory://cards/README.md", code=65).output


def test_a_card_that_cannot_be_written_whole_leaves_the_old_one(run_to, model, tmp_path, monkeypatch):
    place = tmp_path / "card.md"
    place.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    run_to("show", model, "--markdown", "--out", place, "--overwrite", code=75)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


HOSTILE = [
    "<script>alert(3)</script>",
    "<img src=x onerror=alert(1)>",
    "a|b",
    "line\n# end",
    "[x](http://y)",
    "`c`",
    "__d__",
]


@cache
def card_tokens(run_to, name):
    """What a parser of Markdown finds on the card of a model whose label, classes and columns have this name."""
    markdown_it = pytest.importorskip("markdown_it")
    X = np.random.default_rng(0).normal(size=(200, 2))
    frame = pd.DataFrame({name: X[:, 0], "b": X[:, 1], f"{name}y": np.where(X[:, 0] > 0, name, "other")})
    frame.to_parquet("x.parquet")
    words = ["--kernel", "linear", "--local", "none", "--quiet", "--out", "m", "--overwrite"]
    run_to("train", "x.parquet", "--label", f"{name}y", *words)
    page = run_to("show", "m", "--markdown").stdout.split("---\n", 2)[2]
    blocks = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)
    return [each for block in blocks for each in (block, *(block.children or []))]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(name, run_to):
    tokens = card_tokens(run_to, name)
    found, plain = (
        [token.type for token in each if "text" not in token.type] for each in (tokens, card_tokens(run_to, "plain"))
    )
    assert found == plain
    shown = ["".join(part.content for part in token.children) for token in tokens if token.children]
    clean = " ".join(name.split())
    assert f"{clean}y" in shown
    assert any(f"{clean} (" in text for text in shown)
    assert f"2: {clean}, b" in shown
