"""Rows that come as a stream of Arrow batches, of Polars, DuckDB, Ibis or Arrow, kept once as a file on scratch.

A fit reads its rows several times, and a stream may be read once; a batch is in memory at a time.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from dask.base import is_dask_collection

from dkernel.data.arrow import cut_tables
from dkernel.data.paths import File, expand
from dkernel.data.scratch import Scratch, make_scratch_folder
from dkernel.errors import DataError

GROUP_ROWS = 131_072  # rows of a row group, whatever the library's batches: they decide the chunks, and so the bits

_DATE_DIGITS = 14  # of a digest: as nanoseconds they are a date of the years 1970 to 1972


def is_stream(rows: Any) -> bool:
    """True if rows come in batches: of a LazyFrame, a table of Ibis, or an Arrow stream that is no frame in memory.

    Examples
    --------
    >>> import pandas, pyarrow
    >>> table = pyarrow.table({"a": [1.0]})
    >>> is_stream(pandas.DataFrame()), is_stream(table), is_stream(table.to_reader())
    (False, False, True)
    """
    if is_dask_collection(rows):  # of which a Delayed seems to have every attribute
        return False
    if hasattr(rows, "collect_batches") or hasattr(rows, "to_pyarrow_batches"):
        return True
    in_memory = hasattr(rows, "iloc") or (hasattr(rows, "to_pandas") and hasattr(rows, "__len__"))
    return hasattr(rows, "__arrow_c_stream__") and not in_memory


def list_data(data: Any) -> list[Any]:
    """Files and streams as they were named, one alone or several; a DataError for rows in memory."""
    several = isinstance(data, Iterable) and not isinstance(data, (str, PathLike)) and not is_stream(data)
    listed = list(data) if several and not hasattr(data, "shape") else [data]
    for item in listed:
        if not isinstance(item, (str, PathLike, File)) and not is_stream(item):
            raise DataError(
                f"A {type(item).__name__} is no file: files, folders, globs, URLs or streams of rows are needed here. "
                "Rows in memory, and those of Dask, are for fit, predict and score of an estimator."
            )
    return listed


def open_reader(rows: Any) -> pa.RecordBatchReader:
    """The batches of a stream, in their order."""
    if hasattr(rows, "to_pyarrow_batches"):  # Ibis, whose Arrow stream is made of the whole table
        return rows.to_pyarrow_batches()
    if isinstance(rows, pa.RecordBatchReader):  # whose batches, passed as a stream, would lose their own names
        return rows
    if not hasattr(rows, "collect_batches"):
        return pa.RecordBatchReader.from_stream(rows)
    schema = rows.collect_schema().to_frame().to_arrow().schema
    frames = (frame.to_arrow().cast(schema).to_batches() for frame in rows.collect_batches(maintain_order=True))
    return pa.RecordBatchReader.from_batches(schema, chain.from_iterable(frames))


def read_frames(rows: Any, names: Iterable[str] = ()) -> Iterator[Any]:
    """The rows of a stream as data frames, a batch each; with these columns in this order, if it has just them."""
    reader, names = open_reader(rows), list(names)
    same, none = sorted(names) == sorted(reader.schema.names), True
    for batch in reader:
        if batch.num_rows:
            try:
                table = pa.Table.from_batches([batch], reader.schema)
            except pa.ArrowException as error:
                raise DataError(f"The rows of the {type(rows).__name__} differ from its schema ({error}).") from None
            yield (table.select(names) if same else table).to_pandas()
            none = False
    if none:
        raise DataError(f"The {type(rows).__name__} has no rows.")


def store_stream(rows: Any, scratch: Scratch, name: str = "") -> File:
    """The rows of a stream as a Parquet file on scratch, whose path and date follow its content.

    Its name in messages is that of the table, or tells the kind of the stream.
    """
    folder = make_scratch_folder(scratch)
    staged = tempfile.mkdtemp(prefix=".stream-", dir=folder)
    path, n = os.path.join(staged, "rows.parquet"), 0
    try:
        try:
            reader = open_reader(rows)
            batches = (pa.Table.from_batches([batch], reader.schema) for batch in reader)
            with pa.parquet.ParquetWriter(path, reader.schema) as writer:
                for group in cut_tables(batches, GROUP_ROWS):
                    writer.write_table(group.combine_chunks())
                    n += len(group)
        except pa.ArrowException as error:
            raise DataError(f"The rows of the {type(rows).__name__} cannot be kept as Parquet ({error}).") from None
        if not n:
            raise DataError(f"The {type(rows).__name__} has no rows.")
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:32]
        target = os.path.join(folder, f"stream-{digest}.parquet")
        date = int(digest[:_DATE_DIGITS], 16)
        os.utime(path, ns=(date, date))  # a file is known by its name and date, so equal rows have an equal one
        os.replace(path, target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return replace(expand(target)[0], name=name or f"{type(rows).__name__}-{digest[:8]}")
