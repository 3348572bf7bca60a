"""Opens the files of a run in this process, or on a worker if only the workers see them."""

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from dkernel.data.compute import compute_by_threads
from dkernel.data.opening import open_source
from dkernel.data.paths import error_of_difference, expand
from dkernel.data.source import Source
from dkernel.errors import DataError, UnseenFileError
from dkernel.streaming.execution.base import Call, Executor
from dkernel.streaming.execution.in_task import worker_of_task


def open_files(paths: Sequence[str], executor: Executor | None = None, **options: Any) -> Source:
    """Open files as `open_source` does; a worker opens them if this process does not see them.

    Parameters
    ----------
    executor : executor of the run; None if only this process may open the files
    options : options of `open_source`

    Raises
    ------
    DataError
        Also if the files are not the same on all machines.
    """
    try:
        return open_source(paths, **options)
    except UnseenFileError as error:
        workers = {} if executor is None else executor.processes()
        if executor is None or not workers:
            raise
        whole = [path if "://" in path else os.path.abspath(path) for path in map(os.fspath, paths)]
        at = _worker_that_sees(whole, executor, sorted(workers), error)
        source: Source
        ((source, fills, settled),) = _ask(executor, [(at, _open, (whole, options))])

        def again(**changed: Any) -> Source:
            return open_files(paths, executor, **{**options, **changed})

        filled = partial(again, holes=True) if fills else None
        return replace(source, filled=filled, in_dtype=None if settled else lambda dtype: again(dtype=dtype))


def _worker_that_sees(paths: Sequence[str], executor: Executor, workers: Sequence[str], unseen: DataError) -> str:
    """Find a worker that sees the files; all workers must see the same files under these names."""
    digests = dict(zip(workers, _ask(executor, [(at, _digest, (paths,)) for at in workers]), strict=True))
    seen = next((worker for worker in workers if digests[worker]), None)
    if seen is None:
        raise DataError(f"{unseen} None of the {len(workers)} workers sees it either.")
    other = next((worker for worker in workers if digests[worker] != digests[seen]), None)
    if other is not None:
        (host, files), (there, known) = _ask(executor, [(at, _list, (paths,)) for at in (other, seen)])
        for name in sorted({*files, *known}):
            if files.get(name) != known.get(name):
                raise error_of_difference(name, (host, files.get(name)), (there, known.get(name)))
    return seen


def _ask(executor: Executor, questions: Sequence[tuple[str, Any, tuple[Any, ...]]]) -> list[Any]:
    """Ask workers; a question has the address of its worker, the function and its arguments."""
    calls = [Call(f"dkernel-open-{uuid4().hex}", function, args, at) for at, function, args in questions]
    return executor.compute(calls)[0]


def _list(paths: Sequence[str]) -> tuple[str, dict[str, tuple[int, str]]]:
    """The name of this machine, and size and stamp of each file that it sees; runs on a worker."""
    try:
        files = expand(paths)
    except UnseenFileError:
        files = []
    return platform.node(), {file.name: (file.size, file.stamp) for file in files}


def _digest(paths: Sequence[str]) -> str:
    """A hash of the files that this machine sees; "" if it sees none."""
    files = _list(paths)[1]
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest() if files else ""


def _open(paths: Sequence[str], options: Mapping[str, Any]) -> tuple[Source, bool, bool]:
    """Open the source; tell also whether missing values can be encoded, and its dtype is settled. Runs on a worker."""
    threads = worker_of_task().state.nthreads
    source = open_source(paths, **options, compute=partial(compute_by_threads, threads=threads))
    return replace(source, filled=None, in_dtype=None, reopen=None), source.filled is not None, source.in_dtype is None
