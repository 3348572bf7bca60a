"""`dkernel watch`: progress of a job that was started elsewhere."""

import json as json_
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from dkernel.cli.exit_codes import AGAIN, ExitCodeCommand
from dkernel.cli.options import READ, debug_option, patience_option, setting
from dkernel.cli.say import say


class _WatchCommand(ExitCodeCommand):
    when_stopped = "no longer watching; the job goes on"


@click.command("watch", cls=_WatchCommand, short_help="Follow a job that was started elsewhere.")
@click.argument("run", type=READ, metavar="RUN")
@setting("--json", is_flag=True, help="Print the last record as one JSON object.")
@setting("-q", "--quiet", is_flag=True, help="Print only how it ended.")
@patience_option
@debug_option
@click.pass_context
def watch_command(ctx: click.Context, run: str, json: bool, quiet: bool, patience: float | None, debug: bool) -> None:  # noqa: ARG001
    """Follow the job whose run record, --out or folder is RUN, until it ends, and end with its exit code.

    The record is a file: it can be followed from any machine that sees it, and nothing happens to the job.

    \b
    dkernel watch model.safetensors
    dkernel watch /shared/runs/ --patience 120
    """
    from dkernel.cli.diagnostics.follow import find_record, follow
    from dkernel.errors import ClusterError

    screen = _Screen(quiet)
    record: dict[str, Any] = {}
    try:
        for record in follow(find_record(run), patience):
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
    """A line that is redrawn on a terminal; in a log one line for each phase, and one every ten seconds."""

    def __init__(self, quiet: bool) -> None:
        self.terminal, self.quiet = sys.stderr.isatty(), quiet
        self.phase: str | None = None
        self.dashboard = None
        self.state: Mapping[str, Any] = {}
        self.shown = -1e9
        self.drawn = 0
        self.begun = False

    def show(self, record: Mapping[str, Any]) -> None:
        from dkernel.streaming.progress import format_progress, seconds_to_wait

        if self.quiet or record.get("status") != "running":
            return
        if not self.begun:
            self.begun = True
            self.line(f"process {record.get('pid')} on {record.get('host')}, since {record.get('started')}")
        if record.get("dashboard") not in (None, self.dashboard):
            self.dashboard = record["dashboard"]
            self.line(f"dashboard: {self.dashboard}")
        state = record.get("progress", {})
        text, now = format_progress(state), time.monotonic()
        if self.terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self.drawn))
            sys.stderr.flush()
            self.drawn = len(text)
        elif state.get("phase", "") != self.phase or now - self.shown >= seconds_to_wait(self.state, state):
            self.shown, self.state = now, state
            self.line(text)
        self.phase = state.get("phase", "")

    def line(self, text: str) -> None:
        self.clear()
        say(text, err=True)

    def clear(self) -> None:
        if self.drawn:
            sys.stderr.write("\r" + " " * self.drawn + "\r")
            self.drawn = 0


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
