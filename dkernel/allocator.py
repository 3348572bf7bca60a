"""The C library's allocator in a worker: what a piece frees, the next one takes again.

Dask starts its workers so that glibc gives back at once whatever is free at the end of its heap, and takes arrays of
128 KiB and more from the system each time. A piece of a round makes a dozen of such arrays: their pages, zeroed by the
system and touched for the first time, cost a fifth of its time (1,000 columns).
"""

import ctypes
import sys

__all__ = ["keep_pages"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
HELD = 16 * 2**20  # bytes at the end of a heap that are kept for the next array
LARGE = 4 * 2**20  # bytes of an array whose pages come from the system all the same


def keep_pages() -> bool:
    """Let this process keep up to HELD bytes of what it freed; whether its allocator could be told so."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE) and mallopt(_TRIM_THRESHOLD, HELD))
