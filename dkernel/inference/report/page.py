"""The page of a report: HTML with its style and its pictures inside, no script, nothing to load."""

import base64
import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from dkernel.inference.report import figures
from dkernel.inference.report.effects import columns_by_importance, dependences, reason_not_drawn, strongest
from dkernel.inference.report.numbers import (
    Quality,
    calibration,
    judge,
    learning_curve,
    local_regions,
    regions,
    spectrum,
    speed,
)
from dkernel.inference.report.style import svg
from dkernel.inference.summary import verdict
from dkernel.training.planning.memory_plan import format_plan

_CSS = """
:root { --ink: #1f2937; --soft: #6b7280; --line: #e5e7eb; --back: #f8fafc; --blue: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 40px 0 12px; padding-bottom: 6px; border-bottom: 2px solid var(--line); }
p { margin: 6px 0 0; color: var(--soft); }
section p { margin: 0 0 14px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 20px; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
.card b { display: block; font-size: 22px; font-weight: 650; line-height: 1.25; white-space: nowrap; }
.card span { color: var(--soft); font-size: 13px; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 16px; align-items: start; }
figure { margin: 0; background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
figure h3 { font-size: 15px; margin: 0 0 8px; }
figure img { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: 13px; margin-top: 8px; }
table { border-collapse: collapse; width: 100%; background: #fff; font-size: 14px; }
.box { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
.box h3 { font-size: 15px; margin: 0 0 8px; }
td, th { padding: 4px 12px 4px 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
tr:first-child td { border-top: 0; }
td:first-child { color: var(--soft); width: 42%; }
td { overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
code { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
@media (max-width: 560px) { .grid { grid-template-columns: 1fr; } }
@media print { body { background: #fff; } figure, .box, .card { break-inside: avoid; } }
"""

Rows = Sequence[tuple[str, str]]


def page(result: Any, record: Mapping[str, Any], trail: Sequence[tuple[str, float, int]]) -> str:
    """The whole document.

    Parameters
    ----------
    result : dkernel.training.fit.TrainResult
    record : the run record
    trail : `Progress.trail`
    """
    model, holdout = result.model, result.holdout
    quality = judge(model, holdout)
    parts = [
        _head(result, record, quality),
        _section("Quality", _quality_note(model, quality), chain(_quality(model, holdout, quality), _beside(record))),
        _section("Effects of the features", _effects_note(model, holdout, quality), _effects(model, holdout, quality)),
        _section("The search", "", _search(record)),
        _section("How it learned", "", _learning_curve(result, trail)),
        _section("The feature map", "", _map(result)),
        _section("Resources", "", _resources(result, record)),
        _section("Settings and versions", "", _identity(result, record)),
    ]
    return _document(_name(record), parts)


def page_of_test(model: Any, rows: Any, record: Mapping[str, Any]) -> str:
    """The document of an evaluation.

    Parameters
    ----------
    rows : Block of the test rows, a uniform sample of them where they are many
    record : the run record, with the figures of all rows
    """
    quality = judge(model, rows)
    shown = 0 if quality is None else len(quality.truth)
    note = f"Pictures of {shown:,} of the {record['rows_in']:,} rows; the figures above are of all of them."
    figures_of_all = [
        (name, f"{value:,}" if isinstance(value, int) else f"{value:.6g}")
        for name, value in record["figures"].items()
        if isinstance(value, int | float)
    ]
    run = [("data", ", ".join(map(str, record.get("paths", [])))), ("model", str(record.get("model")))]
    run += [(name.replace("_", " "), str(record[name])) for name in ("model_sha256", "started") if record.get(name)]
    parts = [
        f"<header><h1>{html.escape(_name(record))} on test data</h1>"
        f"<p><code>{html.escape(model.recipe.kernel)}</code></p></header>",
        _section("Quality", "", iter([_table("Figures", figures_of_all), _table("Run", run)])),
        _section("In pictures", note, _quality(model, rows, quality)),
        _section("Effects of the features", _effects_note(model, rows, quality), _effects(model, rows, quality)),
    ]
    return _document(_name(record), parts)


