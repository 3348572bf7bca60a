"""Outputs that are complete or not there, in a folder of a disk or in an object store (s3://, gs://, ...).

    .NAME.staging-JOB/            a hidden sibling of NAME, so that the last step is a rename and never a copy
        lock                      held by the one client that works here; a dead client holds nothing
        .part-00007.UUID.partial  an attempt of a worker, or what is left of one
        part-00007.ROWS.SHA256    a finished part: its name is its record, so a part is finished in one rename, a
                                  late attempt can only add a file that nobody asked for, and a rerun finds what to keep
        rejects-00007.SHA256      the rows that a part has not, there before the part is
        output                    the folder that the client makes of the parts just before it appears as NAME
        .output.UUID.partial      or the single file (or Zarr folder), ...
        manifest.json             ... and its manifest

A folder holds its `_manifest.json` and an empty `_SUCCESS`, both in place before the folder appears. For one file, and
for Zarr, whose readers allow no other files inside, the manifest is the hidden sibling `.NAME.manifest.json`. It is
written just after the file has taken its name; after a kill between the two the next run finds it in the staging
folder, sees by the sha256 that it belongs to the file, and finishes. A manifest holds no time and no host: equal jobs
have equal outputs, manifest included.

Rejected rows are listed in `_rejects.csv` of a folder, else in `NAME.rejects-XXXXXXXX.csv` beside the output, with the
first digits of the output's sha256: it is there before the output appears, and no other output's list stood in its way.

An object store has no rename of folders and no locks, and shows an object when it has all of it. So a folder is filled
where it is. First goes what an older output has more than this one, while its own manifest still names it; then
`_manifest.json` says whose the folder is, so that a commit which was killed is gone on with; then come copies of the
parts, which the store makes, and `_SUCCESS` last: where it is everything is there, where it is not nobody should read.
Two clients with one job write the same bytes to the same names.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from dkernel.data.file_stamps import ZARR_HEADS
from dkernel.data.rejected_rows import csv_of_files, rows_of_csv, to_csv
from dkernel.data.store import Store, is_url, locate, open_filesystem, plain_path
from dkernel.data.writers.atomic import (
    check_no_device,
    explain_os_errors,
    file_digest,
    is_empty_folder,
    is_staged,
    lock_in,
    replacing,
    restore,
    staged_name,
    sync_tree,
)
from dkernel.data.writers.formats import choose_format
from dkernel.data.writers.manifest import (
    MANIFEST_VERSION,
    Entry,
    InputFacts,
    Manifest,
    OutputPart,
    PartWriter,
    check_rows,
    read_manifest,
)
from dkernel.data.writers.partitions import Partitioned
from dkernel.errors import ClusterError, DataError, UnsupportedError

REJECTS_NAME = "_rejects.csv"
_SUCCESS = "_SUCCESS"


class Destination:
    """The place of an output, a path or a URL, and whether this job's output is there already.

    `with destination.stage(job) as staging:` writes parts by `staging.part_writer(...)` and ends with `staging.commit`.

    Examples
    --------
    >>> Destination("scores.csv").complete({"model": "1f"}) is None
    True
    >>> Destination("memory://bucket/scores").path
    'memory://bucket/scores'
    """

    def __init__(self, path: str | os.PathLike[str], overwrite: bool = False, partition_by: Sequence[str] = ()) -> None:
        text = plain_path(path)
        if is_url(text):
            open_filesystem(text)  # refuses what no file system takes
        else:
            check_no_device(text)
        # The target of a link, so that staging lies on the file system of the output itself.
        self.beside, self.name = locate(text.rstrip("/") if is_url(text) else Path(text).resolve())
        self.path, self.overwrite = self.beside.path(self.name), overwrite
        self.format = choose_format(Path(self.name))
        if partition_by:
            if not self.format.folder:
                raise UnsupportedError("An output that is divided is a folder. Give a name without an ending.")
            self.format = Partitioned(partition_by)
        if self.beside.renames:
            self._check_on_disk(Path(self.path))
        else:
            self._check_in_store()
        self.home = self.beside.within(self.name) if self.format.folder else self.beside  # of all that is listed
        self.manifest_name = "_manifest.json" if self.format.folder else f".{self.name}.manifest.json"

    def _check_on_disk(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise DataError(f"{path}: the folder {path.parent} is not there. Make it, or choose another place.")
        if path.exists() and path.is_dir() != (self.format.folder or self.format.ending == ".zarr"):
            kind, needed = ("a folder", "a file") if path.is_dir() else ("a file", "a folder")
            raise DataError(f"{path} is {kind}, and this output is {needed}. Choose another name.")

    def _check_in_store(self) -> None:
        if isinstance(self.format, Partitioned):
            raise UnsupportedError(
                f"{self.path}: an output in a store is not divided. Write it to a folder, and copy that."
            )
        if self.format.ending == ".zarr":
            raise UnsupportedError(
                f"{self.path}: a Zarr group is many objects that cannot appear as one. Choose .parquet, .csv or .npy, "
                "or a name without an ending for a folder of Parquet files."
            )

    def complete(self, job: Mapping[str, str]) -> Manifest | None:
        """The manifest if the output of this job is there, whole; None if its place is free, or may be overwritten.

        Refuses whatever else stands there. What a kill left of the last steps of a commit is finished here.
        """
        staged = self.staging(job)
        with explain_os_errors(self.path):
            if self.beside.renames:
                restore(Path(self.path))
            if self._is_free():
                return None
            for store, name in ((self.home, self.manifest_name), (staged, "manifest.json")):
                manifest = read_manifest(store, name)
                if manifest is not None and manifest.job == dict(job) and self._holds(manifest, store is staged):
                    if store is staged:
                        self.take_manifest(staged)
                    self.sweep(manifest)
                    return manifest
            self._check_replaceable(job)
        return None

    def take_manifest(self, staged: Store) -> None:
        """Let the manifest that is staged appear, so that a kill leaves nothing beside it."""
        with staged.workplace(["manifest.json"]) as here:
            self.home.take(here / "manifest.json", self.manifest_name)

    def _is_free(self) -> bool:
        if self.beside.renames:
            return not self.beside.has(self.name) or is_empty_folder(Path(self.path))
        # Listed, because some file systems answer that nothing is there when they could not look.
        return not self._list_files() if self.format.folder else self.name not in self.beside.files()

    def _list_files(self) -> set[str]:
        """The names of the files in an output that is a folder, without what a kill left of an upload."""
        names = self.beside.within(self.name).files()
        return {name for name in names if self.beside.renames or not is_staged(name)}

    def _holds(self, manifest: Manifest, read: bool) -> bool:
        """True if the output equals its manifest: byte for byte on a disk, or where `read`."""
        if self.format.folder:
            names = self._list_files()
            shown = sorted(name for name in names if name[0] not in "._")
            if shown != [entry.name for entry in manifest.files] or _SUCCESS not in names:
                return False
        listed = [] if manifest.rejects is None else [manifest.rejects]
        return not self.home.find_changed(_digests([*manifest.files, *listed]), read)

    def companions(self) -> list[str]:
        """The files beside the output that its commit replaces or removes: its manifest, and lists of rejected rows."""
        names = [] if self.format.folder else [self.manifest_name, *self._list_rejects()]
        return [self.home.path(name) for name in names]

    def _list_rejects(self) -> list[str]:
        listed = re.compile(re.escape(self.name) + r"\.rejects-[0-9a-f]{8}\.csv")
        return list(filter(listed.fullmatch, self.beside.names()))

    def _check_replaceable(self, job: Mapping[str, str]) -> None:
        manifest, names = read_manifest(self.home, self.manifest_name), self._list_files()
        differing = sorted(k for k in {*job, *manifest.job} if job.get(k) != manifest.job.get(k)) if manifest else []
        begun = not self.beside.renames and self.format.folder and _SUCCESS not in names
        if not self.overwrite and (manifest is None or differing or not begun):
            why = f"and comes from another job (different: {', '.join(differing)})"
            if not differing:
                why = "and was changed since it was written" if manifest else "and has no manifest of dkernel's"
            raise DataError(f"{self.path} already exists {why}. Choose another name, or give overwrite=True.")
        if self.format.folder:
            files = manifest.files if manifest else ()
            names -= {self.manifest_name, _SUCCESS, REJECTS_NAME, *(entry.name for entry in files)}
        elif names & ZARR_HEADS:
            names = set()
        if names:
            raise DataError(
                f"{self.path} holds files that dkernel did not write ({', '.join(sorted(names)[:3])}), and "
                "overwriting would delete them. Choose another name, or move them away."
            )

    def staging(self, job: Mapping[str, str]) -> Store:
        """The staging folder of a job, hidden beside the output."""
        text = json.dumps({"protocol": MANIFEST_VERSION, **job}, sort_keys=True)
        return self.beside.within(f".{self.name}.staging-{hashlib.sha256(text.encode()).hexdigest()[:16]}")

    def stage(self, job: Mapping[str, str]) -> AbstractContextManager["Staging"]:
        """The staging folder of this job; a context manager, on a disk for one client at a time."""
        staging = Staging(self, job)
        return staging.lock() if self.beside.renames else nullcontext(staging)

    def sweep(self, manifest: Manifest) -> None:
        """Remove what is staged for this output and no job works on, and lists of outputs that are gone.

        In a store nobody can tell whether other jobs live, so theirs stays.
        """
        if not self.beside.renames:
            self.staging(manifest.job).remove_all()
            return
        for name in self._list_rejects():
            if manifest.rejects is None or name != manifest.rejects.name:
                self.beside.remove(name)
        for folder, is_idle in self.list_stagings():
            if is_idle:
                shutil.rmtree(folder, ignore_errors=True)

    def list_stagings(self) -> Iterator[tuple[Path, bool]]:
        """The staging folders on a disk, each with True if nobody works there, nor can as long as this is at it."""
        for folder in Path(self.path).parent.iterdir():
            if folder.name.startswith(f".{self.name}.staging-"):
                lock = lock_in(folder)
                yield folder, lock is not None
                if lock is not None:
                    os.close(lock)


def _digests(entries: Sequence[Entry]) -> dict[str, tuple[int, str]]:
    return {entry.name: (entry.bytes, entry.sha256) for entry in entries}


class Staging:
    """The staging folder of one job at one destination; `Destination.stage` opens it."""

    def __init__(self, destination: Destination, job: Mapping[str, str]) -> None:
        self.destination, self.job = destination, dict(job)
        self.store = destination.staging(job)
        self._keeps_parts = True

    @contextmanager
    def lock(self) -> Iterator["Staging"]:
        """Make the folder on a disk, for this client alone; another one that is alive is refused."""
        folder = Path(self.store.where)
        with explain_os_errors(self.destination.path):
            folder.mkdir(exist_ok=True)
            if folder.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
            if (lock := lock_in(folder)) is None:
                raise self._busy("of the same command")
        try:
            with explain_os_errors(self.destination.path):
                others = (other for other, is_idle in self.destination.list_stagings() if not is_idle)
                if any(other != folder and other.is_dir() for other in others):
                    raise self._busy("with another model or other rows")
                self.store.within("output").remove_all()  # of a commit that was killed half way
            yield self
        finally:
            # Finished parts stay for a rerun; nothing else is left on the disk.
            if not (self._keeps_parts and any(OutputPart.of_name(name, 0) for name in self.store.names())):
                self.store.remove_all()
            os.close(lock)

    def _busy(self, which: str) -> ClusterError:
        return ClusterError(
            f"{self.destination.path} is being written by another run {which}, which is still running. Wait for it, "
            "or stop it; then run the command again."
        )

    def discard(self) -> None:
        """Remove all of it: bad data are mended by other data, which are another job, so no job would come back.

        A worker may finish a part meanwhile: it is removed at the end.
        """
        self._keeps_parts = False
        self.store.remove_all()

    def part_writer(self, index: int, rows: int) -> PartWriter:
        """The writer of part `index`."""
        return PartWriter(self.store.where, index, rows, self.destination.format)

    def finished(self, rows: Sequence[int]) -> dict[int, OutputPart]:
        """The parts that an earlier run finished; on a disk damaged ones and leftovers are removed.

        Parameters
        ----------
        rows : rows of every part of the job
        """
        with explain_os_errors(self.destination.path):
            parts: dict[int, OutputPart] = {}
            for part in self.find_parts():
                if part.index < len(rows) and rows[part.index] == part.rows + part.rejected:
                    parts.setdefault(part.index, part)
            kept = {name for part in parts.values() for name in (part.staged, part.rejects)}
            for name in self.store.names() if self.store.renames else ():
                if name.endswith(".partial") or (name.startswith(("part-", "rejects-")) and name not in kept):
                    self.store.within(name).remove_all()  # of Zarr
                    self.store.remove(name)
        return parts

    def find_parts(self) -> list[OutputPart]:
        """The finished parts that are there as their names say, with what their rows were."""
        there = self.store.files()
        parts = [part for name in sorted(there) if (part := OutputPart.of_name(name, there[name]))]
        needed = {part.staged: (part.bytes, part.sha256) for part in parts}
        needed |= {part.rejects: (there.get(part.rejects, 0), part.rejects_sha256) for part in parts if part.rejected}
        changed = self.store.find_changed(needed)
        whole: list[OutputPart] = []
        for part in parts:
            content = self.store.read(part.seen_name) if part.seen_name in there else b"{}"
            try:
                seen = json.loads(content)
            except ValueError:
                continue  # it is made again
            if isinstance(seen, dict) and not changed & {part.staged, part.rejects}:
                whole.append(replace(part, seen=seen))
        return whole

    def rejected(self, parts: Sequence[OutputPart]) -> Iterator[Sequence[str]]:
        """Reasons of all rejected rows of these parts, in order."""
        for part in parts:
            if part.rejected:
                with explain_os_errors(self.destination.path):
                    content = self.store.read(part.rejects)
                yield from rows_of_csv(content)

    def commit(self, parts: Sequence[OutputPart], columns: Sequence[str], facts: InputFacts | None = None) -> Manifest:
        """Make the output of all its parts and let it appear.

        Parameters
        ----------
        parts : in the order of their rows
        columns : the names of the output's columns
        facts : of the input, for the manifest; the list of rejected rows names its bad files too
        """
        destination, facts = self.destination, facts or InputFacts()
        with explain_os_errors(destination.path):
            manifest = destination.complete(self.job)  # another client may have come meanwhile
            if manifest is None:
                self._check_there(parts)
                written = [part for part in parts if part.rows] or list(parts[:1])
                if destination.format.folder:
                    manifest = self._commit_folder(parts, written, facts)
                else:
                    manifest = self._commit_file(parts, written, columns, facts)
            self.store.remove_all()
            destination.sweep(manifest)
        return manifest

    def _look_again(self) -> Manifest | None:
        """The manifest if another client has finished this job meanwhile; refuses what else has appeared."""
        return None if self.destination.overwrite else self.destination.complete(self.job)

    def _check_there(self, parts: Sequence[OutputPart]) -> None:
        names, there = [part.staged for part in parts], self.store.files()
        names += [part.rejects for part in parts if part.rejected]
        # One by one too: over a network a listing may be older than what other machines have just made.
        if missing := [name for name in names if name not in there and not self.store.has(name)]:
            raise ClusterError(
                f"{self.store.where} no longer has {missing[0]}, which a worker finished. Someone removed it, or a "
                "worker's disk is another than the client's: an output must lie where all see it. Run the same command "
                "again."
            )

    def _commit_file(
        self, parts: Sequence[OutputPart], written: Sequence[OutputPart], columns: Sequence[str], facts: InputFacts
    ) -> Manifest:
        destination, form = self.destination, self.destination.format
        with self.store.workplace([part.staged for part in written]) as here:
            staged, output = [here / part.staged for part in written], here / staged_name("output")
            form.assemble(staged, columns, output)
            sync_tree(output)
            rows = sum(part.rows for part in written)
            check_rows(destination.path, form.count_output(output), rows)
            entry = Entry(destination.name, rows, *file_digest(output))
            listed = f"{entry.name}.rejects-{entry.sha256[:8]}.csv"
            manifest = self._make_manifest((entry,), parts, facts, here, listed)
            self.store.write("manifest.json", manifest.to_bytes())
            if (other := self._look_again()) is not None:
                return other
            if manifest.rejects is not None:
                destination.home.take(here / REJECTS_NAME, listed)
            if not destination.home.renames:  # bytes of two outputs may be as many: the old manifest holds no more
                destination.home.remove(destination.manifest_name)
            destination.home.take(output, entry.name)
            self._check_uploads(manifest)
            destination.take_manifest(self.store)
        return manifest

    def _commit_folder(self, parts: Sequence[OutputPart], written: Sequence[OutputPart], facts: InputFacts) -> Manifest:
        destination, form, renames = self.destination, self.destination.format, self.store.renames
        folder = self.store.within("output") if renames else destination.home
        with self.store.workplace() as here:
            if renames:
                (here / "output").mkdir()
            named: dict[str, OutputPart] = {}
            if isinstance(form, Partitioned):
                entries = self._divide(form, written, here)
            else:
                width = max(5, len(str(len(written) - 1)))
                named = {f"part-{number:0{width}d}.parquet": part for number, part in enumerate(written)}
                entries = tuple(Entry(name, part.rows, part.bytes, part.sha256) for name, part in named.items())
            manifest = self._make_manifest(entries, parts, facts, here, REJECTS_NAME)
            if not renames and (other := self._look_again()) is not None:
                return other
            folder.remove(_SUCCESS)
            # Before the new manifest: a rerun removes nothing that the manifest it finds does not name.
            for old in folder.files().keys() - {destination.manifest_name, *(entry.name for entry in entries)}:
                folder.remove(old)
            folder.write(destination.manifest_name, manifest.to_bytes())
            if manifest.rejects is not None:
                folder.take(here / REJECTS_NAME, REJECTS_NAME)
            for name, part in named.items():
                self.store.give(part.staged, folder, name)
            self._check_uploads(manifest)
            folder.write(_SUCCESS, b"")
            if renames:
                if (other := self._look_again()) is not None:
                    return other
                destination.beside.take(here / "output", destination.name)
        return manifest

    def _divide(self, form: Partitioned, written: Sequence[OutputPart], here: Path) -> tuple[Entry, ...]:
        """Write the files of a divided output, which is on a disk."""
        output = here / "output"
        files = form.divide([here / part.staged for part in written], output)
        sync_tree(output)
        count = sum(form.count_output(output / name) for name, _ in files)
        check_rows(self.destination.path, count, sum(part.rows for part in written))
        return tuple(Entry(name, rows, *file_digest(output / name)) for name, rows in files)

    def _check_uploads(self, manifest: Manifest) -> None:
        """Refuse objects of a store that are not as large as what they were made of."""
        home = self.destination.home
        if not home.renames and (wrong := home.find_changed(_digests(manifest.files))):
            raise ClusterError(f"{home.path(min(wrong))} is not whole in the store. Run the same command again.")

    def _make_manifest(
        self, files: tuple[Entry, ...], parts: Sequence[OutputPart], facts: InputFacts, here: Path, listed: str
    ) -> Manifest:
        """The manifest; files and rows that are left out are in REJECTS_NAME `here`, which will be called `listed`."""
        manifest = Manifest(self.job, files, sum(part.rejected for part in parts), facts=facts)
        if not manifest.rejected and not facts.bad_files:
            return manifest
        with replacing(here / REJECTS_NAME) as stream:
            stream.write(to_csv(None) + csv_of_files(facts.bad_files))
            for part in parts:
                if part.rejected:
                    with self.store.reading(part.rejects) as source:
                        shutil.copyfileobj(source, stream, 1 << 20)
        entry = Entry(listed, manifest.rejected + len(facts.bad_files), *file_digest(here / REJECTS_NAME))
        return replace(manifest, rejects=entry)
