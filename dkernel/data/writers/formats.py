"""One class per output format: how a worker writes a part, and how the client makes one output of the parts.

A part is complete in itself and is written from a stream of Arrow tables, so neither side ever holds more than a
part. What the parts become is decided by the ending of the destination's name: `OUTPUT_FORMATS` is the catalogue, a new
format is one class and one line in it.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dkernel.data.arrow import column_array, cut_tables, open_parquet
from dkernel.data.paths import COMPRESSIONS, FORMATS, OTHER_ENDINGS
from dkernel.data.writers.csv import Csv
from dkernel.data.writers.format import Format, is_number_type, is_text
from dkernel.errors import DataError, UnsupportedError

# Rows of a Parquet row group or a Zarr chunk: a constant, so that the bytes depend on the rows alone.
ROW_GROUP = 131072
_KNOWN_ENDINGS = {*FORMATS, *COMPRESSIONS, *chain.from_iterable(OTHER_ENDINGS.values())}
"""Endings of files: a folder of such a name would only be a puzzle to its finder."""


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


def _read_schema(part: Path) -> pa.Schema:
    with open_parquet(part) as file:
        return file.schema_arrow


def check_same(first: Any, other: Any, part: Path) -> None:
    if other != first:
        raise DataError(
            f"{part.name.split('.')[0]} has the columns [{_types(other)}], the parts before it have [{_types(first)}]. "
            "The input's kept columns must have one type in all of its files: convert them, or leave them out."
        )


def _types(columns: Any) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in columns) if isinstance(columns, pa.Schema) else str(columns[0])


def row_groups(parts: Sequence[Path]) -> Iterator[pa.Table]:
    for part in parts:
        with open_parquet(part) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)


class Parquet(Format):
    """One Parquet file; its row groups are those of the parts, small neighbours joined."""

    ending: ClassVar[str] = ".parquet"
    staged: ClassVar[str] = ".parquet"

    def check(self, schema: pa.Schema) -> None:
        """Parquet holds every type that Arrow reads from a file."""

    def stage(self, tables: Iterable[pa.Table], path: Path) -> None:
        groups = gather_tables(tables)
        first = next(groups)
        # Numbers of which hardly two are equal: a dictionary of them is most of the time of writing, and of the file a
        # third.
        repeated = [field.name for field in first.schema if not is_number_type(field.type)]
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

    def agree(self, parts: Sequence[Path]) -> None:
        first = _read_schema(parts[0])
        for part in parts[1:]:
            check_same(first, _read_schema(part), part)

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:  # noqa: ARG002
        self.stage(row_groups(parts), path)


class Folder(Parquet):
    """A folder of Parquet files, read in the order of their names: a part is moved into it as it is."""

    ending: ClassVar[str] = ""
    folder: ClassVar[bool] = True


class Npy(Format):
    """One .npy file: a (rows, columns) array if the columns have one type, else (rows,) records with named fields."""

    ending: ClassVar[str] = ".npy"
    staged: ClassVar[str] = ".npy"
    kept_as: ClassVar[str] = "numbers"

    def check(self, schema: pa.Schema) -> None:
        self.refuse(schema, lambda t: is_number_type(t) or pa.types.is_boolean(t), "numbers")

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

    def agree(self, parts: Sequence[Path]) -> None:
        first = np.load(parts[0], mmap_mode="r")
        for part in parts[1:]:
            other = np.load(part, mmap_mode="r")
            check_same((first.dtype, *first.shape[1:]), (other.dtype, *other.shape[1:]), part)

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
                with open(part, "rb") as source:
                    source.seek(array.offset)
                    shutil.copyfileobj(source, stream, 1 << 20)


class Zarr(Parquet):
    """A Zarr group with one array per column. The client alone writes it, a whole chunk at a time: none is shared."""

    ending: ClassVar[str] = ".zarr"

    def ready(self) -> None:
        try:
            import zarr  # noqa: F401
        except ImportError:
            raise UnsupportedError(
                "A .zarr output needs the package zarr, which is not installed: pip install zarr, or choose an "
                "output that ends in .parquet."
            ) from None

    def check(self, schema: pa.Schema) -> None:
        self.refuse(
            schema, lambda t: is_number_type(t) or pa.types.is_boolean(t) or is_text(t), "numbers, booleans and text"
        )
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
        for name, kind in zip(columns, _read_schema(parts[0]).types, strict=True):
            dtype = str if is_text(kind) else np.dtype(kind.to_pandas_dtype())
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
    column = table.column(name)
    if column.null_count:
        raise DataError(
            f"Column {name!r} has {column.null_count} missing value(s), which a {ending} output cannot hold. Leave the "
            "column out, or choose an output that ends in .parquet or .csv."
        )
    if not is_text(column.type):
        return column_array(column)
    return np.array(column.to_pylist(), dtype=np.dtypes.StringDType())


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