def _document(name: str, parts: Sequence[str]) -> str:
    title = html.escape(f"dkernel: {name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(filter(None, parts))
        + "\n</main>\n</body>\n</html>\n"
    )


def _name(record: Mapping[str, Any]) -> str:
    return str(record.get("model", "a fit")).rstrip("/").rpartition("/")[2]


def _head(result: Any, record: Mapping[str, Any], quality: Quality | None) -> str:
    model = result.model
    what = "Regression" if model.classes is None else f"Classification, {len(model.classes)} classes"
    line = f"{what} of {model.label} by {len(model.columns):,} features, {model.recipe.loss.replace('_', ' ')} loss"
    cards = [("rows", f"{model.facts['rows']:,}")]
    for name, value in (quality.merits if quality else {}).items():
        cards.append((f"{name} on the holdout", _merit(name, value)))
    seconds = record.get("seconds", {}).get("train")
    if seconds:
        cards.append(("training", _seconds(seconds)))
        cards.append(("rows a second, all included", f"{model.facts['rows'] / seconds:,.0f}"))
    if record.get("peak_memory_bytes"):
        cards.append(("peak memory", _bytes(record["peak_memory_bytes"])))
    boxes = "".join(f'<div class="card"><b>{html.escape(v)}</b><span>{html.escape(k)}</span></div>' for k, v in cards)
    return (
        f"<header><h1>{html.escape(_name(record))}</h1><p>{html.escape(line)}</p>"
        f'<p><code>{html.escape(model.recipe.kernel)}</code></p></header><div class="cards">{boxes}</div>'
    )


def _section(title: str, note: str, boxes: Iterator[str]) -> str:
    inside = "".join(boxes)
    if not inside and not note:
        return ""
    note = f"<p>{html.escape(note)}</p>" if note else ""
    return f'<section><h2>{html.escape(title)}</h2>{note}<div class="grid">{inside}</div></section>'


def _quality_note(model: Any, quality: Quality | None) -> str:
    judged = model.facts.get("holdout")
    if quality is None and judged:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in judged.items() if name != "rows")
        return (
            "The rows are few, so the model learned from all of them, and parts that were left out judged it: "
            f"{figures} on {judged.get('rows', 0):,.0f} rows. `dkernel evaluate --report` draws pictures of other rows."
        )
    if quality is None:
        return "There was no holdout (--holdout 0): `dkernel evaluate` measures the model on other files."
    return (
        f"On the holdout: {len(quality.truth):,} rows that no gradient saw. They also chose between averages and "
        "alphas, so other rows may be predicted a little worse."
    )


def _quality(model: Any, rows: Any, quality: Quality | None) -> Iterator[str]:
    if quality is None:
        return
    if quality.classes is None:
        yield _draw("Predictions", figures.predictions(quality), "On the dashed line the prediction is the label.")
        yield _draw("Residuals", figures.residuals(quality), "The widest 0.4 % are left out.")
    else:
        text = "Shares of the rows of each true class; on the diagonal they are right."
        yield _draw("Confusion matrix", figures.confusion(quality), text)
        if any(quality.one_against_rest()):
            many = "One class against the rest, the first ten." if len(quality.classes) > 2 else ""
            text = many or f"Of {quality.classes[1]} against {quality.classes[0]}, by score."
            yield _draw("ROC", figures.curves(quality), text)
        if (bins := calibration(model, quality)) is not None:
            own = "The model's probabilities"
            if not model.has_probabilities:
                own = "Scores as probabilities, (s + 1) / 2: what this loss aims at"
            text = f"{own}, in {len(bins[0])} groups of as many rows each."
            yield _draw("Calibration", figures.calibrations(*bins), text)
    if (plane := regions(model, rows, quality)) is not None:
        text = "Answers over the two features, with rows that the fit did not learn from."
        if quality.classes is not None and len(quality.classes) == 2:
            text += " Solid: score 0; dashed: -1 and 1."
        yield _draw("Decision regions", figures.decision(plane, model.inputs, quality.classes), text)
        if (parts := local_regions(model, plane)) is not None:
            yield _draw(
                model.local.regions_name, figures.local(parts, plane, model.inputs), "Rows of one colour share a part."
            )


