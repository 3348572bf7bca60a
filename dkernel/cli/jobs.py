"""`dkernel jobs`: the runs whose records are in a folder."""

import json as json_
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import READ, debug_option, setting
from dkernel.cli.say import say
from dkernel.cli.tables import align_columns
from dkernel.errors import mask_urls


@click.command("jobs", cls=ExitCodeCommand, short_help="List the runs of a folder.")
@click.argument("folder", type=READ, metavar="[FOLDER]", default=".")
@setting("--json", is_flag=True, help="Print one JSON object for each run.")
@debug_option
def jobs_command(folder: str, json: bool, debug: bool) -> None:  # noqa: ARG001
    """List the runs whose records are in FOLDER, a path or a URL: jobs of a cluster and others, the newest last.

    \b
    dkernel jobs /shared/models
    """
    from pathlib import Path

    from dkernel.data.store import is_url, open_store
    from dkernel.errors import DataError

    if not is_url(folder) and not Path(folder).is_dir():
        raise DataError(
            f"{folder}: there is no such folder. Name the one that holds the outputs or records of the runs."
        )
    store = open_store(folder)
    rows = [_row(store.path(name)) for name in store.names() if name.endswith(".run.json")]
    runs = sorted(rows, key=lambda row: str(row["started"]))
    if json:
        for row in runs:
            click.echo(json_.dumps(row))
        return
    if not runs:
        say(f"No runs in {folder}: name the folder of the outputs or records of some.")
        return
    names = ("job", "status", "exit_code", "started", "progress")
    cells = [names, *(tuple(str("" if row[name] is None else row[name]) for name in names) for row in runs)]
    say("\n".join(align_columns(cells)))


def _row(path: str) -> dict[str, Any]:
    from dkernel.cli.diagnostics.follow import is_over, is_stale, read_record
    from dkernel.errors import DataError
    from dkernel.streaming.progress import format_progress

    try:
        record = read_record(path) or {"status": "damaged"}
    except DataError:  # one bad record hides no other
        record = {"status": "damaged"}
    dead = not is_over(record) and is_stale(record)
    began = record["status"] == "running" or "progress" in record
    progress = record["error"].splitlines()[0] if record.get("error") else None
    return {
        "job": mask_urls(path).removesuffix(".run.json"),
        "status": "dead" if dead else record["status"],
        "exit_code": record.get("exit_code"),
        "started": record.get("started"),
        "progress": progress or (format_progress(record.get("progress", {})) if began else None),
    }
