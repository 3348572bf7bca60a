"""Labelled files as a model reads them, of the commands that have a model and new rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dkernel.cli.options import (
    LabelOption,
    allow_extra_option,
    bad_rows_option,
    combine,
    exclude_option,
    scratch_of,
    scratch_option,
    svmlight_of,
    svmlight_options,
    weight_option,
)

labelled_options = combine(
    click.option(
        "--label",
        cls=LabelOption,
        metavar="NAME",
        group="Data",
        usual=True,
        help="Column with the labels. Default: that of the training.",
    ),
    weight_option,
    exclude_option,
    allow_extra_option,
    scratch_option(help="Folder for unpacked copies that every worker sees."),
    bad_rows_option,
    svmlight_options,
)
"""Options that `open_labelled` reads."""


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
