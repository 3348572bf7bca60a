"""Files of a source, in order, from the names that a user gives: a file, several, a folder, a glob, an fsspec URL.

The files of a folder or a glob come in natural order (part.2 before part.10), those of its folders key=value in their
place. Names that begin with '_' or '.', of folders that a glob enters too, are skipped, and so are files of dkernel:
models, run records, reports, checkpoints.
"""

import glob
import hashlib
import os
import platform
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dkernel.data.endings import FORMATS, OTHER_ENDINGS, TEXTS, split_ending, without_query
from dkernel.data.file_stamps import BY_CONTENT, UNKNOWN, date_text, newest_inside, stamp_file
from dkernel.data.store import OpenedFile, explain_errors, open_filesystem, plain_path
from dkernel.data.table_formats import refuse_tables
from dkernel.errors import DataError, DKernelWarning, RecipeError, UnseenFileError, mask_urls

if TYPE_CHECKING:  # commands read names before they load Dask and numpy
    from dask.delayed import Delayed


@dataclass(frozen=True)
class File:
    """One file as it was when the source was opened; `check` refuses it once it has changed.

    `name` is what the user called it, without the secrets of a URL; a Zarr store is one file. `stamp` is its mtime in
    ns (local) or its etag or date (remote), `dkernel.data.file_stamps`. `text_encoding` is that of a text which is not
    UTF-8. `origin` is set on a scratch copy: the file it was made from. `copy` is a Parquet file on scratch with the
    same rows in smaller row groups, which is read where it is there. `host` is the machine on which it was opened.
    """

    path: str = field(repr=False)
    size: int
    stamp: str
    format: str
    compression: str = ""
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: "File | None" = None
    text_encoding: str = ""
    copy: str = field(default="", repr=False, compare=False)
    host: str = field(default_factory=platform.node, repr=False, compare=False)

    @property
    def local(self) -> bool:
        """True if it is a path of a mounted file system."""
        return "://" not in self.path

    @property
    def suffix(self) -> str:
        """The ending without the compression, in small letters: '.tsv' of 'A.TSV.gz'."""
        return split_ending(self.path)[0]

    def open(self, **how: Any) -> Any:
        """A binary file to read from; `how` is for fsspec."""
        if self.local:
            return open(self.path, "rb")
        with explain_errors(self.path):
            system, path = open_filesystem(self.path, self.options)
            return OpenedFile(system.open(path, "rb", **how), self.path)

    def has_ranges(self) -> bool:
        """False if it comes from a web server that sends nothing but the whole file."""
        if self.size == UNKNOWN:
            return False
        if not re.match("https?://", self.path) or self.size < 2:
            return True
        try:
            return bool(self.read(self.size - 1, self.size))
        except ValueError:
            return False

    def read(self, first: int, stop: int) -> bytes:
        """The bytes first .. stop - 1."""
        with self.open() as opened:
            opened.seek(first)
            data: bytes = opened.read(stop - first)
        return data

    def describe_rows(self, first_row: int) -> Callable[[int], str]:
        """What says where a row stands, by its number among those from `first_row` on."""
        return lambda row: f"{self.name}, row {first_row + row + 1}"

    def key(self, purpose: str, *more: Any) -> str:
        """A name for a task on this file as it is now: the same task, the same name."""
        text = repr((purpose, self.path, self.size, self.stamp, *more))
        return f"dkernel-read-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def task(self, function: Callable[..., Any], *arguments: Any) -> "Delayed":
        """The call of a function with this file and these arguments, which have a `repr`: equal calls are one task."""
        from dask.delayed import Delayed

        key = self.key(function.__name__, *arguments)
        return Delayed(key, {key: (function, self, *arguments)})

    def check(self, inside: Sequence[str] = ()) -> None:
        """Refuse the file if it is gone or not the one that was opened; of a scratch copy, the original too.

        Of a Zarr store, which is a folder of very many files, those `inside` are looked at: the ones a part is read
        from.
        """
        if self.origin is not None:
            self.origin.check()
        if self.stamp.startswith(BY_CONTENT):
            return  # what is read is a copy, and it was looked at as it was made
        try:
            if self.format == "zarr":
                with _explained(self.path):
                    newest = newest_inside(self.path, self.options, inside)
                now = (self.size, self.stamp if newest <= int(self.stamp.split()[0]) else str(newest))
            else:
                now = _stamp(self.path, self.options)
        except DataError:
            raise
        except (OSError, ValueError) as error:
            if self.origin is not None:
                raise RecipeError(
                    f"{self.name}: its unpacked copy {self.path} is not there on {platform.node()}. Give --scratch a "
                    "folder that the client and all workers share."
                ) from None
            raise self.error_of_missing(error) from None
        self.check_is(now)

    def check_is(self, now: tuple[int, str]) -> None:
        """Refuse the file if its bytes and its stamp are not `now` what they were."""
        if now != (self.size, self.stamp):
            if self.local and platform.node() != self.host:
                raise error_of_difference(self.name, (platform.node(), now), (self.host, (self.size, self.stamp)))
            how = "another date or version" if now[0] == self.size else f"then {self.size} bytes, now {now[0]}"
            raise DataError(
                f"{self.name}: the file changed since it was opened ({how}). "
                "Leave the data alone while they are used, and start again."
            )

    def error_of_missing(self, error: Exception) -> DataError:
        """The error of a file that is not there on this machine."""
        here = platform.node()
        if here == self.host:
            return DataError(f"{self.name}: the file is gone since it was opened ({error}).")
        return error_of_difference(self.name, (here, None), (self.host, (self.size, self.stamp)))


