"""Parts and manifests: the record of what was written, made by the worker that wrote it and kept with the output.

A finished part's name is its record (number, rows, sha256): it is finished in one rename, a late attempt can only add
a file that nobody asked for, and a rerun finds by the names alone what there is to keep. Where rows were rejected their
list is written first, and the part's name goes on with their number and the list's sha256.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dkernel.data.encoding.unseen import Counted, add_counts
from dkernel.data.rejected_rows import to_csv
from dkernel.data.store import Store, open_store
from dkernel.data.writers.atomic import explain_os_errors, file_digest, staged_name, sync
from dkernel.data.writers.formats import Format
from dkernel.errors import DataError, DKernelError

MANIFEST_VERSION = 2  # version of the manifest; it is raised where an older dkernel could not read it
_FINISHED = re.compile(r"part-(\d{5,})\.(\d+)\.([0-9a-f]{64})(?:\.(\d+)\.([0-9a-f]{64}))?")


@dataclass(frozen=True)
class OutputPart:
    """The record of one part: which, how many rows, what bytes; and how many rows were rejected, listed in what bytes.

    Parameters
    ----------
    seen : what its rows were, JSON: `filled`, their values that training never saw, and `moments` of their inputs
    damaged : why its rows cannot be read; such a part is not written

    Examples
    --------
    >>> OutputPart(7, 100, 2048, "ab" * 32).staged[:20]
    'part-00007.100.ababa'
    """

    index: int
    rows: int
    bytes: int
    sha256: str
    rejected: int = 0
    rejects_sha256: str = ""
    seen: Mapping[str, Any] = field(default_factory=dict)
    damaged: str = ""

    @property
    def staged(self) -> str:
        """The name of the finished part while it is staged; the name holds the record."""
        more = f".{self.rejected}.{self.rejects_sha256}" if self.rejected else ""
        return f"part-{self.index:05d}.{self.rows}.{self.sha256}{more}"

    @property
    def rejects(self) -> str:
        """The name of the list of its rejected rows while it is staged."""
        return f"rejects-{self.index:05d}.{self.rejects_sha256}"

    @property
    def seen_name(self) -> str:
        """The name of the file of what its rows were, while it is staged."""
        return f"seen-{self.index:05d}.{self.sha256}"

    @classmethod
    def of_name(cls, name: str, size: int) -> "OutputPart | None":
        """The record of a finished part of this size, if that is its name."""
        match = _FINISHED.fullmatch(name)
        return match and cls(int(match[1]), int(match[2]), size, match[3], int(match[4] or 0), match[5] or "")


@dataclass(frozen=True)
class PartWriter:
    """Writes a part: the staging folder (a path or a URL), the part's number, the rows it must have, the format."""

    folder: str
    index: int
    rows: int
    format: Format

    def write(
        self, tables: Iterable[pa.Table], refused: pa.Table | None = None, seen: Mapping[str, Any] | None = None
    ) -> OutputPart:
        """Write the tables as one finished part and return its record; runs on a worker, and may run twice.

        Every attempt has a file of its own. It takes its final name when all of it is on the disk. A part all of whose
        rows are in `refused` is an empty file, which no output is made of.
        """
        store, rejected = open_store(self.folder), 0 if refused is None else len(refused)
        with explain_os_errors(self.folder), store.workplace() as here:
            attempt = here / staged_name(f"part-{self.index:05d}")
            try:
                rows = self._stage(tables, rejected, attempt)
                part = OutputPart(self.index, rows, *file_digest(attempt))
                if refused is not None and rejected:
                    listed = to_csv(refused)
                    part = replace(part, rejected=rejected, rejects_sha256=hashlib.sha256(listed).hexdigest())
                    store.write(part.rejects, listed)
                if seen:
                    part = replace(part, seen=seen)
                    store.write(part.seen_name, json.dumps(seen).encode())
                store.take(attempt, part.staged)
            finally:
                # A folder that vanished, or a disk that fails, was reported above.
                with contextlib.suppress(OSError):
                    attempt.unlink(missing_ok=True)
        return part

    def _stage(self, tables: Iterable[pa.Table], rejected: int, attempt: Path) -> int:
        """Write the tables to a file, and count their rows, which all but the rejected ones must be."""
        form, rows = self.format, 0

        def check_tables() -> Iterator[pa.Table]:
            nonlocal rows
            for number, table in enumerate(tables):
                if number == 0:
                    form.check(table.schema)
                form.check_rows(table, attempt.parent)
                rows += table.num_rows
                yield table

        if rejected < self.rows or not self.rows:
            form.stage(check_tables(), attempt)
        else:
            attempt.touch(exist_ok=False)
        if rows + rejected != self.rows:
            raise DataError(
                f"Part {self.index} for {self.folder} has {rows + rejected} rows where {self.rows} were counted before "
                "the reading began: an input file changed meanwhile. Run the command again when the input no longer "
                "changes."
            )
        check_rows(self.folder, form.count_part(attempt) if rows else 0, rows)
        sync(attempt)
        return rows


