"""The five texts: the small run of scripts/sources.py, whose laws hold, and the page that the full run wrote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Rows whose outcome hangs on the clock, or that the text has wrong; every other row is a law.
COSTS = (
    "Gram matrix",
    "Prediction",
    "Primal",
    "Fastfood",
    "O(c^3",
    "cheaper",
    "Cost",
    "Time complexity",
    "How efficient",
)
KNOWN = {
    ("000", "Random kernel features"),  # the slide's density of the Laplace kernel
    ("000", "Nonuniform sampling"),  # k-means and randomly pivoted Cholesky are better than uniform
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("sources")
    command = [sys.executable, str(ROOT / "scripts" / "sources.py"), "--small", "--json", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"], out


def test_every_law_of_the_texts_holds_but_those_that_are_wrong(found):
    rows, _ = found
    failed = {
        (row["text"], row["place"])
        for row in rows
        if row["holds"] is False and not any(word in row["place"] + row["says"] for word in COSTS)
    }
    assert failed == KNOWN
    assert {row["text"] for row in rows} == {"000", "001", "002", "003", "004"}


def test_the_page_has_every_row_and_picture(found):
    rows, out = found
    page = (out / "SOURCES.md").read_text()
    assert page.count(" |\n") >= len(rows)
    names = {path.name for path in (out / "figures").iterdir()}
    assert len(names) >= 8
    assert all(f"figures/{name}" in page for name in names)


def test_the_page_in_the_repository_has_the_rows_of_the_command(found):
    rows, _ = found
    page = (ROOT / "scripts" / "bench" / "SOURCES.md").read_text()
    for row in rows:
        assert f"| {row['place'].replace('|', chr(92) + '|')} |" in page
