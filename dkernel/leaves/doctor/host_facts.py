"""Facts of a process for `dkernel doctor`, by the standard library and what Dask needs, because a worker may not
have dkernel at all.

The functions are sent by value. They read, and make and remove one empty file in the folder that they are asked about.
"""

import importlib
import importlib.metadata
import os
import platform
import shutil
import socket
import tempfile
from typing import Any

from dkernel.numerics import resource_limits


def probe(
    packages: list[str],
    scratch: str | None,
    token: str | None,
    data: list[str],
    limits: list[str],
    dask_worker: Any = None,
) -> dict[str, Any]:
    """Facts of this process, as JSON has them.

    Parameters
    ----------
    packages : whose versions to tell
    scratch : folder to write in
    token : file that the client has made, to see whether this process sees the same folder
    data : files to read
    limits : names of settings of Dask that are a time
    dask_worker : given by Dask on a worker
    """
    python = ".".join(platform.python_version_tuple()[:2])
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "memory": resource_limits.memory_limit(),
        "versions": {"python": python} | {name: version(name) for name in packages},
        "scratch": None if scratch is None else try_writing(scratch),
        "missing": None if token is None or os.path.exists(token) else token,
        "unreadable": [path for path in data if not os.access(path, os.R_OK)],
        "limits": {name: seconds(name) for name in limits},
    }
    # Dask hands over its scheduler under this name too.
    return facts | worker_facts(dask_worker) if hasattr(dask_worker, "state") else facts


def worker_facts(worker: Any) -> dict[str, Any]:
    """Facts that only a worker has."""
    spill = importlib.import_module("dask").config.get("distributed.worker.memory.spill", 0.7)
    local = nearest_folder(worker.local_directory)
    return {
        "memory_limit": worker.memory_manager.memory_limit,
        "spills": spill is not False,
        "local_directory": local,
        "local_free": shutil.disk_usage(local).free,
    }


def seconds(name: str) -> float | None:
    """A time in Dask's configuration of this process, None where none is set."""
    text = importlib.import_module("dask").config.get(name, None)
    return None if text is None else float(importlib.import_module("dask.utils").parse_timedelta(text))


def version(name: str) -> str:
    """Version of a package, or "absent"."""
    try:
        if name == "dkernel":
            return str(importlib.import_module(name).__version__)
        return importlib.metadata.version(name)
    except ImportError:
        return "absent"


def nearest_folder(folder: str) -> str:
    """The folder, or the nearest above it that is there."""
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def try_writing(folder: str) -> dict[str, Any]:
    """The reason why nothing can be written there, None if it can; and the bytes that are free."""
    try:
        there = nearest_folder(folder)
        with tempfile.TemporaryFile(dir=there):
            pass
        return {"error": None, "free": shutil.disk_usage(there).free}
    except OSError as error:
        return {"error": f"{folder}: not writable ({type(error).__name__}: {error})", "free": None}
