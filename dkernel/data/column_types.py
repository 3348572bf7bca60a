"""What the values of a column are: one table, from the types of Arrow, that every door of the data reads.

The types of numpy and pandas reach it by way of the type that Arrow has for them.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

BOOL, INT, FLOAT, DECIMAL, DIGITS = NUMBERS = ("bool", "int", "float", "decimal", "digits")
"""The types of numbers; "digits" are text that is all numbers but would not come back from them, such as 007, 3.50."""

TEXT = "text"
DATE, TIME, DURATION = TIMES = ("date", "time", "duration")
OTHER = "other"  # lists, structs, ...: it can only be kept
EMPTY = "empty"  # no value is there
UNTYPED = "untyped"  # of Python's objects, which only their values tell
FINER_UNITS = ("ps", "fs", "as")  # of numpy's times: Arrow's end with nanoseconds
COLUMN_TYPES = (*NUMBERS, TEXT, *TIMES, OTHER, EMPTY)


def is_bytes(kind: pa.DataType) -> bool:
    """True of bytes, which files of Impala, Hive and Hadoop have in the place of text."""
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(binary or kind == pa.binary_view())


_TABLE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, BOOL),
    (pa.types.is_integer, INT),
    (pa.types.is_floating, FLOAT),
    (pa.types.is_decimal, DECIMAL),
    (pa.types.is_string, TEXT),
    (pa.types.is_large_string, TEXT),
    (pa.types.is_string_view, TEXT),
    (is_bytes, TEXT),
    (pa.types.is_timestamp, DATE),
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
    (pa.types.is_duration, DURATION),
    (pa.types.is_null, EMPTY),
)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values: of a dictionary that of its words.

    Examples
    --------
    >>> value_type(pa.dictionary(pa.int8(), pa.large_string())), value_type(pa.int8())
    (DataType(large_string), DataType(int8))
    """
    return kind.value_type if pa.types.is_dictionary(kind) else kind


_NUMPY = {"b": pa.bool_(), "U": pa.string(), "S": pa.binary(), "T": pa.string()}


@lru_cache
def column_type(kind: pa.DataType) -> str:
    """The type of a column of this type of Arrow, one of COLUMN_TYPES.

    Examples
    --------
    >>> column_type(pa.dictionary(pa.int8(), pa.large_string())), column_type(pa.date64()), column_type(pa.int8())
    ('text', 'date', 'int')
    """
    kind = value_type(kind)
    return next((name for holds, name in _TABLE if holds(kind)), OTHER)


def arrow_type(dtype: Any) -> pa.DataType | None:
    """The type of Arrow for a dtype of numpy or pandas; None of objects, which only their values tell.

    Examples
    --------
    >>> import pandas as pd
    >>> arrow_type(np.dtype("M8[s]")), arrow_type(pd.CategoricalDtype(["a"])).value_type, arrow_type(pd.Int8Dtype())
    (TimestampType(timestamp[s]), DataType(large_string), DataType(int8))
    """
    if hasattr(dtype, "pyarrow_dtype"):
        return dtype.pyarrow_dtype
    if hasattr(dtype, "categories"):
        values = None if dtype.categories is None else arrow_type(dtype.categories.dtype)
        words = values is None or column_type(values) == OTHER  # intervals are read as their texts
        return pa.dictionary(pa.int32(), pa.string() if words else values)
    if hasattr(dtype, "subtype") and getattr(dtype, "name", "").startswith("Sparse"):
        return arrow_type(dtype.subtype)
    if getattr(dtype, "tz", None) is not None:
        return pa.timestamp(dtype.unit, str(dtype.tz))
    if getattr(dtype, "name", "") in ("string", "str"):
        return pa.large_string()
    dtype = getattr(dtype, "numpy_dtype", dtype)  # of pandas' own nullable types
    if not isinstance(dtype, np.dtype):
        return pa.list_(pa.null())  # a period, an interval: no type of a feature
    if dtype.kind in "Mm":
        unit = np.datetime_data(dtype)[0]
        unit = unit if unit in ("s", "ms", "us", "ns") else "ns" if unit in FINER_UNITS else "s"
        return pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit)
    if dtype.kind == "O":
        return None
    if dtype.kind in "iuf":
        return pa.from_numpy_dtype(np.dtype(np.float64) if dtype.itemsize > 8 else dtype.newbyteorder("="))
    return _NUMPY.get(dtype.kind, pa.list_(pa.null()))


def type_of_dtype(dtype: Any) -> str:
    """The type of a column of this dtype of numpy or pandas, UNTYPED of objects.

    Examples
    --------
    >>> type_of_dtype(np.dtype(">i2")), type_of_dtype(np.dtype("M8[D]")), type_of_dtype(np.dtype(object))
    ('int', 'date', 'untyped')
    """
    kind = arrow_type(dtype)
    return UNTYPED if kind is None else column_type(kind)


def are_numbers(dtype: Any) -> bool:
    """True of a dtype of numpy or pandas whose values are numbers or truth values."""
    return type_of_dtype(dtype) in (BOOL, INT, FLOAT)


def label_type(kind: pa.DataType) -> str:
    """The type of a label of this type of Arrow: decimals without places are whole numbers, others are fractions.

    Examples
    --------
    >>> label_type(pa.decimal128(38, 0)), label_type(pa.decimal128(5, 2)), label_type(pa.int8())
    ('int', 'float', 'int')
    """
    if (type_ := column_type(kind)) != DECIMAL:
        return type_
    return INT if value_type(kind).scale <= 0 else FLOAT


def has_more_digits(kind: pa.DataType | None) -> bool:
    """True of a type of numbers some of which float32 does not hold; None stands for text.

    Examples
    --------
    >>> has_more_digits(pa.float64()), has_more_digits(pa.int16()), has_more_digits(None)
    (True, False, True)
    """
    if kind is None or pa.types.is_dictionary(kind):
        return True
    if column_type(kind) in (INT, FLOAT):
        return bool(kind.bit_width > (16 if pa.types.is_integer(kind) else 32))
    return column_type(kind) != BOOL


def join_types(types: Iterable[str]) -> str | None:
    """The type of a column whose parts have these types; None where no type holds the values of all of them.

    The order of the parts is nothing, and EMPTY joins everything.

    Examples
    --------
    >>> join_types(["int", "empty", "float"]), join_types(["digits", "int"]), join_types(["int", "text"])
    ('float', 'digits', None)
    """
    seen = {*types} - {EMPTY}
    if len(seen) <= 1:
        return next(iter(seen), EMPTY)
    if not seen <= {*NUMBERS}:
        return None
    return DIGITS if DIGITS in seen else FLOAT


def name_type(type_: str) -> str:
    """A type for people."""
    return {
        BOOL: "true/false values",
        INT: "integers",
        FLOAT: "floating-point numbers",
        DECIMAL: "decimals",
        DIGITS: "numbers as text",
        TEXT: "text",
        DATE: "dates or times",
        TIME: "times of day",
        DURATION: "durations",
        OTHER: "values of another type (lists, ...)",
        UNTYPED: "objects of Python",
    }.get(type_, "nothing")
