"""Where models, checkpoints, records and reports are kept: a folder of a disk, or a URL of what fsspec reaches.

    store, name = locate("s3://bucket/run/model.safetensors")
    with store.replacing(name) as file:
        file.write(content)

A file appears whole or not at all. On a disk it takes its name by a rename when all of it is there. An object store has
no rename and needs none: it shows an object when it has all of its bytes. Remote file systems (sftp, HDFS, ...) show
what has come so far, so there the file comes under a hidden name first.
"""

import contextlib
import errno
import os
import posixpath
import re
import shutil
import stat
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar

from dkernel.data.writers.atomic import explain_os_errors, file_digest, rename_into_place, replacing, staged_name
from dkernel.errors import DataError, DKernelError, StoreError, UnsupportedError, mask_urls

OBJECT_STORES = {
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "r2", "hf", "memory"),
}
"""Protocols of fsspec under which an object is there with all of its bytes or not at all."""
_KEYS = re.compile(r"\b(s3|s3a|gs|gcs|r2)://[^/]*@")  # no name of a bucket has this sign
_REFUSED_FOR_EVER = re.compile(r"4(?!08|25|29)..|501|505")  # statuses of HTTP that are the same in a repetition
_ARCHIVE = re.compile(r"(?:^|::)(?:zip|tar|libarchive)://")
_HEADER_BYTES = 2**20  # that are fetched at one time of a file whose first bytes are read


