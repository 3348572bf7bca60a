"""The drawings of a report: each makes one matplotlib figure of numbers, all in one style."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import auc, roc_curve

from dkernel.errors import escape_controls
from dkernel.leaves.report.effects import Dependence
from dkernel.leaves.report.numbers import Quality
from dkernel.leaves.report.style import (
    COLOURS,
    SOFT,
    format_ticks,
    grid_lines,
    keep_in_legend,
    legend_below,
    make_figure,
    percent,
    thousands,
)
from dkernel.model.wording import format_of_rows
from dkernel.numerics.array_types import F64

MOST_LINES = 6  # of classes, which a reader can tell apart


def short(name: str, most: int = 16) -> str:
    """A name as a drawing takes it: without control characters, for which no font has a letter."""
    name = escape_controls(name.replace("\n", " "))
    return name if len(name) <= most else f"{name[: most - 1]}…"


@make_figure
def loss(axes: Any, rounds: F64, holdout: F64) -> None:
    """The loss over the rows seen."""
    rows, values = rounds.T
    axes.plot(rows, values, color=COLOURS[0], alpha=0.35, linewidth=1, label="each round")
    if len(values) > 8:
        width = max(2, len(values) // 12)
        summed = np.convolve(values, np.ones(width) / width, mode="valid")
        axes.plot(rows[width - 1 :], summed, color=COLOURS[0], label=f"mean of {width}")
    if len(holdout):
        axes.plot(*holdout.T, "o--", color=COLOURS[1], markersize=5, linewidth=1, label="holdout")
    format_ticks(axes.xaxis, thousands)
    axes.set(xlabel="rows seen", ylabel="loss, mean of a row", ylim=(0, None))
    grid_lines(axes)
    legend_below(axes)


@make_figure
def race(axes: Any, board: Sequence[Mapping[str, Any]]) -> None:
    """The candidates of a search: rows of the last rung that each ran, and its error on them."""
    name = "rmse" if "rmse" in board[0] else "error"
    known = [line for line in board if line.get(name) is not None]
    axes.plot([line["rows"] for line in known], [line[name] for line in known], "o", color=COLOURS[0], alpha=0.4)
    axes.plot(board[0]["rows"], board[0][name], "D", color=COLOURS[1], label="trained")
    format_ticks(axes.xaxis, thousands)
    axes.set(xlabel="rows of the last rung", ylabel=name, ylim=(0, None))
    legend_below(axes)
    grid_lines(axes)


@make_figure
def curves(axes: Any, quality: Quality) -> None:
    """ROC curves: one for two classes, else each of the first against the rest."""
    shown = list(quality.one_against_rest())[:MOST_LINES]
    for i, (name, positive, s) in enumerate(shown):
        wrong, right, _ = roc_curve(positive, s, sample_weight=quality.weight)
        area = format_of_rows("auc", float(auc(wrong, right)), len(s))
        text = f"AUC {area}" if len(shown) == 1 else f"{short(name)}: {area}"
        axes.plot(wrong, right, color=COLOURS[i], label=keep_in_legend(text))
    _set_shares(axes, "false positive rate", "true positive rate")


@make_figure
def calibrations(axes: Any, bins: F64, whose: str) -> None:
    """Observed shares over stated probabilities."""
    axes.plot(bins[:, 0], bins[:, 1], "o-", color=COLOURS[0], markersize=4.5, label="observed")
    _set_shares(axes, short(f"stated {whose}", 40), "share of the rows", line="as stated")


def _set_shares(axes: Any, x: str, y: str, line: str | None = None) -> None:
    """Axes of two shares, with their diagonal."""
    axes.plot([0, 1], [0, 1], color=SOFT, linewidth=0.8, linestyle=":", label=line)
    for axis in (axes.xaxis, axes.yaxis):
        format_ticks(axis, percent)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x, ylabel=y)
    grid_lines(axes)
    legend_below(axes)


@make_figure
def predictions(axes: Any, quality: Quality) -> None:
    """Predictions over truth."""
    axes.scatter(
        quality.truth[:4000], quality.predicted[:4000], s=4, color=COLOURS[0], alpha=0.4, linewidths=0, rasterized=True
    )
    ends = [float(quality.truth.min()), float(quality.truth.max())]
    axes.plot(ends, ends, color=COLOURS[1], linewidth=1, linestyle="--")
    for axis in (axes.xaxis, axes.yaxis):
        format_ticks(axis, thousands)
    axes.set(xlabel="label", ylabel="prediction")
    grid_lines(axes)


@make_figure
def residuals(axes: Any, quality: Quality) -> None:
    """Histogram of the errors."""
    error = quality.predicted - quality.truth
    low, high = (float(end) for end in np.quantile(error, [0.002, 0.998]))
    ends = (low, high) if high > low else None
    axes.hist(error, bins=50, range=ends, weights=quality.weight, color=COLOURS[0])
    axes.axvline(0, color=COLOURS[1], linewidth=1, linestyle="--")
    for axis in (axes.xaxis, axes.yaxis):
        format_ticks(axis, thousands)
    axes.set(xlabel="prediction - label", ylabel="rows")
    grid_lines(axes, "y")


@make_figure
def dependence(axes: Any, effect: Dependence, ends: tuple[float, float], names: Sequence[str], as_text: Any) -> None:
    """The answer over the values of one column: lines of a number, bars from the mean of words, points of many classes.

    Parameters
    ----------
    ends : of the answers, the same in all pictures of a page
    names : of what is answered, one or more
    as_text : what writes an answer
    """
    order = np.argsort(-np.ptp(effect.answers, axis=0), kind="stable")[:MOST_LINES]
    words, one = isinstance(effect.values, Sequence), len(names) == 1
    for k in sorted(order):
        answers, colour = effect.answers[:, k], COLOURS[k % len(COLOURS)]
        if not words:
            axes.plot(effect.values, answers, ".-", color=colour, label=keep_in_legend(short(names[k])))
        elif one:
            middle = answers.mean()
            axes.barh(range(len(answers)), answers - middle, left=middle, color=colour, height=0.62)
            axes.axvline(middle, color=SOFT, linewidth=0.8)
        else:
            axes.plot(answers, range(len(answers)), "o", color=colour, label=keep_in_legend(short(names[k])))
    grid_lines(axes)
    answered, given = (axes.xaxis, axes.yaxis) if words else (axes.yaxis, axes.xaxis)
    format_ticks(answered, as_text)
    if words:
        axes.set_xlim(*ends)
        axes.set_yticks(range(len(effect.values)), [short(str(word)) for word in effect.values])
        axes.invert_yaxis()
    else:
        axes.set_ylim(*ends)
        of_months = effect.name.endswith(", year") and np.ptp(effect.values) < 3
        format_ticks(
            given, (lambda year, _: str(np.datetime64(round(12 * (year - 1970)), "M"))) if of_months else thousands
        )
    if not one:
        legend_below(axes)
