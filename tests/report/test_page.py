"""The page: whole in itself, with the right figures for each kind of fit, and shown by a real browser."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from dkernel.report import require, write
from tests.cli.conftest import FEATURES
from tests.report.test_numbers import fitted

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
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


EFFECTS = ["Permutation importance", "Partial dependence: 0", "Partial dependence: 1"]
ALWAYS = ["Loss", "Error against seconds", "Rows a second, by round", "Time, by phase"]
FIGURES = {
    "two": [
        "Error against components",
        "Confusion matrix",
        "ROC",
        "Calibration",
        "Decision regions",
        "Accuracy",
        "Alpha path",
        "Spectrum",
    ],
    "three": ["Confusion matrix", "ROC", "Calibration", "Decision regions", "Accuracy", "Spectrum"],
    "regression": ["Error against components", "Predictions", "Residuals", "Decision regions", "RMSE", "Spectrum"],
    "no holdout": ["Accuracy", "Spectrum"],
}


@pytest.mark.parametrize("kind", FIGURES)
def test_the_page_is_whole_in_itself_and_has_the_figures_of_its_kind(kind, results, tmp_path):
    write(tmp_path / "r.html", results[kind], RECORD, TRAIL)
    text = (tmp_path / "r.html").read_text()
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
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_equal_fits_draw_equal_pages(results, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, results["two"], RECORD, TRAIL)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_without_matplotlib_it_is_said_before_the_training(run, data, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Exception, match="pip install"):
        require()
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


def test_a_page_that_cannot_be_written_in_the_end_is_no_failure_of_the_fit(run, data, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dkernel.report.write", full)
    job = ["train", data / "train.parquet", "--label", "y", *FEATURES]
    result = run(*job, "--out", tmp_path / "m", "--report", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "warning: the model is written, and the report" in result.stderr
    assert "No space left" in json.loads((tmp_path / "m.run.json").read_text())["report_error"]


LOOK = """<script>
const errors = [];
addEventListener("error", event => errors.push(String(event.message || event.target.outerHTML).slice(0, 80)), true);
addEventListener("load", () => {
  const shown = [...document.images].filter(image => image.complete && image.naturalWidth > 100).length;
  const loaded = performance.getEntriesByType("resource").filter(entry => !entry.name.startsWith("data:"));
  document.body.dataset.seen = JSON.stringify({errors, shown, images: document.images.length, loaded: loaded.length,
    wide: document.documentElement.scrollWidth - innerWidth});
});
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_shows_every_figure_and_complains_of_nothing(results, tmp_path, width):
    write(tmp_path / "r.html", results["two"], RECORD, TRAIL)
    # What a person opens has no script: this one is put in to look at what the browser made of it.
    text = (tmp_path / "r.html").read_text().replace("<head>", f"<head>{LOOK}")
    (tmp_path / "r.html").write_text(text)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom"]
    done = subprocess.run(
        [BROWSER, *flags, (tmp_path / "r.html").as_uri()], capture_output=True, text=True, timeout=240, check=True
    )
    assert "CONSOLE" not in done.stderr
    seen = json.loads(re.search(r'data-seen="([^"]*)"', done.stdout)[1].replace("&quot;", '"'))
    pictures = len(ALWAYS) + len(FIGURES["two"])
    assert seen == {"errors": [], "shown": pictures, "images": pictures, "loaded": 0, "wide": seen["wide"]}
    assert seen["wide"] <= 0
