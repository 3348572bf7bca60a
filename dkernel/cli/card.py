"""`dkernel card`: a page about a model, for people and for a model hub."""

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import READ, WRITTEN, debug_option, overwrite_option, setting
from dkernel.cli.outputs import check_model_place, check_outputs
from dkernel.errors import mask_urls

SHOWN_COLUMNS = 50  # listed by name
_LIMITS = (
    "Rows unlike any of the training have scores that mean little: `dkernel evaluate` prints their share.",
    "A learned relation is no cause, and other data than those of the training may have another one.",
)


@click.command("card", cls=ExitCodeCommand, short_help="Write a model card: data, choices, figures, limits.")
@click.argument("model", type=READ)
@setting("--out", type=WRITTEN, metavar="FILE", help="Write the page there; it is printed if this is not given.")
@overwrite_option(help="Replace FILE.")
@debug_option
def card_command(model: str, out: str | None, overwrite: bool, debug: bool) -> None:  # noqa: ARG001 - debug is for ExitCodeCommand
    """Write a card of MODEL in Markdown, as model hubs show it: data, choices, figures and limits.

    Only the header of the file is read. What the model is for, and who made it, is for you to add.

    \b
    dkernel card model.safetensors --out README.md
    """
    from dkernel.data.store import write_whole
    from dkernel.model.model_file import read_header

    if out is not None:
        check_outputs()
        check_model_place({"out": out, "overwrite": overwrite})
    page = "\n".join([*_front_matter(header := read_header(model)), *_page(model, header)]) + "\n"
    if out is None:
        click.echo(page, nl=False)
    else:
        write_whole(out, page.encode("utf-8", "backslashreplace"))


def _front_matter(header: Mapping[str, Any]) -> Iterator[str]:
    """YAML for a model hub: library, task and figures."""
    classifies = header["classes"] is not None
    task = "tabular-classification" if classifies else "tabular-regression"
    yield from ("---", "library_name: dkernel", f"pipeline_tag: {task}", "tags:", "- kernel-machine", "- tabular")
    figures = {name: value for name, value in header["facts"].get("holdout", {}).items() if isinstance(value, float)}
    if figures:
        yield from (
            "model-index:",
            f"- name: {_quote(header['label'])}",
            "  results:",
            "  - task:",
            f"      type: {task}",
        )
        yield from ("    dataset:", "      name: rows held out of the training", "      type: holdout", "    metrics:")
        for name, value in figures.items():
            yield from (f"    - type: {name}", f"      value: {value:.6g}")
    yield from ("---", "")


def _page(path: str, header: Mapping[str, Any]) -> Iterator[str]:
    facts, recipe, classes = header["facts"], header["recipe"], header["classes"]
    names = _names(header["columns"])
    what = "A regression" if classes is None else f"A classifier of {len(classes['values'])} classes"
    yield from (f"# {_escape(header['label'])}", "")
    yield from (
        f"{what} by dkernel, a kernel machine: {_escape(recipe['kernel'])}, {_count(facts.get('columns'))} components.",
        "",
    )
    yield from ("## Data", "")
    rows = {"rows": _count(facts.get("rows")), "label": header["label"]}
    if classes is not None:
        counts = facts.get("counts", [None] * len(classes["values"]))
        rows["classes"] = ", ".join(
            f"{value}" + (f" ({_count(n)})" if n is not None else "")
            for value, n in zip(classes["values"], counts, strict=False)
        )
    rows |= {"columns": f"{names[0]}: {names[1]}", "sha256 of the data": facts.get("data", "unknown")}
    yield from _table(rows)
    if facts.get("chosen"):
        yield from ("## Choices", "")
        yield from _table(facts["chosen"])
    yield from ("## Figures", "")
    if facts.get("holdout"):
        yield from ("Of rows that were held out of the training, and judged some of the choices above:", "")
        yield from _table(
            {name: f"{v:.4g}" if isinstance(v, float) else _count(v) for name, v in facts["holdout"].items()}
        )
    else:
        yield from ("No rows were held out. `dkernel evaluate` gives figures of other rows.", "")
    yield from _how_sure(facts.get("conformal"), classes is None)
    yield from ("## Limits", "", *(f"- {limit}" for limit in _LIMITS), "")
    yield from ("## Use", "", "```python", "import dkernel", "", f"machine = dkernel.load({mask_urls(path)!r})")
    yield from ("machine.predict(rows)", "```", "", f"sha256 of the model: {header.get('sha256', 'unknown')}", "")
    versions = ", ".join(f"{package} {version}" for package, version in facts.get("versions", {}).items())
    settings = ", ".join(f"{name}={value}" for name, value in recipe.items() if value is not None)
    yield _escape(f"Made with {versions or 'unknown versions'}; settings: {settings}")


def _how_sure(conformal: Mapping[str, Any] | None, numbers: bool) -> Iterator[str]:
    """The section on intervals or sets of classes."""
    yield from ("## How sure", "")
    what, ask = ("Intervals", "predict_interval(rows)") if numbers else ("Sets of classes", "predict_set(rows)")
    if conformal is None:
        yield from (f"The model has no {what.lower()}: `conformalize` brings them, with rows that it has not seen.", "")
        return
    of = {"holdout": "of the holdout", "folds": "left out in turn"}.get(conformal["of"], conformal["of"])
    yield from (f"{what} that cover a share of rows drawn as these (`machine.{ask}`) are by", "")
    yield from _table({"rows": f"{_count(conformal['rows'])}, {of}"})


def _names(columns: Any) -> tuple[str, str]:
    """How many columns there are, and their names."""
    if isinstance(columns, dict):  # numbered ones of sparse rows
        return _count(columns["n"]), f"{columns['first']} to {columns['first'] + columns['n'] - 1}"
    more = ", ..." if len(columns) > SHOWN_COLUMNS else ""
    return _count(len(columns)), ", ".join(map(str, columns[:SHOWN_COLUMNS])) + more


def _table(rows: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, value in rows.items():
        yield f"| {_escape(name)} | {_escape(value)} |"
    yield ""


def _escape(value: Any) -> str:
    """A value as text of Markdown: names of columns and classes bring no tag, cell or line of their own."""
    text = html.escape(" ".join(str(value).split()), quote=False)
    return re.sub(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "unknown"


def _quote(text: str) -> str:
    """Quote a text for YAML, which reads JSON."""
    import json

    return json.dumps(text)
