"""Every type of Arrow, and columns of it."""

import datetime
import decimal
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

DAY = datetime.date(2020, 1, 1)
MOMENT = datetime.datetime(2020, 1, 1, 12)
SPAN = datetime.timedelta(seconds=1)

# Type -> its value for a whole number from 0 to 99.
NUMBERS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    **{f"{sign}int{bits}": (getattr(pa, f"{sign}int{bits}")(), int) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": (pa.float16(), np.float16),
    "float32": (pa.float32(), float),
    "float64": (pa.float64(), float),
    "decimal128": (pa.decimal128(12, 2), decimal.Decimal),
    "decimal256": (pa.decimal256(40, 3), decimal.Decimal),
}
OTHERS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "bool": (pa.bool_(), lambda k: k % 2 == 1),
    "string": (pa.string(), str),
    "large_string": (pa.large_string(), lambda k: f"é{k % 3}"),
    "string_view": (pa.string_view(), lambda k: f"a view of more than twelve {k % 3}"),
    "binary_view": (pa.binary_view(), lambda k: f"{k % 3}".encode()),
    "dictionary of int64": (pa.dictionary(pa.int8(), pa.int64()), int),
    "dictionary of float64": (pa.dictionary(pa.int32(), pa.float64()), float),
    "dictionary of string": (pa.dictionary(pa.int8(), pa.string()), lambda k: f"level {k % 3}"),
    "binary": (pa.binary(), lambda k: f"{k % 3}".encode()),
    "binary not UTF-8": (pa.binary(), lambda k: b"\xff" + bytes([k % 3])),
    "fixed binary": (pa.binary(2), lambda k: bytes([k % 3, 255])),
    "date32": (pa.date32(), lambda k: DAY + datetime.timedelta(days=k)),
    "date64": (pa.date64(), lambda k: DAY + datetime.timedelta(days=k)),
    "time32": (pa.time32("s"), lambda k: datetime.time(k % 24)),
    "time64": (pa.time64("ns"), lambda k: datetime.time(k % 24)),
    "timestamp": (pa.timestamp("us"), lambda k: MOMENT + k * SPAN),
    "timestamp with zone": (pa.timestamp("ns", "Europe/Rome"), lambda k: MOMENT + k * SPAN),
    "duration": (pa.duration("ms"), lambda k: k * SPAN),
    "list": (pa.list_(pa.float64()), lambda k: [float(k), 1.0]),
    "fixed list": (pa.list_(pa.float32(), 2), lambda k: [float(k), 1.0]),
    "large list of text": (pa.large_list(pa.string()), lambda k: [str(k)]),
    "struct": (pa.struct([("x", pa.int32())]), lambda k: {"x": k}),
    "map": (pa.map_(pa.string(), pa.int32()), lambda k: [("x", k)]),
    "null": (pa.null(), lambda k: None),  # noqa: ARG005
}
TYPES = {**NUMBERS, **OTHERS}


def column_of_type(kind: str, values: Iterable[int], missing: bool = False) -> pa.Array:
    """The values of a type for these numbers; with `missing` the middle one is missing."""
    arrow, make = TYPES[kind]
    made = [make(value) for value in values]
    if missing:
        made[len(made) // 2] = None
    if pa.types.is_dictionary(arrow):
        return pa.array(made, arrow.value_type).dictionary_encode().cast(arrow)
    return pa.array(made, arrow)
