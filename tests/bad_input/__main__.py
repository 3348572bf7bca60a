"""Prints the table of bad inputs as it stands in dkernel/data/BAD_INPUT.md."""

from tests.bad_input import cases  # noqa: F401 - entering the cases is what importing it does
from tests.bad_input.table import markdown

print(markdown(), end="")
