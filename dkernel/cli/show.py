"""`dkernel show`: what a model is, from the header of its file."""

import json as json_
from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exit_codes import Job
from dkernel.cli.options import Setting

__all__ = ["show"]


@click.command(cls=Job, short_help="Print what a model is, without reading its tensors.")
@click.argument("model")
@click.option("--json", cls=Setting, is_flag=True, help="Print the whole header as one JSON object.")
@click.option("--debug", cls=Setting, is_flag=True, help="Print tracebacks.")
def show(model: str, json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is for Job
    """Print what MODEL is: kernel, map, classes, columns, what was chosen and how good it was.

    Only the header of the file is read, however large the model.

    \b
    dkernel show model.safetensors
    dkernel show model.safetensors --json | jq .recipe
    """
    from dkernel.persistence.model_file import read_header

    header = read_header(model)
    click.echo(json_.dumps(header, sort_keys=True) if json else "\n".join(_lines(model, header)))


def _lines(path: str, header: Mapping[str, Any]) -> Iterator[str]:
    recipe, classes, columns = header["recipe"], header["classes"], header["columns"]
    what = "regression" if classes is None else f"classifier of {len(classes['values'])} classes"
    yield f"{path}: {what}, protocol {header['protocol']}"
    yield f"  label     {header['label']}"
    if classes is not None:
        yield f"  classes   {_some([repr(value) for value in classes['values']])} ({classes['dtype']})"
    if isinstance(columns, dict):
        last = columns["first"] + columns["n"] - 1
        yield f"  columns   {columns['n']:,}, of sparse rows: {columns['first']} to {last}"
    else:
        yield f"  columns   {len(columns)}: {_some(columns)}"
    yield f"  kernel    {recipe['kernel']}"
    tensors = header["tensors"]
    yield f"  map       {header['map'].get('kind', '')}, {tensors['coef']['shape'][0]} columns"
    yield f"  tensors   {', '.join(name + str(t['shape']) for name, t in tensors.items())}"
    yield "  recipe    " + ", ".join(f"{k}={v}" for k, v in recipe.items() if k != "kernel" and v is not None)
    for name, value in header["facts"].items():
        yield from _fact(name, value)


def _fact(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"  {name:<9} {_text(value)}"
        return
    width = max(map(len, value), default=0)
    for i, (inner, found) in enumerate(value.items()):
        yield f"  {'' if i else name:<9} {inner:<{width}}  {_text(found)}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return _some([_text(each) for each in value])
    if isinstance(value, dict):
        return json_.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
