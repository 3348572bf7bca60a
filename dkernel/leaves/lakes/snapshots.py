"""The live rows of a Delta or Iceberg table, which the package deltalake or pyiceberg reads."""

import json
import os
import re
from typing import Any

from dkernel.data.store import open_filesystem
from dkernel.data.table_formats import METADATA
from dkernel.errors import DataError


def live_rows(folder: str, kind: str) -> Any:
    """The rows of the newest snapshot of a table as a stream of Arrow batches; None if no package can read it.

    A table at a URL is read with the credentials of the environment.

    Parameters
    ----------
    kind : as `kind_of_table` has it

    Raises
    ------
    DataError
        if the table has what its package does not read, such as deletion vectors
    """
    folder = folder.rstrip("/") or folder
    read = {"a Delta": _delta_rows, "an Iceberg": _iceberg_rows}.get(kind)
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
    newest = root if root.endswith(METADATA) else _newest_metadata(system, f"{root}/metadata")
    return StaticTable.from_metadata(system.unstrip_protocol(newest)).scan().to_arrow_batch_reader()


def _newest_metadata(system: Any, root: str) -> str:
    """The metadata file of the newest snapshot of an Iceberg table; only a catalog knows which of two commits was."""
    files = {name: path for path in system.glob(f"{root}/*{METADATA}") if (name := os.path.basename(path))}
    numbers = {name: int(match[1]) for name in files if (match := re.match(r"v?(\d+)", name))}
    newest = sorted(name for name, number in numbers.items() if number == max(numbers.values()))
    if len(newest) > 1:
        known = [name for name in newest if _follows(system.cat_file(files[name]), {*newest} - {name})]
        hint = (
            system.cat_file(f"{root}/version-hint.text").decode() if system.exists(f"{root}/version-hint.text") else ""
        )
        hinted = {f"{sign}{hint.strip()}{ending}" for sign in ("", "v") for ending in ("", METADATA)}
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
