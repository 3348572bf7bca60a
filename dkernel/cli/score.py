"""`dkernel score`: a model's answer for every row of files, written to files."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import (
    DATA,
    NAMES,
    READ,
    WRITTEN,
    allow_extra_option,
    bad_rows_option,
    connect_arguments,
    coverage_option,
    data_setting,
    exclude_option,
    file_arguments,
    format_options,
    group_option,
    output_setting,
    overwrite_option,
    print_config,
    require_options,
    run_options,
    scratch_option,
)
from dkernel.cli.outputs import check_outputs
from dkernel.cli.say import say

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record


@click.command("score", cls=ExitCodeCommand, short_help="Write predictions for every row.")
@click.argument("model", required=False, type=READ, metavar="MODEL")
@click.argument("data", nargs=-1, type=DATA, metavar="DATA...")
@output_setting(
    "-o",
    "--out",
    type=WRITTEN,
    metavar="PATH",
    usual=True,
    help="A .parquet, .csv, .npy file, .zarr, or a folder of parts.",
)
@output_setting(
    "--write",
    type=NAMES,
    metavar="WHAT,...",
    usual=True,
    help="label, score, std, interval, probability, set, novelty. Default: label and a probability, or score.",
)
@coverage_option
@output_setting("--by-class", is_flag=True, help="Sets of --write set cover --coverage of each class.")
@group_option(help="Intervals and sets cover --coverage of each group of rows with one value of it; kept too.")
@data_setting("--keep", type=NAMES, metavar="COL,...", usual=True, help="Columns to copy to the output, or all.")
@data_setting("--partition-by", type=NAMES, metavar="COL,...", help="Columns whose values name folders of the output.")
@exclude_option
@allow_extra_option
@bad_rows_option
@data_setting(
    "--max-bad-files", type=click.IntRange(min=0), default=0, metavar="N", help="Omit and list up to N bad files."
)
@data_setting(
    "--done",
    type=WRITTEN,
    metavar="FILE",
    help="List of files scored before: leave them out, and add those of this run.",
)
@overwrite_option(help="Replace an existing output.")
@scratch_option(help="Folder for unpacked copies that every worker sees. Default: beside --out.")
@format_options
@run_options
@click.pass_context
def score_command(ctx: click.Context, /, **values: Any) -> None:
    """Write the predictions of MODEL for every row of DATA (files, folders, globs or URLs) to --out, in the same order.

    The output appears when it is complete. If the command was stopped, run it again to continue; on a complete output
    it does nothing.

    \b
    dkernel score model.safetensors new.parquet -o scores.parquet
    dkernel score model.safetensors 'new/*.csv' -o scores --keep id --write label,score
    """
    print_config(ctx, values)
    require_options(ctx, values, ["model", "data", "out"])
    connection = connect_arguments(ctx, values)
    from dkernel.cli.run_record import Record, default_record, masked

    check_outputs()
    begin = time.perf_counter()
    record = Record(values)
    with record.write_to(default_record(values["out"], values["record"])):
        result = _score(values, connection, record)
    seconds = time.perf_counter() - begin
    if values["json"]:
        figures = {**asdict(result), "rows_in": result.rows_in, "seconds": round(seconds, 3)}
        click.echo(json.dumps(masked(figures)))
    elif not values["quiet"]:
        say(_summary(values["out"], result, seconds))


def _score(values: Mapping[str, Any], connection: Mapping[str, Any], record: "Record") -> Any:
    from dkernel.cli.run_record import open_model, open_run
    from dkernel.inference.score_columns import check_written
    from dkernel.inference.score_files import score_files

    model = open_model(values, record)
    reading = {"allow_extra": values["allow_extra"], **file_arguments(values)}
    with open_run(record, values, connection) as (progress, executor):
        result, source = score_files(
            model,
            list(values["data"]),
            values["out"],
            executor,
            keep=[*(values["keep"] or ()), *([] if values["group"] is None else [values["group"]])],
            partition_by=values["partition_by"] or (),
            done=values["done"],
            max_bad_files=values["max_bad_files"],
            reading=reading,
            write=check_written(model, values["write"], values["coverage"], values["by_class"], values["group"]),
            overwrite=values["overwrite"],
            max_bad_rows=values["max_bad_rows"],
            progress=progress,
        )
    record.note(rows_in=result.rows_in, rows_out=result.rows, rows_rejected=result.rejected, skipped=result.skipped)
    record.note(parts=result.parts, reused=result.reused, filled=result.filled, bad_files=result.bad_files)
    record.note(drifted=result.drifted)
    record.note(input_fingerprint=source and source.fingerprint)
    return result


def _summary(out: str, result: Any, seconds: float) -> str:
    from dkernel.data.encoding.unseen import describe_counts

    if result.skipped and not result.parts:
        n = len(result.bad_files)
        known = f" ({n} known bad file{'s were' if n > 1 else ' was'} left out)" if n else ""
        return f"No file is new since the last run{known}: {out} was not written."
    bad = [f"left out: {reason}" for reason in result.bad_files.values()]
    return "\n".join([_line(out, result, seconds), *(f"  {line}" for line in (*describe_counts(result.filled), *bad))])


def _line(out: str, result: Any, seconds: float) -> str:
    rejected = f"; {result.rejected:,} bad rows were omitted: {result.rejects}" if result.rejected else ""
    if result.skipped:
        return f"{out} is already complete: {result.rows:,} rows{rejected}. Nothing was done."
    taken = f", {result.reused} of {result.parts} parts from the run before" if result.reused else ""
    rate = result.rows / max(seconds, 1e-9)
    return f"{out}: {result.rows:,} rows in {seconds:.1f} s ({rate:,.0f} rows/s){taken}{rejected}"
