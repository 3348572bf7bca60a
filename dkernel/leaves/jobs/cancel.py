"""`dkernel cancel`: the end of a job that was given to a cluster."""

from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import READ, debug_option
from dkernel.cli.say import say


@click.command("cancel", cls=ExitCodeCommand, short_help="End a job that was given to a cluster.")
@click.argument("run", type=READ, metavar="RUN")
@debug_option
def cancel_command(run: str, debug: bool) -> None:  # noqa: ARG001
    """End the job that `dkernel train --detach` named RUN, and wait for its end.

    Its checkpoint stays: the same train command goes on from there. Exit code 0 when the job is over.

    \b
    dkernel cancel model.safetensors
    """
    from dkernel.errors import DataError
    from dkernel.leaves.jobs.driver import clear_cancel, request_cancel
    from dkernel.leaves.jobs.follow import dead_after, find_record, follow, is_over, read_record

    where = find_record(run)
    record: dict[str, Any] | None = read_record(where)
    if record is None:
        raise DataError(f"{where}: there is no run record. Name the job as dkernel train --detach printed it.")
    if "job" not in record:
        raise DataError(
            f"{where}: this run was not given to a cluster. End process {record.get('pid')} on {record.get('host')} by "
            "SIGTERM."
        )
    if not is_over(record):
        request_cancel(where)
        seconds = f"{dead_after(record):g} seconds"
        say(f"{run}: asked to end; without a word of it in {seconds} the job is taken for dead.", err=True)
        *_, record = follow(where)
        clear_cancel(where)
    say(f"{run}: {record['status']}, exit code {record.get('exit_code')}")
