"""`dkernel conformalize`: a model whose intervals and sets are by other rows than those that its fit left out."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.labelled_rows import labelled_options, open_labelled
from dkernel.cli.options import (
    connect_arguments,
    group_option,
    note_rejected,
    out_option,
    overwrite_option,
    print_config,
    require_options,
    run_options,
)
from dkernel.cli.outputs import check_model_place, check_outputs

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record


@click.command("conformalize", cls=ExitCodeCommand, short_help="Let other rows say how sure a model is.")
@click.argument("model", required=False, metavar="MODEL")
@click.argument("data", nargs=-1, metavar="DATA...")
@out_option
@group_option(help="Column of the groups that `score --group` may then ask for; no feature needs to be of it.")
@labelled_options
@overwrite_option(help="Replace an existing model.")
@run_options
@click.pass_context
def conformalize_command(ctx: click.Context, /, **values: Any) -> None:
    """Write MODEL with the conformity scores of the labelled rows DATA, which it has not learned from, as --out.

    Its intervals and sets then cover rows that are drawn as DATA is, and with --group each group of them. Nothing is
    fitted again. Up to 65,536 rows, a uniform sample, are used.

    \b
    dkernel conformalize model.safetensors known.parquet --group site --out model-2.safetensors
    dkernel score model-2.safetensors new.parquet --write score,interval --group site --out scores.parquet
    """
    print_config(ctx, values)
    require_options(ctx, values, ["model", "data", "out"])
    place = connect_arguments(ctx, values)
    from dkernel.cli.run_record import Record, default_record

    check_outputs(values)
    check_model_place(values)
    record = Record(values)
    with record.write_to(default_record(values["out"], values["record"])):
        facts = _conformalize(values, place, record)
    if values["json"]:
        click.echo(json.dumps(facts))
    elif not values["quiet"]:
        groups = f" of {len(facts['groups'])} groups" if facts["groups"] else ""
        click.echo(f"{values['out']}: intervals and sets by {facts['rows']:,} rows{groups}")


def _conformalize(values: Mapping[str, Any], place: Mapping[str, Any], record: "Record") -> dict[str, Any]:
    from dkernel.cli.run_record import open_model, open_run
    from dkernel.inference.conformity import conformalize_model
    from dkernel.persistence import model_file

    model = open_model(values, record)
    group = values["group"]
    with open_run(record, values, place) as (progress, executor):
        source = open_labelled(values, model, executor, keep=() if group is None else (group,))
        progress.phase("conformity scores")
        model = conformalize_model(model, source, executor, group)
        model_file.save(model, values["out"])
    facts = {"rows": model.facts["conformal"]["rows"], "groups": list(model.known_conformal().groups)}
    record.note(input_fingerprint=source.fingerprint, rows_out=0, **note_rejected(source), conformalize=facts)
    return facts
