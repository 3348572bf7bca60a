"""The five texts: the small run of scripts/sources.py, whose laws hold, and the page that the full run wrote."""

import contextlib
import io
import json
import re

import pytest
import sources

from tests.processes import ROOT

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
NUMBER_OF_COMPONENTS = r"c = [\d,]+"  # smaller in the small run
ALWAYS = "003"  # the quickest; a run of all takes half a minute


@pytest.fixture(
    scope="module",
    params=[pytest.param(text, marks=() if text == ALWAYS else pytest.mark.slow) for text in sources.TEXTS],
)
def found(request, tmp_path_factory):
    """The text, its rows and the folder of its page."""
    out, printed = tmp_path_factory.mktemp("sources"), io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert sources.main(["--small", "--text", request.param, "--json", "--out", str(out)]) == 0
    return request.param, json.loads(printed.getvalue())["rows"], out


def test_every_law_of_a_text_holds_but_those_that_are_wrong(found):
    text, rows, _ = found
    failed = {
        (row["text"], row["place"])
        for row in rows
        if row["holds"] is False and not any(word in row["place"] + row["says"] for word in COSTS)
    }
    assert failed == {each for each in KNOWN if each[0] == text}
    assert {row["text"] for row in rows} == {text}


def test_the_page_has_every_row_and_picture(found):
    _, rows, out = found
    page = (out / "SOURCES.md").read_text()
    assert page.count("\n- ") == len(rows)
    names = {path.name for path in (out / "figures").iterdir()}
    assert names
    assert all(f"figures/{name}" in page for name in names)


def test_the_page_in_the_repository_has_the_rows_of_the_command(found):
    page = (ROOT / "scripts" / "bench" / "SOURCES.md").read_text()
    page = re.sub(NUMBER_OF_COMPONENTS, "c", page)
    for row in found[1]:
        assert re.sub(NUMBER_OF_COMPONENTS, "c", f"\n- {row['place']}: {row['says']}.") in page
