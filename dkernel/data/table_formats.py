"""Folders of Delta, Iceberg and Hudi tables, which have a log of their live rows.

Their files also hold rows that were removed or replaced, so they are refused as files. `leaves/lakes` reads the newest
snapshot of a table.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dkernel.data.store import explain_errors, open_filesystem
from dkernel.errors import DataError, DKernelError

METADATA = ".metadata.json"  # the ending of what Iceberg writes of a table
_PACKAGED = {"a Delta": "deltalake", "an Iceberg": "pyiceberg"}  # that read the newest snapshot
_LIVE_ROWS = {
    "a Delta": "pyarrow.dataset.write_dataset(deltalake.DeltaTable('{}').to_pyarrow_dataset(), 'live', "
    "format='parquet')",
    "an Iceberg": "pyarrow.dataset.write_dataset(pyiceberg.table.StaticTable.from_metadata('{}/metadata/"
    "NEWEST.metadata.json').scan().to_arrow_batch_reader(), 'live', format='parquet')",
    "a Hudi": "spark.read.format('hudi').load('{}').write.parquet('live')",
}


def refuse_tables(folders: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse folders of which one is, or lies in, a table with a log; `options` are those of fsspec for URLs."""
    for table in dict.fromkeys(table for folder in folders for table in find_tables(folder)):
        if (kind := kind_of_table(table, options)) is not None:
            package = _PACKAGED.get(kind)
            advice = f"Name the table's own folder, with pip install {package}, or write" if package else "Write"
            raise DataError(
                f"{table or '.'}: this is the folder of {kind} table, whose files also hold rows that were removed or "
                f"replaced. {advice} the live rows to a folder of Parquet files, and name that folder: "
                f"{_LIVE_ROWS[kind].format(table or '.')}"
            )


def find_tables(folder: str) -> list[str]:
    """The folders that can be the table to which the files of `folder` belong.

    Examples
    --------
    >>> find_tables("t/data/day=1/hour=2"), find_tables("t/day=1"), find_tables("t")
    (['t/data', 't'], ['t'], ['t'])
    """
    while "=" in os.path.basename(folder):
        folder = os.path.dirname(folder)
    return [folder, os.path.dirname(folder)] if os.path.basename(folder) == "data" else [folder]


def kind_of_table(folder: str, options: Mapping[str, Any]) -> str | None:
    """Whose table a folder or a metadata file is: "a Delta", "an Iceberg", "a Hudi", or None."""
    root = folder or "."
    isdir: Callable[[str], bool] = os.path.isdir
    names: Callable[[str], list[str]] = os.listdir
    if "://" in folder:
        try:
            system, root = open_filesystem(folder, options, DataError)
        except DKernelError:  # explained where the files of the address are listed
            return None
        isdir, names = map(explain_errors(folder), (system.isdir, partial(system.ls, detail=False)))
    if root.endswith(METADATA):
        return "an Iceberg"
    if isdir(f"{root}/_delta_log"):
        return "a Delta"
    if isdir(f"{root}/.hoodie"):
        return "a Hudi"
    if isdir(f"{root}/metadata") and any(METADATA in name for name in names(f"{root}/metadata")):
        return "an Iceberg"
    return None
