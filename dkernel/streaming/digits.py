"""Tells by the survey of all rows whether blocks of float32 have the digits of their columns."""

import numpy as np

from dkernel.data.source import Source
from dkernel.errors import DataError, DigitsError
from dkernel.streaming.survey import SurveyResult

LOST_SHARE = 1e-3
"""Share of a column's deviation that rounding may take: no score shows one of that size."""


def tells_rounding(source: Source) -> bool:
    """True if the survey of a source is to tell what float32 takes off its features."""
    return source.in_dtype is not None and source.dtype == "float64"


def check_digits(source: Source, survey: SurveyResult) -> None:
    """Refuse blocks of float32 that may not have the digits of a column, and of float64 where all columns have them.

    A column that is far from 0 for its spread, 1e9 + N(0, 1) say, would be noise in float32: scaling centres it in the
    dtype of the blocks. Blocks of float32 tell that rounding might matter, blocks of float64 whether it does. Whole
    numbers up to 2^24 lose nothing. Numbers of 1e-50 would all be 0.

    Raises
    ------
    DigitsError
        with the dtype to read the rows in
    DataError
        if float64 cannot hold the squares of a column whose values differ
    """
    _check_squares(source, survey)
    if source.in_dtype is None:
        return
    deviation = np.sqrt(survey.moments.variance)
    if source.dtype == "float64":
        assert survey.rounding is not None
        if not (np.sqrt(survey.rounding.variance) > LOST_SHARE * deviation).any():
            raise DigitsError("float32 has the digits of all columns: rows are read once more in it", "float32")
        return
    far = np.maximum(np.abs(survey.low), np.abs(survey.high)).astype(np.float32)
    steps = np.spacing(far)  # from the farthest number to the next: rounding takes half of it at most
    names = [
        source.columns[j]
        for j, whole in source.wide.items()
        if LOST_SHARE * deviation[j] < steps[j] and not (whole and far[j] <= 2**24)
    ]
    if names:
        more = ", ..." if len(names) > 3 else ""
        raise DigitsError(
            f"{', '.join(names[:3])}{more}: float32 may not show how the values differ: all rows are read again in "
            "float64",
            "float64",
        )


def _check_squares(source: Source, survey: SurveyResult) -> None:
    """Refuse columns whose values differ, and whose squares are 0 or infinite in float64."""
    if survey.largest is not None:
        return
    variance, span = survey.moments.variance, survey.high - survey.low
    lost = (span > 0) & ~((variance > 0) & np.isfinite(variance))
    if lost.any():
        j = int(lost.argmax())
        raise DataError(
            f"column {source.columns[j]!r}: the values lie from {survey.low[j]:.3g} to {survey.high[j]:.3g}, and "
            "float64 cannot hold their squares. Multiply the column by a constant, so that they are near 1."
        )
