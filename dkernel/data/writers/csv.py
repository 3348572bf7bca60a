"""CSV as an output: the parts have no header, so the file is the header and the parts one after the other."""

import csv
import io
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dkernel.data.arrow import text_of_bytes
from dkernel.data.column_types import is_bytes
from dkernel.data.paths import File
from dkernel.data.readers.csv_fields import split_fields
from dkernel.data.readers.text_rows import row_blocks
from dkernel.data.writers.format import Format
from dkernel.errors import DataError


class Csv(Format):
    """One CSV file with a header; text is quoted, a missing value is an empty field without quotes."""

    ending: ClassVar[str] = ".csv"
    staged: ClassVar[str] = ".csv"
    kept_as: ClassVar[str] = "text"

    def check(self, schema: pa.Schema) -> None:
        self.refuse(schema, _csv_can_hold, "numbers, text and times")

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

    def agree(self, parts: Sequence[Path]) -> None:
        """CSV has no types to differ in."""

    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(columns)
        with open(path, "xb") as stream:
            stream.write(header.getvalue().encode())
            for part in parts:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, stream, 1 << 20)


def _plain(table: pa.Table) -> pa.Table:
    """Replace views, bytes and durations by text; bytes that are no text, and dates that have none, are refused."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            _check_years(field.name, table.column(i))
        if pa.types.is_duration(field.type):  # Arrow writes a number without its unit
            text = pa.array(table.column(i).to_pandas().astype(str), pa.large_string(), from_pandas=True)
            table = table.set_column(i, field.with_type(text.type), text)
        if field.type == pa.string_view() or is_bytes(field.type):
            column = table.column(i)
            try:
                text = text_of_bytes(column) if is_bytes(field.type) else column.cast(pa.large_string())
            except pa.ArrowInvalid:
                raise DataError(
                    f"The column {field.name!r} holds bytes that are not UTF-8 text, and CSV is text. Write a .parquet "
                    "file, or leave the column out."
                ) from None
            table = table.set_column(i, field.with_type(text.type), text)
    return table


def _check_years(name: str, column: pa.ChunkedArray) -> None:
    """Refuse dates for which Arrow writes that they are out of range, some 32,000 years from now."""
    ends = pc.min_max(column)
    if any(str(end.cast(pa.string())).startswith("<") for end in (ends["min"], ends["max"])):
        raise DataError(
            f"The column {name!r} holds dates of years that CSV has no text for. Write a .parquet file, or leave the "
            "column out."
        )


def _csv_can_hold(kind: pa.DataType) -> bool:
    """True if pyarrow.csv writes a column of this type: it is tried, for it has no list of them."""
    try:
        pa.csv.write_csv(_plain(pa.table({"x": pa.array([], kind)})), io.BytesIO())
    except pa.ArrowException:
        return False
    return not pa.types.is_nested(kind)