def error_of_difference(
    name: str, here: tuple[str, tuple[int, str] | None], there: tuple[str, tuple[int, str] | None]
) -> DataError:
    """The error of a local file that is not the same on two machines.

    Parameters
    ----------
    here, there : the machine, with the size and the stamp of the file there, or None where it is not

    Examples
    --------
    >>> print(error_of_difference("a.csv", ("b", None), ("c", (9, "0"))))  # doctest: +ELLIPSIS
    a.csv: the worker on b does not see this file, which c does...
    """
    if here[1] is None or there[1] is None:
        without, has = (here[0], there[0]) if here[1] is None else (there[0], here[0])
        return DataError(
            f"{name}: the worker on {without} does not see this file, which {has} does. Mount it on every worker under "
            "the same name, or give the data as a URL; `dkernel doctor` checks this."
        )
    (machine, (size, stamp)), (other, (other_size, other_stamp)) = (here[0], here[1]), (there[0], there[1])
    return DataError(
        f"{name}: the worker on {machine} has another file of this name ({size} bytes of {date_text(stamp)}) than "
        f"{other} ({other_size} bytes of {date_text(other_stamp)}). Copies must be equal, with their dates (rsync -t, "
        "cp -p), and data be left alone while they are used. Make them so, and start again."
    )


def natural_key(name: str) -> list[tuple[int, int | str]]:
    """Sort key that counts: 'part.2' before 'part.10'.

    Examples
    --------
    >>> sorted(["part.10", "part.2"], key=natural_key)
    ['part.2', 'part.10']
    """
    return [(0, int(t)) if t.isdigit() and t.isascii() else (1, t) for t in re.split(r"([0-9]+)", name) if t]


class _EmptyTextError(DataError):
    """A text of 0 bytes, which in a folder of texts is a part without rows."""


