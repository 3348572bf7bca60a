"""The page: whole in itself, with the right figures for each kind of fit, without an error of HTML."""

import io
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.image import imread
from resvg_py import svg_to_bytes
from tinyhtml5.parser import HTMLParser as HTML5Parser

from dkernel.inference.summary import FitSummary
from dkernel.leaves.report.report import require_matplotlib, write
from dkernel.leaves.report.style import COLOURS, VARIABLES
from tests.chromium import PROGRAM, look_at, start_chromium
from tests.cli.conftest import FEATURES
from tests.leaves.report.test_numbers import fitted

RECORD = {
    "model": "runs/m<b>.safetensors", "paths": ["a.parquet"], "seconds": {"train": 2.5}, "peak_memory_bytes": 2**28,
    "phases": {"survey": 0.5, "prepare": 1.0, "pass 1/1": 1.0}, "versions": {"dkernel": "0.1.0"}, "faults": [],
}  # fmt: skip


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.addresses, self.tags, self.titles = [], [], []
        self._in = ""
        self.feed(text)
        self.pictures = dict(re.findall(r"<h3>([^<]*)</h3>(<svg.*?</svg>)", text, re.DOTALL))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self._in = tag
        self.addresses += [v for name, v in attributes if name.rpartition(":")[2] in ("src", "href", "data", "srcset")]

    def handle_endtag(self, _):
        self._in = ""

    def handle_data(self, data):
        if self._in in ("h2", "h3"):
            self.titles.append(data)


@pytest.fixture(scope="module")
def results():
    return {
        "two": fitted(lambda X: np.where((X**2).sum(1) < 1.4, "<in>", "out"), alpha="auto"),
        "many": fitted(lambda X: np.digitize(X[:, 0], np.linspace(-2, 2, 20)), loss="logistic", features="fourier"),
        "regression": fitted(lambda X: np.sin(X[:, 0]) + X[:, 1], task="regress", loss="squared"),
        "no holdout": fitted(lambda X: X[:, 0] > 0, holdout=0),
    }


@pytest.fixture(scope="module")
def drawn(results, tmp_path_factory):
    """The file of the page of a kind of fit, alone in its folder."""

    @cache
    def page(kind):
        path = tmp_path_factory.mktemp("page") / "r.html"
        write(path, results[kind], FitSummary.of(results[kind]), RECORD)
        return path

    return page


FIGURES = {
    "two": ["0", "1", "ROC", "Calibration", "Loss"],
    "many": ["0", "1", "ROC", "Calibration", "Loss"],
    "regression": ["0", "1", "Predictions", "Residuals", "Loss"],
    "no holdout": ["Loss"],
}
CLASSES = {"two": ["Classes"], "many": ["Classes: the 12 of 21 with the lowest recall", "Classes"]}


@pytest.mark.parametrize("kind", FIGURES)
def test_the_page_is_whole_in_itself_and_has_the_figures_of_its_kind(kind, drawn):
    text = drawn(kind).read_text()
    page = Page(text)
    assert set(page.pictures) == set(FIGURES[kind])
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert "script" not in page.tags
    assert not re.search(r"url\([^#]|@import|https?:", text)
    for title in ("What to check", "Which columns matter", "Recipe", "Versions", "Plan and peaks", "Run"):
        assert title in page.titles
    assert [title for title in page.titles if title.startswith("Classes")] == CLASSES.get(kind, [])
    assert text.index("Which columns matter") < text.index("<details>") < text.index("Recipe")
    assert "m&lt;b&gt;.safetensors" in text
    assert len(text) < 500_000
    assert [path.name for path in drawn(kind).parent.iterdir()] == ["r.html"]


def test_what_to_check_is_said_once_and_options_stay_in_one_line(results, tmp_path):
    summary = replace(FitSummary.of(results["two"]), checks={"ordered": "judge by the last (--holdout-by time:t)"})
    write(tmp_path / "r", results["two"], summary, RECORD)
    said = (tmp_path / "r").read_text().split("judge by the last (<code>--holdout-by</code> time:t)")
    assert len(said) == 2
    assert "judge by" not in "".join(said)


