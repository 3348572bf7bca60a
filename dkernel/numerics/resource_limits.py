"""Memory and cores that a process may use: those of the machine, or fewer where a container or a user limit says so.

`distributed.system` and `dask.system` know the limits at the root of the mounted control groups. A job of Slurm or of
systemd is in a group further down, whose limits and those of all groups above it hold too. The functions need no other
module of dkernel, since the doctor sends them to workers that may not have it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from math import ceil
from pathlib import Path

PROCESS, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_MEMORY = ("memory.max", "memory.high", "memory.limit_in_bytes")  # above memory.high a process is made to crawl
_USED = ("memory.current", "memory.usage_in_bytes")


def memory_limit() -> int:
    """Bytes of memory that this process may use, if no other uses any."""
    psutil = import_module("psutil")
    limits, process = [int(psutil.virtual_memory().total)], psutil.Process().memory_info()
    if (space := _address_space()) is not None:  # part of the addresses in use stand for no memory
        limits.append(max(0, space - process.vms + process.rss))
    return min(limits + [limit for folder in _folders("memory") for limit in _read_memory(folder)])


def available_memory() -> int:
    """Bytes of memory that this process can still get without the system swapping or ending a process."""
    psutil = import_module("psutil")
    free = [int(psutil.virtual_memory().available)]
    for folder in _folders("memory"):
        used = next((int(text) for text in map(_read, [folder / name for name in _USED]) if text), 0) - _files(folder)
        free += [max(0, limit - used) for limit in _read_memory(folder)]
    if (space := _address_space()) is not None:
        free.append(max(0, space - psutil.Process().memory_info().vms))
    return min(free)


def format_bytes(n: float) -> str:
    """Write a number of bytes in KiB or MiB, for a message.

    Examples
    --------
    >>> format_bytes(3000), format_bytes(5 * 2**30), format_bytes(0)
    ('3 KiB', '5,120 MiB', '0 MiB')
    """
    return f"{n / 2**10:,.0f} KiB" if 0 < n < 2**20 else f"{n / 2**20:,.0f} MiB"


def format_limit(n: int) -> str:
    """Format bytes as --memory-limit takes them, rounded up.

    Examples
    --------
    >>> format_limit(5 * 2**30 + 1)
    '5121MiB'
    """
    return f"{-(-n // 2**20)}MiB"


def check_address_space() -> None:
    """Refuse a limit of addresses in which the libraries cannot start: OpenBLAS then tries for ever to get its buffers.

    A command on one core takes 480 MiB of addresses before its data. For each further core, NumPy's and SciPy's
    OpenBLAS each take a buffer of 32 MiB and a stack of 8 MiB.
    """
    words = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min([cores, *(int(word) for word in words if word.isdigit() and int(word))])
    space, least = _address_space(), (480 + 2 * (32 + 8) * (threads - 1)) * 2**20
    if space is not None and space < least:
        from dkernel.errors import MemoryBudgetError

        raise MemoryBudgetError(
            f"This process may have {format_bytes(space)} of addresses (RLIMIT_AS, `ulimit -v`), and its libraries "
            f"take {format_bytes(least)} with {threads} thread(s) before any data. Raise that limit, or limit the "
            "memory of the job's control group in its place."
        )


def cpu_limit() -> int:
    """Cores that this process may use: those that it may run on, or the quota of its group, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *(max(1, ceil(quota)) for folder in _folders("cpu") for quota in _read_cores(folder))])


def _folders(controller: str) -> Iterator[Path]:
    """The folders of the groups that this process is in, each group and those above it.

    Versions 1 and 2 of control groups may be mounted at one time. In a container a group may be named as the host
    names it, by a path that is not there: the mounted root is the container's own then.
    """
    for line in _read(PROCESS).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            roots = [CGROUPS, CGROUPS / "unified"]
        elif controller in controllers.split(","):
            roots = [CGROUPS / controllers, CGROUPS / controller]
        else:
            continue
        parts = Path(path.lstrip("/")).parts
        for root in roots:
            yield from (root.joinpath(*parts[:n]) for n in range(len(parts), -1, -1))


def _read_memory(folder: Path) -> list[int]:
    return [int(text) for text in (_read(folder / name) for name in _MEMORY) if text.isdigit() and int(text)]


def _files(folder: Path) -> int:
    """Bytes of files that the group reads, which the system gives up when memory is asked for."""
    stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _read_cores(folder: Path) -> list[float]:
    texts = _read(folder / "cpu.max").split() or [_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    return [int(texts[0]) / int(texts[1])] if all(text.isdigit() and int(text) for text in texts) else []


def _address_space() -> int | None:
    """RLIMIT_AS (`ulimit -v`), as batch systems set it."""
    with suppress(ImportError):
        resource = import_module("resource")
        limit = int(resource.getrlimit(resource.RLIMIT_AS)[0])
        return None if limit == resource.RLIM_INFINITY else limit
    return None


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""
