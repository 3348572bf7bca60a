"""`dkernel evaluate`: how good a model is on labelled files."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exits import Job
from dkernel.cli.options import NAMES, Setting, config_text, place_of, require, run_options, show_progress

__all__ = ["evaluate"]


@click.command(cls=Job, short_help="Measure a model on labelled files.")
@click.argument("model", required=False, metavar="MODEL")
@click.argument("data", nargs=-1, metavar="DATA...")
@click.option("--label", cls=Setting, metavar="NAME", help="Column with the labels. Default: that of the training.")
@click.option("--weight", cls=Setting, metavar="COL", help="Column with the weights of the rows.")
@click.option("--exclude", cls=Setting, type=NAMES, metavar="COL,...", help="Columns that are no features.")
@click.option("--allow-extra", cls=Setting, is_flag=True, help="Pass over columns that the model does not know.")
@click.option("--scratch", cls=Setting, metavar="DIR", help="Folder for unpacked copies, seen by every worker.")
@run_options
@click.pass_context
def evaluate(ctx: click.Context, /, **values: Any) -> None:
    """Measure MODEL on the labelled rows of DATA: files, folders, globs or URLs.

    For classes accuracy, error, auc (two classes), log_loss and figures of each class; for a regression rmse, mae and
    r2. All are fractions.

    \b
    dkernel evaluate model.safetensors test.parquet --label y
    dkernel evaluate model.safetensors 'test/*.csv' --label y --json | jq .accuracy
    """
    if values["print_config"]:
        click.echo(config_text(ctx, values))
        return
    require(ctx, values, ["model", "data"])
    place = place_of(ctx, values)
    from dkernel import modelfile
    from dkernel.data import open_source
    from dkernel.run.cluster import connect
    from dkernel.run.evaluate import evaluate as run

    model = modelfile.load(values["model"])
    with show_progress(values) as progress, connect(**place) as executor:
        source = open_source(
            list(values["data"]),
            label=values["label"] or model.label,
            weight=values["weight"],
            columns=model.columns,
            exclude=values["exclude"] or (),
            dtype=model.recipe.dtype,
            scratch=values["scratch"],
            allow_extra=values["allow_extra"],
            known=(model.label,),
        )
        figures = run(model, source, executor, progress)
    if values["json"]:
        click.echo(json.dumps(figures))
    elif not values["quiet"]:
        click.echo("\n".join(_lines(figures)))


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {line}" for line in _lines(value))
        elif isinstance(value, list):
            yield f"{name}:"
            yield from ("  " + json.dumps(item) for item in value)
        else:
            yield f"{name:<10} {value:.6g}" if isinstance(value, float) else f"{name:<10} {value}"