def expand(
    paths: str | os.PathLike | Sequence[str | os.PathLike | File],
    storage_options: Mapping[str, Any] | None = None,
    bad: dict[str, str] | None = None,
) -> list[File]:
    """The files that `paths` name, in order; a missing, empty or unreadable one is a DataError that names it.

    A File stands for itself.

    Parameters
    ----------
    bad : takes the names and reasons of such files, which are then left out
    """
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise DataError("No data were named: give a file, a folder, a glob or a URL.")
    options = dict(storage_options or {})
    items = [item if isinstance(item, File) else _find(plain_path(item), options) for item in listed]
    refuse_tables([folder for item in items if isinstance(item, _Found) for folder in item.folders], options)
    files, empty = list[File](), list[DataError]()
    for item in items:
        if isinstance(item, File):
            files.append(item)
            continue
        item.check()
        for path in item.paths:
            try:
                files.append(_file(path, options if "://" in path else {}))
            except DataError as error:
                if isinstance(error, _EmptyTextError) and item.kind != "file":
                    empty.append(error)  # Spark writes a part without rows so
                elif bad is None or isinstance(error, UnseenFileError):
                    raise item.add_way_on(error, path) from None
                else:
                    bad[path] = str(error)
    if empty and not files:
        raise empty[0]
    if empty:
        more = f" (and {len(empty) - 1} others)" if len(empty) > 1 else ""
        warnings.warn(f"{empty[0]} It is left out{more}.", DKernelWarning, stacklevel=3)
    times = Counter(os.path.realpath(file.path) if file.local else file.path for file in files)  # of links too
    if twice := [path for path, n in times.items() if n > 1]:
        others = f" (and {len(twice) - 1} others)" if len(twice) > 1 else ""
        warnings.warn(
            f"{twice[0]}{others}: named more than once, and its rows are read as often.", DKernelWarning, stacklevel=3
        )
    return files


def name_files(item: str | os.PathLike) -> list[str]:
    """The files that `item` names, readable or not, as far as they can be listed; never an error."""
    text = plain_path(item)
    try:
        found = _find(text, {})
        return found.paths or ([text] if found.kind == "file" else [])
    except Exception:  # any file system may raise its own; a place that cannot be listed is refused when it is opened
        return [text]


@dataclass(frozen=True)
class _Found:
    """Files that a text names: one file, or the data of a folder or among the matches of a glob, in order."""

    text: str
    paths: list[str]
    kind: str
    inner: list[str] = field(default_factory=list)

    @property
    def folders(self) -> list[str]:
        """The folder that is named, or that a glob begins with, and those of the files; none of a site, which has none.

        A glob begins with what is before the first name with a sign of it.
        """
        if self.text.startswith(("http://", "https://")):
            return []
        named = {"folder": [self.text.rstrip("/")], "glob": [os.path.dirname(re.split("[*?[]", self.text)[0])]}
        return list(dict.fromkeys([*named.get(self.kind, []), *map(os.path.dirname, self.paths)]))

    def add_way_on(self, error: DataError, path: str) -> DataError:
        """The error of a file, in a folder with how to name the others if it is no data."""
        known = [two for p in self.paths if (two := split_ending(p))[0] in FORMATS]
        if self.kind != "folder" or split_ending(path) in known or not known:
            return error
        inside = "**/" if os.path.dirname(path) != self.text.rstrip("/") else ""
        ending = ".".join(filter(None, Counter(known).most_common(1)[0][0]))
        return DataError(
            f"{error} If it is no data, name the others by a glob, '{self.text.rstrip('/')}/{inside}*{ending}'."
        )

    def check(self) -> None:
        """Refuse a name under which there are no data, or a folder of folders."""
        if self.inner:
            raise DataError(
                f"{self.text}: the folder holds folders ({self.inner[0]}); name the files by a glob, "
                f"'{self.text.rstrip('/')}/*/*'."
            )
        if self.paths:
            return
        why = {
            "file": f"there is no such file or folder on this machine.{_nearby(self.text)}",
            "folder": "the folder holds no data files.",
            "glob": "no file matches, or there is no permission to list them."
            if "://" in self.text
            else "no file matches.",
        }
        raise (DataError if "://" in self.text else UnseenFileError)(f"{self.text}: {why[self.kind]}")


def _find(text: str, options: dict[str, Any]) -> _Found:
    return _remote(text, options) if "://" in text else _local(text)


