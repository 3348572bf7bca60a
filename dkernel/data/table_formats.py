"""Folders of Delta, Iceberg and Hudi tables, which have a log of their live rows.

Their files also hold rows that were removed or replaced. The package deltalake or pyiceberg reads the newest snapshot
of a table; without it, and of files inside a table, they are refused.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dkernel.data.store import explain_errors, open_filesystem
from dkernel.errors import DataError, DKernelError

_METADATA = ".metadata.json"
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
        if (kind := _kind(table, options)) is not None:
            package = _PACKAGED.get(kind)
            advice = f"Name the table's own folder, with pip install {package}, or write" if package else "Write"
            raise DataError(
                f"{table or '.'}: this is the folder of {kind} table, whose files also hold rows that were removed or "
                f"replaced. {advice} the live rows to a folder of Parquet files, and name that folder: "
                f"{_LIVE_ROWS[kind].format(table or '.')}"
            )


def live_rows(folder: str, options: Mapping[str, Any]) -> Any:
    """The rows of the newest snapshot of a table as a stream of Arrow batches; None if no package can read it.

    A table at a URL is read with the credentials of the environment.

    Raises
    ------
    DataError
        if the table has what its package does not read, such as deletion vectors
    """
    folder = folder.rstrip("/") or folder
    read = {"a Delta": _delta_rows, "an Iceberg": _iceberg_rows}.get(_kind(folder, options) or "")
    if read is None:
        return None
    try:
        return read(folder)
    except ImportError:
        return None  # refused by name, with the package
    except DataError:
        raise
    except Exception as error:  # each package has errors of its own
        raise DataError(f"{folder}: this table cannot be read ({type(error).__name__}: {error}).") from None


def _delta_rows(folder: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(folder).to_pyarrow_dataset().scanner().to_reader()


def _iceberg_rows(folder: str) -> Any:
    from pyiceberg.table import StaticTable

    system, root = open_filesystem(folder)
    newest = root if root.endswith(_METADATA) else _newest_metadata(system, f"{root}/metadata")
    return StaticTable.from_metadata(system.unstrip_protocol(newest)).scan().to_arrow_batch_reader()


def _newest_metadata(system: Any, root: str) -> str:
    """The metadata file of the newest snapshot of an Iceberg table; only a catalog knows which of two commits was."""
    files = {name: path for path in system.glob(f"{root}/*{_METADATA}") if (name := os.path.basename(path))}
    numbers = {name: int(match[1]) for name in files if (match := re.match(r"v?(\d+)", name))}
    newest = sorted(name for name, number in numbers.items() if number == max(numbers.values()))
    if len(newest) > 1:
        known = [name for name in newest if _follows(system.cat_file(files[name]), {*newest} - {name})]
        hint = (
            system.cat_file(f"{root}/version-hint.text").decode() if system.exists(f"{root}/version-hint.text") else ""
        )
        hinted = {f"{sign}{hint.strip()}{ending}" for sign in ("", "v") for ending in ("", _METADATA)}
        decided = known or [name for name in newest if name in hinted]
        if len(decided) != 1:
            raise DataError(
                f"{root}: {' and '.join(newest)} have one number, as after two commits at a time, of which one was "
                "lost, and no version-hint.text says which. Name the metadata file that the catalog names as DATA."
            )
        newest = decided
    return str(files[newest[0]])


def _follows(content: bytes, others: set[str]) -> bool:
    """True if the metadata of a table has all these others in the log of those before it."""
    try:
        log = json.loads(content).get("metadata-log", ())
        return others <= {os.path.basename(entry["metadata-file"]) for entry in log}
    except (ValueError, TypeError, KeyError, AttributeError):  # compressed, or damaged
        return False


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


def _kind(folder: str, options: Mapping[str, Any]) -> str | None:
    root = folder or "."
    isdir: Callable[[str], bool] = os.path.isdir
    names: Callable[[str], list[str]] = os.listdir
    if "://" in folder:
        try:
            system, root = open_filesystem(folder, options, DataError)
        except DKernelError:  # explained where the files of the address are listed
            return None
        isdir, names = map(explain_errors(folder), (system.isdir, partial(system.ls, detail=False)))
    if root.endswith(_METADATA):
        return "an Iceberg"
    if isdir(f"{root}/_delta_log"):
        return "a Delta"
    if isdir(f"{root}/.hoodie"):
        return "a Hudi"
    if isdir(f"{root}/metadata") and any(_METADATA in name for name in names(f"{root}/metadata")):
        return "an Iceberg"
    return None
