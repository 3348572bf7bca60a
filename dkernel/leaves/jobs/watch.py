"""`dkernel watch`: progress of a job that was started elsewhere, and the runs whose records are in a folder."""

import json as json_
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import click

from dkernel.cli.exit_codes import AGAIN, ExitCodeCommand
from dkernel.cli.options import READ, debug_option, setting
from dkernel.cli.say import say
from dkernel.cli.tables import align_columns
from dkernel.errors import mask_urls


class _WatchCommand(ExitCodeCommand):
    when_stopped = "no longer watching; the job goes on"


@click.command("watch", cls=_WatchCommand, short_help="Follow a job that was started elsewhere.")
@click.argument("run", type=READ, metavar="RUN|FOLDER")
@setting("--json", is_flag=True, help="Print the last record as one JSON object, of a folder one for each run.")
@setting("-q", "--quiet", is_flag=True, help="Print only how it ended.")
@debug_option
@click.pass_context
def watch_command(ctx: click.Context, run: str, json: bool, quiet: bool, debug: bool) -> None:  # noqa: ARG001
    """Follow the job whose run record or --out is RUN until it ends, and end with its exit code.

    The record is a file: it can be followed from any machine that sees it, and nothing happens to the job. It is dead
    when its record is 30 seconds old, a cluster's job after --cluster-timeout. Of a FOLDER, a path or a URL, the runs
    whose records are in it are listed, the newest last.

    \b
    dkernel watch model.safetensors
    dkernel watch /shared/models
    """
    from dkernel.errors import ClusterError
    from dkernel.leaves.jobs.follow import find_record, find_runs, follow

    if (runs := find_runs(run)) is not None:
        _list(run, runs, json)
        return

    screen = _Screen(quiet)
    record: dict[str, Any] = {}
    try:
        for record in follow(find_record(run)):
            screen.show(record)
    except ClusterError as error:  # the job's trouble, not this command's: there is nothing here to run again
        record |= {"status": "dead", "exit_code": AGAIN, "error": str(error)}
    finally:
        screen.clear()
    if json:
        click.echo(json_.dumps(record))
    else:
        say(_end(record))
    ctx.exit(int(record.get("exit_code") or 0))


class _Screen:
    """A line that is redrawn on a terminal; in a log one a minute at most."""

    def __init__(self, quiet: bool) -> None:
        self.terminal, self.quiet = sys.stderr.isatty(), quiet
        self.dashboard = None
        self.text = ""
        self.shown = -1e9
        self.drawn = 0
        self.begun = False

    def show(self, record: Mapping[str, Any]) -> None:
        from dkernel.streaming.progress import LOG_EVERY, format_progress

        if self.quiet or record.get("status") != "running":
            return
        if not self.begun:
            self.begun = True
            self.line(f"process {record.get('pid')} on {record.get('host')}, since {record.get('started')}")
        if record.get("dashboard") not in (None, self.dashboard):
            self.dashboard = record["dashboard"]
            self.line(f"dashboard: {self.dashboard}")
        text, now = format_progress(record.get("progress", {})), time.monotonic()
        if self.terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self.drawn))
            sys.stderr.flush()
            self.drawn = len(text)
        elif (self.text in ("", "starting") and text != self.text) or now - self.shown >= LOG_EVERY:
            self.shown, self.text = now, text
            self.line(text)

    def line(self, text: str) -> None:
        self.clear()
        say(text, err=True)

    def clear(self) -> None:
        if self.drawn:
            sys.stderr.write("\r" + " " * self.drawn + "\r")
            self.drawn = 0


def _list(folder: str, runs: Iterable[str], json: bool) -> None:
    rows = sorted(map(_row, runs), key=lambda row: str(row["started"]))
    if json:
        for row in rows:
            click.echo(json_.dumps(row))
        return
    if not rows:
        say(f"No runs in {folder}: name the folder of the outputs or records of some.")
        return
    names = ("job", "status", "exit_code", "started", "progress")
    cells = [names, *(tuple(str("" if row[name] is None else row[name]) for name in names) for row in rows)]
    say("\n".join(align_columns(cells)), whole=True)


def _row(path: str) -> dict[str, Any]:
    from dkernel.errors import DataError
    from dkernel.leaves.jobs.follow import is_over, is_stale, read_record
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
        "progress": progress or (format_progress(record.get("progress", {})).split(", ")[0] if began else None),
    }


def _end(record: Mapping[str, Any]) -> str:
    seconds = record.get("seconds", {}).get("total") or _seconds_seen(record)
    what = record.get("model_sha256") and f", model sha256 {record['model_sha256'][:16]}..."
    text = f"{record.get('status')} after {seconds:,.1f} s, exit code {record.get('exit_code')}{what or ''}"
    return f"{text}\n{record['error']}" if record.get("error") else text


def _seconds_seen(record: Mapping[str, Any]) -> float:
    """Seconds from the start to the last update of a record that has no total."""
    try:
        begun, last = (datetime.fromisoformat(record[name]) for name in ("started", "updated"))
    except (KeyError, TypeError, ValueError):
        return 0.0
    return (last - begun).total_seconds()
