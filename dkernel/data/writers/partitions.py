"""Folders of Parquet files divided by the values of columns: year=2020/part-00000.parquet, as Hive has them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from dkernel.data.readers.folder_keys import NULL
from dkernel.data.writers.formats import Folder, Format, gathered, row_groups
from dkernel.encoding.tables import coded
from dkernel.errors import DataError, UnsupportedError

MOST_FOLDERS = 1024  # as many as write_dataset of pyarrow makes: a column of more values names rows


class Partitioned(Folder):
    """A folder for each value of the keys, which the files do not hold; rows keep their order in each."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        if odd := [key for key in keys if key[:1] in ("", ".", "_") or set(key) & set("/=%")]:
            raise UnsupportedError(f"Column {odd[0]!r} cannot be the name of a folder. Choose another to divide by.")

    @classmethod
    def of(cls, keys: Sequence[str], form: Format) -> "Partitioned":
        """The format of an output of the format `form` that is divided by these columns."""
        if not form.folder:
            raise UnsupportedError("An output that is divided is a folder. Give a name without an ending.")
        return cls(keys)

    def divide(self, parts: Sequence[Path], path: Path) -> list[tuple[str, int]]:
        """Write the rows of the parts to the folder `path`; returns the names of its files, sorted, and their rows."""
        made: dict[str, int] = {}
        for number, table in enumerate(gathered(row_groups(parts))):
            for folder, rows in self._folders(table):
                name = f"{folder}/part-{number:05d}.parquet"
                (path / folder).mkdir(parents=True, exist_ok=True)
                self.stage([table.take(rows).drop_columns(list(self.keys))], path / name)
                made[name] = len(rows)
            if len({name.rpartition("/")[0] for name in made}) > MOST_FOLDERS:
                raise DataError(
                    f"{', '.join(self.keys)}: more than {MOST_FOLDERS:,} different values, each of which would be a "
                    "folder. Divide by a column of fewer values."
                )
        return sorted(made.items())

    def _folders(self, table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
        """The folders of a table, each with the numbers of its rows."""
        columns = [table.column(key) for key in self.keys]
        texts = [pa.array(words, pa.large_string()).take(pa.array(codes)) for words, codes in map(coded, columns)]
        names = [str(i) for i in range(len(texts))]
        found = pa.table([*texts, np.arange(len(table))], names=[*names, "row"])
        groups = found.group_by(names, use_threads=False).aggregate([("row", "list")])
        for i in range(len(groups)):
            words = [groups.column(name)[i].as_py() for name in names]
            parts = [
                f"{key}={quote(word, safe='') if word else NULL}" for key, word in zip(self.keys, words, strict=True)
            ]
            yield "/".join(parts), groups.column("row_list")[i].values


def files_in(folder: Path) -> list[str]:
    """The sorted names of the files of a folder and of the folders in it."""
    found = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    return sorted(p.relative_to(folder).as_posix() for p in found)
