"""`dkernel show`: a description of a model, from the header of its file."""

import json as json_
from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import READ, debug_option, setting
from dkernel.errors import mask_urls

_SHOWN_FIRST = ("rows", "holdout", "chosen", "certificate")  # people look for these; the rest follows
_LAST = ("iterate", "share_of_step", "setup")  # of the solver, for those who look into it


@click.command("show", cls=ExitCodeCommand, short_help="Describe a model, from the header of its file.")
@click.argument("model", type=READ)
@setting("--all", is_flag=True, help="Print the inner figures of the solver too.")
@setting("--json", is_flag=True, help="Print the whole header as one JSON object.")
@debug_option
def show_command(model: str, all: bool, json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is for ExitCodeCommand
    """Print what MODEL is: kernel, map, classes, features, what was chosen and how good it is.

    Only the header of the file is read, however large the model.

    \b
    dkernel show model.safetensors
    dkernel show model.safetensors --json | jq .recipe
    """
    from dkernel.model.model_file import read_header

    header = read_header(model)
    click.echo(json_.dumps(header, sort_keys=True) if json else "\n".join(_lines(model, header, all)))


def _lines(path: str, header: Mapping[str, Any], every: bool) -> Iterator[str]:
    recipe, classes, columns = header["recipe"], header["classes"], header["columns"]
    what = "regression" if classes is None else f"classifier of {len(classes['values'])} classes"
    yield f"{mask_urls(path)}: {what}, protocol {header['protocol']}"
    yield from _fact("label", header["label"])
    if classes is not None:
        yield from _fact("classes", f"{_some([repr(value) for value in classes['values']])} ({classes['dtype']})")
    if isinstance(columns, dict):
        last = columns["first"] + columns["n"] - 1
        yield from _fact("features", f"{columns['n']:,}, of sparse rows: {columns['first']} to {last}")
    else:
        yield from _fact("features", f"{len(columns)}: {_some(columns)}")
    yield from _fact("kernel", recipe["kernel"])
    tensors, facts = header["tensors"], dict(header["facts"])
    yield from _fact("map", f"{header['map'].get('kind', '')}, {tensors['coef']['shape'][0]:,} components")
    if len(weights := facts.get("weights", ())) == len(columns) and not isinstance(columns, dict):
        del facts["weights"]
        strongest = sorted(zip(columns, weights, strict=True), key=lambda pair: -pair[1])
        yield from _fact("weights", _some([f"{name} {weight:.3g}" for name, weight in strongest]))
    for name in _SHOWN_FIRST:
        if name in facts:
            yield from _fact(name, facts.pop(name))
    yield from _fact("recipe", ", ".join(f"{k}={v}" for k, v in recipe.items() if k != "kernel" and v is not None))
    yield from _fact("tensors", ", ".join(name + str(t["shape"]) for name, t in tensors.items()))
    for name, value in facts.items():
        if name == "versions":
            yield from _fact(name, ", ".join(f"{package} {version}" for package, version in value.items()))
        elif name != "columns" and (every or name not in _LAST):  # the columns are the components, once more
            yield from _fact(name.replace("_", " "), value)


def _fact(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"  {name:<12} {_text(value)}"
        return
    width = max(map(len, value), default=0)
    for i, (inner, inner_value) in enumerate(value.items()):
        yield f"  {'' if i else name:<12} {inner:<{width}}  {_text(inner_value)}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return _some([_text(each) for each in value])
    if isinstance(value, dict):
        return json_.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _some(names: list[str]) -> str:
    """The first twelve names."""
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
