"""From what the user names (a file, several, a folder, a glob, an fsspec URL) to the files, in order.

A folder's files and a glob's come in natural order (part.2 before part.10); names that begin with '_' or '.' are no
data.
"""

import glob
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dkernel.errors import DataError

__all__ = ["FORMATS", "File", "expand", "natural"]

# ending -> format; the format is also the name of the module that reads it.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npy",
    ".zarr": "zarr",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_COMPRESSIBLE = ("csv", "svmlight")


@dataclass(frozen=True)
class File:
    """One file as it was when the source was opened; `check` refuses it once it has changed.

    `name` is what the user called it; `stamp` is its mtime in ns (local) or its etag or date (remote); a Zarr store is
    one file. `origin` is set on a scratch copy: the file it was made from.
    """

    path: str
    size: int
    stamp: str
    format: str
    compression: str = ""
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: "File | None" = None

    @property
    def local(self) -> bool:
        """Whether it is a path of a mounted file system."""
        return "://" not in self.path

    @property
    def suffix(self) -> str:
        """The ending without the compression, in small letters: '.tsv' of 'A.TSV.gz'."""
        return _split(self.path)[0]

    def open(self) -> Any:
        """A binary file to read from."""
        if self.local:
            return open(self.path, "rb")
        import fsspec

        return fsspec.open(self.path, "rb", **self.options).open()

    def read(self, first: int, stop: int) -> bytes:
        """The bytes first .. stop - 1."""
        with self.open() as opened:
            opened.seek(first)
            data: bytes = opened.read(stop - first)
        return data

    def key(self, purpose: str, *more: Any) -> str:
        """A name for a task on this file as it is now: the same task, the same name."""
        text = repr((self.path, self.size, self.stamp, *more))
        return f"dkernel-{purpose}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def check(self) -> None:
        """Refuse the file if it is gone or not the one that was opened; of a scratch copy, the original too."""
        if self.origin is not None:
            self.origin.check()
        try:
            now = _stat(self.path, self.options)
        except (OSError, ValueError) as error:
            where = " on this worker: --scratch must name a folder that every worker sees" if self.origin else ""
            raise DataError(f"{self.name}: the file is gone since it was opened{where} ({error}).") from None
        if now != (self.size, self.stamp):
            raise DataError(
                f"{self.name}: the file changed since it was opened (then {self.size} bytes, now {now[0]}). "
                "Leave the data alone while they are used, and start again."
            )


def natural(name: str) -> list[tuple[int, int | str]]:
    """Sort key that counts: 'part.2' before 'part.10'.

    Examples
    --------
    >>> sorted(["part.10", "part.2"], key=natural)
    ['part.2', 'part.10']
    """
    return [(0, int(t)) if t.isdigit() and t.isascii() else (1, t) for t in re.split(r"([0-9]+)", name) if t]


