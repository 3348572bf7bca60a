"""The processes of a cluster whose messages are counted: a scheduler, and workers that are forked when all is imported.

What each process counts is in a file of its own, so to read the numbers sends nothing.
"""

import asyncio
import gc
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Scheduler, Worker
from distributed.comm.tcp import TCP
from distributed.diagnostics.plugin import SchedulerPlugin

from dkernel.streaming.execution.in_task import task_modules
from dkernel.streaming.execution.process import import_modules_of_tasks

COUNTS = ("tasks", "messages", "bytes")

import_modules_of_tasks(task_modules())
gc.freeze()  # a collection in a forked process would copy the pages of all that is here


def counts_of(folder: Path, role: str) -> Any:
    """The counts of this process, in a file that others read."""
    return np.memmap(folder / f"{role}-{os.getpid()}", np.int64, "w+", shape=(len(COUNTS),))


def count_messages(counts: Any) -> None:
    """Add up what this process writes to others."""
    write = TCP.write

    async def counted(self: Any, *args: Any, **options: Any) -> Any:
        sent = await write(self, *args, **options)
        counts[1] += 1
        counts[2] += sent or 0
        return sent

    TCP.write = counted


class TaskCounter(SchedulerPlugin):
    """Adds up the tasks that the scheduler gives to workers."""

    def __init__(self, counts: Any) -> None:
        self.counts = counts

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.counts[0] += finish == "processing"


def run_scheduler(folder: Path, file: Path) -> None:
    """A scheduler, until it is ended."""

    async def run() -> None:
        logging.getLogger("distributed").setLevel(logging.ERROR)
        counts = counts_of(folder, "scheduler")
        count_messages(counts)
        scheduler = Scheduler(host="127.0.0.1", port=0, dashboard_address=":0", scheduler_file=str(file))
        scheduler.add_plugin(TaskCounter(counts))
        await (await scheduler).finished()

    asyncio.run(run())


def run_workers(folder: Path, address: str, workers: int) -> None:
    """Some workers of one thread each, until they are ended."""

    async def run() -> None:
        logging.getLogger("distributed").setLevel(logging.ERROR)
        count_messages(counts_of(folder, "worker"))
        options = {"nthreads": 1, "dashboard": False, "local_directory": str(folder), "memory_limit": "4GiB"}
        started = await asyncio.gather(*(Worker(address, **options) for _ in range(workers)))
        await asyncio.gather(*(worker.finished() for worker in started))

    asyncio.run(run())


def vectors(n: int, size: int) -> list[Any]:
    """So many arrays, as a call returns the sums of the chunks that it has."""
    return [np.ones(size) for _ in range(n)]
