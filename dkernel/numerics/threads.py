"""Number of threads: one for BLAS in each process, since its sums depend on the number, and all cores for Dask.

The limit belongs to a process, never to a task: `threadpool_limits` is process-wide, and tasks that overlap would undo
each other's. The libraries are imported first, since one that is loaded later starts with threads of its own.
"""

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from dkernel.numerics.resource_limits import cpu_limit

T = TypeVar("T")
MOST_THREADS = 16  # threads of loops over squares: more would wait for the same memory
_LIBRARIES = ("numpy", "scipy.linalg")
_lock = threading.Lock()
_runs = 0
_limits: Any = None


@cache
def usable_cores() -> int:
    """Cores that this process may use: a container or taskset may leave it fewer than the machine has."""
    return cpu_limit()


def for_each(call: Callable[[T], object], parts: Sequence[T], threads: int) -> None:
    """call(part) of every part, on `threads` threads; on this one where a second has nothing to do."""
    if min(threads, len(parts)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(call, parts))
    else:
        for part in parts:
            call(part)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread while at least one such block is open, whichever thread opened it; then the number of before.

    Examples
    --------
    >>> from threadpoolctl import threadpool_info
    >>> with one_blas_thread():
    ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {1}
    True
    """
    global _limits, _runs
    with _lock:
        if _runs == 0:
            _take_control()
            _limits = _controller().limit(limits=1, user_api="blas")
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0:
                _take_control()
                _limits.restore_original_limits()
                _limits = None


def _take_control() -> None:
    """Let this thread set the limits: newer versions of threadpoolctl obey only the first that did."""
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


@cache
def _controller() -> Any:
    """Controller of the loaded BLAS libraries; to find them takes a hundred times as long as to set their limits."""
    for library in _LIBRARIES:
        importlib.import_module(library)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
