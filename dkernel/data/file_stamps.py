"""What tells a file or a Zarr store from another under its name: its bytes, and its date or version."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

# Names that file systems give to the version or the date of a file, the surest first.
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "Last-Modified", "updated", "created")
_DATES_OF_FILES = ("LastModified", "last_modified", "mtime", "updated", "created")
UNKNOWN = -1  # bytes of a file whose server makes it as it is sent
ZARR_HEADS = {"zarr.json", ".zarray", ".zgroup"}  # one of which every Zarr folder has
BY_CONTENT = "sha256 "  # begins the stamp of a file of which a server says neither its bytes nor its version or date


def stamp_file(path: str, options: Mapping[str, Any] = MappingProxyType({})) -> tuple[int, str]:
    """Bytes, or UNKNOWN, and stamp of a file, or of a Zarr store, whose stamp begins with the newest date of its files.

    Raises
    ------
    OSError, ValueError
        if it is not there, or a folder that is no Zarr store
    """
    if "://" not in path:
        if os.path.isdir(path):
            return _stamp_of_folder(path)
        status = os.stat(path)
        return status.st_size, str(status.st_mtime_ns)
    system, inner = _reach(path, options)
    if not system.isdir(inner):
        info = system.info(inner)
        size, version = info.get("size"), _version(info)
        if size is None and not version:
            with system.open(inner, "rb") as file:
                version = BY_CONTENT + digest_of(file)
        return UNKNOWN if size is None else int(size), version
    files = system.find(inner, detail=True)
    _check_heads(map(os.path.basename, files))
    newest = max(map(_date_ns, files.values()))
    versions = sorted((name, int(info.get("size") or 0), _version(info)) for name, info in files.items())
    digest = hashlib.sha256(repr(versions).encode()).hexdigest()[:32]
    return sum(size for _, size, _ in versions), f"{newest} {digest}"


def digest_of(file: Any) -> str:
    """The sha256 of what is left of an open file."""
    digest = hashlib.sha256()
    while block := file.read(2**20):
        digest.update(block)
    return digest.hexdigest()


def newest_inside(path: str, options: Mapping[str, Any], names: Iterable[str]) -> int:
    """The newest date, in ns, of a store's folder and of some of its files; 0 where a file system has no dates.

    On a disk the folder stands for a file that is not there: removing a file changes its date.
    """
    if "://" not in path:
        return max(os.stat(path).st_mtime_ns, *(_date_inside(os.path.join(path, name)) for name in names), 0)
    system, inner = _reach(path, options)
    return max((_date_ns(system.info(file)) for name in names if system.exists(file := f"{inner}/{name}")), default=0)


def date_text(stamp: str) -> str:
    """The date of a local file or store, to be read by people."""
    return datetime.fromtimestamp(int(stamp) / 1e9, UTC).isoformat(" ", "seconds")


def _reach(path: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    import fsspec

    system, inner = fsspec.core.url_to_fs(path, **options)
    system.invalidate_cache()
    return system, inner


def _stamp_of_folder(path: str) -> tuple[int, str]:
    size, newest, names = 0, 0, []
    for folder, _, files in os.walk(path):
        stats = [os.stat(os.path.join(folder, name)) for name in files]
        size += sum(each.st_size for each in stats)
        newest = max(newest, os.stat(folder).st_mtime_ns, *(each.st_mtime_ns for each in stats), 0)
        names += files
    _check_heads(names)
    return size, str(newest)


def _check_heads(names: Iterable[str]) -> None:
    if ZARR_HEADS.isdisjoint(names):
        raise ValueError("a folder that is not a Zarr store")


def _date_inside(file: str) -> int:
    while not os.path.exists(file):
        file = os.path.dirname(file)
    return os.stat(file).st_mtime_ns


def _version(info: Mapping[str, Any]) -> str:
    return next((str(info[name]) for name in _STAMPS if name in info), "")


def _date_ns(info: Mapping[str, Any]) -> int:
    date = next((info[name] for name in _DATES_OF_FILES if info.get(name)), 0)
    if isinstance(date, str):
        date = datetime.fromisoformat(date)
    return int((date.timestamp() if isinstance(date, datetime) else float(date)) * 1e9)
