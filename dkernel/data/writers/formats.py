"""One class per output format: how a worker writes a part, and how the client makes one output of the parts.

A part is complete in itself and is written from a stream of Arrow tables, so neither side ever holds more than a
part. What the parts become is decided by the ending of the destination's name: `OUTPUT_FORMATS` is the catalogue, a new
format is one class and one line in it.
"""

import csv
import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dkernel.data.arrow import column_array, cut_tables, look_up, open_parquet, text_of_bytes
from dkernel.data.column_types import BOOL, COLUMN_TYPES, DATE, DURATION, FLOAT, INT, OTHER, TEXT, column_type
from dkernel.data.endings import COMPRESSIONS, FORMATS, OTHER_ENDINGS
from dkernel.data.paths import File
from dkernel.data.readers.csv_fields import split_fields
from dkernel.data.readers.text_rows import row_blocks
from dkernel.errors import DataError, UnsupportedError

# Rows of a Parquet row group or a Zarr chunk: a constant, so that the bytes depend on the rows alone.
ROW_GROUP = 131072
_KNOWN_ENDINGS = {*FORMATS, *COMPRESSIONS, *chain.from_iterable(OTHER_ENDINGS.values())}
"""Endings of files: a folder of such a name would only be a puzzle to its finder."""


class Format(ABC):
    """A file format of an output.

    Examples
    --------
    >>> choose_format(Path("scores.csv"))
    Csv()
    >>> choose_format(Path("scores")).folder
    True
    """

    ending: ClassVar[str]  # ending of the destination
    holds: ClassVar[tuple[Collection[str], str]] = COLUMN_TYPES, "any column"  # the types, and what they are for people
    folder: ClassVar[bool] = False  # the parts themselves are the output
    kept_as: ClassVar[str] = "types"  # the form that kept columns of text files take (tables.Request)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def ready(self) -> None:  # noqa: B027 - most formats need nothing more
        """Refuse, before any work is done, a format whose library is not installed."""

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that the format cannot hold, by name."""
        types, what = self.holds
        for field in schema:
            if column_type(field.type) not in types:
                raise DataError(
                    f"Column {field.name!r} is of type {field.type}, and a {self.ending} output holds {what} only. "
                    "Leave the column out, or choose an output that ends in .parquet"
                    + (" or .csv." if self.ending in (".npy", ".zarr") else ".")
                )

    @abstractmethod
    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        """Write the tables (at least one), in order, as the part `path`."""

    def check_rows(self, table: pa.Table, folder: Path) -> None:  # noqa: B027 - most formats hold any value
        """Refuse values that the format cannot hold in an output of this folder."""

    @abstractmethod
    def count_part(self, path: Path) -> int:
        """The rows that a part holds, by its bytes: what it was given may be more."""

    def count_output(self, path: Path) -> int:
        """The rows that a file of an output holds, by its bytes."""
        return self.count_part(path)

    @abstractmethod
    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        """Make the one output `path` of the parts, in order; refuses parts of different columns or types."""


def gather_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join tables until each has at least ROW_GROUP rows, but for the last."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(t.num_rows for t in waiting) >= ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _check_same(first: Any, other: Any, part: Path) -> None:
    if other != first:
        raise DataError(
            f"{part.name.split('.')[0]} has the columns [{_types(other)}], the parts before it have [{_types(first)}]. "
            "The input's kept columns must have one type in all of its files: convert them, or leave them out."
        )


def _types(columns: Any) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in columns) if isinstance(columns, pa.Schema) else str(columns[0])


def row_groups(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """The tables of parts in Parquet, in order; refuses a part of other columns or types than the first."""
    first: pa.Schema | None = None
    for part in parts:
        with open_parquet(part) as file:
            first = file.schema_arrow if first is None else first
            _check_same(first, file.schema_arrow, part)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)


class Parquet(Format):
    """One Parquet file; its row groups are those of the parts, small neighbours joined."""

    ending: ClassVar[str] = ".parquet"

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        groups = gather_tables(tables)
        first = next(groups)
        # Numbers of which hardly two are equal: a dictionary of them is most of the time of writing, and of the file a
        # third.
        repeated = [
            field.name
            for field in first.schema
            if pa.types.is_dictionary(field.type) or column_type(field.type) not in (INT, FLOAT)
        ]
        # A plain file object, so that a full disk is an OSError with its number and not a text of Arrow's.
        with (
            open(path, "xb") as stream,
            pq.ParquetWriter(stream, first.schema, use_dictionary=repeated or False) as writer,
        ):
            writer.write_table(first)
            for table in groups:
                writer.write_table(table)

    def count_part(self, path: Path) -> int:
        with open_parquet(path) as file:
            return int(file.metadata.num_rows)

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:  # noqa: ARG002
        self.stage(row_groups(parts), path)


class Folder(Parquet):
    """A folder of Parquet files, read in the order of their names: a part is moved into it as it is."""

    ending: ClassVar[str] = ""
    folder: ClassVar[bool] = True


class Csv(Format):
    """One CSV file with a header; text is quoted, a missing value is an empty field without quotes."""

    ending: ClassVar[str] = ".csv"
    kept_as: ClassVar[str] = "text"
    holds = {*COLUMN_TYPES} - {OTHER}, "numbers, text and times"

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        options = pa.csv.WriteOptions(include_header=False)
        with open(path, "xb") as stream:
            for table in map(_plain, tables):
                pa.csv.write_csv(table, stream, options)

    def count_part(self, path: Path) -> int:
        """The rows that have as many values as the first."""
        written, rows, width = File(str(path), 0, "", "csv", name=path.name), 0, 0
        for _, block, _ in row_blocks(written, 0, 1 << 24, b","):
            widths = split_fields(block, ",").widths
            width = width or int(widths[0])
            rows += int((widths == width).sum())
        return rows

    def count_output(self, path: Path) -> int:
        return self.count_part(path) - 1  # the header

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(columns)
        with open(path, "xb") as stream:
            stream.write(header.getvalue().encode())
            for part in parts:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, stream, 1 << 20)


def _plain(table: pa.Table) -> pa.Table:
    """Replace categories, views, bytes and durations by what they stand for; dates that have no text are refused."""
    columns = []
    for name, column in zip(table.column_names, map(look_up, table.columns), strict=True):
        kind = column_type(column.type)
        if kind == DATE:
            _check_years(name, column)
        if kind == DURATION:  # Arrow writes a number without its unit
            column = pa.array(column.to_pandas().astype(str), pa.large_string(), from_pandas=True)
        columns.append(_read_text(column, name) if kind == TEXT else column)
    return pa.table(columns, names=table.column_names)


def _read_text(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A column of text, of views or of bytes as text; refuses bytes that are none."""
    if column.type in (pa.string(), pa.large_string()):
        return column
    try:
        return text_of_bytes(column)
    except pa.ArrowInvalid:
        raise DataError(
            f"The column {name!r} holds bytes that are not UTF-8 text, and the output holds text. Write a .parquet "
            "file, or leave the column out."
        ) from None


