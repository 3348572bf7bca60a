"""The page of `dkernel show --markdown` about a model, for people and for a model hub."""

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dkernel.cli.train import with_options
from dkernel.errors import escape_controls, mask_urls
from dkernel.inference.summary import FitSummary
from dkernel.model.wording import format_of_rows

SHOWN_COLUMNS = 50  # listed by name
_LIMITS = (
    "Rows unlike any of the training have scores that mean little: `dkernel evaluate` prints their share.",
    "A learned relation is no cause, and other data than those of the training may have another one.",
)


def make_card(path: str, header: Mapping[str, Any]) -> str:
    """The page of a model.

    Parameters
    ----------
    path : of the model, as the page names it
    header : of its file
    """
    return escape_controls("\n".join([*_front_matter(header), *_page(path, header)])) + "\n"


def _front_matter(header: Mapping[str, Any]) -> Iterator[str]:
    """YAML for a model hub: library, task and figures."""
    classifies = header["classes"] is not None
    task = "tabular-classification" if classifies else "tabular-regression"
    yield from ("---", "library_name: dkernel", f"pipeline_tag: {task}", "tags:", "- kernel-machine", "- tabular")
    figures = {name: value for name, value in header["facts"].get("holdout", {}).items() if isinstance(value, float)}
    if figures:
        yield from (
            "model-index:",
            f"- name: {json.dumps(header['label'])}",  # YAML reads JSON
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
    summary = with_options(FitSummary.of_header(header))
    form = f"{summary.model}, {recipe['kernel']}"
    yield from (f"{what} by dkernel, a kernel machine: {_escape(form)}.", "")
    yield from ("## Data", "")
    number, _, name = summary.rows.partition(" ")
    rows = {name: number, "label": header["label"]}
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
        rows = facts["holdout"].get("rows", 0)
        yield from _table({name: format_of_rows(name, v, rows) for name, v in facts["holdout"].items()})
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
