"""Checks of a cluster before a job: each finding names the process and the remedy."""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dkernel.cli.diagnostics import host_facts as probes
from dkernel.numerics import resource_limits
from dkernel.numerics.resource_limits import format_bytes, format_limit
from dkernel.streaming.execution.connection import PATIENCE, Connection
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.execution.stated import PlannedCluster
from dkernel.streaming.execution.versions import versions
from dkernel.training.planning.memory_plan import Plan

# The checks, each with what helps where a finding says nothing else.
CHECKS = {
    "workers": "Look at its log; start it again from the environment that the client has.",
    "versions": "Install the same versions everywhere (one image or environment for all) and start this process again.",
    "write": "Make the folder, mount it on this machine, or let this process's user write there.",
    "shared": "Use a folder that all machines share (NFS, a mounted volume) under one name, or a URL.",
    "data": "Mount the data there under the same name, or give them as a URL.",
    "disk": "Make room there, or choose another place.",
    "spill": "Start the worker with --local-directory on a disk, or with distributed.worker.memory.spill: false.",
    "memory": "Start fewer workers there, or give each a smaller --memory-limit.",
    "blas": "Start the worker with OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1. A run of dkernel "
    "sets one thread by itself; what else runs there does not.",
    "clock": "Let both machines take the time from the network (chrony, systemd-timesyncd).",
    "limits": "Raise it in Dask's configuration of the process, or give the run a shorter --cluster-timeout.",
    "job": "Correct the command or its data; the plan needs both.",
}
FIRST_WORKER = 30.0  # seconds for a cluster that begins workers only for tasks
LEAST_FREE = 2**30  # bytes that a model and a checkpoint of 10,000 columns need
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
MADE = ("--checkpoint", "--scratch")  # folders that a run makes if they are not there


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
    """The job that the cluster is to do; every part may be missing.

    Parameters
    ----------
    source, recipe : what the plan is made from
    folders : name of an option -> folder that is written to
    shared : names of those of which all see one folder
    files : to read, as the workers see them
    trouble : why there is no source, where it was asked for
    """

    source: Any = None
    recipe: Any = None
    folders: Mapping[str, str] = field(default_factory=dict)
    shared: Sequence[str] = ()
    files: Sequence[str] = ()
    trouble: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Facts of every process, and all findings.

    Parameters
    ----------
    processes : "client", "scheduler" and each worker's address -> its facts; of a worker that failed, its error
    limits : setting of Dask -> seconds after which scheduler or workers give up, where a run waits longer
    """

    processes: dict[str, dict[str, Any]]
    plan: dict[str, Any] | None
    findings: list[Finding]
    limits: dict[str, float]


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
    shared = {name: folder for name, folder in job.folders.items() if name in job.shared}
    written = {name: folder for name, folder in job.folders.items() if name == "--scratch"}  # by workers too
    with _tokens(shared) as tokens:
        packages = [name for name in versions() if name != "python"]
        rest = (list(MADE), tokens, list(job.files), list(LIMITS))
        processes: dict[str, dict[str, Any]] = {CLIENT: probes.probe(packages, dict(job.folders), *rest)}
        if client is not None:
            processes |= _on_cluster(client, (packages, written, *rest))
    workers = {name: facts for name, facts in processes.items() if name not in (CLIENT, SCHEDULER)}
    plan, trouble = _make_plan(job, workers)
    findings = [*_unreachable(client, processes), *_versions(processes), *_folders(processes, job)]
    sound = {name: facts for name, facts in workers.items() if "error" not in facts}
    findings += [*_disks(sound, job, plan), *_memory(processes[CLIENT], sound, plan), *_speed(sound)]
    shorter = list(_shorter(processes, patience))
    findings += _limits(shorter, patience)
    if trouble:
        findings.append(Finding("job", CLIENT, trouble))
    limits = {name: min(seconds for _, other, seconds in shorter if other == name) for _, name, _ in shorter}
    return Diagnosis(processes, None if plan is None else plan.as_dict(), findings, limits)


@contextmanager
def _tokens(folders: Mapping[str, str]) -> Iterator[list[str]]:
    """Make an empty file in each folder of this machine, or in the nearest above it, to see which workers see it."""
    local = {name: folder for name, folder in folders.items() if "://" not in folder}
    with ExitStack() as opened:
        names = []
        for folder in {probes.nearest_folder(folder) if name in MADE else folder for name, folder in local.items()}:
            if os.path.isdir(folder) and os.access(folder, os.W_OK):
                with suppress(OSError):
                    token = opened.enter_context(
                        tempfile.NamedTemporaryFile(dir=Path(folder).absolute(), prefix=".dkernel-doctor-")
                    )
                    names.append(token.name)
        yield names


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


def _make_plan(job: DoctorRequest, workers: Mapping[str, Mapping[str, Any]]) -> tuple[Plan | None, str]:
    if job.source is None:
        return None, job.trouble
    limits = [limit for facts in workers.values() if (limit := _memory_limit(facts))]
    limit = min(limits, default=None)
    threads = {name: facts.get("threads", 1) for name, facts in workers.items()}
    executor = PlannedCluster(threads, limit) if workers else ThreadsExecutor(memory_limit=limit)
    return Plan.of(job.source, job.recipe.for_columns(job.source.columns), executor), ""


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
        for option, written in facts["places"].items():
            folder = job.folders[option]
            if written["error"]:
                yield Finding("write", name, f"{option} {written['error']}")
            elif written["free"] is not None and written["free"] < LEAST_FREE:
                yield Finding("disk", name, f"{option} {folder}: {format_bytes(written['free'])} free")
        for token in facts["missing"]:
            yield Finding("shared", name, f"{os.path.dirname(token)} is another folder there than on the client")
        if facts["unreadable"] and not (name == CLIENT and len(processes) > 1):  # workers read the data
            more = f" and {len(facts['unreadable']) - 1} more" if len(facts["unreadable"]) > 1 else ""
            yield Finding("data", name, f"{facts['unreadable'][0]}{more}: not there, or not readable")


def _disks(workers: Mapping[str, Mapping[str, Any]], job: DoctorRequest, plan: Plan | None) -> Iterator[Finding]:
    rows = plan.scratch_bytes / max(1, len(workers)) if plan and "--scratch" not in job.folders else 0
    for name, facts in workers.items():
        folder, kind = facts["local_directory"], facts["file_system"]
        if facts["spills"] and kind in ("tmpfs", "ramfs"):
            yield Finding("spill", name, f"the worker spills to {folder}, which is {kind}: memory, not a disk")
        elif facts["spills"] and facts["local_free"] < LEAST_FREE:
            yield Finding(
                "disk",
                name,
                f"{format_bytes(facts['local_free'])} free for spilling in {folder}",
                "Make room there, or start the worker with --local-directory elsewhere.",
            )
        elif facts["local_free"] < rows:
            yield Finding(
                "disk",
                name,
                f"{format_bytes(facts['local_free'])} free in {folder}; the rows of cells need {format_bytes(rows)}",
                "Make room there, start the worker with --local-directory elsewhere, or give --scratch a larger disk.",
            )


def _memory(
    client: Mapping[str, Any], workers: Mapping[str, Mapping[str, Any]], plan: Plan | None
) -> Iterator[Finding]:
    if plan is not None:
        if client["memory"] and plan.here_bytes > client["memory"]:
            yield Finding(
                "memory",
                CLIENT,
                f"the plan needs {format_bytes(plan.here_bytes)} here, where {format_bytes(client['memory'])} may be "
                "used",
                "Use fewer --n-components, or run the command on a larger machine.",
            )
        for name, facts in workers.items():
            if (limit := _memory_limit(facts)) and limit < plan.worker_bytes:
                yield Finding(
                    "memory",
                    name,
                    f"its limit is {format_bytes(limit)}, and the plan needs {format_bytes(plan.worker_bytes)} of it",
                    f"Start the worker with --memory-limit {format_limit(plan.worker_bytes)} or more, use "
                    "fewer --n-components, or write the data in smaller chunks.",
                )
    for host in {facts["host"] for facts in workers.values()}:
        mine = [facts for facts in workers.values() if facts["host"] == host]
        limits, memory = sum(facts["memory_limit"] or 0 for facts in mine), mine[0]["memory"]
        if memory and limits > 1.02 * memory:
            has = f"the machine or container has {format_bytes(memory)}"
            yield Finding("memory", host, f"{len(mine)} workers may use {format_bytes(limits)} in all, {has}")


def _memory_limit(facts: Mapping[str, Any]) -> int | None:
    """Memory limit of a worker or its container; None if unknown."""
    return min((limit for name in ("memory_limit", "memory") if (limit := facts.get(name))), default=None)


def _speed(workers: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for name, facts in workers.items():
        threads = facts["blas_threads"]
        if threads is not None and threads > 1:
            yield Finding("blas", name, f"BLAS has {threads} threads beside {facts['threads']} worker threads")
        ahead = facts.get("clock_ahead", 0.0)
        # Certificates and the heartbeats of run records allow clocks to be two seconds apart.
        if abs(ahead) > 2.0 + facts.get("clock_unsure", 0.0):
            way = "ahead of" if ahead > 0 else "behind"
            yield Finding("clock", name, f"its clock is {abs(ahead):,.0f} s {way} the client's")


def _shorter(processes: Mapping[str, Mapping[str, Any]], patience: float) -> Iterator[tuple[str, str, float]]:
    """(process, setting, seconds) of each limit that is shorter than a run's patience."""
    for process, facts in processes.items():
        if process != CLIENT:
            for name, seconds in facts.get("limits", {}).items():
                if seconds is not None and seconds < patience:
                    yield process, name, seconds


def _limits(shorter: Sequence[tuple[str, str, float]], patience: float) -> Iterator[Finding]:
    """Find limits that end a run early."""
    for process, name, seconds in shorter:
        least = LIMITS[name]
        if least is None or seconds < least:
            yield Finding(
                "limits",
                process,
                f"{name} is {seconds:g} s, and a run waits {patience:g} s for what does not answer",
                f"Start the process with {name}: {patience:g}s in Dask's configuration, or give the run a shorter "
                "--cluster-timeout.",
            )