def check_rows(path: Any, written: int, read: int) -> None:
    """Refuse an output, or a part, that holds fewer or more rows than were read and not rejected.

    The rows it holds are counted in its bytes, so that no fault of a writer can lose rows in silence.
    """
    if written != read:
        raise DKernelError(
            f"{path}: {written:,} rows were written where {read:,} were read, so the output was not made. This is a "
            "fault of dkernel, not of the data: please report it. Another format of the output may be free of it."
        )


@dataclass(frozen=True)
class Entry:
    """One file of an output, as its manifest lists it."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class InputFacts:
    """What is worth knowing of the input of an output.

    Parameters
    ----------
    filled : values that training never saw, by kind and by column; a manifest also has the absent ones
    bad_files : files that were left out, with the reasons
    drifted : columns whose values are not those of the training (`dkernel.inference.drift`)
    """

    filled: Counted = field(default_factory=dict)
    bad_files: Mapping[str, str] = field(default_factory=dict)
    drifted: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Its part of a manifest."""
        filled = {word: counts for word, counts in self.filled.items() if word != "absent"}
        parts = {"filled": filled, "absent": self.filled.get("absent"), "bad_files": dict(self.bad_files)}
        return {name: value for name, value in (parts | {"drifted": dict(self.drifted)}).items() if value}

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> "InputFacts":
        """The facts of a manifest."""
        absent = {"absent": parts["absent"]} if "absent" in parts else {}
        return cls({**parts.get("filled", {}), **absent}, parts.get("bad_files", {}), parts.get("drifted", {}))


@dataclass(frozen=True)
class Manifest:
    """Inputs and files of an output.

    Parameters
    ----------
    job : names and digests of everything that decides the bytes: the input, the model, the columns
    files : the parts of a folder in their order, or the one file itself
    rejected : rows of the input that are not in the output
    rejects : the list of them
    facts : of the input

    Examples
    --------
    >>> made = Manifest({"model": "1f"}, (Entry("a.csv", 3, 20, "2e"),))
    >>> Manifest.from_bytes(made.to_bytes()) == made
    True
    """

    job: Mapping[str, str]
    files: tuple[Entry, ...]
    rejected: int = 0
    rejects: Entry | None = None
    facts: InputFacts = field(default_factory=InputFacts)

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.files)

    def to_bytes(self) -> bytes:
        document = {
            "protocol": MANIFEST_VERSION,
            "job": dict(self.job),
            "rows": self.rows,
            "rejected": self.rejected,
            "rejects": None if self.rejects is None else asdict(self.rejects),
            "files": list(map(asdict, self.files)),
        }
        document |= self.facts.to_json()
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest | None":
        """The manifest, or None if these bytes are not one that this release understands."""
        try:
            document = json.loads(content)
            if document["protocol"] != MANIFEST_VERSION:
                return None
            files = tuple(Entry(**entry) for entry in document["files"])
            rejects = Entry(**document["rejects"]) if document["rejects"] else None
            return cls(document["job"], files, document["rejected"], rejects, InputFacts.from_json(document))
        except (ValueError, TypeError, KeyError):
            return None


def sum_filled(parts: Iterable[OutputPart]) -> Counted:
    """The values of all parts that training never saw, and the missing ones of columns with unknown values."""
    total: Counted = {}
    for part in parts:
        total = add_counts(total, part.seen.get("filled", {}))
    absent = {name: n for name, n in total.get("absent", {}).items() if name in total.get("unknown", {})}
    return {word: counts for word, counts in {**total, "absent": absent}.items() if counts}


def read_manifest(store: Store, name: str) -> Manifest | None:
    try:
        return Manifest.from_bytes(store.read(name))
    except (FileNotFoundError, NotADirectoryError):
        return None