def _check_years(name: str, column: pa.ChunkedArray) -> None:
    """Refuse dates for which Arrow writes that they are out of range, some 32,000 years from now."""
    ends = pc.min_max(column)
    if any(str(end.cast(pa.string())).startswith("<") for end in (ends["min"], ends["max"])):
        raise DataError(
            f"The column {name!r} holds dates of years that CSV has no text for. Write a .parquet file, or leave the "
            "column out."
        )


class Npy(Format):
    """One .npy file: a (rows, columns) array if the columns have one type, else (rows,) records with named fields."""

    ending: ClassVar[str] = ".npy"
    kept_as: ClassVar[str] = "numbers"
    holds = (BOOL, INT, FLOAT), "numbers"

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        with open(path, "xb") as stream:
            np.save(stream, np.concatenate([self._array(table) for table in tables]), allow_pickle=False)

    def _array(self, table: pa.Table) -> np.ndarray:
        columns = [_to_numpy(table, name, self.ending) for name in table.column_names]
        if len({c.dtype for c in columns}) == 1:
            return np.column_stack(columns)
        fields = [(name, c.dtype) for name, c in zip(table.column_names, columns, strict=True)]
        records = np.empty(table.num_rows, dtype=fields)
        for name, column in zip(table.column_names, columns, strict=True):
            records[name] = column
        return records

    def count_part(self, path: Path) -> int:
        array = np.load(path, mmap_mode="r")  # an error where the file is shorter than its header says
        return len(array)

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:  # noqa: ARG002
        first, rows = np.load(parts[0], mmap_mode="r"), sum(map(self.count_part, parts))
        # numpy makes the header of a file of this size; the rows are then written, not mapped: a full disk under a
        # mapped page is a bus error and not an exception.
        header = np.lib.format.open_memmap(path, mode="w+", dtype=first.dtype, shape=(rows, *first.shape[1:]))
        with open(path, "r+b") as stream:
            stream.truncate(header.offset)
            stream.seek(header.offset)
            for part in parts:
                array = np.load(part, mmap_mode="r")
                _check_same((first.dtype, *first.shape[1:]), (array.dtype, *array.shape[1:]), part)
                with open(part, "rb") as source:
                    source.seek(array.offset)
                    shutil.copyfileobj(source, stream, 1 << 20)


