"""Tells by the survey of all rows whether blocks of float32 have the digits of their columns."""

import numpy as np

from dkernel.data.source import Source
from dkernel.errors import DigitsError
from dkernel.streaming.survey import SurveyResult

LOST_SHARE = 1e-3
"""Share of a column's deviation that rounding may take: no score shows one of that size."""

ROUNDOFF = 2.0**-24  # of a number in float32, at most, as a share of it


def tells_rounding(source: Source) -> bool:
    """True if the survey of a source is to tell what float32 takes off its features."""
    return source.in_dtype is not None and source.dtype == "float64"


def check_digits(source: Source, survey: SurveyResult) -> None:
    """Refuse blocks of float32 that may not have the digits of a column, and of float64 where all columns have them.

    A column that is far from 0 for its spread, 1e9 + N(0, 1) say, would be noise in float32: scaling centres it in the
    dtype of the blocks. Blocks of float32 tell that rounding might matter, blocks of float64 whether it does. Whole
    numbers up to 2^24 lose nothing.

    Raises
    ------
    DigitsError
        with the dtype to read the rows in
    """
    if source.in_dtype is None:
        return
    deviation = np.sqrt(survey.moments.variance)
    if source.dtype == "float64":
        assert survey.rounding is not None
        if not (np.sqrt(survey.rounding.variance) > LOST_SHARE * deviation).any():
            raise DigitsError("float32 has the digits of all columns: rows are read once more in it", "float32")
        return
    far = np.maximum(np.abs(survey.low), np.abs(survey.high))
    names = [
        source.columns[j]
        for j, whole in source.wide.items()
        if LOST_SHARE * deviation[j] < 2 * ROUNDOFF * far[j] and not (whole and far[j] * ROUNDOFF <= 1)
    ]
    if names:
        more = ", ..." if len(names) > 3 else ""
        raise DigitsError(
            f"{', '.join(names[:3])}{more}: float32 may not show how the values differ: all rows are read again in "
            "float64",
            "float64",
        )