class Store(ABC):
    """A folder of files, none of which is ever seen in part.

    Examples
    --------
    >>> store, name = locate("memory://bucket/notes.txt")
    >>> store.write(name, b"whole")
    >>> store.files(), store.has(name), store.read(name)
    ({'notes.txt': 5}, True, b'whole')
    >>> store.remove(name)
    """

    renames: ClassVar[bool]  # a folder takes its name in one step, with everything in it

    @property
    @abstractmethod
    def where(self) -> str:
        """The path or the URL of the folder."""

    @abstractmethod
    def path(self, name: str) -> str:
        """The path or the URL of a file, for messages."""

    @abstractmethod
    def within(self, name: str) -> "Store":
        """A folder in this one."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the files in this folder, sorted; none where there is no folder."""

    @abstractmethod
    def files(self) -> dict[str, int]:
        """The bytes of every file of this folder, on a disk of the folders in it too; none where there is no folder."""

    @abstractmethod
    def find_changed(self, files: Mapping[str, tuple[int, str]], read: bool = False) -> set[str]:
        """The files that are not there with these bytes and this sha256.

        Of a URL it compares the bytes alone, unless it shall `read` the files too.
        """

    @abstractmethod
    def has(self, name: str) -> bool:
        """True if there is such a file."""

    @abstractmethod
    def reading(self, name: str, all_of_it: bool = True) -> AbstractContextManager[BinaryIO]:
        """The file to read from, `all_of_it` or only some of its bytes; FileNotFoundError if there is none."""

    @abstractmethod
    def replacing(self, name: str, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        """A file that takes the place of `name` when all of it is there, and vanishes when anything fails.

        `durable` waits for the disk.
        """

    @abstractmethod
    def workplace(self, names: Sequence[str] = ()) -> AbstractContextManager[Path]:
        """A folder of this machine with these files, and for files that `take` then gives a name in this store."""

    @abstractmethod
    def take(self, file: Path, name: str) -> None:
        """Give a file of the `workplace` this name, in one step; on a disk also a folder."""

    @abstractmethod
    def give(self, name: str, folder: "Store", new: str) -> None:
        """Let a file appear in another folder too; where a disk has no links it moves there."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove this folder, if it is there, with everything in it."""

    def read(self, name: str) -> bytes:
        """The bytes of a file; FileNotFoundError if there is none."""
        with self.reading(name) as file:
            return file.read()

    def write(self, name: str, content: bytes, durable: bool = True) -> None:
        """Make or replace a small file: a reader sees the old bytes or the new ones."""
        with self.replacing(name, durable) as file:
            file.write(content)

    @abstractmethod
    def check_writable(self) -> None:
        """Refuse, without a trace, a folder to which nothing can be written."""


def open_store(folder: str | os.PathLike[str]) -> Store:
    """The store of a folder: of this file system, or where the URL says.

    Examples
    --------
    >>> open_store("file:///tmp/run").path("a"), open_store("memory://run").path("a")
    ('/tmp/run/a', 'memory://run/a')
    """
    text = plain_path(folder)
    return UrlStore(text.rstrip("/")) if is_url(text) else FolderStore(Path(text))


def locate(path: str | os.PathLike[str]) -> tuple[Store, str]:
    """The store in which a file lies, and its name there.

    Raises
    ------
    DataError : the path ends without a name
    """
    text = plain_path(path)
    if not is_url(text):
        return FolderStore(Path(text).parent), Path(text).name
    folder, _, name = text.rpartition("/")
    if not name or folder.endswith("/"):
        raise DataError(f"{text}: a file needs a bucket and a name, such as s3://bucket/model.safetensors.")
    return UrlStore(folder), name


def plain_path(path: str | os.PathLike[str]) -> str:
    """The path or the URL that a user means: '~' is a home folder, and 'file://' says nothing.

    Examples
    --------
    >>> plain_path("file:///runs/m.st"), plain_path("s3://bucket/m.st"), plain_path("~") == str(Path.home())
    ('/runs/m.st', 's3://bucket/m.st', True)
    """
    return os.path.expanduser(os.fspath(path).removeprefix("file://"))


def is_url(path: str | os.PathLike[str]) -> bool:
    """True for the address of a store, False for a path of this file system.

    Examples
    --------
    >>> is_url("s3://bucket/a"), is_url("folder/a"), is_url("file:///folder/a")
    (True, False, False)
    """
    return "://" in os.fspath(path).removeprefix("file://")


def write_whole(path: str | os.PathLike[str], content: bytes, durable: bool = True) -> None:
    """Make or replace a small file, as `Store.write` does."""
    store, name = locate(path)
    store.write(name, content, durable)


@dataclass(frozen=True)
class FolderStore(Store):
    """A folder of a file system of this machine."""

    renames: ClassVar[bool] = True
    folder: Path

    @property
    def where(self) -> str:
        return str(self.folder)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def within(self, name: str) -> "FolderStore":
        return FolderStore(self.folder / name)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*"))

    def files(self) -> dict[str, int]:
        found = {}
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
                if not stat.S_ISDIR((status := path.lstat()).st_mode):
                    found[path.relative_to(self.folder).as_posix()] = status.st_size
        return found

    def find_changed(self, files: Mapping[str, tuple[int, str]], read: bool = False) -> set[str]:  # noqa: ARG002
        return {n for n, digest in files.items() if not self.has(n) or file_digest(self.folder / n) != digest}

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def reading(self, name: str, all_of_it: bool = True) -> AbstractContextManager[BinaryIO]:  # noqa: ARG002
        return open(self.folder / name, "rb")

    def replacing(self, name: str, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        return replacing(self.folder / name, durable)

    def workplace(self, names: Sequence[str] = ()) -> AbstractContextManager[Path]:  # noqa: ARG002
        return contextlib.nullcontext(self.folder)

    def take(self, file: Path, name: str) -> None:
        rename_into_place(file, self.folder / name)

    def give(self, name: str, folder: Store, new: str) -> None:
        try:
            os.link(self.path(name), folder.path(new))
        except OSError:  # of a file system without links, or of files of others
            os.replace(self.path(name), folder.path(new))

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def check_writable(self) -> None:
        with explain_os_errors(self.folder), tempfile.TemporaryFile(dir=self.folder):
            pass


@dataclass(frozen=True)
class UrlStore(Store):
    """A folder at a URL. What is read or written whole goes through a temporary file of this machine."""

    renames: ClassVar[bool] = False
    url: str

    @cached_property
    def _reached(self) -> tuple[Any, str]:
        system, folder = open_filesystem(self.url)
        return system, folder.rstrip("/")

    @property
    def where(self) -> str:
        return self.url

    def _key(self, name: str) -> tuple[Any, str]:
        """The file system, and what it calls a file. Others write there too: no listing is remembered."""
        system, folder = self._reached
        system.invalidate_cache()
        return system, f"{folder}/{name}"

    def path(self, name: str) -> str:
        return f"{self.url}/{name}"

    def within(self, name: str) -> "UrlStore":
        return UrlStore(f"{self.url}/{name}")

    def names(self) -> list[str]:
        return sorted(self.files())

    def files(self) -> dict[str, int]:
        with explain_errors(self.url):
            system, _ = self._key("")
            folder = self._reached[1]
            try:
                entries = system.ls(folder, detail=True)
            except FileNotFoundError:
                return {}
            names = {posixpath.basename(path): e for e in entries if (path := e["name"].rstrip("/")) != folder}
            return {name: int(e.get("size") or 0) for name, e in names.items() if name and e["type"] == "file"}

    def find_changed(self, files: Mapping[str, tuple[int, str]], read: bool = False) -> set[str]:
        there = self.files()
        wrong = {name for name, (size, _) in files.items() if there.get(name) != size}
        for name in files.keys() - wrong if read else ():
            with self.workplace([name]) as here:
                if file_digest(here / name) != files[name]:
                    wrong.add(name)
        return wrong

    def has(self, name: str) -> bool:
        with explain_errors(self.path(name)):
            system, key = self._key(name)
            return bool(system.exists(key))

    @contextlib.contextmanager
    def reading(self, name: str, all_of_it: bool = True) -> Iterator[BinaryIO]:
        with contextlib.ExitStack() as opened:
            with explain_errors(self.path(name), FileNotFoundError):
                system, key = self._key(name)
                file: Any
                if all_of_it:
                    here = opened.enter_context(self.workplace()) / "file"
                    system.get_file(key, str(here))
                    file = opened.enter_context(open(here, "rb"))
                else:
                    stream = system.open(key, "rb", block_size=_HEADER_BYTES)
                    file = opened.enter_context(OpenedFile(stream, self.path(name)))
            yield file

    @contextlib.contextmanager
    def replacing(self, name: str, durable: bool = True) -> Iterator[BinaryIO]:  # noqa: ARG002
        with self.workplace() as here:
            with open(here / "file", "xb") as file:
                yield file
            self.take(here / "file", name)

    @contextlib.contextmanager
    def workplace(self, names: Sequence[str] = ()) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="dkernel-") as here:
            for name in names:
                with explain_errors(self.path(name), FileNotFoundError):
                    system, key = self._key(name)
                    system.get_file(key, f"{here}/{name}")
            yield Path(here)

    def take(self, file: Path, name: str) -> None:
        with explain_errors(self.path(name)):
            system, key = self._key(name)
            _put(system, str(file), key)

    def give(self, name: str, folder: Store, new: str) -> None:
        with explain_errors(self.path(name)):
            system, key = self._key(name)
            system.cp_file(key, open_filesystem(folder.path(new))[1])

    def remove(self, name: str) -> None:
        with explain_errors(self.path(name), FileNotFoundError), contextlib.suppress(FileNotFoundError):
            system, key = self._key(name)
            system.rm_file(key)

    def remove_all(self) -> None:
        if self.files():
            with explain_errors(self.url):
                system, folder = self._reached
                system.rm(folder, recursive=True)

    def check_writable(self) -> None:
        with explain_errors(self.url):
            system, key = self._key(f".dkernel-{uuid.uuid4().hex}")
            system.pipe_file(key, b"?")
            system.rm_file(key)


def _put(system: Any, here: str, key: str) -> None:
    """Send a file to a store, where it is never seen in part."""
    protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    if protocols & OBJECT_STORES:
        system.put_file(here, key)
        return
    folder, name = posixpath.split(key)
    hidden = f"{folder}/{staged_name(name)}"
    try:
        system.put_file(here, hidden)
        system.mv(hidden, key)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error says more
            system.rm_file(hidden)
        raise


class OpenedFile:
    """A file of a store that is open to read, whose errors are explained but for a ValueError, of a wrong position."""

    def __init__(self, file: Any, url: str) -> None:
        self._file, self._url = file, url

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._file, name)
        return explain_errors(self._url, ValueError)(value) if callable(value) else value

    def __enter__(self) -> "OpenedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_filesystem(
    url: str, options: Mapping[str, Any] = MappingProxyType({}), kind: type[DKernelError] = UnsupportedError
) -> tuple[Any, str]:
    """The file system of a URL, and the path in it; `kind` is the error of a URL that no file system takes."""
    import fsspec

    check_address(url, kind)
    with explain_errors(url):
        try:
            system, path = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            extra = "pip install s3fs" if url.startswith(("s3://", "s3a://")) else "Install it with pip"
            raise kind(f"{url}: this kind of address needs a package that is missing ({error}). {extra}.") from None
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # others are of a service that is away
            raise kind(f"{url}: this kind of address cannot be used ({error}).") from None
    return system, str(path)


