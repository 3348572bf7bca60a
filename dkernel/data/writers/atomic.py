"""Files and folders that are either there as a whole or not there at all: the steps that an output's commit is made of.

Only the standard library. Every step is one system call that a kill cannot cut in two; what a disk or a permission
refuses comes out as a dkernel error that names the path and what to do.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dkernel.errors import NO_ROOM, ClusterError, DataError, DKernelError

_RENAME_EXCHANGE = 2  # the value in linux/fs.h
_AT_FDCWD = -100  # the value in fcntl.h
_NAME_BYTES = 100  # of a name: some file systems take 143 in all
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def explain_os_error(error: OSError, path: Path | str) -> DKernelError:
    """The dkernel error for what the operating system refused at `path`.

    Examples
    --------
    >>> type(explain_os_error(OSError(errno.ENOSPC, "No space left on device"), Path("out"))).__name__
    'ClusterError'
    """
    what = error.strerror or str(error)
    if error.errno in NO_ROOM:
        return ClusterError(
            f"{path}: no room to write ({what}). Make room, then run the same again, or choose another place: what "
            "was finished is taken over."
        )
    if error.errno in _FORBIDDEN:
        return DataError(f"{path}: not writable ({what}). Choose a place where this user may write.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return DataError(
            f"{path}: the folder is not there ({what}). An output must lie in a folder that exists and that the "
            "client and every worker see under the same name."
        )
    if error.errno == errno.ENAMETOOLONG:
        return DataError(f"{path}: a name in it is too long for this file system. Choose a shorter one.")
    if error.errno == errno.ELOOP:
        return DataError(
            f"{error.filename or path}: this is a link, and nothing is written where it points to. Remove it, or "
            "choose another place."
        )
    return ClusterError(f"{path}: writing failed ({what}). Run the same command again; what is finished is kept.")


@contextlib.contextmanager
def explain_os_errors(path: Path | str) -> Iterator[None]:
    """Turn errors of the operating system into errors of dkernel."""
    try:
        yield
    except DKernelError:
        raise
    except OSError as error:
        raise explain_os_error(error, path) from error


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(path: Path) -> None:
    """`sync` a file, or a folder with everything in it, the folders after what they hold."""
    if path.is_dir():
        for child in sorted(path.iterdir()):
            sync_tree(child)
    sync(path)


def staged_name(name: str) -> str:
    """A hidden name that nobody can foresee, for what will be called `name`; no longer than file systems take.

    Examples
    --------
    >>> staged_name("m.safetensors")  # doctest: +ELLIPSIS
    '.m.safetensors....partial'
    """
    shortened = os.fsencode(name)[:_NAME_BYTES].decode(sys.getfilesystemencoding(), errors="ignore")
    return f".{shortened}.{uuid.uuid4().hex}.partial"


def is_staged(name: str) -> bool:
    """True for a name that `staged_name` gave.

    Examples
    --------
    >>> is_staged(staged_name("m.safetensors")), is_staged(".m.safetensors.partial")
    (True, False)
    """
    return re.fullmatch(r"\..+\.[0-9a-f]{32}\.partial", name, re.DOTALL) is not None


def check_no_device(path: str | os.PathLike[str]) -> None:
    """Refuse a device, a pipe or a socket, also behind a link: a file would take its place, as that of /dev/null.

    And '-', by which other programs mean one.
    """
    if os.fspath(path) == "-":
        raise DataError("-: an output appears whole, so none is written to the standard output. Name a file.")
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing is there, or its opening says what is wrong
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(
            f"{os.fspath(path)}: this is a device, a pipe or a socket, and what is written would take its place. "
            "Name a file."
        )


@contextlib.contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step when all of it is there, and vanishes when anything fails.

    It is new and has a name of its own: there may be several writers, and no link of another user is followed.
    `durable` waits for the disk.
    """
    check_no_device(path)
    staged = path.with_name(staged_name(path.name))
    try:
        with open(staged, "xb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(staged, path)
    except BaseException as error:
        # Without a number, as Arrow raises them, a name would take the place of the message.
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)  # the new name is only safe from a power cut when its directory is on the disk too


def file_digest(path: Path) -> tuple[int, str]:
    """Size in bytes and sha256 of a file; of a folder (Zarr), of its names and files in sorted order.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a").write_bytes(b"abc")
    ...     file_digest(Path(folder) / "a")
    (3, 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
    """
    if not path.is_dir():
        with open(path, "rb") as stream:
            return os.fstat(stream.fileno()).st_size, hashlib.file_digest(stream, "sha256").hexdigest()
    total, text = 0, hashlib.sha256()
    for child in sorted(p for p in path.rglob("*") if p.is_file()):
        size, sha256 = file_digest(child)
        total += size
        text.update(f"{sha256} {size} {child.relative_to(path).as_posix()}\n".encode())
    return total, text.hexdigest()


def is_empty_folder(path: Path) -> bool:
    """True if `path` is a folder with nothing in it: a rename may take its place as if it were not there."""
    return path.is_dir() and not any(path.iterdir())


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (Linux renameat2); False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def _backup_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.previous")


def rename_into_place(new: Path, path: Path) -> None:
    """Give `new` the name `path`, whatever stood there before: at no moment is there a part of either.

    A file and a first folder take one rename. A folder that replaces another is exchanged with it, so that the old one
    then has the name `new`. Where names cannot be exchanged (some network file systems) the old folder first steps
    aside to `.NAME.previous`; a kill just there leaves no `path`, and `restore` brings the old one back.
    """
    check_no_device(path)
    if not new.is_dir():
        os.replace(new, path)
    elif not path.exists() or is_empty_folder(path):
        os.rename(new, path)
    elif not _exchange(new, path):
        os.rename(path, _backup_path(path))
        os.rename(new, path)
        os.rename(_backup_path(path), new)
    sync(path.parent)


def restore(path: Path) -> None:
    """Undo or finish a `rename_into_place` that was killed while the old folder stood aside; nothing is lost."""
    aside = _backup_path(path)
    if aside.is_dir():
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            os.rename(aside, path)
            sync(path.parent)


def lock_file(path: Path) -> int | None:
    """An open handle that is the right to go on, made where it is not there; None while another client has it.

    The right ends with the process that has it, however that ends. A file system without locks grants it to everyone.
    No link is followed, and nothing is cut off.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        return handle
    # Whoever had it may have removed the folder while we opened the file: then this is a lock on nothing.
    if os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


def lock_in(folder: Path) -> int | None:
    """The right to work in a staging folder, as of `lock_file`; None where there is no such folder too."""
    try:
        return lock_file(folder / "lock")
    except OSError:
        return None
