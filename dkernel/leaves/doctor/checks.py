"""Checks of the processes of a cluster before a job: each finding names the process and the remedy."""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dkernel.data.failures import PATIENCE
from dkernel.leaves.doctor import host_facts as probes
from dkernel.numerics import resource_limits
from dkernel.numerics.resource_limits import format_bytes
from dkernel.streaming.execution.connection import Connection
from dkernel.streaming.execution.versions import versions

# The checks, each with what helps where a finding says nothing else.
CHECKS = {
    "workers": "Look at its log; start it again from the environment that the client has.",
    "versions": "Install the same versions everywhere (one image or environment for all) and start this process again.",
    "write": "Mount the folder on this machine, or let this process's user write there.",
    "shared": "Use a folder that all machines share (NFS, a mounted volume) under one name, or a URL.",
    "data": "Mount the data there under the same name, or give them as a URL.",
    "disk": "Make room there, or choose another place.",
    "memory": "Start fewer workers there, or give each a smaller --memory-limit.",
    "clock": "Let both machines take the time from the network (chrony, systemd-timesyncd).",
    "limits": "Raise it in Dask's configuration of the process, or give the run a shorter --cluster-timeout.",
}
FIRST_WORKER = 30.0  # seconds for a cluster that begins workers only for tasks
LEAST_FREE = 2**30  # bytes
# Dask gives up what does not answer after these times; each is with the shortest one that does a run no harm: Dask's
# own for a connection, and a minute's silence of a worker, whose work goes to others. None: whatever the limit, a run
# would end before its time.
LIMITS: dict[str, float | None] = {
    "distributed.comm.timeouts.connect": 30.0,
    "distributed.comm.timeouts.tcp": 30.0,
    "distributed.scheduler.worker-ttl": 60.0,
    "distributed.scheduler.idle-timeout": 5.0,  # a run shows that it lives every 1.5 seconds
    "distributed.scheduler.no-workers-timeout": None,
    "distributed.worker.lifetime.duration": None,
}
CLIENT, SCHEDULER = "client", "scheduler"


@dataclass(frozen=True)
class Finding:
    """One fault: the check, the process, the finding, and the remedy, by default that of CHECKS."""

    check: str
    where: str
    found: str
    remedy: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remedy", self.remedy or CHECKS[self.check])


@dataclass(frozen=True)
class DoctorRequest:
    """What the processes of the cluster are to see; every part may be missing.

    Parameters
    ----------
    files : to read, as the workers see them
    scratch : folder that is written to
    shared : whether all have to see the same folder there
    """

    files: Sequence[str] = ()
    scratch: str | None = None
    shared: bool = False


@dataclass(frozen=True)
class Diagnosis:
    """Facts of every process, and all findings.

    Parameters
    ----------
    processes : "client", "scheduler" and each worker's address -> its facts; of a worker that failed, its error
    """

    processes: dict[str, dict[str, Any]]
    findings: list[Finding]


@contextmanager
def keep_workers(client: Any, patience: float) -> Iterator[None]:
    """Send tasks to a cluster without workers, as a run does: one that adapts has workers only for tasks."""
    if client is None or client.nthreads():
        yield
        return
    with closing(Connection(client, patience)) as connection:
        connection.stay_alive(dict)
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=min(FIRST_WORKER, patience))
        yield


def diagnose(client: Any, job: DoctorRequest, patience: float = PATIENCE) -> Diagnosis:
    """Look at this process and, with a Dask client, at its scheduler and every worker.

    Parameters
    ----------
    patience : seconds that a run waits for a cluster
    """
    with _token(job.scratch if job.shared else None) as token:
        packages = [name for name in versions() if name != "python"]
        asked = (packages, job.scratch, token, list(job.files), list(LIMITS))
        processes: dict[str, dict[str, Any]] = {CLIENT: probes.probe(*asked)}
        if client is not None:
            processes |= _on_cluster(client, asked)
    apart = (CLIENT, SCHEDULER)
    workers = {name: facts for name, facts in processes.items() if name not in apart and "error" not in facts}
    findings = [*_unreachable(client, processes), *_versions(processes), *_folders(processes, job)]
    findings += [*_disks(workers), *_memory(workers), *_clocks(workers), *_limits(processes, patience)]
    return Diagnosis(processes, findings)


@contextmanager
def _token(folder: str | None) -> Iterator[str | None]:
    """Make an empty file in a folder of this machine, or in the nearest above it, to see which workers see it."""
    with ExitStack() as opened:
        name = None
        if folder is not None:
            with suppress(OSError):
                name = opened.enter_context(
                    tempfile.NamedTemporaryFile(dir=probes.nearest_folder(folder), prefix=".dkernel-doctor-")
                ).name
        yield name