def expand(
    paths: str | os.PathLike | Sequence[str | os.PathLike], storage_options: Mapping[str, Any] | None = None
) -> list[File]:
    """The files that `paths` name, in order; a missing, empty or unreadable one is a DataError that names it."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise DataError("No data were named: give a file, a folder, a glob or a URL.")
    options = dict(storage_options or {})
    files: list[File] = []
    for item in listed:
        text = os.fspath(item).removeprefix("file://")
        found = _remote(text, options) if "://" in text else _local(text)
        files.extend(_file(path, options if "://" in path else {}) for path in found)
    return files


def _hidden(path: str) -> bool:
    return path.rstrip("/").rsplit("/", 1)[-1].startswith(("_", "."))


def _local(path: str) -> list[str]:
    if os.path.isdir(path):
        return (
            [path] if _split(path)[0] == ".zarr" else _folder(path, [os.path.join(path, n) for n in os.listdir(path)])
        )
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        return _matches(path, glob.glob(path, recursive=True))
    raise DataError(f"{path}: there is no such file or folder.{_nearby(path)}")


def _nearby(path: str) -> str:
    from dkernel.checks import nearest_name

    folder = os.path.dirname(path) or "."
    return nearest_name(os.path.basename(path), sorted(os.listdir(folder))) if os.path.isdir(folder) else ""


def _remote(url: str, options: Mapping[str, Any]) -> list[str]:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise DataError(f"{url}: this kind of address cannot be read ({error}).") from None
    if glob.has_magic(path):
        found = _matches(url, [str(p) for p in system.glob(path)])
    elif system.isdir(path) and _split(path)[0] != ".zarr":
        found = _folder(url, [str(entry["name"]) for entry in system.ls(path, detail=True)], system.isdir)
    else:
        found = [path]
    return [str(system.unstrip_protocol(p)) for p in found]


def _matches(pattern: str, found: list[str]) -> list[str]:
    kept = sorted((p for p in found if not _hidden(p)), key=natural)
    if not kept:
        raise DataError(f"{pattern}: no file matches.")
    return kept


def _folder(name: str, entries: list[str], isdir: Any = os.path.isdir) -> list[str]:
    kept = sorted((p for p in entries if not _hidden(p)), key=natural)
    inner = [p for p in kept if _split(p)[0] != ".zarr" and isdir(p)]
    if inner:
        raise DataError(f"{name}: the folder holds folders ({inner[0]}); name the files by a glob, '{name}/*/*'.")
    if not kept:
        raise DataError(f"{name}: the folder holds no data files.")
    return kept


def _split(path: str) -> tuple[str, str]:
    lower = path.rstrip("/").lower()
    compression = next((c for c in COMPRESSIONS if lower.endswith(c)), "")
    return os.path.splitext(lower.removesuffix(compression))[1], compression.lstrip(".")


def _file(path: str, options: Mapping[str, Any]) -> File:
    ending, compression = _split(path)
    format_ = FORMATS.get(ending)
    if format_ is None or (compression and format_ not in _COMPRESSIBLE):
        known = ", ".join([*FORMATS, ".csv.gz", ".svmlight.gz"])
        raise DataError(f"{path}: the ending says no format that can be read; known are {known}.")
    try:
        size, stamp = _stat(path, options)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: the file cannot be read ({error}).") from None
    if size == 0:
        raise DataError(f"{path}: the file is empty (0 bytes).")
    # A worker has a working folder of its own; messages keep the name that the user gave.
    place = path if "://" in path else os.path.abspath(path)
    return File(place, size, stamp, format_, compression, path, options)


# What file systems call the version or the date of a file, the surest first.
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "updated", "created")


def _stat(path: str, options: Mapping[str, Any]) -> tuple[int, str]:
    if "://" not in path:
        return _stat_store(path) if os.path.isdir(path) else _stat_local(path)
    import fsspec

    system, inner = fsspec.core.url_to_fs(path, **options)
    system.invalidate_cache()
    if system.isdir(inner):
        found = [f"{inner}/{n}" for n in _STORE_HEADS if system.exists(f"{inner}/{n}")]
        if not found:
            raise ValueError("a folder that is no Zarr store")
        inner = found[0]
    info = system.info(inner)
    stamp = next(
        (str(info[k]) for k in ("ETag", "etag", "mtime", "LastModified", "updated", "created") if k in info), ""
    )
    return int(info.get("size") or 0), stamp


def _stat_local(path: str) -> tuple[int, str]:
    found = os.stat(path)
    return found.st_size, str(found.st_mtime_ns)


# A Zarr store is a folder of very many files: the heads of the store and of its arrays stand for all.
_STORE_HEADS = ("zarr.json", ".zarray", ".zgroup")


def _stat_store(path: str) -> tuple[int, str]:
    store = Path(path)
    heads = sorted(p for n in _STORE_HEADS for p in (*store.glob(n), *store.glob(f"*/{n}")))
    if not heads:
        raise ValueError("a folder that is no Zarr store")
    stats = [p.stat() for p in heads]
    return sum(s.st_size for s in stats), str(max(s.st_mtime_ns for s in stats))