@pytest.mark.parametrize(("gain", "said"), [(0.001, 1), (0.2, 0)])
def test_that_the_simpler_model_was_not_taken_is_said_once(gain, said, results, tmp_path):
    result, summary = results["two"], FitSummary.of(results["two"])
    linear = {**summary.judged["linear"], "gain": gain, "gain_error": 0.01}
    write(tmp_path / "r.html", result, replace(summary, judged={**summary.judged, "linear": linear}), RECORD)
    assert (tmp_path / "r.html").read_text().count("The linear model was not taken") == said


def test_a_dark_page_has_no_colour_twice(drawn):
    (light, dark) = re.findall(r"--blue: (#\w+)", drawn("two").read_text())
    assert light == COLOURS[0]
    assert dark not in COLOURS


def test_equal_fits_draw_equal_pages(results, drawn, tmp_path):
    write(tmp_path / "again", results["two"], FitSummary.of(results["two"]), RECORD)
    assert (tmp_path / "again").read_bytes() == drawn("two").read_bytes()


def test_without_matplotlib_it_is_said_before_the_training(run_to, data, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Exception, match="pip install"):
        require_matplotlib()
    result = run_to(
        "train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", "--report", tmp_path / "r", code=2
    )
    assert "matplotlib" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_model_and_page(run_to, data, tmp_path):
    job = ["train", data / "train.parquet", "--label", "y", *FEATURES, "--holdout", "0.2", "--overwrite"]
    result = run_to(*job, "--out", tmp_path / "m", "--report", tmp_path / "r.html", "--json")
    assert json.loads(result.stdout)["report"] == str(tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert {"ROC", "Loss"} <= set(page.pictures)
    assert {"How good: wrong labels", "Time, by phase"} <= set(page.titles)
    run_to(*job, "--out", tmp_path / "n", "--report", tmp_path / "no" / "r", code=65)
    assert not (tmp_path / "n").exists()


def test_a_page_that_cannot_be_written_does_not_fail_the_fit(run_to, data, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dkernel.leaves.report.report.write", full)
    job = ["train", data / "train.parquet", "--label", "y", *FEATURES]
    result = run_to(*job, "--out", tmp_path / "m", "--report", tmp_path / "r")
    assert "is not written, all else is" in result.stderr
    assert "No space left" in json.loads((tmp_path / "m.run.json").read_text())["report_error"]


@pytest.mark.parametrize("kind", FIGURES)
def test_the_page_has_no_error_of_html_and_every_figure_is_drawn(kind, drawn):
    text = drawn(kind).read_text()
    parser = HTML5Parser()
    parser.parse(text)
    assert parser.errors == []
    for name, drawing in Page(text).pictures.items():
        for colour, variable in VARIABLES.items():
            drawing = drawing.replace(variable, colour)
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        drawn = svg_to_bytes(svg_string=drawing.replace("<svg", f"<svg {names}", 1), background="white", dpi=96)
        pixels = imread(io.BytesIO(drawn))
        assert min(pixels.shape[:2]) > 100, name
        assert (pixels[..., :3] != 1).any(axis=2).mean() > 0.01, f"{name} is blank"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if PROGRAM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on PATH")
    with start_chromium(tmp_path_factory.mktemp("profile")) as address:
        yield address


MEASURED = """(() => {
    const all = (selector, root = document) => [...root.querySelectorAll(selector)];
    const box = one => one.getBoundingClientRect();
    const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
    all("details").forEach(one => { one.open = true; });
    const overlaps = all("svg").flatMap(picture => all("text", picture).flatMap((one, i, others) =>
        others.slice(i + 1).filter(two => meet(box(one), box(two))).map(two => one.textContent + two.textContent)));
    const alone = all(".tiles, .grid").filter(lines => {
        const tops = [...lines.children].map(one => box(one).top);
        return tops.length > 1 && tops.at(-1) > tops.at(-2) && tops[0] == tops[1];
    });
    return { beyond: document.documentElement.scrollWidth - innerWidth, overlaps, alone: alone.length };
})()"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("kind", FIGURES)
def test_a_browser_shows_all_of_it(kind, width, dark, drawn, browser, tmp_path):
    """Nothing is wider than the window, no text covers another, no card has a line of its own."""
    picture = tmp_path / "page.png"
    found = look_at(browser, drawn(kind).as_uri(), width, dark, MEASURED, picture)
    assert found == {"beyond": 0, "overlaps": [], "alone": 0}
    pixels = imread(picture)[..., :3]
    assert pixels.shape[1] == width
    assert (np.median(pixels) < 0.5) == dark
    assert pixels.std() > 0.02
