"""`dkernel doctor`: what the processes of a cluster lack, before a job."""

import json
import os
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import asdict
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import connect_arguments, print_config, scratch_folders
from dkernel.cli.say import say
from dkernel.cli.tables import align_columns
from dkernel.cli.train import train_command


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
    """Look at the client, the scheduler and every worker: versions, data, --scratch, disks, memory, clocks.

    Run it with the arguments of train: it lists what the processes lack for the job, and how to fix it. What the job
    itself needs, train --dry-run says. All arguments are optional. Nothing is changed. Exit code 0 if nothing is wrong,
    else 1.

    \b
    dkernel doctor --scheduler tcp://host:8786
    dkernel doctor data/ --label y --out model.safetensors --scheduler tcp://host:8786
    """
    print_config(ctx, values)
    connection = connect_arguments(ctx, values)
    patience = connection.pop("patience")  # only a run waits for workers
    from dkernel.cli.run_record import masked

    diagnosis = masked(_diagnosis(values, connection, patience))
    if values["json"]:
        click.echo(json.dumps({"ok": not diagnosis["findings"], **diagnosis}))
    elif not values["quiet"] or diagnosis["findings"]:
        say("\n".join(_lines(diagnosis)))
    ctx.exit(1 if diagnosis["findings"] else 0)


def _diagnosis(values: Mapping[str, Any], connection: Mapping[str, Any], patience: float) -> dict[str, Any]:
    from dkernel.errors import ClusterError
    from dkernel.leaves.doctor.checks import diagnose, keep_workers
    from dkernel.streaming.execution.connect import client_at, find_dashboard

    try:
        with client_at(**connection) as client, keep_workers(client, patience):
            diagnosis = asdict(diagnose(client, _request(values), patience))
            if client is not None:
                cluster = {"scheduler": client.scheduler.address, "dashboard": find_dashboard(client)}
                diagnosis = {**cluster, **diagnosis}
            return diagnosis
    except ClusterError as error:
        finding = {"check": "workers", "where": "scheduler", "found": str(error)}
        remedy = "Start a scheduler (dask scheduler), or correct the address."
        return {"processes": {}, "findings": [{**finding, "remedy": remedy}]}


def _request(values: Mapping[str, Any]) -> Any:
    from dkernel.data.paths import name_files
    from dkernel.leaves.doctor.checks import DoctorRequest

    # Copies of the data in --scratch are read by all workers, rows that a worker stores by itself.
    copied = bool(values["encoding"] or any(map(_is_packed, values["data"])))
    scratch = values["scratch"] or (scratch_folders(values).beside if copied else None)
    files = {os.path.abspath(path) for item in values["data"] if "://" not in item for path in name_files(item)}
    return DoctorRequest(sorted(files), scratch, shared=copied)


def _is_packed(data: str) -> bool:
    """True if files of this name are unpacked before they are read."""
    from dkernel.data.endings import COMPRESSIONS

    return data.endswith((*COMPRESSIONS, ".npz"))


def _lines(diagnosis: Mapping[str, Any]) -> Iterator[str]:
    from dkernel.leaves.doctor.checks import CHECKS

    if "scheduler" in diagnosis:
        dashboard = f", dashboard {diagnosis['dashboard']}" if diagnosis["dashboard"] else ""
        yield f"scheduler {diagnosis['scheduler']}{dashboard}"
    yield from _table(diagnosis["processes"])
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
