"""Numbers that are stored as text in the notation of a country or a spreadsheet, read by an example of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_BLANKS, _APOSTROPHES, _MINUS = " \u00a0\u202f", "'\u2019", "\u2212"
_SIGN = f"[-+{_MINUS}]?"
_NUMBER_WITH_UNIT = re.compile(
    rf"\(?{_SIGN}(?P<before>[^\d\0.,()+-]*?){_SIGN}(?P<number>[.,]?\d(?:[\d.,_{_BLANKS}{_APOSTROPHES}]*\d)?)"
    r"(?P<after>[^\d\0.,()+-]*?)\)?",
    re.ASCII,
)


@dataclass(frozen=True)
class NumberForm:
    """How numbers are written: what stands before and after, between thousands, and before the fraction.

    Examples
    --------
    >>> form = read_example("$1,234.5")
    >>> form
    NumberForm(before='$', after='', thousands=',', decimal='.')
    >>> form.to_plain(pa.array(["$48,984.60", "-$7", "($1.5)", "$0,125", "12", "NA"])).to_pylist()
    ['48984.60', '-7', '-1.5', None, None, None]
    """

    before: str = ""
    after: str = ""
    thousands: str = ""
    decimal: str = "."

    @property
    def pattern(self) -> str:
        """Regular expression of the texts of numbers."""
        dot = re.escape(self.decimal)
        digits = rf"[1-9][0-9]{{0,2}}(?:[{_like(self.thousands)}][0-9]{{3}})+|" if self.thousands else ""
        number = rf"(?:(?:{digits}[0-9]+)(?:{dot}[0-9]*)?|{dot}[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
        unit, units = (f"{_escape(each)}[{_BLANKS}]?" if each else "" for each in (self.before, self.after))
        blank = f"[{_BLANKS}]?" if units else ""
        core = f"{_SIGN}{unit}{'' if not unit else _SIGN}{number}{blank}{units}"
        return rf"^(?:{core}|\({core}\))$"

    def to_plain(self, texts: Any) -> Any:
        """The texts of numbers as programs write them, null where a text is no number of this form."""
        texts = pc.utf8_trim_whitespace(texts)
        made = pc.if_else(pc.match_substring_regex(texts, self.pattern), texts, pa.scalar(None, texts.type))
        for word in filter(None, (self.before, self.after, *_like(self.thousands))):
            made = pc.replace_substring(made, word, "")
        made = made if self.decimal == "." else pc.replace_substring(made, self.decimal, ".")
        if not pc.any(pc.match_substring_regex(made, "[^-0-9.eE]|--")).as_py():
            return made
        for sign, other in ((_MINUS, "-"), ("(", "-"), (")", ""), ("--", "-")):
            made = pc.replace_substring(made, sign, other)
        return pc.replace_substring_regex(made, rf"^\+|[{_BLANKS}]", "")


DECIMAL_COMMA = NumberForm(decimal=",")


def _like(sign: str) -> str:
    """The signs that are one to a reader: spaces of all widths, straight and curved apostrophes."""
    return next((same for same in (_BLANKS, _APOSTROPHES) if sign and sign in same), sign)


def _escape(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII) if text.isascii() else text


def read_example(example: str) -> NumberForm | None:
    """The form of an example such as 1,234.5 or $7; None where it is no number, or may be read in two ways, as 1,234.

    Examples
    --------
    >>> [read_example(text).thousands for text in ("1,234.5", "1.234.567", "1 234", "0,125", "1234,5")]
    [',', '.', ' ', '', '']
    >>> read_example("1,234"), read_example("12,34,567"), read_example("7 kg").after
    (None, None, 'kg')
    """
    match = _NUMBER_WITH_UNIT.fullmatch(example.strip())
    if match is None:
        return None
    number = match["number"]
    signs = "".join(dict.fromkeys(re.sub(r"\d", "", number)))
    decimal = signs[-1:] if signs[-1:] in (",", ".") and number.count(signs[-1:]) == 1 else ""
    whole, _, fraction = number.rpartition(decimal) if decimal else (number, "", "")
    thousands = signs.replace(decimal, "")
    if decimal and not thousands and len(fraction) == 3 and len(whole) <= 3 and whole[:1] != "0":
        return None
    if not decimal:
        decimal = "," if thousands == "." else "."
    form = NumberForm(match["before"].strip(), match["after"].strip(), thousands, decimal)
    return form if len(thousands) <= 1 and re.match(form.pattern, example.strip()) else None


def suggest_examples(words: Sequence[str]) -> list[str]:
    """Examples of the forms in which all of these texts are numbers, one for each meaning that they may have.

    Examples
    --------
    >>> [suggest_examples(words) for words in (["48,984.60", "999.5"], ["950 kg", "1,200 kg"], ["7 %", "$5"])]
    [['1,234.5'], ['1234,5 kg', '1,234.5 kg'], []]
    """
    texts = pa.array(words, pa.string())
    match = next(filter(None, (_NUMBER_WITH_UNIT.fullmatch(word.strip()) for word in words)), None)
    before, after = ("", "") if match is None else (match["before"], match["after"])
    found: dict[str, str] = {}
    for number in (f"1{sign}234{dot}5" for sign in ("", ",", ".", " ", "'", "_") for dot in ".," if sign != dot):
        example = f"{before}{number}{after}"
        form = read_example(example)
        if form is not None and (plain := form.to_plain(texts)).null_count == 0:
            found.setdefault(repr(plain.cast(pa.float64()).to_pylist()), example)
    return list(found.values())
