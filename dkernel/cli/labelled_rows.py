"""Labelled files as a model reads them, of the commands that have a model and new rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from dkernel.cli.options import (
    LabelOption,
    allow_extra_option,
    bad_rows_option,
    combine,
    connect_arguments,
    data_setting,
    exclude_option,
    file_arguments,
    format_options,
    note_rejected,
    print_config,
    require_options,
    scratch_option,
)
from dkernel.cli.outputs import check_model_path, check_outputs
from dkernel.cli.say import say
from dkernel.errors import MissingColumnError

labelled_options = combine(
    click.option(
        "--label",
        cls=LabelOption,
        metavar="NAME",
        group="Data",
        usual=True,
        help="Column with the labels. Default: that of the training.",
    ),
    data_setting(
        "--weight",
        metavar="COL",
        help="Column of sample weights. Default: that of the training, if it is there and not in --exclude.",
    ),
    exclude_option,
    allow_extra_option,
    scratch_option(help="Folder for unpacked copies that every worker sees."),
    bad_rows_option,
    format_options,
)
"""Options that `open_labelled` reads."""


def open_labelled(
    values: Mapping[str, Any],
    model: Any,
    executor: Any,
    paths: Sequence[str] | None = None,
    keep: Sequence[str] = (),
) -> Any:
    """The source that the options of a command name, read as the rows of the training were, by its label and weight.

    Parameters
    ----------
    paths : in place of DATA, without weights
    """
    opened = partial(_open, values, model, executor, paths or values["data"], keep)
    trained = model.facts.get("weight")
    if paths or values["weight"] or trained is None or trained in (values["exclude"] or ()):
        return opened(None if paths else values["weight"])
    try:
        source, said = opened(trained), f"weights: the column {trained!r}, as in the training"
    except MissingColumnError:
        source, said = opened(None), f"weights: none, for there is no column {trained!r}, which the training had"
    executor.tell(said)
    return source


def _open(
    values: Mapping[str, Any], model: Any, executor: Any, paths: Sequence[str], keep: Sequence[str], weight: str | None
) -> Any:
    from dkernel.data.encoded_columns import reading_arguments
    from dkernel.streaming.open_files import open_files

    label_as: Any = "numbers" if model.classes is None else model.classes.tolist()
    return open_files(
        list(paths),
        executor,
        label=values["label"] or model.label,
        weight=weight,
        columns=model.columns,
        keep=tuple(keep),
        dtype=model.recipe.dtype,
        kernel=model.map.kernel,
        **reading_arguments(model.reading),
        max_bad_rows=values["max_bad_rows"],
        **file_arguments(values),
        allow_extra=values["allow_extra"],
        known=model.known_columns,
        label_as=label_as,
    )


def rewrite_model(
    ctx: click.Context,
    values: Mapping[str, Any],
    change: Callable[[Any, Any, Any], tuple[Any, Any, dict[str, Any]]],
    describe: Callable[[Any, Mapping[str, Any]], Iterable[str]],
) -> None:
    """Write MODEL as --out, after rows of DATA have changed it.

    Parameters
    ----------
    change : (model, progress, executor) -> the model, the source of the rows, and facts, which the run record has too
    describe : the model and the facts in lines
    """
    print_config(ctx, values)
    require_options(ctx, values, ["model", "data", "out"])
    connection = connect_arguments(ctx, values)
    from dkernel.cli.run_record import Record, default_record, open_model, open_run
    from dkernel.model import model_file

    check_outputs()
    check_model_path(values)
    record = Record(values)
    with record.write_to(default_record(values["out"], values["record"])):
        model = open_model(values, record)
        with open_run(record, values, connection) as (progress, executor):
            model, source, facts = change(model, progress, executor)
            model_file.save(model, values["out"])
        record.note(input_fingerprint=source.fingerprint, rows_out=0, **note_rejected(source))
        record.note(**{str(ctx.info_name): facts})
    if values["json"]:
        click.echo(json.dumps(facts))
    elif not values["quiet"]:
        say("\n".join(describe(model, facts)))
