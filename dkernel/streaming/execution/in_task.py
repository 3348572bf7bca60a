"""Requests of a task to its worker: modules, its folder, and the scheduler."""

import importlib
import sys
import tempfile
from typing import Any

_task_modules = [
    "dkernel.data.readers.parquet",
    "dkernel.numerics.tiling",
    "dkernel.streaming.survey",
]
"""Modules that tasks need; a module adds itself by `import_ahead`."""


def worker_of_task() -> Any:
    """The worker whose task runs in this thread; None if there is none.

    Examples
    --------
    >>> worker_of_task() is None
    True
    """
    if "distributed" not in sys.modules:
        return None
    try:
        return importlib.import_module("distributed").get_worker()
    except ValueError:
        return None


def local_folder() -> str:
    """The folder in which a task may write to the disk of its worker; without a worker, the temporary folder."""
    worker = worker_of_task()
    return tempfile.gettempdir() if worker is None else str(worker.local_directory)


def options_of_scheduler() -> dict[str, str]:
    """The scheduler of this task's worker, and the certificates that the worker has, as options of a command."""
    worker = worker_of_task()
    security = worker.security
    options = {
        "--scheduler": worker.scheduler.address,
        "--tls-ca-file": security.tls_ca_file,
        "--tls-cert": security.tls_worker_cert,
        "--tls-key": security.tls_worker_key,
    }
    return {option: str(value) for option, value in options.items() if value}


def import_ahead(module: str) -> None:
    """Have workers import this module before their first task, if the client has imported it."""
    _task_modules.append(module)


def task_modules() -> tuple[str, ...]:
    """The modules that workers are to import ahead."""
    return tuple(_task_modules)
