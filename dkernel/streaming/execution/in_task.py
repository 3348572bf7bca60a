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


def scheduler_of_task() -> tuple[str, dict[str, str]]:
    """The address of the scheduler of this task's worker, and the worker's certificates as variables of Dask."""
    worker = worker_of_task()
    security, prefix = worker.security, "DASK_" + "DISTRIBUTED__COMM__TLS__"
    certificates = {
        "CA_FILE": security.tls_ca_file,
        "CLIENT__CERT": security.tls_worker_cert,
        "CLIENT__KEY": security.tls_worker_key,
    }
    return worker.scheduler.address, {prefix + name: str(file) for name, file in certificates.items() if file}


def import_ahead(module: str) -> None:
    """Have workers import this module before their first task, if the client has imported it."""
    _task_modules.append(module)


def task_modules() -> tuple[str, ...]:
    """The modules that workers are to import ahead."""
    return tuple(_task_modules)
