"""The page of bad inputs shows the table of bad inputs as it is tested."""

from pathlib import Path

from tests.bad_input import cases
from tests.bad_input.table import markdown

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table():
    text = (ROOT / "dkernel/data/BAD_INPUT.md").read_text(encoding="utf-8")
    assert cases.CASES
    assert markdown() in text, "python -m tests.bad_input prints what the page must hold"
