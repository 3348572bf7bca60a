"""Names of columns, classes and words that mean something to what draws or shows them: every page has them as text."""

import re
from functools import cache
from html import unescape
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from tinyhtml5.parser import HTMLParser as HTML5Parser

ALL = "_$\\frac{1$\x1b[31m\x00\u202e<b>日 %s\n"  # all that the slow tests try one by one
NAMES = [
    "$\\frac{1$",
    "cost_$ vs price_$",
    "$0-$50",
    "_x",
    "__",
    "<b>&amp;",
    "%s {0} \\n",
    "\x1b[31mred",
    "a\x00b",
    "two\nlines",
    "\u202edrawkcab",
    "日本",
]
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def shown(name):
    """What a page shows of a name, blanks aside."""
    return "".join(CONTROLS.sub(lambda found: repr(found[0])[1:-1], name).split())


@cache
def pages(run_to, name, numbers):
    """Pages of train, tune and evaluate, and the cards, of a table whose every name is this one or begins so."""
    rng = np.random.default_rng(0)
    X, words = rng.normal(size=(300, 2)), rng.choice([f"{name}1", f"{name}2"], 300)
    y = X[:, 0] if numbers else np.array([name, f"{name}z", "other"])[np.digitize(X[:, 0], [-0.4, 0.4])]
    columns = {name: X[:, 0], f"{name}b": X[:, 1], f"{name}w": words, f"{name}y": y}
    pd.DataFrame(columns).to_parquet("x.parquet")
    asked = ["--label", f"{name}y", "--kernel", "gaussian", "--n-components", 16, "--local", "none", "--overwrite"]
    tuned = ["--grid", "gamma=0.1|1", "--budget", "1passes"]
    said = [
        run_to("train", "x.parquet", *asked, "--out", "m", "--report", "train.html"),
        run_to("tune", "x.parquet", *asked, *tuned, "--out", "t", "--report", "tune.html"),
        run_to("evaluate", "m", "x.parquet", "--report", "evaluate.html"),
        run_to("show", "m"),
        run_to("show", "m", "--markdown"),
        run_to("score", "m", "x.parquet", "--out", "s.parquet", "--overwrite"),
    ]
    for done in said:
        assert not CONTROLS.search(done.stdout + done.stderr), repr(done.output)
        assert "warning" not in done.stderr
    return {kind: Path(f"{kind}.html").read_text("utf-8") for kind in ("train", "tune", "evaluate")}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        (ALL, False),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(ALL, True), *product(NAMES, [False, True])]),
    ],
    ids=ascii,
)
def test_every_page_of_a_name_is_drawn(run_to, name, numbers):
    for kind, text in pages(run_to, name, numbers).items():
        assert not CONTROLS.search(text), kind
        parser = HTML5Parser()
        parser.parse(text)
        pictures = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
        texts = re.findall("<text.*?</text>", pictures, re.DOTALL)
        drawn = ["".join(re.sub("<[^>]*>", "", text).split()) for text in texts]
        assert any(unescape(each).startswith(shown(name)[:10]) for each in drawn), (kind, drawn)
