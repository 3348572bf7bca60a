"""Folders of Delta, Iceberg and Hudi tables, which have a log of their live rows.

Their files also hold rows that were removed or replaced, so they are refused.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dkernel.errors import DataError

_LIVE_ROWS = {
    "a Delta": "pyarrow.dataset.write_dataset(deltalake.DeltaTable('{}').to_pyarrow_dataset(), 'live', "
    "format='parquet')",
    "an Iceberg": "pyarrow.dataset.write_dataset(pyiceberg.table.StaticTable.from_metadata('{}/metadata/"
    "NEWEST.metadata.json').scan().to_arrow_batch_reader(), 'live', format='parquet')",
    "a Hudi": "spark.read.format('hudi').load('{}').write.parquet('live')",
}


def refuse_tables(folders: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse folders of which one is, or lies in, a table with a log; `options` are those of fsspec for URLs."""
    for table in dict.fromkeys(table for folder in folders for table in tables_of(folder)):
        if (kind := _kind(table, options)) is not None:
            raise DataError(
                f"{table or '.'}: this is the folder of {kind} table, whose files also hold rows that were removed or "
                "replaced. Write the live rows to a folder of Parquet files, and name that folder: "
                f"{_LIVE_ROWS[kind].format(table or '.')}"
            )


def tables_of(folder: str) -> list[str]:
    """The folders that can be the table to which the files of `folder` belong.

    Examples
    --------
    >>> tables_of("t/data/day=1/hour=2"), tables_of("t/day=1"), tables_of("t")
    (['t/data', 't'], ['t'], ['t'])
    """
    while "=" in os.path.basename(folder):
        folder = os.path.dirname(folder)
    return [folder, os.path.dirname(folder)] if os.path.basename(folder) == "data" else [folder]


def _kind(folder: str, options: Mapping[str, Any]) -> str | None:
    place = folder or "."
    isdir: Callable[[str], bool] = os.path.isdir
    names: Callable[[str], list[str]] = os.listdir
    if "://" in folder:
        import fsspec

        system, place = fsspec.core.url_to_fs(folder, **options)
        isdir, names = system.isdir, partial(system.ls, detail=False)
    if isdir(f"{place}/_delta_log"):
        return "a Delta"
    if isdir(f"{place}/.hoodie"):
        return "a Hudi"
    if isdir(f"{place}/metadata") and any(".metadata.json" in name for name in names(f"{place}/metadata")):
        return "an Iceberg"
    return None