class Zarr(Parquet):
    """A Zarr group with one array per column. The client alone writes it, a whole chunk at a time: none is shared."""

    ending: ClassVar[str] = ".zarr"
    holds = (BOOL, INT, FLOAT, TEXT), "numbers, booleans and text"

    def ready(self) -> None:
        try:
            import zarr  # noqa: F401
        except ImportError:
            raise UnsupportedError(
                "A .zarr output needs the package zarr, which is not installed: pip install zarr, or choose an "
                "output that ends in .parquet."
            ) from None

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        for name in schema.names:
            if not name or "/" in name or set(name) == {"."} or name.startswith("__"):
                raise DataError(f"Column {name!r} cannot be the name of a Zarr array: rename it, or write .parquet.")

    def count_output(self, path: Path) -> int:
        import zarr

        return min(array.shape[0] for _, array in zarr.open_group(path, mode="r").arrays())

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        import zarr

        group = zarr.open_group(path, mode="w")
        arrays, rows = {}, sum(map(self.count_part, parts))
        with open_parquet(parts[0]) as file:
            none = file.schema_arrow.empty_table()
        for name in columns:
            dtype = _to_numpy(none, name, self.ending).dtype
            arrays[name] = group.create_array(name, shape=(rows,), chunks=(ROW_GROUP,), dtype=dtype)
        first = 0
        for table in cut_tables(row_groups(parts), ROW_GROUP):
            for name, array in arrays.items():
                array[first : first + table.num_rows] = _to_numpy(table, name, self.ending)
            first += table.num_rows
        for array in arrays.values():
            array.resize((first,))  # the shape says how many rows were written, not how many should have been


def _to_numpy(table: pa.Table, name: str, ending: str) -> np.ndarray:
    """A column as a numpy array; refuses a missing value, for which such a format has no sign."""
    column = look_up(table.column(name))
    if column.null_count:
        raise DataError(
            f"Column {name!r} has {column.null_count} missing value(s), which a {ending} output cannot hold. Leave the "
            "column out, or choose an output that ends in .parquet or .csv."
        )
    if column_type(column.type) != TEXT:
        return column_array(column)
    return np.array(_read_text(column, name).to_pylist(), dtype=np.dtypes.StringDType())


OUTPUT_FORMATS: dict[str, Format] = {form.ending: form for form in (Folder(), Parquet(), Csv(), Npy(), Zarr())}
OUTPUT_FORMATS |= dict.fromkeys((".pq", ".parq"), OUTPUT_FORMATS[".parquet"])


def choose_format(path: Path) -> Format:
    """The format that an output's name asks for; a folder of Parquet files for a name with no ending of its own."""
    ending = path.suffix.lower()
    if ending in _KNOWN_ENDINGS - OUTPUT_FORMATS.keys():
        raise UnsupportedError(
            f"{path.name}: {ending} files are not written. Choose a name that ends in .parquet, .csv, .npy or .zarr, "
            "or a name without the ending of a file for a folder of Parquet files."
        )
    form = OUTPUT_FORMATS.get(ending, OUTPUT_FORMATS[""])
    form.ready()
    return form
