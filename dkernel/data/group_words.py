"""The word of the group of a row: one for equal values, whatever file, library or type the group came through."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import code_values, look_up, text_of_bytes
from dkernel.data.column_types import BOOL, TEXT, is_bytes
from dkernel.data.encoding.words import NUMBER, arrow_kind, in_kind, kind_among, kinds_in, to_words
from dkernel.errors import DataError


def group_words(values: Any, what: str = "groups", known: Sequence[str] = ()) -> NDArray[np.str_]:
    """The words of groups (n,); of a text that of the number, date or truth value that it is written like.

    Parameters
    ----------
    values : array, sequence or Arrow column of n values
    what : what holds them, for messages
    known : words that the groups may have; where these are numbers or truth values, so are those of the others

    Raises
    ------
    DataError
        for a missing value, and for values that are not of one type, or of one that has no words

    Examples
    --------
    >>> group_words(["2024-01-01T00:00:00", "1.0", "007"]).tolist()
    ['2024-01-01', '1', '007']
    >>> group_words(np.array([1.0, 0.1], np.float32)).tolist()
    ['1', '0.1']
    >>> group_words([True, False], known=["0", "1"]).tolist(), group_words([0.0], known=["False", "True"]).tolist()
    (['1', '0'], ['False'])
    """
    try:
        column = look_up(
            values if isinstance(values, pa.ChunkedArray) else pa.array(np.asarray(values), from_pandas=True)
        )
        coded = code_values(text_of_bytes(column) if is_bytes(column.type) else column)
        words = _words(coded.dictionary)
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
        raise DataError(
            f"{what} holds values that are no groups ({error}). Give text, numbers, dates or booleans of one type, one "
            "for each row."
        ) from None
    if coded.null_count or None in words:
        raise DataError(f"{what} holds a missing value, and every row needs a group.")
    if (kind := kind_among(kinds_in(known))) in (BOOL, NUMBER):
        words = [in_kind(word, kind) for word in words if word is not None]
    return np.array(words, np.str_)[coded.indices.to_numpy()]


def _words(values: pa.Array) -> list[str | None]:
    """The words of values, each text in the kind that it has alone: other texts of its column may be elsewhere."""
    words = to_words(values)
    if arrow_kind(values.type) != TEXT:
        return words
    return [None if word is None else in_kind(word, kind_among(kinds_in([word]))) for word in words]