def _effects_note(model: Any, rows: Any, quality: Quality | None) -> str:
    if quality is None:
        return "" if strongest(model) else "Not drawn: no rows were held out. `dkernel evaluate --report` draws them."
    return reason_not_drawn(model, rows)


def _effects(model: Any, rows: Any, quality: Quality | None) -> Iterator[str]:
    weights = strongest(model)
    if weights:
        text = "Share of each feature in the learned metric: how much the answer changes in its direction."
        yield _draw("Feature weights", figures.bars(weights, "share"), text)
    if quality is None:
        return
    lost = columns_by_importance(model, rows)
    if lost:
        figure = "R²" if quality.classes is None else "accuracy"
        text = f"What it costs of the {figure} to shuffle the values of one column among the rows."
        yield _draw("Permutation importance", figures.bars(lost, f"loss of {figure}"), text)
    for each in dependences(model, rows, [name for name, _ in lost]):
        text = "Mean answer with this feature set to each value, all others as they are."
        yield _draw(f"Partial dependence: {each.name}", figures.dependence(each, quality.classes), text)


def _beside(record: Mapping[str, Any]) -> Iterator[str]:
    judged = record.get("judged")
    if not judged:
        return
    figure, names = judged["figure"], {"constant": "constant", "linear": "linear model", "boosted": "boosted trees"}
    rows = [("this model", _merit(figure, judged["model"]["value"]))]
    rows += [
        (text, f"{_merit(figure, judged[name]['value'])}: {verdict(judged, name)}")
        for name, text in names.items()
        if name in judged
    ]
    yield _table(f"Beside simpler models, on these rows ({figure})", rows)


def _search(record: Mapping[str, Any]) -> Iterator[str]:
    board = record.get("leaderboard")
    if not board or not board[0]["rungs"]:
        return
    judged = "on rows left out of a fit" if "left_out_loss" in board[0] else "on rows before they were used"
    text = f"{len(board)} candidates, each at its last rung, judged {judged}."
    yield _draw("Leaderboard", figures.race(board), text)
    figured = ("rank", "rows", "rungs", "progressive_loss", "left_out_loss", "error", "rmse")
    names = [name for name in board[0] if name not in figured]
    yield _table(
        "The first ten",
        [(f"{line['rank']}", ", ".join(f"{name} {_plain(line[name])}" for name in names)) for line in board[:10]],
    )


def _learning_curve(result: Any, trail: Sequence[tuple[str, float, int]]) -> Iterator[str]:
    curve = learning_curve(result.history)
    if len(curve.rounds):
        text = "Progressive: a round's rows before the step that learns from them; in the first pass they are new."
        yield _draw("Loss", figures.loss(curve), text)
        name = "Accuracy" if curve.name == "accuracy" else "RMSE"
        yield _draw(
            name, figures.merit(curve), "Points: the best candidate on the holdout, at the start and after each pass."
        )
    paths = [("on the sample", result.sample_path)] if result.sample_path else []
    for line in result.history:
        if line.get("path") and len(line["path"]) > 1:
            paths.append((_pass_name(line["holdout"]), line["path"]))
    if paths:
        text = "Regularization: the sample rules out most, the holdout chooses among the rest."
        yield _draw("Alpha path", figures.alphas(paths, result.model.recipe.alpha), text)
    if rates := speed(trail):
        yield _draw("Rows a second, by round", figures.speeds(rates), "Reading, components, gradient, sum and step.")


