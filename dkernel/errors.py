"""Errors of dkernel: one base class, and a subclass for each kind, which is also a built-in error.

A message says who refuses, what was found, what is needed and what to do. It names a URL without its secrets.
"""

import errno
import hashlib
import re
from collections.abc import Callable
from typing import Any

__all__ = [
    "NO_ROOM",
    "ClusterError",
    "ConstantLabelWarning",
    "ConvergenceWarning",
    "DKernelError",
    "DKernelWarning",
    "DamagedFileError",
    "DataError",
    "DriftWarning",
    "MemoryBudgetError",
    "MissingLabelError",
    "MissingValueError",
    "ModelFileError",
    "RecipeError",
    "TooLargeError",
    "UnknownCategoriesWarning",
    "UnsupportedError",
]


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Codes of an OSError that more room cures: on the disk, in a quota, under a limit of the size of a file."""


_USER = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[^\s/?#]*@|[^\s/?#:@]*:(?!:|\d*(?:[/?#\s]|$))\S*@)", re.IGNORECASE)
_NO_USER = ("abfs", "abfss", "adl", "az", "wasb", "wasbs", "git", "github")  # whose "@" ends a container or a version
_QUERY = re.compile(r"([a-z][a-z0-9+.-]*)(://[^\s?]*)\?(\S*?)(?=[]:;,.)}'\"]*(?:\s|$))", re.IGNORECASE)
_SIGNED = re.compile(r"(x-[a-z]+-.*|.*accesskeyid|googleaccessid|signature|expires|policy|key-pair-id)=", re.IGNORECASE)
_SAS = re.compile(r"(s[a-z]{1,4}|sig)=")  # of Azure, beside a `sig`


def mask_urls(text: str) -> str:
    """The text without user, password and query of each URL in it: what may be written and said.

    A mark that is the same for all signatures, and another for another query, takes the place of a query. So the masked
    name of a file still says which file it is, whoever reads it and when.

    Examples
    --------
    >>> mask_urls("http://alice:hunter2@host/d.csv: there is no such file")
    'http://***@host/d.csv: there is no such file'
    >>> mask_urls("https://bucket/d.csv?X-Amz-Signature=1f3a, https://site/get?file=1")
    'https://bucket/d.csv?***, https://site/get?***31926327'
    """
    if "://" not in text:
        return text
    text = _USER.sub(lambda found: found[0] if found[1].lower() in _NO_USER else f"{found[1]}://***@", text)
    return _QUERY.sub(_mask_query, text)


def _mask_query(found: re.Match[str]) -> str:
    """A URL whose query is masked; of a store "?" may stand for any letter."""
    query = found[3]
    innermost = found[2].rpartition("://")[0].rpartition(":")[2] or found[1]
    if query.startswith("***") or not (innermost.lower().startswith("http") or re.match(r"[\w.~%-]+=", query)):
        return found[0]
    words = query.split("&")
    signed = [_SIGNED, *([_SAS] if any(word.startswith("sig=") for word in words) else [])]
    rest = "&".join(word for word in words if not any(kind.match(word) for kind in signed))
    return f"{found[1]}{found[2]}?***{hashlib.sha256(rest.encode()).hexdigest()[:8] if rest else ''}"


class _Masked:
    """What is said to a user, by whose construction no secret of a URL is in it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(mask_urls(each) if isinstance(each, str) else each for each in args))


class DKernelError(_Masked, Exception):
    """Base class of all errors of dkernel."""


class DataError(DKernelError, ValueError):
    """The data are not as expected; the message names file, row and column where they are known."""


class MissingValueError(DataError):
    """A value is missing where every one is needed."""


class DigitsError(DataError):
    """Blocks of float32 may not have, or do have, the digits of a column: it is to be read again in another dtype."""

    def __init__(self, message: str, dtype: str) -> None:
        super().__init__(message, dtype)
        self.dtype = dtype

    def __str__(self) -> str:
        return str(self.args[0])


class UnseenFileError(DataError):
    """There is no file of this name on this machine; others may have it."""


class DamagedFileError(DataError):
    """A file that looked whole from its ends cannot be read."""


class MissingColumnError(DataError):
    """No file has a column that was asked for by name."""


class MissingLabelError(DataError):
    """A row to learn from or to evaluate has no label, or none that the model knows."""


class TooLargeError(DataError):
    """Rows whose numbers are finite and whose answers are not.

    Parameters
    ----------
    reason : why the first of them has none
    rows : which they are, numbers in the block that was asked about

    Examples
    --------
    >>> print(TooLargeError("too large for this model", (3, 7)))
    row 3: too large for this model (and 1 more in this block)
    """

    def __init__(self, reason: str, rows: tuple[int, ...]) -> None:
        super().__init__(reason, rows)
        self.reason, self.rows = reason, rows

    def __str__(self) -> str:
        return self.at("row {}".format)

    def at(self, place: Callable[[int], str]) -> str:
        """The message with the place of the first row."""
        more = f" (and {len(self.rows) - 1} more in this block)" if len(self.rows) > 1 else ""
        return f"{place(self.rows[0])}: {self.reason}{more}"


class RecipeError(DKernelError, ValueError):
    """A parameter has an invalid value; the message lists the valid ones."""


class UnsupportedError(DKernelError, NotImplementedError):
    """Two valid settings do not go together; the message names an alternative."""


class MemoryBudgetError(DKernelError, MemoryError):
    """The plan needs more memory than is allowed; the message states both numbers and what would fit."""


class ModelFileError(DKernelError, ValueError):
    """A file is not a dkernel model, or a damaged one."""


class ClusterError(DKernelError, RuntimeError):
    """The cluster failed, not the data or the recipe: the same command can be run again."""


class DKernelWarning(_Masked, UserWarning):
    """Base class of the warnings of dkernel."""


class UnknownCategoriesWarning(DKernelWarning):
    """More than half of the values of a column are categories that training never saw."""


class ConstantLabelWarning(DKernelWarning):
    """A label has one value in all rows of the training, so that is what a model predicts."""


class DriftWarning(DKernelWarning):
    """A column of rows to score has other values than in training."""


class ConvergenceWarning(DKernelWarning):
    """The result is usable but less accurate than was asked for."""
