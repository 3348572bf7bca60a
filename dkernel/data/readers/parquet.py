"""Parquet: the footer says rows, names and types; a part is one row group or several small consecutive ones."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dkernel.data.arrow import column_array, look_up, pick_rows
from dkernel.data.block import UncheckedBlock
from dkernel.data.column_types import column_type
from dkernel.data.damage import explain_damage
from dkernel.data.encoding.text_dates import as_texts, find_wrong_texts
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import bytes_in, raw_of_table, rows_without_text, texts_with_form
from dkernel.data.rejected_rows import RejectedRow
from dkernel.errors import DataError
from dkernel.numerics.validation import RowDescriber


def read_schema(files: Sequence[File], _: ReadOptions) -> list[FileSchema]:
    """Names, kinds and row groups, from the footers."""
    return [_look(file) for file in files]


def read_part(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> UncheckedBlock:
    """The row groups of one part, without the rows that it is without."""
    table = _read(file, part, columns)
    rows = np.delete(np.arange(len(table)), part.without)
    return raw_of_table(pick_rows(table, rows) if part.without else table, columns, describe)


def find_bad_rows(file: File, part: FilePart, columns: ReadColumns) -> tuple[dict[int, RejectedRow], None]:
    """The rows that cannot be read, or have a missing value where none may be; there is no text of them."""
    table = _read(file, part, columns)
    refused: dict[int, RejectedRow] = {}
    others = [name for name in (columns.label, columns.weight) if name is not None]
    for name in others if columns.fills else [*columns.features, *others]:
        for row in np.flatnonzero(pc.is_null(look_up(table.column(name)))).tolist():
            refused.setdefault(row, RejectedRow(name, "the value is missing"))
    for name in bytes_in(table, columns):
        for row in rows_without_text(table.column(name)):
            refused.setdefault(row, RejectedRow(name, "the bytes are not UTF-8 text"))
    for name in texts_with_form(table, columns):
        for row in [] if columns.fills else np.flatnonzero(pc.is_null(as_texts(table.column(name)))).tolist():
            refused.setdefault(row, RejectedRow(name, "the value is missing"))
        for row, reason in find_wrong_texts(table.column(name), columns.form_of(name)).items():
            refused.setdefault(row, RejectedRow(name, reason))
    return refused, None


def _read(file: File, part: FilePart, columns: ReadColumns) -> pa.Table:
    with _open(file) as opened:
        groups = range(part.first, part.stop)
        # One thread: the tasks are the parallelism, and a reader's own threads would come on top of it.
        table = opened.read_row_groups(groups, columns=list(columns.names), use_threads=False)
        exact = [name for name in _int96_in(opened) if name in columns.names and not columns.is_time(name)]
    if exact:
        with _open(file, "ns") as opened:
            _check_nanoseconds(file, table, opened.read_row_groups(groups, columns=exact, use_threads=False))
    return table


def _int96_in(opened: pq.ParquetFile) -> list[str]:
    """The columns of INT96 timestamps, as Spark, Impala and Hive write them."""
    columns = map(opened.schema.column, range(len(opened.schema.names)))
    return [column.path for column in columns if column.physical_type == "INT96"]


def _check_nanoseconds(file: File, table: pa.Table, exact: pa.Table) -> None:
    """Refuse INT96 timestamps that microseconds do not hold; those in nanoseconds are right modulo 2**64."""
    for name in exact.column_names:
        micro, nano = (column_array(each.column(name).cast(pa.int64()).drop_null()) for each in (table, exact))
        if (micro * 1000 != nano).any():
            raise DataError(
                f"{file.name}: the column {name!r} has INT96 timestamps with nanoseconds, which are read in "
                "microseconds: write them as INT64 timestamps, or leave the column out."
            )


@contextmanager
def _open(file: File, unit: str = "us") -> Iterator[pq.ParquetFile]:
    """Open a file; its INT96 timestamps are in this unit: nanoseconds hold the years 1677 to 2262 only."""
    with explain_damage(file.name, "the file is truncated, damaged or no Parquet"), ExitStack() as stack:
        # A local name may be any bytes, and Arrow alone takes UTF-8 only.
        stream = stack.enter_context(pa.OSFile(os.fsencode(file.path)) if file.local else file.open())
        opened = pq.ParquetFile(
            stream, pre_buffer=not file.local, coerce_int96_timestamp_unit=unit, page_checksum_verification=True
        )
        yield stack.enter_context(opened)


def _look(file: File) -> FileSchema:
    with _open(file) as opened:
        footer, schema = opened.metadata, opened.schema_arrow
        names = schema.names
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise DataError(f"{file.name}: the column {twice!r} occurs twice; every column needs a name of its own.")
        index, coded = _read_pandas_metadata(schema)
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        return FileSchema(
            file,
            {field.name: column_type(field.type) for field in schema},
            footer.num_rows,
            steps=tuple(group.num_rows for group in groups),
            indices=index,
            coded=coded,
            types={field.name: field.type for field in schema},
            width=-(-sum(group.total_byte_size for group in groups) // max(1, footer.num_rows)),
        )


def _read_pandas_metadata(schema: pa.Schema) -> tuple[frozenset[str], frozenset[str]]:
    """The columns that pandas wrote as its index, and those that are categories (Parquet itself has these of text)."""
    stored = (schema.metadata or {}).get(b"pandas")
    try:
        said = json.loads(stored) if stored else {}
        index = [name for name in said.get("index_columns", []) if isinstance(name, str)]
        coded = [each["field_name"] for each in said.get("columns", []) if each.get("pandas_type") == "categorical"]
    except (ValueError, KeyError, AttributeError, TypeError):
        index, coded = [], []
    coded += [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return frozenset(index).intersection(schema.names), frozenset(coded).intersection(schema.names)
