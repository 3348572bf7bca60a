"""All entries of the table of bad inputs, in the order of its groups."""

from tests.bad_input import values, labels, shapes, files, tables, left_out, served  # noqa: I001, F401 - the order is that of the table
from tests.bad_input.table import TABLE

CASES = tuple(TABLE.values())