def _pass_name(name: str) -> str:
    kind, _, number = name.partition("-")
    return f"holdout, pass {int(number.split('-')[0]) + 1}" if number else "holdout, start" if kind == "start" else kind


def _map(result: Any) -> Iterator[str]:
    values, what = spectrum(result.model, result.holdout)
    certificate = result.model.facts.get("certificate") or {}
    rank = certificate.get("effective_rank")
    if len(values) and values[0] > 0:
        own = float(values.sum() ** 2 / (values @ values))
        text = f"Of {what}. Effective rank: (Σλ)² / Σλ²."
        yield _draw("Spectrum", figures.spectrum_of(values, rank if rank is not None else own), text)
    rows = [("kind", str(result.model.map.kind)), ("components", f"{result.model.map.n_components:,}")]
    if certificate:
        rows += [
            ("trace error, mean of a row", f"{certificate['trace_error']:.3g}"),
            ("as a share of k(x, x)", f"{100 * certificate['trace_share']:.3g} %"),
            ("largest of a row", f"{certificate['trace_largest']:.3g}"),
            ("rows that it was measured on", f"{certificate['trace_rows']:,}"),
        ]
    if rank is not None:
        rows.append(("effective rank of the landmarks", f"{rank:,.1f}"))
    setup = result.model.facts.get("setup", {})
    rows += [(_SETUP.get(name, name), f"{value:.4g}") for name, value in setup.items()]
    yield _table("Trace certificate and preconditioner" if certificate else "Map and preconditioner", rows)


_SETUP = {
    "rho": "ridge of the preconditioner",
    "leverage": "leverage of other rows, 95th percentile",
    "largest": "largest eigenvalue on other rows",
}


def _resources(result: Any, record: Mapping[str, Any]) -> Iterator[str]:
    if record.get("phases"):
        yield _draw("Time, by phase", figures.phases(record["phases"]), "")
    measured = []
    if record.get("peak_memory_bytes"):
        measured.append(("measured peak, all processes here", _bytes(record["peak_memory_bytes"])))
    if record.get("worker_peak_memory_bytes"):
        measured.append(("measured peak, the largest worker", _bytes(record["worker_peak_memory_bytes"])))
    if seconds := record.get("seconds", {}).get("train"):
        measured.append(("measured time of the training", _seconds(seconds)))
    yield _table("Plan and peaks", [*format_plan(result.plan), *measured])


def _identity(result: Any, record: Mapping[str, Any]) -> Iterator[str]:
    recipe = {name: value for name, value in result.model.recipe.to_dict().items() if value is not None}
    yield _table("Recipe", [(name.replace("_", " "), _plain(value)) for name, value in recipe.items()])
    if result.chosen:
        yield _table("Chosen settings", list(result.chosen.items()))
    run = [("data", ", ".join(map(str, record.get("paths", []))))]
    names = ("model_sha256", "input_fingerprint", "recipe_sha256", "config_sha256", "executor", "started", "host")
    run += [(name.replace("_", " "), str(record[name])) for name in names if record.get(name)]
    faults = record.get("faults")
    if faults is not None:
        run.append(("faults seen", "; ".join(faults) or "none"))
    yield _table("Run", run)
    yield _table("Versions", list(record.get("versions", {}).items()))


def _draw(title: str, figure: Any, caption: str) -> str:
    source = "data:image/svg+xml;base64," + base64.b64encode(svg(figure)).decode()
    caption = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure><h3>{html.escape(title)}</h3><img alt="{html.escape(title)}" src="{source}">{caption}</figure>'


def _table(title: str, rows: Rows) -> str:
    inside = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f'<div class="box"><h3>{html.escape(title)}</h3><table>{inside}</table></div>'


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _merit(name: str, value: float) -> str:
    return f"{100 * value:.2f} %" if name == "accuracy" else f"{value:.4g}" if math.isfinite(value) else "-"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def _bytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"
