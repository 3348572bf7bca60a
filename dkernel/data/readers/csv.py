"""CSV: a part is a byte range that pyarrow.csv reads with fixed types; where it fails each row is looked at alone."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dkernel.data.block import UncheckedBlock
from dkernel.data.encoding.text_values import find_wrong_texts, without_words
from dkernel.data.encoding.words import NULL_NUMBERS, NULLS
from dkernel.data.file_schema import FilePart, ReadColumns
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import WITHOUT_THEM, raw_of_table, with_columns
from dkernel.data.readers.csv_fields import parse_rows, read_types, split_fields
from dkernel.data.readers.csv_refusals import CheckColumn, explain_parse, no_text, no_values, refuse_fields
from dkernel.data.readers.csv_schema import read_schema as read_schema
from dkernel.data.readers.text_rows import Lines
from dkernel.data.rejected_rows import RejectedRow
from dkernel.errors import MissingLabelError
from dkernel.numerics.validation import RowDescriber


def read_part(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> UncheckedBlock:
    """The rows of one byte range, without those that it is without."""
    data, header, types = file.read(*part.marks), part.extra, read_types(columns)
    if part.without:
        lines = split_fields(data, header.delimiter).rows
        data = lines.join(np.delete(np.arange(len(lines.starts)), part.without))
    try:
        table = parse_rows(data, header, list(columns.names), types)
    except pa.ArrowInvalid as error:
        raise explain_parse(error, data, header, types, describe) from None
    if columns.label is not None and types[columns.label] == pa.string():
        empty = pc.index(table.column(columns.label), "").as_py()
        if empty >= 0:
            raise MissingLabelError(
                f"{describe(empty)}, column {columns.label!r}: the label is missing. {WITHOUT_THEM}"
            )
    kept = table.select(list(columns.kept)) if columns.kept else None
    return replace(raw_of_table(_with_nulls(table, columns), columns, describe), kept=kept)


def find_bad_rows(file: File, part: FilePart, columns: ReadColumns) -> tuple[dict[int, RejectedRow], Lines]:
    """The rows of one byte range that cannot be read, or have a missing value where none may be, and all lines."""
    header, types = part.extra, read_types(columns)
    fields = split_fields(file.read(*part.marks), header.delimiter, part.marks[0], part.line)
    features = frozenset(columns.features)

    def check(name: str, kind: pa.DataType) -> CheckColumn:
        if (name in features or name in (columns.label, columns.weight)) and kind != pa.string():
            return partial(
                no_values, kind=kind, form=header.forms.get(name), missing=columns.fills and name in features
            )
        if name == columns.label:
            return partial(_no_texts, missing=("",), reason="the label is missing")
        if columns.is_time(name):
            missing = () if columns.fills else NULL_NUMBERS
            return partial(_no_texts, missing=missing, check=partial(find_wrong_texts, form=columns.form_of(name)))
        return partial(_no_texts, missing=NULLS if columns.is_category(name) and not columns.fills else ())

    checks = {name: check(name, kind) for name, kind in types.items()}
    return refuse_fields(fields, header, checks, file.name), fields.rows


def _no_texts(
    column: pa.ChunkedArray,
    missing: Sequence[str],
    reason: str = "the value is missing",
    check: CheckColumn = no_text,
) -> dict[int, str]:
    """The rows of texts that are bad by a check, or one of the words for a missing value."""
    words = pa.array([word.encode() for word in missing], pa.binary())
    return {**check(column), **dict.fromkeys(np.flatnonzero(pc.is_in(column, words)).tolist(), reason)}


def _with_nulls(table: pa.Table, columns: ReadColumns) -> pa.Table:
    """The table with nulls where categories are missing."""
    categories = filter(columns.is_category, table.column_names)
    return with_columns(table, {name: without_words(table.column(name), NULLS) for name in categories})
