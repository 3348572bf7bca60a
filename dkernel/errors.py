"""Errors of dkernel: one base class, and a subclass for each kind, which is also a built-in error.

A message says who refuses, what was found, what is needed and what to do. It names a URL without its secrets.
"""

import errno
import hashlib
import re
import textwrap
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

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
    "StoreError",
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
_FILE = re.compile(r".*\.\w{1,8}")  # a value that is the name of a file, and no token
_SAS = re.compile(r"(s[a-z]{1,4}|sig)=")  # of Azure, beside a `sig`


LINE_LENGTH = 100  # characters of a line that is printed
_IN_COLUMN = re.compile(r" *\S+(?: \S+)? {2,}")  # a name, after which a text begins
_UNBROKEN = re.compile(r"(?<!\w)'[^']{1,40}'(?!\w)|(?<=\d) %|--[a-z-]+ \S+|To continue: .*|^ +")
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""The text without what changes a terminal or a page, or no file holds: control characters but for ends of lines.

    Examples
    --------
    >>> print(escape_controls("a name with \x1b[31m and \x00 in two\nlines"))
    a name with \x1b[31m and \x00 in two
    lines
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def wrap_lines(text: str) -> str:
    """The text with its lines of more than LINE_LENGTH characters broken at spaces; what continues one is indented.

    Values in quotes, percentages and commands to copy stay whole.
    """
    return "\n".join(line if len(line) <= LINE_LENGTH else _wrap(line) for line in text.split("\n"))


def _wrap(line: str) -> str:
    column = _IN_COLUMN.match(line)
    indent = " " * (column.end() if column else len(line) - len(line.lstrip(" ")) + 2)
    by = textwrap.TextWrapper(LINE_LENGTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return by.fill(_UNBROKEN.sub(lambda found: found[0].replace(" ", "\0"), line)).replace("\0", " ")


def mask_urls(text: str, *others: str) -> str:
    """The text without user, password and query of each URL in it: what may be written and said.

    A mark that is the same for all signatures, and another for another query, takes the place of a query. So the masked
    name of a file still says which file it is, whoever reads it and when. Libraries repeat parts of a URL alone: the
    secrets of the URLs in the text are masked wherever else they stand in it.

    Parameters
    ----------
    others : texts whose URLs the text may repeat parts of

    Examples
    --------
    >>> mask_urls("http://alice:hunter2@host/d.csv: there is no such file")
    'http://***@host/d.csv: there is no such file'
    >>> mask_urls("https://bucket/d.csv?X-Amz-Signature=1f3a, https://site/get?file=1")
    'https://bucket/d.csv?***, https://site/get?***31926327'
    >>> mask_urls("s3://ID:KEY@bucket: no name of a bucket is 'ID:KEY@bucket'")
    "s3://***@bucket: no name of a bucket is '***@bucket'"
    """
    named = " ".join((text, *others))
    if "://" not in named:
        return text
    secrets = _find_secrets(named)
    text = _USER.sub(lambda found: found[0] if _has_no_user(found) else f"{found[1]}://***@", text)
    text = _QUERY.sub(_mask_query, text)
    if not secrets:
        return text
    any_of_them = "|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))
    alone = rf"(?:(?=\W)|\b)(?:{any_of_them})(?:(?<=\W)|\b)"  # no part of a longer word
    return re.sub(alone, lambda found: "***" + "@" * found[0].endswith("@"), text)


def _has_no_user(found: re.Match[str]) -> bool:
    return found[1].lower() in _NO_USER


def _find_secrets(text: str) -> set[str]:
    """What no text may say of the URLs in this one: users with their passwords, queries, and values in these."""
    secrets = set[str]()
    for found in _USER.finditer(text):
        user, _, password = found[0].partition("://")[2].removesuffix("@").partition(":")
        if not _has_no_user(found):
            secrets |= {f"{user}:{password}", password} if password else {f"{user}@"}
    for found in _QUERY.finditer(text):
        if _mask_query(found) != found[0]:
            signed, _ = _divide_query(found[3])
            parts = [part for word in signed for part in re.split("[=.]", word)[1:]]  # a name may follow after a point
            others = (word.partition("=")[2] for word in found[3].split("&"))
            parts += [value for value in others if not _FILE.fullmatch(value)]
            secrets |= {found[3], *(part for part in parts if len(part) > 5)}  # a shorter one is no signature
    return {each for secret in secrets for each in (secret, unquote(secret)) if len(each) > 1 and set(each) != {"*"}}


def _mask_query(found: re.Match[str]) -> str:
    """A URL whose query is masked; of a store "?" may stand for any letter."""
    query = found[3]
    innermost = found[2].rpartition("://")[0].rpartition(":")[2] or found[1]
    if query.startswith("***") or not (innermost.lower().startswith("http") or re.match(r"[\w.~%-]+=", query)):
        return found[0]
    rest = "&".join(_divide_query(query)[1])
    return f"{found[1]}{found[2]}?***{hashlib.sha256(rest.encode()).hexdigest()[:8] if rest else ''}"


def _divide_query(query: str) -> tuple[list[str], list[str]]:
    """The words of a query that sign it, and the others."""
    words = query.split("&")
    kinds = [_SIGNED, *([_SAS] if any(word.startswith("sig=") for word in words) else [])]
    signed = [word for word in words if any(kind.match(word) for kind in kinds)]
    return signed, [word for word in words if word not in signed]


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


class StoreError(ClusterError):
    """A store or a web server failed or broke off; the message names the address."""


class DKernelWarning(_Masked, UserWarning):
    """Base class of the warnings of dkernel."""


class UnknownCategoriesWarning(DKernelWarning):
    """Categories that training never saw: more than half of a column to score, or any among rows to learn."""


class ConstantLabelWarning(DKernelWarning):
    """A label has one value in all rows of the training, so that is what a model predicts."""


class DriftWarning(DKernelWarning):
    """A column of rows to score, or to learn after a fit, has other values than in training."""


class ConvergenceWarning(DKernelWarning):
    """The result is usable but less accurate than was asked for."""
