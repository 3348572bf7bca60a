"""Labelled files as a model reads them, of the commands that have a model and new rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dkernel.cli.options import (
    LOCAL_TYPE,
    NAMES,
    Command,
    LabelOption,
    bad_rows_option,
    scratch_of,
    setting,
    svmlight_of,
    svmlight_options,
)


def labelled_options(command: Command) -> Command:
    """Options that `open_labelled` reads."""
    options = (
        click.option(
            "--label", cls=LabelOption, metavar="NAME", help="Column with the labels. Default: that of the training."
        ),
        setting("--weight", metavar="COL", help="Column of sample weights."),
        setting("--exclude", type=NAMES, metavar="COL,...", help="Columns to ignore, such as identifiers."),
        setting("--allow-extra", is_flag=True, help="Ignore columns that the model does not know."),
        setting("--scratch", type=LOCAL_TYPE, metavar="DIR", help="Folder for unpacked copies that every worker sees."),
        bad_rows_option,
        svmlight_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


def open_labelled(
    values: Mapping[str, Any],
    model: Any,
    executor: Any = None,
    paths: Sequence[str] | None = None,
    keep: Sequence[str] = (),
) -> Any:
    """The source that the options of a command name, read as the rows of the training were.

    Parameters
    ----------
    paths : in place of DATA, without weights
    """
    from dkernel.data.encoded_columns import reading_of
    from dkernel.problem.targets import Targets
    from dkernel.streaming.open_files import open_files

    return open_files(
        list(values["data"] if paths is None else paths),
        executor,
        label=values["label"] or model.label,
        weight=values["weight"] if paths is None else None,
        columns=model.columns,
        keep=tuple(keep),
        exclude=values["exclude"] or (),
        dtype=model.recipe.dtype,
        kernel=model.map.kernel,
        **reading_of(model),
        max_bad_rows=values["max_bad_rows"],
        scratch=scratch_of(values),
        **svmlight_of(values),
        allow_extra=values["allow_extra"],
        known=model.known_columns,
        label_as_text=Targets(model.classes, model.recipe.positive).text,
    )
