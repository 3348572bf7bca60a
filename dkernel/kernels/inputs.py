"""Inputs of a kernel: rows of numbers, or objects (strings, sets, ...), one or several a row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError


def as_numbers(X: Any) -> NDArray[np.floating]:
    """X as (rows, p) of its own float type, float64 where it has none, or a DataError.

    Examples
    --------
    >>> as_numbers([[1, 2]])
    array([[1., 2.]])
    """
    X = np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"A kernel was given an array of {X.ndim} dimension(s); rows x columns, 2, are needed.")
    if X.dtype == np.float32 or X.dtype == np.float64:
        return X
    if X.dtype.kind not in "fiub":
        raise DataError(f"A kernel was given values of type {X.dtype}; numbers are needed.")
    return X.astype(np.float64)


def as_objects(X: Any) -> NDArray[Any]:
    """X as an array of Python objects: (rows,) where there is one a row, (rows, p) where there are more.

    Examples
    --------
    >>> as_objects(["ab", "c"])
    array(['ab', 'c'], dtype=object)
    """
    if hasattr(X, "to_numpy"):
        X = X.to_numpy(dtype=object)
    if not isinstance(X, np.ndarray):
        if isinstance(X, str) or not hasattr(X, "__len__") or not hasattr(X, "__getitem__"):
            raise DataError(f"A kernel of objects was given {X!r}; an array or a list of objects is needed.")
        values = np.empty(len(X), dtype=object)
        for i in range(len(X)):
            values[i] = X[i]
        X = values
    if X.ndim not in (1, 2):
        raise DataError(f"A kernel of objects was given an array of {X.ndim} dimension(s); 1 or 2 are needed.")
    X = X.astype(object, copy=False)
    return X[:, 0] if X.ndim == 2 and X.shape[1] == 1 else X


def as_any(X: Any) -> NDArray[Any]:
    """X as numbers where it is a table of numbers, else as objects."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    numbers = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    if not numbers and isinstance(X, list) and X and isinstance(X[0], list):
        X = np.asarray(X)
        numbers = X.dtype.kind in "fiub"
    return as_numbers(X) if numbers else as_objects(X)


def one_of_each(X: Any, Z: Any, domain: str) -> tuple[Any, Any] | None:
    """Two blocks of one row where X and Z are a row (an object) each, as scikit-learn's pairwise kernels pass them."""
    row, other = _block_of_row(X, domain), None if Z is None else _block_of_row(Z, domain)
    return None if row is None or other is None else (row, other)


def _block_of_row(X: Any, domain: str) -> Any:
    if domain == "objects":
        return [X] if isinstance(X, str | set | frozenset) else None
    is_row = isinstance(X, np.ndarray | list | tuple) and np.ndim(X) == 1 and np.asarray(X).dtype.kind in "fiub"
    return np.asarray(X)[None] if is_row else None
