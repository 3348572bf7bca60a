"""Outputs that are complete or not there: parts are staged beside the destination, and one rename makes them appear.

    .NAME.staging-JOB/            a hidden sibling of NAME, so that the last step is a rename and never a copy
        lock                      held by the one client that works here; a dead client holds nothing
        .part-00007.UUID.partial  an attempt of a worker, or what is left of one
        part-00007.ROWS.SHA256    a finished part: its name is its record, so a part is finished in one rename, a
                                  late attempt can only add a file that nobody asked for, and a rerun finds what to keep
        rejects-00007.SHA256      the rows that a part has not, there before the part is
        moved.json                the records of the parts that are in the output already
        output                    what the client makes of the parts just before it appears as NAME
        manifest.json             and its manifest, when the output is a single file (or a Zarr folder)

A folder holds its `_manifest.json` and an empty `_SUCCESS`, both in place before the folder appears. For one file, and
for Zarr, whose readers allow no other files inside, the manifest is the hidden sibling `.NAME.manifest.json`. It takes
its name just after the file has taken its own; a kill between the two leaves it in the staging folder, where the
next run finds it, sees by the sha256 that it belongs to the file, and finishes the move. A manifest holds no time and
no host: equal jobs have equal outputs, manifest included.

Rejected rows are listed in `_rejects.csv` of a folder, else in `NAME.rejects-XXXXXXXX.csv` beside the output, with the
first digits of the output's sha256: it is there before the output appears, and no other output's list stood in its way.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from dkernel.data.rejected_rows import csv_of_files, rows_of_csv, to_csv
from dkernel.data.writers.atomic import (
    check_no_device,
    explain_os_errors,
    file_digest,
    is_empty_folder,
    lock_in,
    rename_into_place,
    replacing,
    restore,
    staged_name,
    sync,
    sync_tree,
    write_file,
)
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
    read_manifest,
    refuse_other,
    staging_name,
)
from dkernel.data.writers.partitions import Partitioned, files_in
from dkernel.errors import ClusterError, DataError, UnsupportedError

REJECTS_NAME = "_rejects.csv"


def names_in_folder(manifest: Manifest | None) -> set[str]:
    """The names of the files in the folder of an output: those of its manifest, and what every folder has."""
    files = manifest.files if manifest else ()
    return {"_manifest.json", "_SUCCESS", REJECTS_NAME, *(entry.name for entry in files)}


class Destination:
    """The place of an output, and whether this job's output is there already.

    `with destination.stage(job) as staging:` writes parts by `staging.part_writer(...)` and ends with `staging.commit`.

    Examples
    --------
    >>> Destination("scores.csv").complete({"model": "1f"}) is None
    True
    """

    def __init__(self, path: str | os.PathLike[str], overwrite: bool = False, partition_by: Sequence[str] = ()) -> None:
        if "://" in os.fspath(path):
            raise UnsupportedError(
                f"{os.fspath(path)}: an output is written to a file system, where a rename makes it appear as a whole. "
                "Give a local or shared folder, and copy the finished output from there."
            )
        # The target of a link, so that staging lies on the file system of the output itself.
        self.path = Path(path).resolve()
        check_no_device(self.path)
        self.overwrite = overwrite
        self.format = choose_format(self.path)
        if partition_by:
            self.format = Partitioned.of(partition_by, self.format)
        if not self.path.parent.is_dir():
            raise DataError(
                f"{self.path}: the folder {self.path.parent} is not there. Make it, or choose another place."
            )
        if self.path.exists() and self.path.is_dir() != (self.format.folder or self.format.ending == ".zarr"):
            kind, needed = ("a folder", "a file") if self.path.is_dir() else ("a file", "a folder")
            raise DataError(f"{self.path} is {kind}, and this output is {needed}. Choose another name.")

    @property
    def _manifest(self) -> Path:
        if self.format.folder:
            return self.path / "_manifest.json"
        return self.path.with_name(f".{self.path.name}.manifest.json")

    def _staging(self, job: Mapping[str, str]) -> Path:
        return self.path.with_name(staging_name(self.path.name, job))

    def complete(self, job: Mapping[str, str]) -> Manifest | None:
        """The manifest if the output of this job is there, whole; None if its place is free, or may be overwritten.

        Refuses whatever else stands there. What a kill left of the last steps of a commit is finished here.
        """
        staged = self._staging(job) / "manifest.json"
        with explain_os_errors(self.path):
            restore(self.path)
            if not self.path.exists() or is_empty_folder(self.path):
                return None
            for candidate in (self._manifest, staged):
                manifest = read_manifest(candidate)
                if manifest is not None and manifest.job == dict(job) and self._holds(manifest):
                    if candidate == staged:
                        os.replace(staged, self._manifest)
                        sync(self.path.parent)
                    self._sweep(manifest)
                    return manifest
            self._check_replaceable(job)
        return None

    def _holds(self, manifest: Manifest) -> bool:
        """True if the output equals its manifest, byte for byte."""
        if self.format.folder:
            names = [name for name in files_in(self.path) if name[0] not in "._"]
            if names != [entry.name for entry in manifest.files] or not (self.path / "_SUCCESS").exists():
                return False
            files = [self.path / entry.name for entry in manifest.files]
        else:
            files = [self.path]
        entries = list(manifest.files)
        if manifest.rejects is not None:
            files.append(self.rejects(manifest.rejects))
            entries.append(manifest.rejects)
        return all(
            file.exists() and file_digest(file) == (entry.bytes, entry.sha256)
            for file, entry in zip(files, entries, strict=True)
        )

    def rejects(self, entry: Entry) -> Path:
        """Path of the list of rejected rows."""
        return (self.path if self.format.folder else self.path.parent) / entry.name

    def companions(self) -> list[Path]:
        """The files beside the output that its commit replaces or removes: its manifest, and lists of rejected rows."""
        return [] if self.format.folder else [self._manifest, *self._lists()]

    def _lists(self) -> list[Path]:
        listed = re.compile(re.escape(self.path.name) + r"\.rejects-[0-9a-f]{8}\.csv")
        return [path for path in self.path.parent.iterdir() if listed.fullmatch(path.name)]

    def _check_replaceable(self, job: Mapping[str, str]) -> None:
        manifest = read_manifest(self._manifest)
        if not self.overwrite:
            refuse_other(self.path, job, manifest)
        foreign = self._foreign(manifest)
        if foreign:
            raise DataError(
                f"{self.path} is a folder with files that dkernel did not write ({', '.join(foreign[:3])}), and "
                "overwriting would delete them. Choose another name, or move them away."
            )

    def _foreign(self, manifest: Manifest | None) -> list[str]:
        if not self.path.is_dir():
            return []
        if not self.format.folder:
            names = sorted(p.name for p in self.path.iterdir())
            return [] if {"zarr.json", ".zgroup", ".zarray"} & set(names) else names
        return [name for name in files_in(self.path) if name not in names_in_folder(manifest)]

    def stage(self, job: Mapping[str, str]) -> "Staging":
        """The staging folder of this job; a context manager, for one client at a time."""
        return Staging(self, job, self._staging(job))

    def _sweep(self, manifest: Manifest) -> None:
        """Remove the staging folders of this destination that no job works in, and lists of outputs that are gone."""
        for path in self._lists():
            if manifest.rejects is None or path.name != manifest.rejects.name:
                path.unlink(missing_ok=True)
        for folder in self._stagings():
            if (lock := lock_in(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)

    def is_written(self, but: Path) -> bool:
        """True if a client works in a staging folder of this destination `but` this one."""
        for folder in self._stagings():
            if folder != but:
                lock = lock_in(folder)
                if lock is None and folder.is_dir():
                    return True
                if lock is not None:
                    os.close(lock)
        return False

    def _stagings(self) -> list[Path]:
        return [f for f in self.path.parent.iterdir() if f.name.startswith(f".{self.path.name}.staging-")]


class Staging:
    """The staging folder of one job at one destination, while its one client works in it."""

    def __init__(self, destination: Destination, job: Mapping[str, str], folder: Path) -> None:
        self.destination, self.job, self.folder = destination, dict(job), folder

    def __enter__(self) -> "Staging":
        with explain_os_errors(self.destination.path):
            self.folder.mkdir(exist_ok=True)
            if self.folder.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.folder))
            lock = lock_in(self.folder)
            if lock is None:
                raise self._busy("of the same command")
            self._handle = lock
            if self.destination.is_written(but=self.folder):
                self._leave()
                raise self._busy("with another model or other rows")
            self._take_back()
        return self

    def _busy(self, which: str) -> ClusterError:
        return ClusterError(
            f"{self.destination.path} is being written by another run {which}, which is still running. Wait for it, "
            "or stop it; then run the command again."
        )

    def _leave(self) -> None:
        # Finished parts stay for a rerun; nothing else is left on the disk.
        if not any(OutputPart.is_name(path.name) or path.name == "moved.json" for path in self._staged_files()):
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def discard(self) -> None:
        """Remove all of it: bad data are mended by other data, which are another job, so no job would come back."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _staged_files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []

    def _take_back(self) -> None:
        """Give the parts of a commit that was killed half way their staged names again."""
        output, moved = self.folder / "output", self.folder / "moved.json"
        if moved.exists():
            for name, staged in json.loads(moved.read_bytes()).items():
                if (output / name).exists():
                    os.replace(output / name, self.folder / staged)
            moved.unlink()
        self._clear_output()

    def _clear_output(self) -> None:
        output = self.folder / "output"
        if output.is_dir():
            shutil.rmtree(output)
        else:
            output.unlink(missing_ok=True)

    def part_writer(self, index: int, rows: int) -> PartWriter:
        """The writer of part `index`."""
        form = self.destination.format
        keys = form.keys if isinstance(form, Partitioned) else ()
        return PartWriter(str(self.folder), index, rows, form.ending, keys)

    def finished(self, rows: Sequence[int]) -> dict[int, OutputPart]:
        """The parts that an earlier run finished, their bytes checked; damaged ones and leftovers are removed.

        Parameters
        ----------
        rows : rows of every part of the job
        """
        parts: dict[int, OutputPart] = {}
        with explain_os_errors(self.folder):
            for path in self._staged_files():
                part = OutputPart.of_file(path)
                if part and part.is_one_of(rows) and part.index not in parts:
                    parts[part.index] = part
                elif path.is_dir() and path.suffix == ".partial":
                    shutil.rmtree(path)
                elif path.suffix == ".partial" or OutputPart.is_name(path.name):
                    path.unlink()
            listed = {part.rejects for part in parts.values()}
            for path in self._staged_files():
                if path.name.startswith("rejects-") and path.name not in listed:
                    path.unlink()
        return parts

    def rejected(self, parts: Sequence[OutputPart]) -> Iterator[Sequence[str]]:
        """Reasons of all rejected rows of these parts, in order."""
        for part in parts:
            if part.rejected:
                yield from rows_of_csv((self.folder / part.rejects).read_bytes())

    def commit(self, parts: Sequence[OutputPart], columns: Sequence[str], facts: InputFacts | None = None) -> Manifest:
        """Make the output of all its parts and let it appear.

        Parameters
        ----------
        parts : in the order of their rows
        columns : the names of the output's columns
        facts : of the input, for the manifest; the list of rejected rows names its bad files too
        """
        destination, path = self.destination, self.destination.path
        with explain_os_errors(path):
            output, manifest = self._build(parts, columns, facts or InputFacts())
            if not destination.overwrite and path.exists() and not is_empty_folder(path):
                raise DataError(f"{path} appeared while this run was working. Choose another name, or overwrite it.")
            if manifest.rejects is not None and not destination.format.folder:
                os.replace(self.folder / REJECTS_NAME, destination.rejects(manifest.rejects))
                sync(path.parent)
            rename_into_place(output, path)
            if not destination.format.folder:
                os.replace(self.folder / "manifest.json", destination._manifest)
                sync(path.parent)
            shutil.rmtree(self.folder, ignore_errors=True)
            destination._sweep(manifest)
        return manifest

    def _build(self, parts: Sequence[OutputPart], columns: Sequence[str], facts: InputFacts) -> tuple[Path, Manifest]:
        form, path = self.destination.format, self.destination.path
        rejected = sum(part.rejected for part in parts)
        lists = [self.folder / part.rejects for part in parts if part.rejected]
        parts = [part for part in parts if part.rows] or list(parts[:1])
        staged = [self.folder / part.staged for part in parts]
        if missing := [p.name for p in (*staged, *lists) if not p.exists()]:
            raise ClusterError(
                f"{self.folder} no longer has {missing[0]}, which a worker finished. Someone removed it, or a worker's "
                "disk is another than the client's: an output must lie where all see it. Run the same command again."
            )
        form.agree(staged)
        self._clear_output()
        output = self.folder / "output"
        if not form.folder:
            rows = sum(part.rows for part in parts)
            attempt = self.folder / staged_name("output")
            form.assemble(staged, columns, attempt)
            os.rename(attempt, output)
            sync_tree(output)
            check_rows(path, form.count_output(output), rows)
            size, sha256 = file_digest(output)
            name = f"{path.name}.rejects-{sha256[:8]}.csv"
            listed = self._list(lists, rejected, facts.bad_files, self.folder / REJECTS_NAME, name)
            entries: tuple[Entry, ...] = (Entry(path.name, rows, size, sha256),)
            manifest = Manifest(self.job, entries, rejected, listed, facts)
            write_file(self.folder / "manifest.json", manifest.to_bytes())
            return output, manifest
        output.mkdir()
        named: dict[str, OutputPart] = {}
        if isinstance(form, Partitioned):
            entries = tuple(
                Entry(name, rows, *file_digest(output / name)) for name, rows in form.divide(staged, output)
            )
            sync_tree(output)
        else:
            named = name_parts(parts, form.staged)
            entries = list_entries(named)
        listed = self._list(lists, rejected, facts.bad_files, output / REJECTS_NAME, REJECTS_NAME)
        manifest = Manifest(self.job, entries, rejected, listed, facts)
        write_file(output / "_manifest.json", manifest.to_bytes())
        # Before the parts: it is what a rerun takes them back by.
        moves = {name: part.staged for name, part in named.items()}
        write_file(self.folder / "moved.json", json.dumps(moves).encode())
        for name, part in moves.items():
            os.replace(self.folder / part, output / name)
        check_rows(path, sum(form.count_output(output / entry.name) for entry in entries), sum(p.rows for p in parts))
        write_file(output / "_SUCCESS", b"")
        return output, manifest

    def _list(
        self, lists: Sequence[Path], rows: int, bad_files: Mapping[str, str], path: Path, name: str
    ) -> Entry | None:
        """Write the files and rows that are left out to `path`, which will be called `name`; None if there are none."""
        if not lists and not bad_files:
            return None
        with replacing(path) as stream:
            stream.write(to_csv(None) + csv_of_files(bad_files))
            for part in lists:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, stream, 1 << 20)
        return Entry(name, rows + len(bad_files), *file_digest(path))