@dataclass(frozen=True)
class _Location:
    """Interface of a file system: is it a folder, which names are in it, open it to read."""

    isdir: Callable[[str], bool]
    names: Callable[[str], Sequence[str]]
    open: Callable[[str], Any]


_SYSTEM = _Location(os.path.isdir, os.listdir, partial(open, mode="rb"))


def _local(path: str) -> _Found:
    if os.path.isdir(path) and split_ending(path)[0] != ".zarr":
        return _folder(path, [os.path.join(path, name) for name in os.listdir(path)], _SYSTEM)
    if os.path.exists(path):
        return _Found(path, [path], "file")
    if glob.has_magic(path):
        return _Found(path, _matches(path, glob.glob(path, recursive=True), _SYSTEM), "glob")
    return _Found(path, [], "file")


def _nearby(path: str) -> str:
    """A hint at the data files and folders that lie where there is no file of this name."""
    from dkernel.numerics.validation import nearest_name

    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return ""
    neighbours = _data([os.path.join(folder, name) for name in os.listdir(folder)], _SYSTEM)
    names = [_base(p) for p in neighbours if os.path.isdir(p) or split_ending(p)[0] in FORMATS]
    return nearest_name(_base(path), names, part=lambda name: name.partition(".")[0])  # many files end alike


_UNSEEN = "there is no such file, folder or bucket, or no permission to see it"  # which a store does not tell apart


def _remote(url: str, options: dict[str, Any]) -> _Found:
    with explain_errors(url):
        try:
            return _list_by(*open_filesystem(url, options, DataError), url)
        except (FileNotFoundError, PermissionError) as error:
            raise DataError(f"{url}: {_UNSEEN} ({error}).") from None
        except (OSError, DataError):
            raise
        except Exception as error:  # any library may raise its own, which says what is missing, such as credentials
            raise DataError(f"{url}: the address cannot be read ({type(error).__name__}: {error}).") from None


def _list_by(system: Any, path: str, url: str) -> _Found:
    reach = _Location(system.isdir, lambda folder: [_base(p) for p in _list(system, folder)], system.open)
    if without_query(path) != path and split_ending(path)[0] in FORMATS:
        try:
            system.info(path)
        except FileNotFoundError as error:  # which fsspec makes of everything; a host that is away may come back
            raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None
        return _Found(url, [url], "file")
    if glob.has_magic(path) and not system.exists(path):
        found = [str(p) for p in system.glob(path)]
        listing = _Found(url, _matches(path, [p for p in found if not p.endswith("/")], reach), "glob")
    elif system.isdir(path) and split_ending(path)[0] != ".zarr":
        listing = _folder(url, _list(system, path), reach)
    else:
        listing = _Found(url, [path], "file")
    return replace(listing, paths=[str(system.unstrip_protocol(p)) for p in listing.paths])


def _list(system: Any, folder: str) -> list[str]:
    """What is in a folder; of a store not the empty object that stands for the folder itself."""
    names = [str(entry["name"]) for entry in system.ls(folder, detail=True)]
    return [name for name in names if name.strip("/") != folder.strip("/")]


def _folder(text: str, entries: Sequence[str], system: _Location) -> _Found:
    paths: list[str] = []
    inner: list[str] = []
    for path in _data(entries, system):
        if split_ending(path)[0] == ".zarr" or not system.isdir(path):
            paths.append(path)
        elif "=" in _base(path)[1:]:  # a folder of the rows of one value
            folder = _folder(path, [f"{path.rstrip('/')}/{name}" for name in system.names(path)], system)
            paths += folder.paths
            inner += folder.inner
        else:
            inner.append(path)
    return _Found(text, paths, "folder", inner)


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _data(paths: Sequence[str], system: _Location) -> list[str]:
    """The paths that may be data, in natural order."""
    seen = (p for p in paths if not _BESIDE.fullmatch(_base(p)) and not _is_no_data(p, system))
    return sorted(seen, key=lambda path: (natural_key(path), path))  # of equal keys, 9 and 09, always the same is first


