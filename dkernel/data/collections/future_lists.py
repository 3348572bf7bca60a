"""Lists of `distributed.Future`, each of an array or a frame with some rows, as Dask collections."""

import sys
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from dkernel.data.collections.tables import take_rows
from dkernel.errors import ClusterError, DataError


def is_future_list(value: Any) -> bool:
    """True for a list or tuple of futures of Dask; who has one has imported distributed."""
    if type(value) not in (list, tuple) or not value or "distributed" not in sys.modules:
        return False
    return all(isinstance(item, sys.modules["distributed"].Future) for item in value)


def collections_of(*values: Any) -> tuple[Any, ...]:
    """The values, Dask collections in the place of the lists of futures, which must be equally long.

    A DataError says where one list is longer than another.
    """
    lengths = {len(value) for value in values if is_future_list(value)}
    if len(lengths) > 1:
        raise DataError(f"The lists of futures have {' and '.join(map(str, sorted(lengths)))} items: one a chunk each.")
    return tuple(_collection(value) if is_future_list(value) else value for value in values)


def _collection(futures: Sequence[Any]) -> Any:
    import dask.array as da
    import numpy as np
    from dask.delayed import delayed

    first = futures[0]
    try:
        empty = first.client.submit(take_rows, first, slice(0), pure=False).result()
    except CancelledError as error:  # what was scattered is lost with the worker that has it
        raise ClusterError(
            f"The rows of the future {first.key!r} are lost: it was cancelled, or the worker that had them is gone. "
            "Make the futures again, and fit again."
        ) from error
    if hasattr(empty, "iloc"):
        from dask.dataframe import from_delayed

        # Persisted, each part is a task of its own where its rows are; optimizing a graph may lose futures inside it.
        return first.client.persist(from_delayed(list(futures), meta=empty, verify_meta=False))
    if not hasattr(empty, "dtype") or empty.ndim not in (1, 2):
        raise DataError(f"The futures are of {type(empty).__name__}: an array or frame of rows is needed in each.")
    shape = (np.nan, *empty.shape[1:])
    blocks = [da.from_delayed(delayed(future), shape, meta=empty) for future in futures]
    return first.client.persist(da.concatenate(blocks, allow_unknown_chunksizes=True))