def check_address(url: str, kind: type[DKernelError] = UnsupportedError) -> None:
    """Refuse a URL with a key, and by an error of this kind one of files in an archive.

    Examples
    --------
    >>> check_address("s3://KEY:SECRET@bucket/m.st")
    Traceback (most recent call last):
    dkernel.errors.DataError: s3://***@bucket/m.st: the address of a bucket holds no credentials. Give them ...
    """
    if _KEYS.search(url):
        raise DataError(
            f"{url}: the address of a bucket holds no credentials. Give them to the client and the workers: variables "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role."
        )
    if _ARCHIVE.search(url):
        raise kind(f"{url}: this is an address in an archive: unpack it, and name the files in it.")


@contextlib.contextmanager
def explain_errors(url: str, *but: type[Exception]) -> Iterator[None]:
    """Turn errors of a store into errors of dkernel; its libraries have no error type in common.

    They repeat the address in messages, causes and contexts, so none of them is the cause of what is raised.

    Parameters
    ----------
    but : errors that the caller explains
    """
    try:
        yield
    except DKernelError:
        raise
    except but as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), mask_urls(url)) from None
        raise
    except Exception as error:
        raise _explain(url, error) from None


def _explain(url: str, error: Exception) -> DKernelError:
    """The error of dkernel for what a library of a store raised."""
    if isinstance(error, PermissionError) or getattr(error, "status", None) in (401, 403):  # of a web server
        return DataError(
            f"{url}: no permission ({error}). Give this user, or the role of client and workers, the right to list, "
            "read, write and delete there."
        )
    if isinstance(error, FileNotFoundError):
        return DataError(f"{url}: there is no such bucket or folder ({error}).")
    if "Credential" in type(error).__name__:
        return DataError(
            f"{url}: there are no credentials for this store ({error}). Give them to the client and the workers: "
            "variables such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role."
        )
    if _REFUSED_FOR_EVER.fullmatch(str(getattr(error, "status", ""))):
        return DataError(f"{url}: the server refuses this ({error}). Name another place, such as a folder or a bucket.")
    return StoreError(
        f"{url}: the store failed ({type(error).__name__}: {error}). Run the same command again; what is finished is "
        "kept."
    )
