"""Outputs in an object store (s3://, gs://, ...), which has no rename: the file written last says that all is there.

    .NAME.staging-JOB/part-...   finished parts, one upload each, named as on a disk (manifest.py)
    NAME/_manifest.json          first: it says whose the folder is, so that a commit which was killed is gone on with
    NAME/part-00000.parquet      copies of the staged parts, made by the store
    NAME/_SUCCESS                last: where it is everything is there, where it is not nobody should read

A single file is one upload, and a store shows an object when it has all of it; its manifest is the hidden sibling
`.NAME.manifest.json`. There is no lock: two clients with the same job write the same bytes to the same names.
"""

import hashlib
import os
import posixpath
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dkernel.data.rejected_rows import csv_of_files, rows_of_csv, to_csv
from dkernel.data.store import explain_errors, files_at, is_url, open_filesystem
from dkernel.data.writers.destination import REJECTS_NAME, Destination, Staging, names_in_folder
from dkernel.data.writers.formats import choose_format
from dkernel.data.writers.manifest import (
    Entry,
    InputFacts,
    Manifest,
    OutputPart,
    PartWriter,
    check_rows,
    list_entries,
    name_parts,
    refuse_other,
    staging_name,
    with_facts,
)
from dkernel.errors import ClusterError, DataError, UnsupportedError


def open_destination(path: Any, overwrite: bool = False, partition_by: Sequence[str] = ()) -> "AnyDestination":
    """The place of an output: of a file system, or of a store when `path` is a URL.

    Examples
    --------
    >>> type(open_destination("memory://bucket/scores")).__name__, type(open_destination("scores")).__name__
    ('StoreDestination', 'Destination')
    """
    if not is_url(path):
        return Destination(os.fspath(path).removeprefix("file://"), overwrite, partition_by)
    if partition_by:
        raise UnsupportedError(f"{path}: an output in a store is not divided. Write it to a folder, and copy that.")
    return StoreDestination(str(path), overwrite)


@dataclass(frozen=True)
class StorePartWriter(PartWriter):
    """Writes a part to a folder of a store."""

    def write(
        self, tables: Iterable[pa.Table], refused: pa.Table | None = None, seen: Mapping[str, Any] | None = None
    ) -> OutputPart:
        """Write the part on this machine's disk, then put it into the store: its lists first."""
        system, folder = open_filesystem(self.folder)
        with tempfile.TemporaryDirectory(prefix="dkernel-") as here:
            part = PartWriter(here, self.index, self.rows, self.ending).write(tables, refused, seen)
            with explain_errors(self.folder):
                lists = ([part.rejects] if part.rejected else []) + ([part.seen_name] if part.seen else [])
                for name in (*lists, part.staged):
                    system.put_file(str(Path(here) / name), f"{folder}/{name}")
        return part


