"""Spellings of numbers, and the numbers that they are: what a reader takes for a number must be that number."""

import re

import numpy as np
from hypothesis import strategies as st

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


_PLAIN = st.from_regex(r" {0,2}[+-]?([0-9]{1,9}\.?[0-9]{0,6}|\.[0-9]{1,6})([eE][+-]?[0-9]{1,2})? ?", fullmatch=True)
_OTHERS = st.sampled_from("e.-+_x' ,;%\u00a0٣\u2212f0\t")
SPELLED = st.one_of(
    _PLAIN,
    st.sampled_from(ODD),
    st.tuples(_PLAIN, st.integers(0, 9), st.booleans(), _OTHERS).map(
        lambda v: v[0][: v[1]] + v[3] + v[0][v[1] + v[2] :]
    ),
).map(lambda text: f'"{text}"' if "," in text else text)
"""A number in some spelling, now and then with a character too many or changed, as a field of a CSV file."""