def _matches(pattern: str, paths: Sequence[str], system: _Location) -> list[str]:
    """The data among the matches of a glob; no folder that begins with '_' or '.' is entered unless it is named."""
    named = pattern.split("/")
    entered = [p for p in paths if all(part in named or part[:1] not in ("_", ".") for part in p.split("/"))]
    return _data(entered, system)


# Names of what is left beside data and never is any: hidden files, digests, lists, unfinished and old copies, markers.
_BESIDE = re.compile(
    r"[_.].*|.*\.(?:crc|md5|sha1|sha256|sha512|tmp|temp|part|partial|crdownload|inprogress|lock|swp|bak|manifest)|.*~"
    r"|.*[._]_COPYING_|.*\$folder\$|manifest(?:\.json)?|thumbs\.db|desktop\.ini|(?:readme|licen[cs]e)(?:\.(?:md|txt|rst))?",
    re.IGNORECASE | re.DOTALL,
)
# First bytes of the files that dkernel writes beside data: models and checkpoints, run records, reports, ONNX graphs,
# lists of scored files, cards.
_MARKS = (
    b'{"__metadata__":{"dkernel":',
    b'{\n  "config_sha256": ',
    b"<title>dkernel: ",
    b"\x12\x07dkernel",
    b'{\n "dkernel": "files that were scored"',
    b"---\nlibrary_name: dkernel",
)


def _is_no_data(path: str, system: _Location) -> bool:
    """True if a file or folder that is named like no data is empty, or one that dkernel has written."""
    if split_ending(path)[0] in FORMATS:
        return False
    try:
        if system.isdir(path):  # a folder of scores in parts, of a checkpoint or of unpacked copies
            names = system.names(path)
            outputs = all(name.startswith((".", "checkpoint-", "dkernel-")) for name in names)
            return "_manifest.json" in names or (outputs and bool(names))
        with system.open(path) as stream:
            head = stream.read(128)  # bytes in which these stand
    except OSError:
        return False
    return not head or any(mark in head for mark in _MARKS)


def _explained(path: str) -> AbstractContextManager[Any]:
    """Explain the errors of a store, but for those of a file that is not there or cannot be one."""
    return explain_errors(path, FileNotFoundError, ValueError) if "://" in path else nullcontext()


def _stamp(path: str, options: Mapping[str, Any]) -> tuple[int, str]:
    with _explained(path):
        return stamp_file(path, options)


def _file(path: str, options: Mapping[str, Any]) -> File:
    try:
        size, stamp = _stamp(path, options)
    except DataError:
        raise
    except FileNotFoundError:
        if "://" in path:
            raise DataError(f"{path}: {_UNSEEN}.") from None
        raise UnseenFileError(f"{path}: there is no such file on this machine.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: the file cannot be read ({error}).") from None
    if size == 0 and "://" not in path and not (os.path.isfile(path) or os.path.isdir(path)):
        raise DataError(
            f"{path}: this is a pipe or a device, and data are read more than once. Write them to a file first."
        )
    ending, compression = split_ending(path)
    format_ = FORMATS.get(ending)
    if format_ is None or (compression and format_ not in TEXTS):
        known = ", ".join([*FORMATS, ".csv.gz", ".svmlight.gz"])
        other = next((f" This is {kind}." for kind, endings in OTHER_ENDINGS.items() if ending in endings), "")
        raise DataError(f"{path}: the ending says no format that can be read; known are {known}.{other}")
    if size == 0:
        plain_text = format_ in TEXTS and not compression
        if plain_text:
            raise _EmptyTextError(f"{path}: the file is empty (0 bytes).")
        raise DataError(f"{path}: the file is empty (0 bytes). Write it again, or take it away.")
    # A worker has a working folder of its own; messages keep the name that the user gave.
    full = path if "://" in path else os.path.abspath(path)
    return File(full, size, stamp, format_, compression, mask_urls(path), options)
