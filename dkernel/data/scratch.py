"""The folder on scratch, for copies of the data and for rows that a process stores."""

import atexit
import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path

from dkernel.data.store import plain_path
from dkernel.numerics.validation import refuse_url

_PREFIX = ".dkernel-scratch-"


@dataclass(frozen=True)
class Scratch:
    """Folder for unpacked copies of the data, which every process has to see, and for rows that a process stores.

    Parameters
    ----------
    given : by the user; None if none is
    beside : folder that a hidden one is made in then; None for that of temporary files
    """

    given: str | None = None
    beside: str | None = None

    @classmethod
    def of(cls, scratch: "str | PathLike | Scratch | None") -> "Scratch":
        """The record of a folder that may be given by its name."""
        if scratch is None or isinstance(scratch, Scratch):
            return scratch or cls()
        folder = plain_path(scratch)
        refuse_url(folder, "a scratch folder")
        return cls(os.path.abspath(folder))


def make_scratch_folder(scratch: Scratch) -> str:
    """The folder for copies, which is made where it is not there."""
    folder = scratch.given or _process_folder(scratch.beside)
    os.makedirs(folder, exist_ok=True)
    return folder


@cache
def _process_folder(parent: str | None) -> str:
    """One hidden folder a process, removed when it ends: Dask arrays may outlive the Source they came from.

    Those of processes that were killed are removed too: nobody has their locks.
    """
    for folder in Path(parent or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _lock(folder) is not None:
            shutil.rmtree(folder, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=".dkernel-new-", dir=parent)
    _lock(Path(made))  # open until the process ends, however that is
    named = made.replace(".dkernel-new-", _PREFIX)
    os.rename(made, named)  # none has this name without a lock
    atexit.register(shutil.rmtree, named, ignore_errors=True)
    return named


def _lock(folder: Path) -> int | None:
    """An open handle with the lock of a folder; None where another process has it, or there are no locks."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
