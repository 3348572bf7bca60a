"""The interface of an output format: what a worker writes as a part, and what the client makes of the parts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dkernel.errors import DataError


class Format(ABC):
    """A file format of an output.

    Examples
    --------
    >>> from dkernel.data.writers.formats import choose_format
    >>> choose_format(Path("scores.csv"))
    Csv()
    >>> choose_format(Path("scores")).folder
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

    def check_rows(self, table: pa.Table, folder: Path) -> None:  # noqa: B027 - most formats hold any value
        """Refuse values that the format cannot hold in an output of this folder."""

    @abstractmethod
    def count_part(self, path: Path) -> int:
        """The rows that a part holds, by its bytes: what it was given may be more."""

    def count_output(self, path: Path) -> int:
        """The rows that a file of an output holds, by its bytes."""
        return self.count_part(path)

    @abstractmethod
    def agree(self, parts: Sequence[Path]) -> None:
        """Refuse parts that were not all written with the same columns and types."""

    @abstractmethod
    def assemble(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        """Make the one output `path` of the parts, in order."""

    def refuse(self, schema: pa.Schema, holds: Any, what: str) -> None:
        """Refuse the columns of which `holds` is not true of their type."""
        for field in schema:
            if not holds(field.type):
                raise DataError(
                    f"Column {field.name!r} is of type {field.type}, and a {self.ending} output holds {what} only. "
                    "Leave the column out, or choose an output that ends in .parquet"
                    + (" or .csv." if self.ending in (".npy", ".zarr") else ".")
                )


def is_number_type(kind: pa.DataType) -> bool:
    """True of whole and floating numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    """True of text, and of categories of text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
