"""The speed of this machine beside that of the measured table, for the seconds that a plan states.

It is measured once for each machine and version, in some tenths of a second of one core, and kept beside the compiled
loops. No choice of a fit looks at it, so no byte of a model depends on it.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from math import exp, log
from pathlib import Path

import numpy as np
import scipy

from dkernel.numerics.machine_code import loop_folder
from dkernel.numerics.threads import one_blas_thread

# Seconds of each kind of work on the machine of the table in `dkernel.cost` (`scripts/bench/costs.py` prints these).
REFERENCE: Mapping[str, float] = {
    "single": 4.53e-3,
    "double": 2.65e-3,
    "exp": 3.27e-4,
    "memory": 1.6e-4,
    "walk": 6.7e-4,
}
# The kinds that the work of a part is like; its speed is the geometric mean of theirs.
WORK_KINDS: Mapping[str, tuple[str, ...]] = {
    "start": ("double",),
    "survey": ("memory",),
    "choice": ("double", "exp"),
    "global": ("single",),
    "grids": ("walk",),
    "cells": ("single",),
}
REPEATS = 5  # timings, of which the least counts


def measure() -> dict[str, float]:
    """CPU seconds of one thread for each kind of work."""
    rng = np.random.default_rng(0)
    single = rng.random((384, 384), dtype=np.float32)
    double, many = rng.random((256, 256)), rng.random(100_000)
    codes, table = rng.integers(0, 2**16, 200_000), rng.random(2**16, dtype=np.float32)
    work: dict[str, Callable[[], object]] = {
        "single": lambda: single @ single,
        "double": lambda: double @ double,
        "exp": lambda: np.exp(many),
        "memory": lambda: np.square(many) + many,
        "walk": lambda: table[codes],
    }
    with one_blas_thread():
        return {kind: min(_seconds(call) for _ in range(REPEATS)) for kind, call in work.items()}


def _seconds(call: Callable[[], object]) -> float:
    began = time.thread_time()
    for _ in range(4):
        call()
    return time.thread_time() - began


@cache
def machine_speeds() -> Mapping[str, float]:
    """Part of a fit -> how many times as fast this machine is as that of the table; 1 where nothing can be kept."""
    from dkernel import __version__

    known = (__version__, np.__version__, scipy.__version__, platform.node(), platform.machine(), _processor())
    folder = loop_folder()
    if not folder:
        return dict.fromkeys(WORK_KINDS, 1.0)
    name = hashlib.sha256("/".join(known).encode()).hexdigest()[:16]
    path = Path(folder, f"dkernel-speed-{name}.json")
    with suppress(OSError, ValueError, LookupError, TypeError, ArithmeticError):  # no room, or a damaged file
        _write_once(path)
        seconds = json.loads(path.read_text(encoding="utf-8"))
        return {
            part: exp(sum(log(REFERENCE[kind] / seconds[kind]) for kind in kinds) / len(kinds))
            for part, kinds in WORK_KINDS.items()
        }
    return dict.fromkeys(WORK_KINDS, 1.0)


def _write_once(path: Path) -> None:
    """Measure and keep, whole or not at all; the first of several processes that do wins."""
    if path.exists():
        return
    part = path.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(json.dumps(measure()), encoding="utf-8")
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line
    return platform.processor()
