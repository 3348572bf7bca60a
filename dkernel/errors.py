"""What dkernel raises: one root, and a child for each kind of trouble, each also the built-in that it resembles.

A message says who refuses, what was found, what is needed and what to do.
"""

__all__ = [
    "ClusterError",
    "ConvergenceWarning",
    "DKernelError",
    "DKernelWarning",
    "DataError",
    "MemoryBudgetError",
    "ModelFileError",
    "RecipeError",
    "UnsupportedError",
]


class DKernelError(Exception):
    """Root of everything that dkernel refuses; catch this to catch them all."""


class DataError(DKernelError, ValueError):
    """The data are not what was promised: the message names file, row and column where they are known."""


class RecipeError(DKernelError, ValueError):
    """A parameter has a value that means nothing; the message lists the values that do."""


class UnsupportedError(DKernelError, NotImplementedError):
    """Two parts that are each right do not go together; the message names one that does."""


class MemoryBudgetError(DKernelError, MemoryError):
    """The plan needs more memory than it was given; the message holds both numbers and what would fit."""


class ModelFileError(DKernelError, ValueError):
    """A file is not a dkernel model, or a damaged one."""


class ClusterError(DKernelError, RuntimeError):
    """The cluster failed, not the data or the recipe: the same command can be run again."""


class DKernelWarning(UserWarning):
    """Root of the warnings that dkernel gives."""


class ConvergenceWarning(DKernelWarning):
    """The result is usable but not as good as was asked for."""
