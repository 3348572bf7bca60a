"""Collections of objects, in memory or in Dask, as a table with the types of its columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.collections.dask_arrays import is_dask
from dkernel.data.column_types import BOOL, FLOAT, INT, OTHER, TEXT, TIMES, are_numbers, type_of_dtype
from dkernel.data.object_columns import find_domains
from dkernel.kernels import Kernel


def holds_objects(kernel: Kernel, X: Any) -> bool:
    """True if X is to be read as objects for this kernel.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian, SpectrumKernel
    >>> holds_objects(SpectrumKernel(3), ["ab", "c"]), holds_objects(Gaussian(), ["ab", "c"])
    (True, False)
    """
    if kernel.domain != "any" or hasattr(X, "tocsr"):
        return kernel.domain == "objects"
    if getattr(X, "ndim", 1) == 2:
        names = map(str, X.columns if hasattr(X, "columns") else range(X.shape[1]))
        if "objects" in kernel.wants(tuple(names)).values():
            return True
    if hasattr(X, "dtypes"):
        dtypes = list(X.dtypes) if getattr(X, "ndim", 1) == 2 else [X.dtype]
        return any(_kind(dtype) in ("text", "other") for dtype in dtypes)
    if hasattr(X, "dtype"):
        return not are_numbers(X.dtype)
    first = X[0] if isinstance(X, list | tuple) and X else 0
    parts = first if isinstance(first, list | tuple) else [first]
    return not all(isinstance(part, int | float | np.number | np.ndarray) for part in parts)


def find_kinds(table: Any, columns: Sequence[str], kernel: Kernel) -> dict[str, str]:
    """Kind of each column of a table, as in column_types.COLUMN_TYPES; in arrays of objects by their first row."""
    if hasattr(table, "dtypes"):
        return dict(zip(columns, map(_kind, table.dtypes), strict=True))
    if table.dtype.kind != "O":
        return dict.fromkeys(columns, type_of_dtype(table.dtype))
    if is_dask(table):
        domains = find_domains(kernel, columns)
        return {name: "guess" if domains.get(name) == "numbers" else "text" for name in columns}
    return {name: _kind_of_value(table[:1, j]) for j, name in enumerate(columns)}


def _kind(dtype: Any) -> str:
    """The kind of a column of a data frame: object columns, categories and lists are text, or what the kernel says."""
    kind = type_of_dtype(dtype)
    return OTHER if kind in TIMES else kind if kind in (BOOL, INT, FLOAT) and not hasattr(dtype, "categories") else TEXT


def _kind_of_value(values: NDArray[Any]) -> str:
    return "guess" if len(values) and isinstance(values[0], int | float | np.number) else "text"
