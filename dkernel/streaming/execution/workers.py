"""The workers of a run: the first task of each checks its versions and modules, and accepts or refuses it."""

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from hashlib import sha256
from math import inf
from typing import Any

from dkernel.data.failures import START, RefusedWorkerError, describe_paused
from dkernel.errors import ClusterError, DKernelWarning
from dkernel.streaming.execution.connection import Connection
from dkernel.streaming.execution.in_task import task_modules
from dkernel.streaming.execution.process import Settings, check_process
from dkernel.streaming.machine import take_workers

FRESH = 1.0  # seconds for which an answer about the workers counts as new
REPLACED = 5  # times that each of a run's own workers is replaced: if Dask gives it up each time, one more will not do
LOOK = 0.05  # seconds between two checks of the first tasks, which nobody notices


class WorkerPool:
    """Workers that were accepted, those refused with the reason, and those whose first task has not ended.

    Parameters
    ----------
    settings : settings that a worker must meet
    faults : gets a message for each worker that does not meet them, and for each that is lost
    tell : called with the message for a lost worker
    resources : Dask resources that each task takes; workers with fewer are not used
    started : number of workers that were started for this run; those that Dask gives up are replaced
    """

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        faults: list[str],
        tell: Callable[[str], None],
        resources: Mapping[str, float] | None = None,
        started: int = 0,
    ) -> None:
        self.resources, self.started = dict(resources or {}), started
        self.connection, self.settings, self.faults, self.tell = connection, settings, faults, tell
        self.fit: dict[str, int] = {}
        self.memory: dict[str, tuple[int, float]] = {}
        """Bytes that each accepted worker may use, by its machine or container, and the share of its own limit."""
        self.refused: dict[str, str] = {}
        self.replaced = False
        """True if all accepted workers are gone."""
        self.most = inf
        """Threads that are used at most."""
        self._given_up: list[Any] = []
        self._used: list[str] = []
        self._checks: dict[str, tuple[int, Any]] = {}
        self._asked = -FRESH
        self._there: dict[str, int] = {}
        self._warned: set[str] = set()
        self._numbers = 0
        self._lock = threading.RLock()

    def known(self, fresh: float = FRESH) -> dict[str, int]:
        """Threads of each accepted worker that is there; the answer is at most `fresh` seconds old."""
        with self._lock:
            if time.monotonic() - self._asked >= fresh:
                self._there = dict(self.connection.ask(self.connection.client.nthreads))
                if self.resources:
                    self._there = {worker: n for worker, n in self._there.items() if self._has_resources(worker)}
                self._asked = time.monotonic()
                self._begin_checks()
                if len(self._there) < self.started:
                    self._replace()
            self._end_checks()
            return dict(self.fit)

    def used(self) -> dict[str, int]:
        """Threads of each worker that gets calls: as many workers as have `most` threads, the same while they stay."""
        return self.known() if self.most == inf else self.in_order()

    def in_order(self) -> dict[str, int]:
        """The same in the order of this run, so that the runs of a cluster do not all use the same workers."""
        fit = self.known()
        order = [worker for worker in self._used if worker in fit]
        if sum(fit[worker] for worker in order) < self.most:
            others = fit.keys() - set(order)
            order += sorted(others, key=lambda worker: sha256(f"{self.connection.token}{worker}".encode()).digest())
        chosen = take_workers({worker: fit[worker] for worker in order}, self.most)
        self._used = list(chosen)
        return chosen

    def _has_resources(self, worker: str) -> bool:
        info = self.connection.ask(lambda: self.connection.client.scheduler_info(n_workers=-1))["workers"]
        has = info.get(worker, {}).get("resources", {})
        return all(has.get(name, 0) >= amount for name, amount in self.resources.items())

    def _begin_checks(self) -> None:
        there = self._there
        self.replaced = self.replaced or bool(self.fit and not self.fit.keys() & there.keys())
        for worker in self.fit.keys() - there.keys():
            self.faults.append(f"the worker {worker} is gone; what it had is computed again")
            self.tell(self.faults[-1])
        self.fit = {worker: there[worker] for worker in self.fit if worker in there}
        self.refused = {worker: why for worker, why in self.refused.items() if worker in there}
        self._checks = {worker: check for worker, check in self._checks.items() if worker in there}
        for worker in there.keys() - self.fit.keys() - self.refused.keys() - self._checks.keys():
            self._numbers += 1
            key = f"dkernel-check-{self.connection.token}-{self._numbers}"
            client = self.connection.reach()
            self._checks[worker] = (
                there[worker],
                client.submit(
                    check_process, self.settings, task_modules(), key=key, workers=[worker], pure=False, priority=1
                ),
            )

    def _replace(self) -> None:
        """Start a worker for each that Dask has given up: a nanny ends with a worker that loses its scheduler."""
        cluster = self.connection.client.cluster
        nannies = list(cluster.workers.values())
        new = [nanny for nanny in nannies if nanny.status.name == "closed" and nanny not in self._given_up]
        if new and len(self._given_up) < REPLACED * self.started:
            self._given_up += new
            self.faults.append(f"{len(new)} worker(s) were given up by Dask; as many others are begun")
            cluster.scale(len(nannies) + len(new))

    def _end_checks(self) -> None:
        done = {worker: future for worker, (_, future) in self._checks.items() if future.done()}
        sound = [worker for worker, future in done.items() if future.status == "finished"]
        if sound:
            # The values of a lost worker are skipped.
            memory = self.connection.ask(
                lambda: self.connection.client.gather({worker: done[worker] for worker in sound}, errors="skip")
            )
            self.memory |= memory
        for worker, future in done.items():
            threads, _ = self._checks.pop(worker)
            if worker in sound:
                self.fit[worker] = threads
            elif future.status == "error":
                error = self.connection.ask(future.exception)
                words = str(error) if isinstance(error, RefusedWorkerError) else f"{type(error).__name__}: {error}"
                self.refused[worker] = words if worker in words else f"The worker {worker} cannot be used ({words})."

    def warn_of_refused(self) -> None:
        """Warn of the workers that were refused since the last calls."""
        self.known()
        for worker, why in self.refused.items():
            if worker not in self._warned:
                self._warned.add(worker)
                self.faults.append(why)
                warnings.warn(f"A worker is not used. {why}", DKernelWarning, stacklevel=4)

    def refuse(self, worker: str, why: str) -> None:
        """Send no more calls to this worker."""
        with self._lock:
            self.fit.pop(worker, None)
            self.refused[worker] = why
        self.warn_of_refused()

    def any_refused(self) -> bool:
        """Wait for the checks of all workers; True if some worker is refused."""
        deadline = time.monotonic() + START
        while (self.known(0.0) or True) and self._checks and time.monotonic() < deadline:
            time.sleep(LOOK)
        return bool(self.refused)

    def pin(self, at: str | None) -> dict[str, Any]:
        """Pin a task to a worker, as arguments of `Client.submit`; other workers run it if that one is gone.

        If some workers were refused, any of the accepted workers may run the task.
        """
        if self.refused and self.fit:
            return {"workers": sorted(self.fit), "allow_other_workers": False}
        return {"workers": [at], "allow_other_workers": True} if at in self.fit else {}

    def wait_for_workers(self, least: int, tell: Callable[[str], None]) -> None:
        """Wait until `least` workers are accepted and the others had time to answer; a ClusterError if none is.

        `tell` is called with a message for a longer wait.
        """
        patience, told = self.connection.patience, False
        began = time.monotonic()
        while True:
            self.known(LOOK)
            waited = time.monotonic() - began
            enough = len(self.fit) >= least and (not self._checks or waited > min(START, patience))
            if enough or (self.fit and waited > patience):
                break
            if self.refused and not self._checks and not self.fit:
                raise RefusedWorkerError(min(self.refused), "\n".join(self.refused.values()))
            if waited > patience:
                raise ClusterError(self._nobody(f"waited for {patience:.0f} seconds"))
            if waited > START and not told:
                tell(self._nobody(f"waited for up to {patience:.0f} seconds"))
                told = True
            time.sleep(LOOK)
        self.warn_of_refused()

    def _nobody(self, waited: str) -> str:
        """The message that a run has no workers: which, how long it waits, and what to do."""
        address = self.connection.address
        if self._checks:
            why = self.describe_paused() or "Are they busy, or are their processes stopped?"
            return (
                f"The workers {', '.join(sorted(self._checks))} of {address} have not run a first task; {waited}. {why}"
            )
        if self.resources:
            return f"No worker of {address} has the resources {self.resources} that dask.annotate asks for; {waited}."
        return f"The scheduler at {address} has no workers; {waited}. Start some: dask worker {address}"

    def describe_paused(self) -> str:
        """Say which workers of the run Dask has paused, and what to do; "" for none."""
        workers = self.connection.ask(lambda: self.connection.client.scheduler_info(n_workers=-1))["workers"]
        return describe_paused({name: workers[name] for name in [*self.fit, *self._checks] if name in workers})

    def who_waits(self) -> str:
        """The first words of the error when nothing happens."""
        refused = "".join(f" ({why})" for why in self.refused.values())
        if not self.fit:
            return f"There have been no workers{refused}"
        return f"None of the {len(self.fit)} workers has finished anything{refused}"
