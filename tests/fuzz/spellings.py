"""Spellings of numbers, and the numbers that they are: what a reader takes for a number must be that number."""

import random
import re

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
_NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")

ODD = ("1,5", "1_0", "0x1A", "0b1", "0o7", "٣", "\uff11\uff12", "½", "\u22125", "--5", "+-5", "5-", "(5)", "1e", "e5",
       ".", "-", "+", "1.2.3", "1e5.5", "1d3", "1f", "1L", "5%", "$5", "1 000", "1'000", "1;000", "12:30",
       "2020-01-01", "1/2", "1+2j", "Infinity", "-inf", "nan", "NaN", "NULL", "None", "#N/A", "1e400", "-1e400",
       "3.4028236e38", "5\x00", "5\u00a0", "\u00a05", "5\u200b", "1e٣", "0x1p3", "1,000.5", "1.000,5", "tru", "yes",
       "1e+", "1e-", "1 e5", "5 5")  # fmt: skip
"""Spellings that are no number that float32 holds."""

NUMBERS = {"5": 5.0, "+5": 5.0, "-0": 0.0, "007": 7.0, "5.": 5.0, ".5": 0.5, "1e3": 1e3, "1E+03": 1e3, "1E-2": 0.01,
           " 5": 5.0, "5 ": 5.0, "1e-400": 0.0, "0.1e1": 1.0, "16777217": 16777216.0, "1e-46": 0.0,
           "-1.5e-3": -1.5e-3, "00.50": 0.5, "123456789012345678901234567890": 1.2345678901234568e29,
           "0.1000000000000000055511151231257827": 0.1, "1e0001": 10.0}  # fmt: skip


def value_of(text: str) -> float | None:
    """The number that a text is, by the grammar alone; None for none and for what float32 does not hold.

    >>> value_of(" 5.50"), value_of("1_0"), value_of("٣"), value_of("1e39")
    (5.5, None, None, None)
    """
    if _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if abs(number) <= LARGEST else None


def a_spelling(rng: random.Random) -> str:
    """A number in some spelling, now and then with a character too many, too few or changed."""
    whole = rng.choice(("", "0", "7", "42", "007", "123456", str(rng.randrange(10**9))))
    fraction = rng.choice(("", ".", ".5", ".25", ".000", f".{rng.randrange(10**6)}"))
    exponent = rng.choice(("", "", "", f"{rng.choice('eE')}{rng.choice(('', '+', '-'))}{rng.randrange(12)}"))
    text = rng.choice(("", "", "-", "+")) + whole + fraction + exponent
    text = rng.choice(("", "", " ", "  ")) + text + rng.choice(("", "", " "))
    if rng.random() < 0.4 and text:
        at = rng.randrange(len(text) + 1)
        odd = rng.choice(
            ("e", ".", "-", "+", "_", "x", "'", " ", ",", ";", "%", "\u00a0", "٣", "\u2212", "f", "0", "\t")
        )
        text = text[:at] + odd + text[at + (rng.random() < 0.3) :]
    return text