class StoreDestination:
    """The place of an output in a store; the same face as `Destination`."""

    def __init__(self, url: str, overwrite: bool = False) -> None:
        self.path, self.overwrite = url.rstrip("/"), overwrite
        self.format = choose_format(Path(self.path.rsplit("/", 1)[-1]))
        if self.format.ending == ".zarr":
            raise UnsupportedError(
                f"{url}: a Zarr group is many objects that cannot appear as one. Choose .parquet, .csv or .npy, or a "
                "name without an ending for a folder of Parquet files."
            )
        self.system, self.root = open_filesystem(self.path)

    def _beside(self, name: str, url: bool = False) -> str:
        return posixpath.join(posixpath.dirname(self.path if url else self.root), name)

    @property
    def _name(self) -> str:
        return posixpath.basename(self.root)

    @property
    def manifest(self) -> str:
        """The manifest as the file system names it."""
        return f"{self.root}/_manifest.json" if self.format.folder else self._beside(f".{self._name}.manifest.json")

    def companions(self) -> list[str]:
        """The objects beside the output that its commit replaces: its manifest."""
        return [] if self.format.folder else [self._beside(f".{self._name}.manifest.json", url=True)]

    def rejects(self, entry: Entry) -> str:
        """URL of the list of rejected rows."""
        return f"{self.path}/{entry.name}" if self.format.folder else self._beside(entry.name, url=True)

    def complete(self, job: Mapping[str, str]) -> Manifest | None:
        """The manifest if the output of this job is there, whole; None if its place is free, or may be overwritten."""
        with explain_errors(self.path):
            self.system.invalidate_cache()
            there = (
                files_at(self.system, self.root)
                if self.format.folder
                else files_at(self.system, posixpath.dirname(self.root))
            )
            if not self.format.folder and self._name not in there:
                return None
            manifest = self._read_manifest()
            if manifest is not None and manifest.job == dict(job):
                entries = (*manifest.files, *([manifest.rejects] if manifest.rejects else []))
                whole = all(there.get(entry.name) == entry.bytes for entry in entries)
                if whole and (not self.format.folder or "_SUCCESS" in there):
                    self.sweep(job)
                    return manifest
                if self.format.folder and "_SUCCESS" not in there:
                    return None  # our own commit, killed half way
            if there:
                self._check_replaceable(job, manifest, set(there))
            return None

    def _check_replaceable(self, job: Mapping[str, str], manifest: Manifest | None, there: set[str]) -> None:
        if not self.overwrite:
            refuse_other(self.path, job, manifest)
        if self.format.folder and (foreign := sorted(there - names_in_folder(manifest))):
            raise DataError(
                f"{self.path} holds objects that dkernel did not write ({', '.join(foreign[:3])}), and overwriting "
                "would delete them. Choose another name, or move them away."
            )

    def _read_manifest(self) -> Manifest | None:
        try:
            return Manifest.from_bytes(self.system.cat_file(self.manifest))
        except FileNotFoundError:
            return None

    def staging(self, job: Mapping[str, str]) -> str:
        """The name of the staging folder of a job, hidden beside the output."""
        return staging_name(self._name, job)

    def stage(self, job: Mapping[str, str]) -> "StoreStaging":
        """The staging folder of this job; a context manager."""
        return StoreStaging(self, job)

    def sweep(self, job: Mapping[str, str]) -> None:
        """Remove what is staged for this job. Of other jobs nobody can tell whether they live, so theirs stays."""
        folder = self._beside(self.staging(job))
        if files_at(self.system, folder):
            self.system.rm(folder, recursive=True)


