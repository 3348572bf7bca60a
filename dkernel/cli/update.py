"""`dkernel update`: a model with more rows, without the fit of its old ones."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.labelled_rows import labelled_options, open_labelled
from dkernel.cli.options import (
    connect_arguments,
    note_rejected,
    out_option,
    overwrite_option,
    print_config,
    require_options,
    run_options,
    setting,
)
from dkernel.cli.outputs import check_model_place, check_outputs

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record


@click.command("update", cls=ExitCodeCommand, short_help="Teach a model more rows.")
@click.argument("model", required=False, metavar="MODEL")
@click.argument("data", nargs=-1, metavar="NEW...")
@out_option
@setting("--old", multiple=True, metavar="OLD", help="Rows of the training, all or a sample; grids need some.")
@labelled_options
@overwrite_option(help="Replace an existing model.")
@run_options
@click.pass_context
def update_command(ctx: click.Context, /, **values: Any) -> None:
    """Write MODEL, after it has learned the labelled rows NEW, as --out.

    Scaling, kernel and settings stay. Cells that new rows touch learn them, and are divided where they grow too large.
    Grids take one more sweep, held by rows of --old. A model without a local stage learns as partial_fit.
    New rows are held in memory; train again where they are many, or differ.

    \b
    dkernel update model.safetensors new.parquet --out model-2.safetensors
    dkernel update model.safetensors new.parquet --old train.parquet --out model-2.safetensors
    """
    print_config(ctx, values)
    require_options(ctx, values, ["model", "data", "out"])
    place = connect_arguments(ctx, values)
    from dkernel.cli.run_record import Record, default_record
    from dkernel.encoding.unseen import describe_counts

    check_outputs(values)
    check_model_place(values)
    record = Record(values)
    with record.write_to(default_record(values["out"], values["record"])):
        facts = _update(values, place, record)
    if values["json"]:
        click.echo(json.dumps(facts))
    elif not values["quiet"]:
        click.echo(f"{values['out']}: {facts['new']:,} new rows, {facts['rows']:,} in all, {facts['local']}")
        for line in describe_counts(facts.get("filled", {})):
            click.echo(line)


def _update(values: Mapping[str, Any], place: Mapping[str, Any], record: "Record") -> dict[str, Any]:
    from dkernel.cli.run_record import open_model, open_run
    from dkernel.persistence import model_file
    from dkernel.training.update import MOST_OLD, rows_in, update_model

    model = open_model(values, record)
    with open_run(record, values, place) as (progress, executor):
        progress.phase("read new rows")
        source = open_labelled(values, model, executor)
        new, unseen = rows_in(source, executor, model.reading)
        unseen.warn()
        old = None
        if values["old"]:
            old, _ = rows_in(open_labelled(values, model, executor, values["old"]), executor, model.reading, MOST_OLD)
        progress.phase("update")
        model = update_model(model, new, executor, old)
        model_file.save(model, values["out"])
    local = "no local stage" if model.local is None else model.local.kind
    facts = {"new": len(new.X), "rows": model.facts["rows"], "updates": model.facts["updates"], "local": local}
    facts |= {"filled": unseen.filled} if unseen.filled else {}
    record.note(input_fingerprint=source.fingerprint, rows_out=0, **note_rejected(source), update=facts)
    return facts
