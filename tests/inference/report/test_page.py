"""The page: whole in itself, with the right figures for each kind of fit, without an error of HTML."""

import base64
import io
import json
import re
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.image import imread
from resvg_py import svg_to_bytes
from tinyhtml5.parser import HTMLParser as HTML5Parser

from dkernel.inference.report import require_matplotlib, write
from tests.cli.conftest import FEATURES
from tests.inference.report.test_numbers import fitted

RECORD = {
    "model": "runs/m<b>.safetensors", "paths": ["a.parquet"], "seconds": {"train": 2.5}, "peak_memory_bytes": 2**28,
    "phases": {"survey": 0.5, "prepare": 1.0, "pass 1/1": 1.0}, "versions": {"dkernel": "0.1.0"}, "faults": [],
}  # fmt: skip
TRAIL = [("pass 1/1", float(i), 100 * i) for i in range(12)]


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.pictures, self.addresses, self.tags, self.titles = {}, [], [], []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self._in = tag
        self.addresses += [attributes[name] for name in ("src", "href", "data", "srcset") if name in attributes]
        if tag == "img":
            self.pictures[attributes["alt"]] = attributes["src"]

    def handle_endtag(self, _):
        self._in = ""

    def handle_data(self, data):
        if self._in in ("h2", "h3"):
            self.titles.append(data)


@pytest.fixture(scope="module")
def results():
    return {
        "two": fitted(lambda X: np.where((X**2).sum(1) < 1.4, "<in>", "out"), alpha="auto"),
        "three": fitted(lambda X: np.digitize(X[:, 0], [-0.5, 0.5]), loss="logistic", features="fourier"),
        "regression": fitted(lambda X: np.sin(X[:, 0]) + X[:, 1], task="regress", loss="squared"),
        "no holdout": fitted(lambda X: X[:, 0] > 0, holdout=0),
    }


@pytest.fixture(scope="module")
def drawn(results, tmp_path_factory):
    """The file of the page of a kind of fit, alone in its folder."""

    @cache
    def page(kind):
        path = tmp_path_factory.mktemp("page") / "r.html"
        write(path, results[kind], RECORD, TRAIL)
        return path

    return page


EFFECTS = ["Permutation importance", "Partial dependence: 0", "Partial dependence: 1"]
ALWAYS = ["Loss", "Rows a second, by round", "Time, by phase"]
FIGURES = {
    "two": [
        "Confusion matrix",
        "ROC",
        "Calibration",
        "Decision regions",
        "Accuracy",
        "Alpha path",
        "Spectrum",
    ],
    "three": ["Confusion matrix", "ROC", "Calibration", "Decision regions", "Accuracy", "Spectrum"],
    "regression": ["Predictions", "Residuals", "Decision regions", "RMSE", "Spectrum"],
    "no holdout": ["Accuracy", "Spectrum"],
}


@pytest.mark.parametrize("kind", FIGURES)
def test_the_page_is_whole_in_itself_and_has_the_figures_of_its_kind(kind, drawn):
    text = drawn(kind).read_text()
    page = Page(text)
    assert set(page.pictures) == {*ALWAYS, *FIGURES[kind], *(EFFECTS if kind != "no holdout" else ())}
    assert page.addresses
    assert all(address.startswith("data:") for address in page.addresses)
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import|https?:", text)
    for name, source in page.pictures.items():
        drawing = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,"))
        tree = ElementTree.fromstring(drawing)
        links = [value for node in tree.iter() for key, value in node.attrib.items() if key.endswith("href")]
        assert all(link.startswith(("#", "data:image/png")) for link in links), name
    for title in ("Recipe", "Versions", "Plan and peaks", "Run"):
        assert title in page.titles
    assert "m&lt;b&gt;.safetensors" in text
    assert len(text) < 1_500_000
    assert [path.name for path in drawn(kind).parent.iterdir()] == ["r.html"]


def test_equal_fits_draw_equal_pages(results, drawn, tmp_path):
    write(tmp_path / "again", results["two"], RECORD, TRAIL)
    assert (tmp_path / "again").read_bytes() == drawn("two").read_bytes()


def test_without_matplotlib_it_is_said_before_the_training(run, data, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Exception, match="pip install"):
        require_matplotlib()
    result = run("train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", "--report", tmp_path / "r")
    assert result.exit_code == 2
    assert "matplotlib" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_model_and_page(run, data, tmp_path):
    job = ["train", data / "train.parquet", "--label", "y", *FEATURES, "--holdout", "0.2", "--overwrite"]
    result = run(*job, "--out", tmp_path / "m", "--report", tmp_path / "r.html", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["report"] == str(tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert {"ROC", "Loss", "Rows a second, by round", "Time, by phase"} <= set(page.pictures)
    assert "Decision regions" not in page.pictures
    refused = run(*job, "--out", tmp_path / "n", "--report", tmp_path / "no" / "r")
    assert refused.exit_code == 65
    assert not (tmp_path / "n").exists()


def test_a_page_that_cannot_be_written_does_not_fail_the_fit(run, data, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dkernel.inference.report.write", full)
    job = ["train", data / "train.parquet", "--label", "y", *FEATURES]
    result = run(*job, "--out", tmp_path / "m", "--report", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "warning: the model is written, and the report" in result.stderr
    assert "No space left" in json.loads((tmp_path / "m.run.json").read_text())["report_error"]


@pytest.mark.parametrize("kind", FIGURES)
def test_the_page_has_no_error_of_html_and_every_figure_is_drawn(kind, drawn):
    text = drawn(kind).read_text()
    parser = HTML5Parser()
    parser.parse(text)
    assert parser.errors == []
    for name, source in Page(text).pictures.items():
        drawing = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
        pixels = imread(io.BytesIO(svg_to_bytes(svg_string=drawing, background="white", dpi=96)))
        assert min(pixels.shape[:2]) > 100, name
        assert (pixels[..., :3] != 1).any(axis=2).mean() > 0.01, f"{name} is blank"
