"""Parts and manifests: the record of what was written, made by the worker that wrote it and kept with the output.

A finished part's name is its record (number, rows, sha256): it is finished in one rename, a late attempt can only add
a file that nobody asked for, and a rerun finds by the names alone what there is to keep.
"""

import contextlib
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from dkernel.data.atomic import digest, sync, trouble
from dkernel.data.writers import FORMATS
from dkernel.errors import DataError

__all__ = ["PROTOCOL", "Entry", "Manifest", "Part", "Place", "read_manifest", "write_part"]

PROTOCOL = 1
_FINISHED = re.compile(r"part-(\d{5,})\.(\d+)\.([0-9a-f]{64})")


@dataclass(frozen=True)
class Part:
    """The record of one part: which, how many rows, what bytes.

    Examples
    --------
    >>> Part(7, 100, 2048, "ab" * 32).staged[:20]
    'part-00007.100.ababa'
    """

    index: int
    rows: int
    bytes: int
    sha256: str

    @property
    def staged(self) -> str:
        """The name of the finished part while it is staged; whoever reads the name knows the record."""
        return f"part-{self.index:05d}.{self.rows}.{self.sha256}"

    @staticmethod
    def is_name(name: str) -> bool:
        """Whether this is the name of a finished part."""
        return _FINISHED.fullmatch(name) is not None

    @classmethod
    def found(cls, path: Path) -> "Part | None":
        """The record of a finished part, if that is what `path` is and its bytes are the ones it was named after."""
        match = _FINISHED.fullmatch(path.name)
        if match is None:
            return None
        part = cls(int(match[1]), int(match[2]), *digest(path))
        return part if part.staged == path.name else None


@dataclass(frozen=True)
class Place:
    """Where a worker writes a part: the staging folder, the part's number, the rows it must have, the format."""

    folder: str
    index: int
    rows: int
    ending: str


def write_part(place: Place, tables: Iterable[pa.Table]) -> Part:
    """Write the tables as one finished part and return its record; runs on a worker, and may run twice.

    Every attempt has a file of its own. It takes its final name when all of it is on the disk.
    """
    folder, form = Path(place.folder), FORMATS[place.ending]
    attempt = folder / f"part-{place.index:05d}.{uuid.uuid4().hex}.tmp"
    passed = _Passed(tables, form.check)
    try:
        form.stage(passed, attempt)
        if passed.rows != place.rows:
            raise DataError(
                f"Part {place.index} for {folder} has {passed.rows} rows where {place.rows} were counted before the "
                "reading began: an input file changed meanwhile. Run the command again when the input stands still."
            )
        sync(attempt)
        part = Part(place.index, passed.rows, *digest(attempt))
        os.replace(attempt, folder / part.staged)
        sync(folder)
    except OSError as error:
        raise trouble(error, folder) from error
    finally:
        # A folder that vanished, or a disk that fails, was reported above.
        with contextlib.suppress(OSError):
            attempt.unlink(missing_ok=True)
    return part


class _Passed:
    """Tables on their way to a writer: the first one's columns are checked, the rows are counted."""

    def __init__(self, tables: Iterable[pa.Table], check: Callable[[pa.Schema], None]) -> None:
        self.tables, self.check, self.rows = tables, check, 0

    def __iter__(self) -> Iterator[pa.Table]:
        for number, table in enumerate(self.tables):
            if number == 0:
                self.check(table.schema)
            self.rows += table.num_rows
            yield table


@dataclass(frozen=True)
class Entry:
    """One file of an output, as its manifest lists it."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an output was made of, and what it holds.

    Parameters
    ----------
    job : names and digests of everything that decides the bytes: the input, the model, the columns
    files : the parts of a folder in their order, or the one file itself

    Examples
    --------
    >>> made = Manifest({"model": "1f"}, (Entry("a.csv", 3, 20, "2e"),))
    >>> Manifest.from_bytes(made.to_bytes()) == made
    True
    """

    job: Mapping[str, str]
    files: tuple[Entry, ...]

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.files)

    def to_bytes(self) -> bytes:
        document = {
            "protocol": PROTOCOL,
            "job": dict(self.job),
            "rows": self.rows,
            "files": list(map(asdict, self.files)),
        }
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest | None":
        """The manifest, or None if these bytes are not one that this release understands."""
        try:
            document = json.loads(content)
            if document["protocol"] != PROTOCOL:
                return None
            return cls(document["job"], tuple(Entry(**entry) for entry in document["files"]))
        except (ValueError, TypeError, KeyError):
            return None


def read_manifest(path: Path) -> Manifest | None:
    try:
        return Manifest.from_bytes(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
