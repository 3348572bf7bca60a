"""Columns in the names of folders, as Hive, Spark and Dask write them: year=2020/part.0.parquet has the column year."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.column_types import TEXT
from dkernel.data.encoding.text_values import values_of_texts
from dkernel.data.file_schema import FileSchema, ReadColumns, ReadOptions
from dkernel.data.readers.csv_schema import kind_of_label, label_kind
from dkernel.errors import DataError, DKernelWarning

NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_READ_AS = {"int": int, "float": float}


def parse_keys(name: str) -> dict[str, str | None]:
    """The keys in the folders of a path, None for a missing value.

    Examples
    --------
    >>> parse_keys("data/year=2020/city=La%20Paz/part.0.parquet")
    {'year': '2020', 'city': 'La Paz'}
    """
    keys: dict[str, str | None] = {}
    for key, sign, value in (folder.partition("=") for folder in name.split("/")[:-1]):
        if key and sign:
            keys[unquote(key)] = None if value == NULL else unquote(value)
    return keys


def with_folder_keys(tables: Sequence[FileSchema], request: ReadOptions) -> list[FileSchema]:
    """The tables with the keys of their folders as further columns.

    A key is a column where the files do not hold it, and where it is named or, of rows to train on, differs between
    files. Whole numbers are a category, and texts what they are in files; a label and a weight may be fractions.
    """
    keys = [parse_keys(table.file.name) for table in tables]
    if not any(keys):
        return list(tables)
    in_files = {name for table in tables for name in table.kinds}
    asked = {request.label, request.weight, *request.exclude, *request.keep}
    columns: dict[str, str] = {}
    left_out: list[str] = []
    for name in dict.fromkeys(name for some in keys for name in some):
        values = {some.get(name, "") for some in keys}
        differs = request.columns is None and len(values) > 1
        if name in in_files or not (name in asked or name in request.column_set or differs):
            continue
        if all(name in some for some in keys) and all(table.sparse is None for table in tables):
            columns[name] = _key_kind(name, [value for value in values if value is not None], request)
        elif differs:
            left_out.append(name)
    if left_out:
        warnings.warn(
            f"{tables[0].file.name}: the names of folders say {', '.join(map(repr, left_out))}, which is left out: the "
            "folders of all files must say it, and rows must not be sparse.",
            DKernelWarning,
            stacklevel=3,
        )
    if not columns:
        return list(tables)
    return [
        replace(
            table,
            kinds={**table.kinds, **columns},
            coded=table.coded | {name for name, kind in columns.items() if kind != TEXT},
            keys={name: some[name] for name in columns},
        )
        for table, some in zip(tables, keys, strict=True)
    ]


def _key_kind(name: str, values: Sequence[str], request: ReadOptions) -> str:
    """The kind of a key by the names of all folders: "digits" are whole numbers with further zeros."""
    texts = pa.chunked_array([values], pa.string())
    kind, exact, _ = label_kind(texts)
    if name == request.label and request.label_as != "text" and kind in _READ_AS:
        return kind if exact or kind_of_label(kind, request.label_as) == kind else "text"
    if name == request.weight and kind in _READ_AS:
        return "float"
    if name == request.label or not all(map(_WHOLE.fullmatch, values)):
        return "text"
    return "int" if exact else "digits"


def without_keys(columns: ReadColumns) -> ReadColumns:
    """The columns that stand in the files themselves."""
    if not columns.keys:
        return columns

    def in_files(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in columns.keys)

    return replace(
        columns,
        features=in_files(columns.features),
        label=None if columns.label in columns.keys else columns.label,
        weight=None if columns.weight in columns.keys else columns.weight,
        kept=in_files(columns.kept),
        encoded=None
        if columns.encoded is None
        else {n: k for n, k in columns.encoded.items() if n not in columns.keys},
    )


def with_keys(raw: UncheckedBlock, values: Mapping[str, str | None], columns: ReadColumns, name: str) -> UncheckedBlock:
    """Rows of a file with the columns that the names of its folders hold.

    Parameters
    ----------
    values : of the keys
    name : of the file, for messages
    """
    if not columns.keys:
        return raw
    n = len(raw.X)
    label, weight, kept = raw.label, raw.weight, raw.kept
    if columns.label in columns.keys:
        label = np.full(n, _key_value(columns.label, values, columns, name))
    if columns.weight in columns.keys:
        weight = np.full(n, float(_key_value(columns.weight, values, columns, name)))
    if any(key in columns.keys for key in columns.kept):
        kept = _add_kept(n, kept, values, columns)
    return UncheckedBlock(_features(raw.X, n, values, columns), label, weight, kept, raw.marks)


def _key_value(key: Any, values: Mapping[str, str | None], columns: ReadColumns, name: str) -> Any:
    value = values[key]
    if value is None:
        raise DataError(f"{name}: the folder says that {key!r} is missing. Leave these rows out.")
    return _READ_AS.get(columns.keys[key], str)(value)


def _features(X: Any, n: int, values: Mapping[str, str | None], columns: ReadColumns) -> Any:
    if not any(key in columns.keys for key in columns.features):
        return X
    if isinstance(X, pa.Table):
        for key in columns.keys:
            if key in columns.features:
                # Whole numbers are counted as numbers, 01 as 1; an encoding then has a word for the text.
                learning = columns.encoding is None and columns.keys[key] in ("int", "digits")
                formed = columns.is_time(key) or key in columns.formats
                column = _column(n, values[key], not formed and (learning or not columns.is_category(key)))
                if formed:
                    describe = partial(_describe_folder, key, values[key])
                    column = values_of_texts(column, key, describe, columns.form_of(key))
                X = X.append_column(key, column)
        return X.select(list(columns.features))
    dtype = "object" if columns.objects else X.dtype if X.dtype.kind == "f" else columns.dtype
    made: NDArray[Any] = np.empty((n, len(columns.features)), dtype)
    in_file = [j for j, name in enumerate(columns.features) if name not in columns.keys]
    made[:, in_file] = X
    for j, name in enumerate(columns.features):
        if name in columns.keys:
            value = values[name]
            made[:, j] = value if name in columns.objects else np.nan if value is None else float(value)
    return made


def _describe_folder(key: str, value: str | None, _: int) -> str:
    """The words for a row: all rows of a file have the same value."""
    return f"the folder {key}={value}"


def _column(n: int, value: str | None, number: bool) -> Any:
    """A column of one value: a number, or the text as it stands there."""
    if number:
        return pa.array([None if value is None else int(value)] * n, pa.int64())
    return pa.array([value] * n, pa.string())


def _add_kept(n: int, kept: Any, values: Mapping[str, str | None], columns: ReadColumns) -> Any:
    numbers = ("int", "digits") if columns.kept_as == "numbers" else ("int",)
    for name in columns.kept:
        if name in columns.keys:
            column = _column(n, values[name], columns.keys[name] in numbers)
            kept = pa.table({name: column}) if kept is None else kept.append_column(name, column)
    return kept.select(list(columns.kept))
