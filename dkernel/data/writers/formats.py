"""One class per output format: how a worker writes a part, and how the client makes one output of the parts.

A part is complete in itself and is written from a stream of Arrow tables, so neither side ever holds more than a
part. What the parts become is decided by the ending of the destination's name: `FORMATS` is the catalogue, a new
format is one class and one line in it.
"""

import csv
import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dkernel.data.arrow import as_numbers, opened_parquet
from dkernel.data.file_schema import CSV_TEXT
from dkernel.errors import DataError, UnsupportedError

# Rows of a Parquet row group or a Zarr chunk: a constant, so that the bytes depend on the rows alone.
GROUP_ROWS = 131072
# Formats of files that are not written: a folder of such a name would only be a puzzle to its finder.
_NOT_WRITTEN = (
    ".gz", ".npz", ".h5", ".hdf5", ".svmlight", ".libsvm", ".svm", ".bz2", ".xz", ".zst", ".zip", ".tsv", ".txt",
    ".feather", ".arrow", ".json", ".jsonl", ".xlsx", ".orc", ".avro", ".pkl",
)  # fmt: skip


class Format(ABC):
    """A file format of an output.

    Examples
    --------
    >>> format_of(Path("scores.csv"))
    Csv()
    >>> format_of(Path("scores")).folder
    True
    """

    ending: ClassVar[str]  # ending of the destination
    staged: ClassVar[str]  # ending of a part while it is staged
    folder: ClassVar[bool] = False  # the parts themselves are the output
    kept_as: ClassVar[str] = "types"  # the form that kept columns of text files take (tables.Request)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def ready(self) -> None:  # noqa: B027 - most formats need nothing more
        """Refuse, before any work is done, a format whose library is not installed."""

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that the format cannot hold, by name."""

    @abstractmethod
    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        """Write the tables (at least one), in order, as the part `path`."""

    @abstractmethod
    def agree(self, parts: Sequence[Path]) -> None:
        """Refuse parts that were not all written with the same columns and types."""

    @abstractmethod
    def assemble(self, parts: Sequence[Path], columns: Sequence[str], rows: int, path: Path) -> None:
        """Make the one output `path` of the parts, in order."""

    def _refuse(self, schema: pa.Schema, holds: Any, what: str) -> None:
        for field in schema:
            if not holds(field.type):
                raise DataError(
                    f"Column {field.name!r} is of type {field.type}, and a {self.ending} output holds {what} only. "
                    "Leave the column out, or choose an output that ends in .parquet"
                    + (" or .csv." if self.ending in (".npy", ".zarr") else ".")
                )


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join tables until each has at least GROUP_ROWS rows, but for the last."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(t.num_rows for t in waiting) >= GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _schema_of(part: Path) -> pa.Schema:
    with opened_parquet(part) as file:
        return file.schema_arrow


def row_groups(parts: Sequence[Path]) -> Iterator[pa.Table]:
    for part in parts:
        with opened_parquet(part) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)


def _same(first: Any, other: Any, part: Path) -> None:
    if other != first:
        raise DataError(
            f"{part.name.split('.')[0]} has the columns [{_types(other)}], the parts before it have [{_types(first)}]. "
            "The input's kept columns must have one type in all of its files: convert them, or leave them out."
        )


def _types(columns: Any) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in columns) if isinstance(columns, pa.Schema) else str(columns[0])


class Parquet(Format):
    """One Parquet file; its row groups are those of the parts, small neighbours joined."""

    ending: ClassVar[str] = ".parquet"
    staged: ClassVar[str] = ".parquet"

    def check(self, schema: pa.Schema) -> None:
        """Parquet holds every type that Arrow reads from a file."""

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        groups = gathered(tables)
        first = next(groups)
        # Numbers of which hardly two are equal: a dictionary of them is most of the time of writing, and of the file a
        # third.
        repeated = [field.name for field in first.schema if not _is_number(field.type)]
        # A plain file object, so that a full disk is an OSError with its number and not a text of Arrow's.
        with (
            open(path, "wb") as stream,
            pq.ParquetWriter(stream, first.schema, use_dictionary=repeated or False) as writer,
        ):
            writer.write_table(first)
            for table in groups:
                writer.write_table(table)

    def agree(self, parts: Sequence[Path]) -> None:
        first = _schema_of(parts[0])
        for part in parts[1:]:
            _same(first, _schema_of(part), part)

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], rows: int, path: Path) -> None:  # noqa: ARG002
        self.stage(row_groups(parts), path)


class Folder(Parquet):
    """A folder of Parquet files, read in the order of their names: a part is moved into it as it is."""

    ending: ClassVar[str] = ""
    folder: ClassVar[bool] = True


class Csv(Format):
    """One CSV file with a header; text is quoted, a missing value is an empty field without quotes.

    Columns kept from CSV files stand there as they stood, quotes and digits and all.
    """

    ending: ClassVar[str] = ".csv"
    staged: ClassVar[str] = ".csv"
    kept_as: ClassVar[str] = "csv"

    def check(self, schema: pa.Schema) -> None:
        self._refuse(schema, _csv_can_hold, "numbers, text and times")

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        options = pa.csv.WriteOptions(include_header=False)
        with open(path, "wb") as stream:
            for table in map(_plain, tables):
                if any(_is_csv_text(field) for field in table.schema):
                    stream.write(_csv_lines(table))
                else:
                    pa.csv.write_csv(table, stream, options)

    def agree(self, parts: Sequence[Path]) -> None:
        """CSV has no types to differ in."""

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], rows: int, path: Path) -> None:  # noqa: ARG002
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(columns)
        with open(path, "wb") as stream:
            stream.write(header.getvalue().encode())
            for part in parts:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, stream, 1 << 20)


def _is_csv_text(field: pa.Field) -> bool:
    return (field.metadata or {}).items() >= CSV_TEXT.items()


def _plain(table: pa.Table) -> pa.Table:
    """Replace views and bytes by text; bytes that are no text are refused."""
    for i, field in enumerate(table.schema):
        if field.type == pa.string_view() or _is_bytes(field.type):
            column = table.column(i)
            try:
                text = (column.cast(pa.large_binary()) if _is_bytes(field.type) else column).cast(pa.large_string())
            except pa.ArrowInvalid:
                raise DataError(
                    f"The column {field.name!r} holds bytes that are not UTF-8 text, and CSV is text. Write a .parquet "
                    "file, or leave the column out."
                ) from None
            table = table.set_column(i, field.with_type(text.type), text)
    return table


def _is_bytes(kind: pa.DataType) -> bool:
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(binary or kind == pa.binary_view())


def _csv_can_hold(kind: pa.DataType) -> bool:
    """True if pyarrow.csv writes a column of this type: it is tried, for it has no list of them."""
    try:
        pa.csv.write_csv(_plain(pa.table({"x": pa.array([], kind)})), io.BytesIO())
    except pa.ArrowException:
        return False
    return not pa.types.is_nested(kind)


def _csv_lines(table: pa.Table) -> pa.Buffer:
    """The rows as CSV; columns of CSV text as they are, the others as pyarrow.csv writes them."""
    fields, quote = [], _large('"')
    for field, column in zip(table.schema, table.columns, strict=True):
        text = column.combine_chunks().cast(pa.large_string())
        if _is_text(field.type) and not _is_csv_text(field):
            text = _joined(quote, pc.replace_substring(text, '"', '""'), quote)
        fields.append(pc.fill_null(text, ""))
    fields[-1] = _joined(fields[-1], _large("\n"))
    lines = _joined(*fields, between=",") if len(fields) > 1 else fields[0]
    # All lines together are the array's own bytes, one line after the other.
    ends = np.frombuffer(lines.buffers()[1], np.int64)[[lines.offset, lines.offset + len(lines)]]
    return lines.buffers()[2].slice(int(ends[0]), int(ends[1] - ends[0]))


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _joined(*texts: Any, between: str = "") -> pa.Array:
    return pc.binary_join_element_wise(*texts, _large(between))


class Npy(Format):
    """One .npy file: a (rows, columns) array if the columns have one type, else (rows,) records with named fields."""

    ending: ClassVar[str] = ".npy"
    staged: ClassVar[str] = ".npy"
    kept_as: ClassVar[str] = "numbers"

    def check(self, schema: pa.Schema) -> None:
        self._refuse(schema, lambda t: _is_number(t) or pa.types.is_boolean(t), "numbers")

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        with open(path, "wb") as stream:
            np.save(stream, np.concatenate([self._array(table) for table in tables]), allow_pickle=False)

    def _array(self, table: pa.Table) -> np.ndarray:
        columns = [_filled(table, name, self.ending) for name in table.column_names]
        if len({c.dtype for c in columns}) == 1:
            return np.column_stack(columns)
        fields = [(name, c.dtype) for name, c in zip(table.column_names, columns, strict=True)]
        records = np.empty(table.num_rows, dtype=fields)
        for name, column in zip(table.column_names, columns, strict=True):
            records[name] = column
        return records

    def agree(self, parts: Sequence[Path]) -> None:
        first = np.load(parts[0], mmap_mode="r")
        for part in parts[1:]:
            other = np.load(part, mmap_mode="r")
            _same((first.dtype, *first.shape[1:]), (other.dtype, *other.shape[1:]), part)

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], rows: int, path: Path) -> None:  # noqa: ARG002
        first = np.load(parts[0], mmap_mode="r")
        # numpy makes the header of a file of this size; the rows are then written, not mapped: a full disk under a
        # mapped page is a bus error and not an exception.
        header = np.lib.format.open_memmap(path, mode="w+", dtype=first.dtype, shape=(rows, *first.shape[1:]))
        with open(path, "r+b") as stream:
            stream.seek(header.offset)
            for part in parts:
                array = np.load(part, mmap_mode="r")
                with open(part, "rb") as source:
                    source.seek(array.offset)
                    shutil.copyfileobj(source, stream, 1 << 20)


class Zarr(Format):
    """A Zarr group with one array per column. The client alone writes it, a whole chunk at a time: none is shared."""

    ending: ClassVar[str] = ".zarr"
    staged: ClassVar[str] = ".parquet"

    def ready(self) -> None:
        try:
            import zarr  # noqa: F401
        except ImportError:
            raise UnsupportedError(
                "A .zarr output needs the package zarr, which is not installed: pip install 'dkernel[zarr]', or choose "
                "an output that ends in .parquet."
            ) from None

    def check(self, schema: pa.Schema) -> None:
        self._refuse(
            schema, lambda t: _is_number(t) or pa.types.is_boolean(t) or _is_text(t), "numbers, booleans and text"
        )
        for name in schema.names:
            if not name or "/" in name or set(name) == {"."} or name.startswith("__"):
                raise DataError(f"Column {name!r} cannot be the name of a Zarr array: rename it, or write .parquet.")

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        FORMATS[".parquet"].stage(tables, path)

    def agree(self, parts: Sequence[Path]) -> None:
        FORMATS[".parquet"].agree(parts)

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], rows: int, path: Path) -> None:
        import zarr

        group = zarr.open_group(path, mode="w")
        arrays = {}
        for name, kind in zip(columns, _schema_of(parts[0]).types, strict=True):
            dtype = str if _is_text(kind) else np.dtype(kind.to_pandas_dtype())
            arrays[name] = group.create_array(name, shape=(rows,), chunks=(GROUP_ROWS,), dtype=dtype)
        first = 0
        for table in _sliced(row_groups(parts)):
            for name, array in arrays.items():
                array[first : first + table.num_rows] = _filled(table, name, self.ending)
            first += table.num_rows


def _sliced(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Cut the rows into tables of GROUP_ROWS rows, but for the last."""
    rest: pa.Table | None = None
    for table in gathered(tables):
        whole = table if rest is None else pa.concat_tables([rest, table])
        first = 0
        while whole.num_rows - first >= GROUP_ROWS:
            yield whole.slice(first, GROUP_ROWS)
            first += GROUP_ROWS
        rest = whole.slice(first)
    if rest is not None and rest.num_rows:
        yield rest


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _filled(table: pa.Table, name: str, ending: str) -> np.ndarray:
    """A column as a numpy array; refuses a missing value, for which such a format has no sign."""
    column = table.column(name)
    if column.null_count:
        raise DataError(
            f"Column {name!r} has {column.null_count} missing value(s), which a {ending} output cannot hold. Leave the "
            "column out, or choose an output that ends in .parquet or .csv."
        )
    if not _is_text(column.type):
        return as_numbers(column)
    return np.array(column.to_pylist(), dtype=np.dtypes.StringDType())


FORMATS: dict[str, Format] = {form.ending: form for form in (Folder(), Parquet(), Csv(), Npy(), Zarr())}
FORMATS |= dict.fromkeys((".pq", ".parq"), FORMATS[".parquet"])


def format_of(path: Path) -> Format:
    """The format that an output's name asks for; a folder of Parquet files for a name with no ending of its own."""
    ending = path.suffix.lower()
    if ending in _NOT_WRITTEN:
        raise UnsupportedError(
            f"{path.name}: {ending} files are not written. Choose a name that ends in .parquet, .csv, .npy or .zarr, "
            "or a name without an ending for a folder of Parquet files."
        )
    form = FORMATS.get(ending, FORMATS[""])
    form.ready()
    return form
