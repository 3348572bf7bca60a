"""The error of a file whose bytes are damaged, whatever the library that reads them raises."""

import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from dkernel.errors import DamagedFileError, DKernelError

_OF_BYTES = (pa.ArrowException, OSError, ValueError, RuntimeError, EOFError, OverflowError)
_OF_CODECS = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, struct.error)
_OF_PLACES = (ConnectionError, TimeoutError, FileNotFoundError, PermissionError)


@contextmanager
def explain_damage(name: str, what: str, *more: type[Exception]) -> Iterator[None]:
    """Raise a DamagedFileError that begins with `name` and `what` for an error that damaged bytes cause.

    An error of the disk or the network is raised as it is, since reading again may help.

    Parameters
    ----------
    more : errors that damaged bytes cause here, beside those of the codecs

    Examples
    --------
    >>> with explain_damage("x.csv.gz", "the compressed file is truncated or damaged"):
    ...     zlib.decompress(b"no such bytes")
    Traceback (most recent call last):
    dkernel.errors.DamagedFileError: x.csv.gz: the compressed file is truncated or damaged (Error -3 while ...).
    """
    try:
        yield
    except DKernelError:
        raise
    except (*_OF_BYTES, *_OF_CODECS, *more) as error:
        # A damaged file may name a position before its beginning, which is EINVAL, as a store names a request of its
        # library, whose error is the cause.
        number = getattr(error, "errno", None)
        of_system = number is not None and (number != errno.EINVAL or error.__cause__ is not None)
        if (of_system or isinstance(error, _OF_PLACES)) and not isinstance(error, more):
            raise
        said = str(error).splitlines() or [type(error).__name__]
        raise DamagedFileError(f"{name}: {what} ({said[0]}).") from None
