"""What Dask does not do: a task that found no worker at all forgets which one it was meant for."""

from typing import Any

from distributed import SchedulerPlugin

__all__ = ["Forgotten"]


class Forgotten(SchedulerPlugin):
    """Of a task that others may run too (allow_other_workers) the wish for a worker goes when there is none to run it.

    While other workers run Dask gives it to one of them. But a task that waits because nobody runs is only given to a
    worker that joins if that is the one it was meant for, and so never, where that one is gone.
    """

    idempotent = True  # registered again after a lost connection, it is there already

    async def start(self, scheduler: Any) -> None:
        """Called by the scheduler that it is registered with."""
        self.scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **more: Any) -> None:  # noqa: ARG002
        """Called after each change of a task's state."""
        if finish == "no-worker":
            task = self.scheduler.tasks.get(key)
            if task is not None and task.loose_restrictions:
                task.worker_restrictions = None
