"""Which columns of a CSV have a comma before the fractions of their numbers, decided by all of its rows.

Where each comma of a column has three digits after it, and one to three before, it may stand between thousands: such a
column is unclear. So is one of points in a file whose other numbers have decimal commas.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkernel.data.encoding.text_values import DECIMAL_COMMA, NumberForm
from dkernel.data.readers.csv_fields import Header, parse_rows, well_formed_rows

_FIRST_ROWS = 1000  # enough for nearly every column of fractions, and few beside a block


class Commas:
    """What the commas and points in numbers of the columns say, block by block.

    Parameters
    ----------
    given : columns of which the form is known

    Examples
    --------
    >>> header = Header(("a", "b", "c"), 0, ";")
    >>> commas = Commas(frozenset())
    >>> commas.add(b"950;0,5;1.200\\n1,200;1,125;950\\n", np.array([14, 30]), header)
    >>> sorted(commas.forms), commas.unclear
    (['a', 'b'], {'a': '1,200', 'c': '1.200'})
    """

    def __init__(self, given: frozenset[str]) -> None:
        self._passed_over = set(given)
        self._either: dict[str, dict[str, str]] = {",": {}, ".": {}}
        self._settled: dict[str, set[str]] = {",": set(), ".": set()}

    @property
    def forms(self) -> dict[str, NumberForm]:
        """The form of each column of numbers with commas."""
        return dict.fromkeys((*self._settled[","], *self._either[","]), DECIMAL_COMMA)

    @property
    def unclear(self) -> Mapping[str, str]:
        """The columns whose numbers may be read in two ways, each with one of these."""
        signs = (",", ".") if self.forms else ()
        return {
            name: example
            for sign in signs
            for name, example in self._either[sign].items()
            if name not in self._settled[sign]
        }

    def add(self, block: bytes, ends: NDArray[np.int64], header: Header) -> None:
        """Look at the next rows of the file, which end at `ends`; the first of them settle most columns."""
        cut = int(ends[min(len(ends), _FIRST_ROWS) - 1])
        for rows in (block[:cut], block[cut:]):
            known = self._passed_over.union(*self._settled.values())
            names = [name for name in header.names if name not in known]
            if rows and names and header.delimiter != "," and (b"," in rows or self.forms):
                self._add(rows, names, header)

    def _add(self, rows: bytes, names: list[str], header: Header) -> None:
        texts = dict.fromkeys(names, pa.string())
        try:
            table = parse_rows(rows, header, names, texts)
        except pa.ArrowInvalid:  # a reader of the columns refuses the other rows
            table = parse_rows(well_formed_rows(rows, header), header, names, texts)
        for name, column in zip(names, table.columns, strict=True):
            for sign in (",", "."):
                self._look(name, column, sign)

    def _look(self, name: str, column: pa.ChunkedArray, sign: str) -> None:
        """Note whether this sign stands before the fractions of a column, or may stand between its thousands."""
        dot = rf"\{sign}"
        texts = pc.utf8_trim_whitespace(column.filter(pc.match_substring(column, sign)))
        if not len(texts):
            return
        fits = pc.match_substring_regex(texts, rf"^[-+]?[0-9]*{dot}[0-9]*([eE][-+]?[0-9]+)?$")
        numbers, others = texts.filter(fits), texts.filter(pc.invert(fits))
        # As 1,234,567 and 1,234.5, which can only have commas between thousands.
        thousands = sign == "," and pc.any(pc.match_substring_regex(others, NumberForm(thousands=",").pattern)).as_py()
        if thousands or len(numbers) <= len(others):
            if sign == ",":
                self._passed_over.add(name)
                self._either[","].pop(name, None)
            return
        either = pc.match_substring_regex(numbers, rf"^[-+]?[1-9][0-9]{{0,2}}{dot}[0-9]{{3}}$")
        if pc.all(either).as_py():
            self._either[sign].setdefault(name, numbers[0].as_py())
        else:
            self._settled[sign].add(name)