def _on_cluster(client: Any, asked: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    import cloudpickle

    by_value = (probes, resource_limits)
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        facts_of: dict[str, dict[str, Any]] = {SCHEDULER: _ask(client.run_on_scheduler, asked)}
        for address, facts in client.run(probes.probe, *asked, on_error="return").items():
            facts_of[address] = facts if isinstance(facts, dict) else {"error": f"{type(facts).__name__}: {facts}"}
        before = time.time()
        clocks = client.run(time.time, on_error="return")
        after = time.time()
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    for address, clock in clocks.items():
        if isinstance(clock, float) and "error" not in facts_of.get(address, {"error": ""}):
            facts_of[address]["clock_ahead"] = round(clock - (before + after) / 2, 3)
            facts_of[address]["clock_unsure"] = round((after - before) / 2, 3)
    return facts_of


def _ask(run: Any, asked: tuple[Any, ...]) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = run(probes.probe, *asked)
        return facts
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _unreachable(client: Any, processes: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    if client is not None and not set(processes) - {CLIENT, SCHEDULER}:
        found = "the scheduler has no workers, and none came for a task"
        yield Finding("workers", SCHEDULER, found, f"Start some: dask worker {client.scheduler.address}")
    for name, facts in processes.items():
        if "error" in facts:
            yield Finding("workers", name, f"the process did not answer: {facts['error']}")


def _versions(processes: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    here = processes[CLIENT]["versions"]
    for name, facts in processes.items():
        theirs = facts.get("versions")
        if theirs is None:
            continue
        wrong = [package for package in here if theirs.get(package) != here[package]]
        # The scheduler computes nothing: it has to speak Dask's language, and needs nothing else.
        if name == SCHEDULER:
            wrong = [package for package in wrong if package in ("python", "dask", "distributed")]
        if wrong:
            what = ", ".join(f"{package} {theirs.get(package)} instead of {here[package]}" for package in wrong)
            yield Finding("versions", name, what)


def _folders(processes: Mapping[str, Mapping[str, Any]], job: DoctorRequest) -> Iterator[Finding]:
    for name, facts in processes.items():
        if name == SCHEDULER or "error" in facts:
            continue
        if (written := facts["scratch"]) and written["error"]:
            yield Finding("write", name, f"--scratch {written['error']}")
        elif written and written["free"] < LEAST_FREE:
            yield Finding("disk", name, f"--scratch {job.scratch}: {format_bytes(written['free'])} free")
        if token := facts["missing"]:
            yield Finding("shared", name, f"{os.path.dirname(token)} is another folder there than on the client")
        if facts["unreadable"] and not (name == CLIENT and len(processes) > 1):  # workers read the data
            more = f" and {len(facts['unreadable']) - 1} more" if len(facts["unreadable"]) > 1 else ""
            yield Finding("data", name, f"{facts['unreadable'][0]}{more}: not there, or not readable")


def _disks(workers: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for name, facts in workers.items():
        if facts["spills"] and facts["local_free"] < LEAST_FREE:
            found = f"{format_bytes(facts['local_free'])} free for spilling in {facts['local_directory']}"
            yield Finding("disk", name, found, "Make room there, or start the worker with --local-directory elsewhere.")


def _memory(workers: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for host in {facts["host"] for facts in workers.values()}:
        mine = [facts for facts in workers.values() if facts["host"] == host]
        limits, memory = sum(facts["memory_limit"] or 0 for facts in mine), mine[0]["memory"]
        if memory and limits > 1.02 * memory:
            has = f"the machine or container has {format_bytes(memory)}"
            yield Finding("memory", host, f"{len(mine)} workers may use {format_bytes(limits)} in all, {has}")


def _clocks(workers: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for name, facts in workers.items():
        ahead = facts.get("clock_ahead", 0.0)
        # Certificates and the heartbeats of run records allow clocks to be two seconds apart.
        if abs(ahead) > 2.0 + facts.get("clock_unsure", 0.0):
            way = "ahead of" if ahead > 0 else "behind"
            yield Finding("clock", name, f"its clock is {abs(ahead):,.0f} s {way} the client's")


def _limits(processes: Mapping[str, Mapping[str, Any]], patience: float) -> Iterator[Finding]:
    """Find limits that end a run before its patience does."""
    for process, facts in processes.items():
        for name, seconds in facts.get("limits", {}).items() if process != CLIENT else ():
            least = patience if LIMITS[name] is None else min(patience, LIMITS[name] or 0.0)
            if seconds is not None and seconds < least:
                found = f"{name} is {seconds:g} s, and a run waits {patience:g} s for what does not answer"
                start = f"Start the process with {name}: {patience:g}s in Dask's configuration"
                yield Finding("limits", process, found, f"{start}, or give the run a shorter --cluster-timeout.")
