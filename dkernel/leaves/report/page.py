"""The page of a report: HTML with its style and its pictures inside, no script, nothing to load."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from typing import Any

import numpy as np

from dkernel.errors import escape_controls
from dkernel.inference.summary import (
    SIMPLER,
    FitSummary,
    describe_sure,
    is_clear,
    is_simpler,
    verdict,
)
from dkernel.leaves.report import figures
from dkernel.leaves.report.effects import (
    MOST_VARIED,
    Parts,
    dependences,
    find_importances,
    reason_not_drawn,
    strongest,
)
from dkernel.leaves.report.numbers import Quality, calibration, judge, learning_curve
from dkernel.leaves.report.style import percent, svg, thousands
from dkernel.model.wording import format_figure, format_of_rows, format_rows, format_share, format_with_error
from dkernel.numerics.resource_limits import format_bytes
from dkernel.training.planning.memory_plan import format_plan

MOST_BARS = 12  # columns, or classes: as many as stand on one screen with the rest
_CSS = """
:root { --ink: #1f2937; --soft: #6b7280; --line: #e5e7eb; --back: #f8fafc; --card: #fff; --blue: #0072b2;
  color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --soft: #a3acba; --line: #374151; --back: #111827; --card: #1b2433; --blue: #56b4e9; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; }
h2, summary { font-size: 18px; font-weight: 650; margin: 28px 0 12px; }
summary { cursor: pointer; padding: 10px 0; border-top: 1px solid var(--line); }
p { margin: 4px 0; color: var(--soft); overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 16px; margin: 16px 0; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); gap: 16px; }
.grid:has(> :nth-child(4):last-child) { grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; margin: 0; }
.flow { columns: 2 460px; column-gap: 16px; }
.flow > .card { break-inside: avoid; margin-bottom: 16px; }
.tiles b { display: block; font-size: 22px; line-height: 1.25; }
.tiles span, figcaption { color: var(--soft); font-size: 13px; }
h3 { font-size: 15px; margin: 0 0 6px; }
svg { display: block; width: 100%; max-width: 400px; height: auto; margin: 0 auto; }
svg text { font-family: inherit !important; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
td, th { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
tr:first-child > * { border-top: 0; }
td { overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 400; }
.number td, .number th + th { text-align: right; }
.pairs th { width: 30%; }
.bars th { width: 38%; color: inherit; overflow-wrap: anywhere; }
code { font: inherit; white-space: nowrap; }
.bars td + td { text-align: right; white-space: nowrap; padding-right: 0; width: 1%; }
.bars i { display: block; height: 11px; margin-top: 5px; background: var(--blue); border-radius: 2px; }
.many { font-size: 9px; }
.many * { padding: 1px 2px; }
@media (max-width: 700px) { .tiles { grid-template-columns: 1fr 1fr; gap: 10px; } .tiles b { font-size: 18px; } }
"""

NOT_LINEAR = (
    "The linear model was not taken: losses of single rows choose, which show smaller differences than this figure. "
    "A linear kernel without grids or cells fits it."
)
CLASS_FIGURES = ("n", "precision", "recall")

Texts = Sequence[tuple[str, ...]]


def page(result: Any, summary: FitSummary, record: Mapping[str, Any]) -> str:
    """The whole document about a fit.

    Parameters
    ----------
    result : dkernel.training.fit.TrainResult
    record : the run record
    """
    model, parts = result.model, [(fitted, rows) for fitted, rows, _ in result.left_out if len(rows.X)]
    quality, seconds = judge(parts), record.get("seconds", {}).get("train")
    lost = find_importances(parts) if quality else {"columns": {}}
    number, _, rows = summary.rows.partition(" ")
    tiles = [*_merits(summary.judged, quality), (number, f"{rows} learned from")]
    tiles += [(_seconds(seconds), "for the training")] if seconds else []
    # An order that fills two columns: with classes there is as much after the importances as before them.
    sure, classes = chain(_sure(summary), _check(summary.checks)), [] if quality is None else quality.per_class
    columns, others = _importances(model, parts, lost), chain(sure, _classes(classes))
    top = chain(_beside(summary), *((others, columns) if model.classes is None else (columns, others)))
    details = chain(_pictures(parts, quality), _search(record), _learning(result), _resources(result, record))
    body = [
        _tiles(tiles),
        _flow(top),
        _dependences(model, parts, lost),
        _fold(chain(details, _identity(result, summary, record))),
    ]
    return _document(model, record, f"{summary.rows} of {_paths(record)}", body)


def page_of_test(model: Any, rows: Any, record: Mapping[str, Any]) -> str:
    """The document about an evaluation.

    Parameters
    ----------
    rows : Block of the test rows, a uniform sample of them where they are many
    record : the run record, with the figures of all rows
    """
    parts, found = [(model, rows)], record["figures"]
    quality = judge(parts)
    lost = found.get("importance") or (find_importances(parts) if quality else {"columns": {}})
    names = {"error": "wrong labels", "auc": "AUC", "log_loss": "log loss", "rmse": "RMSE", "mae": "MAE", "r2": "R²"}
    n = found["n"]
    tiles = [
        (format_of_rows(name, found[name], n), text) for name, text in names.items() if found.get(name) is not None
    ]
    shown = 0 if quality is None else len(quality.truth)
    classes = [[str(line["label"]), *(line[name] for name in CLASS_FIGURES)] for line in found.get("per_class", ())]
    top = chain(_classes(classes), _covered(found), _importances(model, parts, lost))
    run = [
        (name.replace("_", " "), str(record[name])) for name in ("model", "model_sha256", "started") if name in record
    ]
    note = f"{record['rows_in']:,} rows of {_paths(record)}"
    if shown < record["rows_in"]:
        note += f"; columns and pictures are of {shown:,} of them"
    tiles = [*tiles, (f"{found['n']:,}", "rows")][-4:]
    details = _fold(chain(_pictures(parts, quality), [_table("Run", run)]))
    return _document(model, record, note, [_tiles(tiles), _flow(top), _dependences(model, parts, lost), details])


def _document(model: Any, record: Mapping[str, Any], rows: str, body: Sequence[str]) -> str:
    """HTML of a page.

    Parameters
    ----------
    rows : what the page is about, after what the model is for
    """
    task = "Regression" if model.classes is None else f"Classification into {len(model.classes):,} classes"
    name = str(record.get("model", "a fit")).rstrip("/").rpartition("/")[2]
    what = FitSummary.of_model(model).model
    return escape_controls(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(f'dkernel: {name}')}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n'
        f"<header><h1>{escape(model.label)}</h1><p>{escape(f'{task} by {len(model.columns):,} columns, {rows}.')}</p>"
        f"<p>{escape(f'Model {name}: {what}.')}</p></header>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    ).replace(" %", "\u00a0%")


def _tiles(tiles: Texts) -> str:
    cards = (f'<div class="card"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in tiles)
    return f'<div class="tiles">{"".join(cards)}</div>'


def _flow(boxes: Iterable[str]) -> str:
    return f'<div class="flow">{"".join(boxes)}</div>'


def _fold(boxes: Iterable[str]) -> str:
    return f"<details><summary>Details</summary>{_flow(boxes)}</details>"


def _paths(record: Mapping[str, Any]) -> str:
    return ", ".join(str(path).rstrip("/").rpartition("/")[2] for path in record.get("paths", [])) or "a table"


def _merits(judged: Mapping[str, Any], quality: Quality | None) -> Iterator[tuple[str, str]]:
    """The figure of a fit with its standard error, and the score that was asked for, or else another."""
    if "model" in judged:
        merits, name = judged["model"], judged["figure"]
        text = "wrong labels" if name == "error" else "RMSE, in units of the label"
        text = f"{text}, {format_rows(judged['rows'], judged['different'])} left out"
        both = merits["value"], merits["standard_error"]
        value, sure = (format_of_rows(name, each, judged["rows"], both[0]) for each in both)
        yield f"{value.removesuffix(' %')} ± {sure}", text
    others, n = judged.get("scoring") or (quality.merits if quality else {}), judged.get("rows", 0)
    yield from ((format_of_rows(name, value, n), name) for name, value in others.items())


def _beside(summary: FitSummary) -> Iterator[str]:
    """Figures beside those of simpler models, and what they say."""
    judged = summary.judged
    if "model" not in judged:
        return
    names = {"model": "this model", "linear": "linear model", "boosted": "boosted trees", "constant": "a constant"}
    figure, n = judged["figure"], judged["rows"]
    values = [(text, judged[name]["value"]) for name, text in names.items() if name in judged]
    notes = [f"{text[0].upper()}{text[1:]}." for name in SIMPLER if name in judged for text in [verdict(judged, name)]]
    if "linear" in judged and is_simpler(judged, "linear") and not is_clear(judged, "linear"):
        notes.append(NOT_LINEAR)
    title = "How good: " + ("wrong labels" if figure == "error" else "RMSE")
    yield _bars(title, [(*each, format_of_rows(figure, each[1], n, values[0][1])) for each in values], notes)


def _sure(summary: FitSummary) -> Iterator[str]:
    judged = summary.judged
    sure = [f"{describe_sure(judged['sure'], judged['rows'])}."] if judged.get("sure") else []
    if judged.get("chose"):
        sure.append("The rows left out also chose the settings: others may be predicted a little worse.")
    if sure:
        yield _box("How sure", "".join(f"<p>{escape(line)}</p>" for line in sure))


def _covered(found: Mapping[str, Any]) -> Iterator[str]:
    for name, what, size in (("interval", "Intervals", "width"), ("set", "Sets of classes", "size")):
        if name in found:
            of, n = found[name], found["n"]
            there, mean = format_share(of["covered"], n), f"mean {size} {format_of_rows(size, of[size], n)}"
            text = f"{what}, {100 * of['coverage']:g} % asked for, cover {there} of the rows; {mean}."
            yield _box("How sure", f"<p>{text}</p>")


def _check(checks: Mapping[str, str]) -> Iterator[str]:
    title, nothing = "What to check", "<p>Nothing was found.</p>"
    yield _table(title, list(checks.items())) if checks else _box(title, nothing)


def _classes(found: Sequence[Any], most: int = MOST_BARS) -> Iterator[str]:
    """Rows, precision and recall of each class; of many those of the lowest recall."""
    title = "Classes"
    if len(found) > most:
        title = f"Classes: the {most} of {len(found)} with the lowest recall"
        found = sorted(found, key=lambda each: 1.0 if each[3] is None else each[3])[:most]
    lines = [
        (name, f"{n:,.0f}", *("-" if share is None else format_share(share, n) for share in shares))
        for name, n, *shares in found
    ]
    if lines:
        yield _grid(title, [("class", "rows", "precision", "recall"), *lines])


def _importances(model: Any, parts: Parts, lost: Mapping[str, Any]) -> Iterator[str]:
    text = (
        reason_not_drawn(model)
        if parts
        else "Not drawn: no rows were left out. `dkernel evaluate --report` draws them."
    )
    columns = [
        (name, each["mean"], format_with_error(each["mean"], each["deviation"]))
        for name, each in lost["columns"].items()
    ]
    if weights := strongest(model)[: MOST_BARS * (not columns)]:
        shares = [(name, share, format_figure("error", share, 0.0)) for name, share in weights]
        yield _bars("Which columns matter", shares, ["Shares in the learned metric."])
    elif columns:
        figure = "R²" if model.classes is None else "accuracy"
        text = f"What it costs of the {figure} to shuffle a column, on {lost['rows']:,} rows."
        if len(columns) > MOST_BARS:
            text += f" {len(columns) - MOST_BARS} more cost at most {columns[MOST_BARS][2]}."
        yield _bars("Which columns matter", columns[:MOST_BARS], [text])
    elif text:
        yield _box("Which columns matter", f"<p>{escape(text)}</p>")


def _dependences(model: Any, parts: Parts, lost: Mapping[str, Any]) -> str:
    effects = dependences(parts, list(lost["columns"])) if lost["columns"] else []
    if not effects:
        return ""
    names, what, as_text = ["prediction"], "prediction", thousands
    if model.classes is not None:
        names, as_text = [str(name) for name in model.classes.tolist()], percent
        names = names[1:] if len(names) == 2 else names
        what = (
            f"{'probability' if model.has_probabilities else 'share'} of {names[0] if not names[1:] else 'each class'}"
        )
    rows = min(len(parts[0][1].X), MOST_VARIED)
    note = f"Mean {what} of {rows:,} rows if all have one value of a column; the most important column first."
    every = np.concatenate([effect.answers.ravel() for effect in effects])
    margin = 0.05 * (float(np.ptp(every)) or 1.0)
    ends = (float(every.min()) - margin, float(every.max()) + margin)
    drawn = (_draw(each.name, figures.dependence(each, ends, names, as_text)) for each in effects)
    return f'<h2>What the answer depends on</h2><p>{escape(note)}</p><div class="grid">{"".join(drawn)}</div>'


def _pictures(parts: Parts, quality: Quality | None) -> Iterator[str]:
    """Pictures of the answers to rows that were left out."""
    if quality is None:
        return
    model, _ = parts[0]
    if quality.classes is None:
        yield _draw("Predictions", figures.predictions(quality), "On the dashed line the prediction is the label.")
        yield _draw("Residuals", figures.residuals(quality), "The widest 0.4 % are left out.")
    else:
        if len(quality.classes) > MOST_BARS:
            yield from _classes(quality.per_class, len(quality.classes))
        yield _confusion(quality)
        if any(quality.one_against_rest()):
            text = "One class against the rest." if len(quality.classes) > 2 else f"Of {quality.classes[1]}, by score."
            yield _draw("ROC", figures.curves(quality), text)
        if (bins := calibration(model, quality)) is not None:
            stated = (
                "The model's probabilities" if model.has_probabilities else "(score + 1) / 2, what this loss aims at"
            )
            yield _draw(
                "Calibration", figures.calibrations(*bins), f"{stated}; {len(bins[0])} groups of as many rows each."
            )


def _confusion(quality: Quality) -> str:
    counts, names = quality.confusion, quality.classes or []
    rows = counts.sum(axis=1)
    shares = counts / np.maximum(rows, 1e-300)[:, None]
    many = len(names) > 6
    lines = "".join(
        f"<tr><th>{escape(figures.short(name))}</th>"
        + "".join(
            f'<td style="background: color-mix(in srgb, var(--blue) {60 * share:.0f}%, transparent)">'
            f"{f'{100 * share:.0f}' if many else format_share(share, n)}</td>"
            for share in of
        )
        + "</tr>"
        for name, of, n in zip(names, shares, rows, strict=True)
    )
    head = "".join(f"<th>{escape(figures.short(name))}</th>" for name in names)
    inside = f'<table class="number{" many" * many}"><tr><th></th>{head}</tr>{lines}</table>'
    note = f"Rows are true classes, columns predicted: {'% of' if many else 'shares of'} the rows of a class."
    return _box("Confusion", f'<div class="wide">{inside}</div><p>{note}</p>')


def _search(record: Mapping[str, Any]) -> Iterator[str]:
    board = record.get("leaderboard")
    if not board or not board[0]["rungs"]:
        return
    judged = "on rows left out of a fit" if "progressive_loss" not in board[0] else "on rows before they were used"
    yield _draw("Leaderboard", figures.race(board), f"{len(board)} candidates, each at its last rung, judged {judged}.")
    figured = ("rank", "rows", "rungs", "progressive_loss", "left_out_loss", "score", "error", "rmse")
    names = [name for name in board[0] if name not in figured]
    lines = [(f"{line['rank']}", ", ".join(f"{name} {_plain(line[name])}" for name in names)) for line in board[:10]]
    yield _table("The first ten", lines)


def _learning(result: Any) -> Iterator[str]:
    """The learning curve, where no local stage has learned what the curve does not show."""
    rounds, holdout = learning_curve(result.history)
    if len(rounds) and result.model.local is None:
        text = "A round's rows before the step that learns from them; in the first pass they are new."
        yield _draw("Loss", figures.loss(rounds, holdout), text)


def _resources(result: Any, record: Mapping[str, Any]) -> Iterator[str]:
    phases = record.get("phases", {})
    if phases:
        yield _bars("Time, by phase", [(name, took, _seconds(took)) for name, took in phases.items()])
    peaks = {"peak_memory_bytes": "all processes here", "worker_peak_memory_bytes": "the largest worker"}
    measured = [
        (f"measured peak, {text}", format_bytes(record[name])) for name, text in peaks.items() if record.get(name)
    ]
    yield _table("Plan and peaks", [*format_plan(result.plan), *measured])


def _identity(result: Any, summary: FitSummary, record: Mapping[str, Any]) -> Iterator[str]:
    recipe = {name: value for name, value in result.model.recipe.to_dict().items() if value is not None}
    yield _table("Recipe", [(name, _plain(value)) for name, value in recipe.items()])
    if summary.choices:
        yield _table("Chosen settings", list(summary.choices.items()))
    run = [("data", ", ".join(map(str, record.get("paths", []))))]
    names = ("model_sha256", "input_fingerprint", "recipe_sha256", "config_sha256", "executor", "started", "host")
    run += [(name.replace("_", " "), str(record[name])) for name in names if record.get(name)]
    if record.get("faults") is not None:
        run.append(("faults seen", "; ".join(record["faults"]) or "none"))
    yield _table("Run", run)
    yield _table("Versions", list(record.get("versions", {}).items()))


def _draw(title: str, figure: Any, caption: str = "") -> str:
    caption = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="card"><h3>{escape(title)}</h3>{svg(figure, title)}{caption}</figure>'


def _box(title: str, inside: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3>{inside}</div>'


def _table(title: str, rows: Texts) -> str:
    """Names and what they are; the name of an option stays in one line."""
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    lines = re.sub(r"--[a-z][a-z-]*", r"<code>\g<0></code>", lines)
    return _box(title, f'<table class="pairs">{lines}</table>')


def _grid(title: str, rows: Texts) -> str:
    """Names, each with numbers; the first row has the heads."""
    head, *lines = ("".join(f"<th>{escape(cell)}</th>" for cell in rows[0]), *rows[1:])
    body = (f"<th>{escape(name)}</th>" + "".join(f"<td>{escape(v)}</td>" for v in values) for name, *values in lines)
    return _box(title, f'<table class="number"><tr>{head}</tr><tr>{"</tr><tr>".join(body)}</tr></table>')


def _bars(title: str, rows: Sequence[tuple[str, float, str]], notes: Sequence[str] = ()) -> str:
    """Names, each with a bar and its number in words."""
    most = max((value for _, value, _ in rows), default=0) or 1.0
    lines = "".join(
        f"<tr><th>{escape(figures.short(name, 60))}</th>"
        f'<td><i style="width: {100 * max(value, 0) / most:.1f}%"></i></td><td>{text}</td></tr>'
        for name, value, text in rows
    )
    return _box(
        title,
        f'<table class="bars">{lines}</table>' + "".join(f"<p>{escape(note)}</p>" for note in notes),
    )


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"
