"""Folders of Parquet files divided by the values of columns: year=2020/part-00000.parquet, as Hive has them.

Missing values and empty texts share the folder that Hive has for them; a text of that name is refused.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import look_up, pick_rows, text_of_bytes
from dkernel.data.column_types import OTHER, column_type, is_bytes
from dkernel.data.encoding.words import code_column
from dkernel.data.readers.folder_keys import NULL
from dkernel.data.writers.formats import Folder, gather_tables, row_groups
from dkernel.errors import DataError, UnsupportedError

MOST_FOLDERS = 1024  # as many as write_dataset of pyarrow makes: a column of more values names rows


class Partitioned(Folder):
    """A folder for each value of the keys, which the files do not hold; rows keep their order in each."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        if odd := [key for key in keys if key[:1] in ("", ".", "_") or set(key) & set("/=%")]:
            raise UnsupportedError(f"Column {odd[0]!r} cannot be the name of a folder. Choose another to divide by.")

    def check(self, schema: pa.Schema) -> None:
        for key, kind in zip(schema.names, schema.types, strict=True):
            if key in self.keys and column_type(kind) == OTHER:
                raise DataError(
                    f"Column {key!r} is of type {kind}, and its values cannot be the names of folders. Divide by a "
                    "column of numbers, text or times."
                )

    def check_rows(self, table: pa.Table, folder: Path) -> None:
        """Refuse values that are too many, or too long for the names of folders."""
        longest = os.pathconf(folder, "PC_NAME_MAX")
        names = {name for name, _ in self._folders(table)}
        for name in sorted(name for path in names for name in path.split("/")):
            if len(name) > longest:
                key, _, value = name.partition("=")
                raise DataError(
                    f"Column {key!r} has the value {unquote(value)[:40]!r}..., which is too long for the name of a "
                    f"folder: {len(name)} bytes where {longest} are possible. Shorten it, or divide by another column."
                )
        self._check_number(len(names))

    def _check_number(self, folders: int) -> None:
        if folders > MOST_FOLDERS:
            raise DataError(
                f"{', '.join(self.keys)}: more than {MOST_FOLDERS:,} different values, each of which would be a "
                "folder. Divide by a column of fewer values."
            )

    def divide(self, parts: Sequence[Path], path: Path) -> list[tuple[str, int]]:
        """Write the rows of the parts to the folder `path`; returns the names of its files, sorted, and their rows."""
        made: dict[str, int] = {}
        for number, table in enumerate(gather_tables(row_groups(parts))):
            folders = list(self._folders(table))
            # Once for all folders: a selection from views of text copies the whole table.
            order = pa.chunked_array([rows for _, rows in folders], pa.int64()).to_numpy()
            ordered = pick_rows(table.drop_columns(list(self.keys)), order)
            first = 0
            for folder, rows in folders:
                name = f"{folder}/part-{number:05d}.parquet"
                (path / folder).mkdir(parents=True, exist_ok=True)
                self.stage([ordered.slice(first, len(rows))], path / name)
                made[name], first = len(rows), first + len(rows)
            self._check_number(len({name.rpartition("/")[0] for name in made}))
        return sorted(made.items())

    def _folders(self, table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
        """The folders of a table, each with the numbers of its rows."""
        texts = []
        for words, codes in (_code(table.column(key), key) for key in self.keys):
            texts.append(pa.array([word or "" for word in words], pa.large_string()).take(pa.array(codes)))
        names = [str(i) for i in range(len(texts))]
        keyed = pa.table([*texts, np.arange(len(table))], names=[*names, "row"])
        groups = keyed.group_by(names, use_threads=False).aggregate([("row", "list")])
        for i in range(len(groups)):
            values = [groups.column(name)[i].as_py() for name in names]
            parts = [f"{key}={_folder_word(value)}" for key, value in zip(self.keys, values, strict=True)]
            yield "/".join(parts), groups.column("row_list")[i].values


def _code(column: pa.ChunkedArray, key: str) -> tuple[list[str | None], NDArray[np.int64]]:
    try:
        column = look_up(column)
        words, codes = code_column(text_of_bytes(column) if is_bytes(column.type) else column)
    except pa.ArrowInvalid:
        raise DataError(f"Column {key!r} holds bytes that are not UTF-8 text. Divide by another column.") from None
    if NULL in words:  # readers undo an escape before they look for it
        raise DataError(
            f"Column {key!r} has the text {NULL!r}, which readers of folders take for a missing value. Change it, or "
            "divide by another column."
        )
    return words, codes


def _folder_word(word: str) -> str:
    """A value in the name of a folder.

    Examples
    --------
    >>> _folder_word("La Paz"), _folder_word("")
    ('La%20Paz', '__HIVE_DEFAULT_PARTITION__')
    """
    return quote(word, safe="") or NULL