class StoreStaging:
    """The staging folder of one job at one destination in a store; the same face as `Staging`."""

    def __init__(self, destination: StoreDestination, job: Mapping[str, str]) -> None:
        self.destination, self.job = destination, dict(job)
        self.system = destination.system
        self.url = destination._beside(destination.staging(job), url=True)
        self.folder = destination._beside(destination.staging(job))

    def __enter__(self) -> "StoreStaging":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep finished parts for a rerun; a store holds no others."""

    def discard(self) -> None:
        """Remove all of it: bad data are mended by other data, which are another job, so no job would come back."""
        with explain_errors(self.url):
            self.system.invalidate_cache()
            self.destination.sweep(self.job)

    def part_writer(self, index: int, rows: int) -> StorePartWriter:
        """The writer of part `index`."""
        return StorePartWriter(self.url, index, rows, self.destination.format.ending)

    def finished(self, rows: Sequence[int]) -> dict[int, OutputPart]:
        """The parts that an earlier run finished; an upload is there with all its bytes or not at all."""
        parts: dict[int, OutputPart] = {}
        with explain_errors(self.url):
            self.system.invalidate_cache()
            there = files_at(self.system, self.folder)
        for name, size in sorted(there.items()):
            part = OutputPart.of_name(name, size)
            if part and part.is_one_of(rows) and (not part.rejected or part.rejects in there):
                known = self._with_seen(part) if part.seen_name in there else part
                if known:
                    parts.setdefault(part.index, known)
        return parts

    def _with_seen(self, part: OutputPart) -> OutputPart | None:
        with explain_errors(self.url):
            return with_facts(part, self.system.cat_file(f"{self.folder}/{part.seen_name}"))

    def rejected(self, parts: Sequence[OutputPart]) -> Iterator[Sequence[str]]:
        """Reasons of all rejected rows of these parts, in order."""
        for part in parts:
            if part.rejected:
                with explain_errors(self.url):
                    listed = self.system.cat_file(f"{self.folder}/{part.rejects}")
                yield from rows_of_csv(listed)

    def commit(self, parts: Sequence[OutputPart], columns: Sequence[str], facts: InputFacts | None = None) -> Manifest:
        """Make the output of all its parts and let it appear."""
        facts = facts or InputFacts()
        with explain_errors(self.destination.path):
            self.system.invalidate_cache()
            if self.destination.format.folder:
                manifest = self._commit_folder(parts, facts)
            else:
                manifest = self._commit_file(parts, columns, facts)
            self.system.invalidate_cache()
            self.destination.sweep(self.job)
        return manifest

    def _commit_folder(self, parts: Sequence[OutputPart], facts: InputFacts) -> Manifest:
        root, bad = self.destination.root, facts.bad_files
        listed = [part for part in parts if part.rejected]
        written = [part for part in parts if part.rows] or list(parts[:1])
        self._check(written)
        named = name_parts(written, self.destination.format.staged)
        lists = to_csv(None) + csv_of_files(bad)
        lists += b"".join(self.system.cat_file(f"{self.folder}/{part.rejects}") for part in listed)
        count, shown = sum(part.rejected for part in listed), bool(listed or bad)
        entry = Entry(REJECTS_NAME, count + len(bad), len(lists), hashlib.sha256(lists).hexdigest()) if shown else None
        manifest = Manifest(self.job, list_entries(named), count, entry, facts)
        there = files_at(self.system, root)
        if "_SUCCESS" in there:
            self.system.rm_file(f"{root}/_SUCCESS")
        self.system.pipe_file(f"{root}/_manifest.json", manifest.to_bytes())
        for old in set(there) - {"_SUCCESS", "_manifest.json", *named}:
            self.system.rm_file(f"{root}/{old}")
        if shown:
            self.system.pipe_file(f"{root}/{REJECTS_NAME}", lists)
        for name, part in named.items():
            self.system.cp_file(f"{self.folder}/{part.staged}", f"{root}/{name}")
        self._check_copies(root, {name: part.bytes for name, part in named.items()})
        self.system.pipe_file(f"{root}/_SUCCESS", b"")
        return manifest

    def _check_copies(self, folder: str, sizes: Mapping[str, int]) -> None:
        """Refuse objects of a folder that are not as large as what they were made of."""
        self.system.invalidate_cache()
        there = files_at(self.system, folder)
        if wrong := [name for name, size in sizes.items() if there.get(name) != size]:
            raise ClusterError(
                f"{self.destination.path}: {wrong[0]} is not whole in the store. Run the same command again."
            )

    def _check(self, parts: Sequence[OutputPart]) -> None:
        """Refuse parts that have other columns or types than the others, or other rows than were read."""
        first: pa.Schema | None = None
        for part in parts:
            with self.system.open(f"{self.folder}/{part.staged}", "rb") as stream:
                footer = pq.read_metadata(stream)
            check_rows(self.destination.path, footer.num_rows, part.rows)
            schema = footer.schema.to_arrow_schema()
            first = schema if first is None else first
            if schema != first:
                raise DataError(
                    f"Part {part.index} has other columns or types than the parts before it. The input's kept columns "
                    "must have one type in all of its files: convert them, or leave them out."
                )

    def _commit_file(self, parts: Sequence[OutputPart], columns: Sequence[str], facts: InputFacts) -> Manifest:
        """Assembled on this machine's disk as any output, then uploaded: the list first, the manifest last."""
        destination = self.destination
        with tempfile.TemporaryDirectory(prefix="dkernel-") as here:
            local = Destination(Path(here) / destination._name)
            with local.stage(self.job) as staging:
                for part in parts:
                    for name in (part.staged, *([part.rejects] if part.rejected else [])):
                        self.system.get_file(f"{self.folder}/{name}", str(staging.folder / name))
                manifest = staging.commit(parts, columns, facts)
            names = [manifest.rejects.name] if manifest.rejects else []
            for name in (*names, destination._name, f".{destination._name}.manifest.json"):
                self.system.put_file(str(Path(here) / name), destination._beside(name))
            self._check_copies(
                posixpath.dirname(destination.root), {entry.name: entry.bytes for entry in manifest.files}
            )
        return manifest


AnyDestination = Destination | StoreDestination
AnyStaging = Staging | StoreStaging
