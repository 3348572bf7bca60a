"""Parquet: the footer says rows, names and types; a part is a row group, several small ones, or a share of a large one.

Parquet is entered at row groups alone. So a file with large ones is copied once to scratch, where each share is a row
group. A process that does not see the copy decodes the row group from its beginning and drops what lies before the
share; so the parts, and the bits, are the same.
"""

import base64
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dkernel.data.arrow import column_array, cut_tables, look_up, pick_rows
from dkernel.data.block import UncheckedBlock
from dkernel.data.column_types import column_type
from dkernel.data.damage import explain_damage
from dkernel.data.encoding.text_values import as_texts, find_wrong_texts
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import bytes_in, raw_of_table, rows_without_text, texts_with_form
from dkernel.data.rejected_rows import RejectedRow
from dkernel.data.writers.atomic import replacing
from dkernel.errors import DataError
from dkernel.numerics.validation import RowDescriber

# A row group of more rows or bytes than these is read in shares; they decide the chunks, and so the bits.
_LARGE_ROWS, _LARGE_BYTES = 2**20, 2**28
_SHARE_ROWS, _SHARE_BYTES = 2**18, 2**26  # a share and its block take some 100 MiB of a worker
_BATCHES = 4  # of a share, which is in memory once, and a fourth of it beside it
_COLUMN_BUFFER, _REMOTE_BUFFER = 2**18, 2**22  # bytes of a column that are read at a time
_footer: dict[str, pq.FileMetaData] = {}  # of the file opened last: decoding that of 5,000 row groups takes .09 s


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
    with _open(file, whole=not part.extra) as opened:
        table = _read_rows(opened, part, list(columns.names))
        exact = [name for name in _int96_in(opened) if name in columns.names and not columns.is_time(name)]
    if exact:
        with _open(file, "ns", not part.extra) as opened:
            _check_nanoseconds(file, table, _read_rows(opened, part, exact))
    return table


def _read_rows(opened: pq.ParquetFile, part: FilePart, names: list[str]) -> pa.Table:
    """The rows of a part: those of its row groups, without what these have before and after it."""
    counts = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
    starts = np.cumsum([0, *counts])
    first, last = part.first_row, part.first_row + part.rows
    groups = np.flatnonzero((starts[:-1] < last) & (starts[1:] > first)).tolist()
    # One thread: the tasks are the parallelism, and a reader's own threads would come on top of it.
    if sum(counts[i] for i in groups) == part.rows:
        return opened.read_row_groups(groups, columns=names, use_threads=False)
    found, row = [], starts[groups[0]]
    for batch in opened.iter_batches(-(-part.rows // _BATCHES), groups, columns=names, use_threads=False):
        if row + len(batch) > first:
            found.append(batch[max(0, first - row) : last - row])
        row += len(batch)
        if row >= last:
            break
    return pa.Table.from_batches(found)


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
def _open(file: File, unit: str = "us", whole: bool = True) -> Iterator[pq.ParquetFile]:
    """Open a file, or its copy, to read `whole` row groups, or all of them a batch at a time.

    INT96 timestamps are in this unit: nanoseconds hold the years 1677 to 2262 only.
    """
    here = file.copy if os.path.exists(file.copy) else file.path if file.local else ""
    key = file.key("footer", here)
    with explain_damage(file.name, "the file is truncated, damaged or no Parquet"), ExitStack() as stack:
        # A local name may be any bytes, and Arrow alone takes UTF-8 only.
        stream = pa.OSFile(os.fsencode(here)) if here else file.open() if whole else file.open(cache_type="none")
        opened = pq.ParquetFile(
            stack.enter_context(stream),
            metadata=_footer.get(key),
            buffer_size=_COLUMN_BUFFER if here else _REMOTE_BUFFER,
            pre_buffer=whole and not here,
            coerce_int96_timestamp_unit=unit,
            page_checksum_verification=True,
        )
        if file.stamp and key not in _footer:  # without a stamp another file may have this name next time
            _footer.clear()
            _footer[key] = opened.metadata
        yield stack.enter_context(opened)


def _look(file: File) -> FileSchema:
    with _open(file) as opened:
        footer, schema = opened.metadata, opened.schema_arrow
        names = schema.names
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise DataError(f"{file.name}: the column {twice!r} occurs twice; every column needs a name of its own.")
        index, coded = _read_stored_types(schema, footer)
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        steps = [_shares(group) for group in groups]
        return FileSchema(
            file,
            {field.name: column_type(field.type) for field in schema},
            footer.num_rows,
            steps=tuple(chain.from_iterable(steps)),
            extra=any(len(shares) > 1 for shares in steps),
            indices=index,
            coded=coded,
            types={field.name: field.type for field in schema},
            width=-(-sum(group.total_byte_size for group in groups) // max(1, footer.num_rows)),
        )


def _shares(group: pq.RowGroupMetaData) -> list[int]:
    """The rows of the shares of a large row group, all but the last of one size; of another one its rows."""
    rows, stored = group.num_rows, group.total_byte_size
    if rows <= _LARGE_ROWS and stored <= _LARGE_BYTES:
        return [rows]
    most = -(-rows // max(-(-rows // _SHARE_ROWS), -(-stored // _SHARE_BYTES)))
    return [min(most, rows - first) for first in range(0, rows, most)]


def store_shares(file: File, folder: str) -> str:
    """The path of a copy in which each share is a row group; "" where none can be made. Runs on a worker."""
    target = os.path.join(folder, f"{file.key('shares')}.parquet")
    if os.path.exists(target):
        return target
    try:
        with _open(file, whole=False) as opened:
            if _int96_in(opened):  # whose nanoseconds a copy would not have
                return ""
            with replacing(Path(target), durable=False) as out:
                _write_shares(opened, out)
    except (OSError, DataError, pa.ArrowException):
        return ""
    return target


def _write_shares(opened: pq.ParquetFile, out: BinaryIO) -> None:
    schema = opened.schema_arrow
    words = [field.name for field in schema if not pa.types.is_floating(field.type)]
    with pq.ParquetWriter(out, schema, use_dictionary=words, write_statistics=False) as writer:
        for i in range(opened.num_row_groups):
            rows = max(1, _shares(opened.metadata.row_group(i))[0])
            batches = opened.iter_batches(-(-rows // _BATCHES), [i], use_threads=False)
            for share in cut_tables((pa.Table.from_batches([batch]) for batch in batches), rows):
                writer.write_table(share, row_group_size=rows)


def _read_stored_types(schema: pa.Schema, footer: pq.FileMetaData) -> tuple[frozenset[str], frozenset[str]]:
    """The columns that pandas wrote as its index, and those that were written as categories of pandas or Arrow.

    Of Arrow's own types pyarrow restores dictionaries of text alone.
    """
    written = (footer.metadata or {}).get(b"ARROW:schema")
    typed = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written))) if written else schema
    stored = (schema.metadata or {}).get(b"pandas")
    try:
        said = json.loads(stored) if stored else {}
        index = [name for name in said.get("index_columns", []) if isinstance(name, str)]
        coded = [each["field_name"] for each in said.get("columns", []) if each.get("pandas_type") == "categorical"]
    except (ValueError, KeyError, AttributeError, TypeError):
        index, coded = [], []
    coded += [field.name for field in typed if pa.types.is_dictionary(field.type)]
    return frozenset(index).intersection(schema.names), frozenset(coded).intersection(schema.names)
