"""Memory of a run: that of the whole process tree, sampled from a thread.

A page that several processes share is counted once in all (the proportional set size that Linux keeps); elsewhere the
resident size stands in, which counts such a page in every process and so errs upwards.
"""

import threading
from typing import Any

import psutil


def process_tree_rss(pid: int | None = None) -> int:
    """Bytes of memory in use by a process (this one when None) and all its descendants.

    Examples
    --------
    >>> process_tree_rss() > 1_000_000
    True
    """
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(map(_resident, tree))


def _resident(process: psutil.Process) -> int:
    try:
        full: Any = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.rss)
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


class PeakMemory:
    """Largest `process_tree_rss` seen while the block was open, sampled every `interval` seconds.

    Examples
    --------
    >>> with PeakMemory() as memory:
    ...     _ = bytearray(1000)
    >>> memory.peak >= memory.start > 0
    True
    """

    def __init__(self, interval: float = 0.1, pid: int | None = None) -> None:
        self.interval = interval
        self.pid = pid
        self.start = 0
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="dkernel-memory", daemon=True)

    def __enter__(self) -> "PeakMemory":
        self.start = self.peak = process_tree_rss(self.pid)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, process_tree_rss(self.pid))

    def _sample(self) -> None:
        while not self._stop.wait(self.interval):
            self.peak = max(self.peak, process_tree_rss(self.pid))
