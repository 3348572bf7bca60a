"""`dkernel show`: a description of a model, from the header of its file."""

import json as json_
from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import READ, WRITTEN, debug_option, overwrite_option, setting
from dkernel.cli.outputs import check_model_path, check_outputs
from dkernel.cli.say import say
from dkernel.leaf_table import load_leaf


@click.command("show", cls=ExitCodeCommand, short_help="Describe a model, from the header of its file.")
@click.argument("model", type=READ)
@setting("--json", is_flag=True, help="Print the whole header as one JSON object, with recipe and tensors.")
@setting("--markdown", is_flag=True, help="Print a page, as model hubs show it: data, choices, figures, limits.")
@setting("--out", type=WRITTEN, metavar="FILE", help="Write the page of --markdown there.")
@overwrite_option(help="Replace FILE.")
@debug_option
def show_command(model: str, json: bool, markdown: bool, out: str | None, **values: Any) -> None:
    """Print what MODEL is: its columns and classes, how good it is, and what to check.

    Only the header of the file is read, however large the model. --markdown and --json have what was chosen too. On a
    page of --markdown, what the model is for, and who made it, is for you to add.

    \b
    dkernel show model.safetensors
    dkernel show model.safetensors --json | jq .recipe
    dkernel show model.safetensors --markdown --out README.md
    """
    from dkernel.data.store import write_whole
    from dkernel.model.model_file import read_header

    if out is not None:
        check_outputs()
        check_model_path({"out": out, "overwrite": values["overwrite"]})
    header = read_header(model)
    if out is not None or markdown:
        page = load_leaf("report", "card", "--markdown").make_card(model, header)
        if out is None:
            say(page, whole=True)
        else:
            write_whole(out, page.encode())
    elif json:
        click.echo(json_.dumps(header, sort_keys=True))
    else:
        say("\n".join(_lines(model, header)))


def _lines(path: str, header: Mapping[str, Any]) -> Iterator[str]:
    from dkernel.cli.train import with_options
    from dkernel.data.encoding.counts import join_names
    from dkernel.inference.summary import FitSummary

    summary = with_options(FitSummary.of_header(header))
    classes, columns = header["classes"], header["columns"]
    what = "regression" if classes is None else f"classifier of {len(classes['values'])} classes"
    yield f"{path}: {what}, {summary.rows}"
    yield from _fact("label", header["label"])
    if classes is not None:
        kind = "text" if "U" in classes["dtype"] else classes["dtype"]
        yield from _fact("classes", f"{join_names([repr(value) for value in classes['values']])} ({kind})")
    if isinstance(columns, dict):
        last = columns["first"] + columns["n"] - 1
        yield from _fact("features", f"{columns['n']:,}, of sparse rows: {columns['first']} to {last}")
    else:
        yield from _fact("features", f"{len(columns)}: {join_names(columns)}")
    yield from _schema(header)
    weights = header["facts"].get("weights", ())
    if len(weights) == len(columns) and not isinstance(columns, dict):
        strongest = sorted(zip(columns, weights, strict=True), key=lambda pair: -pair[1])
        yield from _fact("weights", join_names([f"{name} {weight:.3g}" for name, weight in strongest]))
    yield from summary.lines()


def _schema(header: Mapping[str, Any]) -> Iterator[str]:
    """A line for each of the first columns: what training saw of it."""
    from dkernel.data.schema import list_columns
    from dkernel.model.model_file import schema_in

    listed = list_columns(schema_in(header))
    width = max((len(name) for name, _ in listed), default=0)
    for i, (name, column) in enumerate(listed):
        yield f"  {'' if i else 'columns':<12} {name:<{width}}  {column}"


def _fact(name: str, value: str) -> Iterator[str]:
    yield f"  {name:<12} {value}"
