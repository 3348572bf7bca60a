"""Errors of dkernel: one base class, and a subclass for each kind, which is also a built-in error.

A message says who refuses, what was found, what is needed and what to do.
"""

import errno
from collections.abc import Callable

__all__ = [
    "NO_ROOM",
    "ClusterError",
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


class DKernelError(Exception):
    """Base class of all errors of dkernel."""


class DataError(DKernelError, ValueError):
    """The data are not as expected; the message names file, row and column where they are known."""


class MissingValueError(DataError):
    """A value is missing where every one is needed."""


class UnseenFileError(DataError):
    """There is no file of this name on this machine; others may have it."""


class DamagedFileError(DataError):
    """A file that looked whole from its ends cannot be read."""


class MissingLabelError(DataError):
    """A row to learn from or to evaluate has no label."""


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


class DKernelWarning(UserWarning):
    """Base class of the warnings of dkernel."""


class UnknownCategoriesWarning(DKernelWarning):
    """More than half of the values of a column are categories that training never saw."""


class DriftWarning(DKernelWarning):
    """A column of rows to score has other values than in training."""


class ConvergenceWarning(DKernelWarning):
    """The result is usable but less accurate than was asked for."""
