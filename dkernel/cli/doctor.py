"""`dkernel doctor`: checks of a cluster before a job."""

import json
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import connect_arguments, print_config, scratch_folders
from dkernel.cli.outputs import check_outputs
from dkernel.cli.say import say
from dkernel.cli.tables import align_columns
from dkernel.cli.train import make_recipe, open_for, train_command

_FILES, _FOLDERS = ("out", "report"), ("checkpoint", "scratch")


def _optional(param: click.Parameter) -> click.Parameter:
    param = copy(param)
    if isinstance(param, click.Option) and param.help:
        param.help = param.help.replace(" [required]", "")
    return param


@click.command(
    "doctor",
    cls=ExitCodeCommand,
    params=[_optional(param) for param in train_command.params],
    short_help="Check a cluster before a job.",
)
@click.pass_context
def doctor_command(ctx: click.Context, /, **values: Any) -> None:
    """Look at the client, the scheduler and every worker: versions, places to write, disks, memory, BLAS, clocks.

    Run it with the arguments of train: it lists every problem that would stop or slow the job, and how to fix it. All
    arguments are optional. It trains, writes and changes nothing. Exit code 0 if nothing is wrong, else 1.

    \b
    dkernel doctor --scheduler tcp://host:8786
    dkernel doctor data/ --label y --out model.safetensors --checkpoint /shared/run --scheduler tcp://host:8786
    """
    print_config(ctx, values)
    connection = connect_arguments(ctx, values)
    patience = connection.pop("patience")  # only a run waits for workers
    connection.pop("client_memory_limit", None)
    from dkernel.cli.run_record import masked

    diagnosis = masked(_diagnosis(values, connection, patience))
    if values["json"]:
        click.echo(json.dumps({"ok": not diagnosis["findings"], **diagnosis}))
    elif not values["quiet"] or diagnosis["findings"]:
        say("\n".join(_lines(diagnosis)))
    ctx.exit(1 if diagnosis["findings"] else 0)


def _diagnosis(values: Mapping[str, Any], connection: Mapping[str, Any], patience: float) -> dict[str, Any]:
    from dkernel.cli.diagnostics.doctor import diagnose, keep_workers
    from dkernel.errors import ClusterError
    from dkernel.streaming.execution.connect import client_at, find_dashboard

    try:
        with client_at(**connection) as client, keep_workers(client, patience):
            diagnosis = asdict(diagnose(client, _job(values, client), patience))
            if client is not None:
                cluster = {"scheduler": client.scheduler.address, "dashboard": find_dashboard(client)}
                diagnosis = {**cluster, **diagnosis}
            return diagnosis
    except ClusterError as error:
        finding = {"check": "workers", "where": "scheduler", "found": str(error)}
        remedy = "Start a scheduler (dask scheduler), or correct the address."
        return {"processes": {}, "plan": None, "findings": [{**finding, "remedy": remedy}], "limits": {}}


def _job(values: Mapping[str, Any], client: Any) -> Any:
    from dkernel.cli.diagnostics.doctor import DoctorRequest
    from dkernel.errors import DKernelError

    folders = {f"--{name}": _folder(values[name]) for name in _FILES if values.get(name)}
    folders |= {f"--{name}": values[name] for name in _FOLDERS if values.get(name)}
    beside, copied = scratch_folders(values).beside, values["encoding"] or any(map(_is_packed, values["data"]))
    if beside and copied:
        folders["--scratch"] = beside
    # Copies of the data in --scratch are read by all workers, rows that a worker stores by itself.
    asked: dict[str, Any] = {"folders": folders, "shared": ["--scratch"] if copied else []}
    if not values["data"]:
        return DoctorRequest(**asked)
    try:
        check_outputs()
        recipe = make_recipe(values)
        source, recipe = _open(values, recipe, client)
    except (DKernelError, OSError) as error:
        return DoctorRequest(**asked, trouble=str(error))
    files = sorted({str(Path(path).absolute()) for path in source.files if "://" not in path})
    return DoctorRequest(source, recipe, **asked, files=files)


def _open(values: Mapping[str, Any], recipe: Any, client: Any) -> Any:
    """Open the source, on a worker if only workers see the files, and fit the recipe to its label."""
    from dkernel.errors import UnseenFileError
    from dkernel.streaming.execution.cluster import ClusterExecutor

    try:
        return open_for(values, recipe)
    except UnseenFileError:
        if client is None or not client.nthreads():
            raise
        with ClusterExecutor(client) as executor:
            return open_for(values, recipe, executor)


def _is_packed(data: str) -> bool:
    """True if files of this name are unpacked before they are read."""
    from dkernel.data.endings import COMPRESSIONS

    return data.endswith((*COMPRESSIONS, ".npz"))


def _folder(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0] if "://" in path else str(Path(path).absolute().parent)


def _lines(diagnosis: Mapping[str, Any]) -> Iterator[str]:
    from dkernel.cli.diagnostics.doctor import CHECKS
    from dkernel.training.planning.memory_plan import format_plan

    if "scheduler" in diagnosis:
        dashboard = f", dashboard {diagnosis['dashboard']}" if diagnosis["dashboard"] else ""
        yield f"scheduler {diagnosis['scheduler']}{dashboard}"
    yield from _table(diagnosis["processes"])
    if diagnosis["plan"] is not None:
        words = dict(format_plan(diagnosis["plan"]))
        yield "\nplan: " + "; ".join(f"{name} {words[name]}" for name in ("rows", "model", "memory", "time"))
    if diagnosis["limits"]:
        named = ", ".join(f"{name} {seconds:g} s" for name, seconds in diagnosis["limits"].items())
        yield f"\nlimits of the cluster that are shorter than --cluster-timeout: {named}"
    findings = diagnosis["findings"]
    if not findings:
        count = len(diagnosis["processes"])
        yield f"\nNo problem found: {len(CHECKS)} checks, {count} process{'es' * (count > 1)}."
        return
    yield f"\n{len(findings)} finding{'s' * (len(findings) > 1)}:"
    for number, finding in enumerate(findings, 1):
        yield f"{number}. {finding['check']}, {finding['where']}: {finding['found']}"
        yield f"   -> {finding['remedy']}"


def _table(processes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The versions, one process a line; versions other than the client's are marked."""
    if not processes:
        return
    here = processes["client"]["versions"]
    cells = [["process", *here]]
    for name, facts in processes.items():
        theirs = facts.get("versions", {})
        cells.append([name, *(f"{theirs.get(p, '?')}{'' if theirs.get(p) == here[p] else ' !'}" for p in here)])
    yield from align_columns(cells)
