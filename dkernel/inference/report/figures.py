"""The drawings of a report: each makes one matplotlib figure of numbers, all in one style."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray
from sklearn.metrics import auc, roc_curve

from dkernel.inference.report.effects import Dependence
from dkernel.inference.report.numbers import Learning, Quality, Regions
from dkernel.inference.report.style import (
    COLOURS,
    FIGURE_HEIGHT,
    FIGURE_WIDTH,
    INK,
    SOFT,
    grid_lines,
    make_figure,
    mark,
    percent,
    thousands,
)
from dkernel.numerics.array_types import F64


def _set_row_axis(axes: Any) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    axes.set_xlabel("rows seen by the passes")
    grid_lines(axes)


@make_figure
def loss(axes: Any, curve: Learning) -> None:
    """The loss over the rows seen."""
    _curve(axes, curve, 1)
    axes.set_ylabel("loss, mean of a row")


@make_figure
def merit(axes: Any, curve: Learning) -> None:
    """Accuracy or RMSE over the rows seen."""
    _curve(axes, curve, 2)
    axes.set_ylabel("accuracy" if curve.name == "accuracy" else "RMSE, units of the label")
    if curve.name == "accuracy":
        axes.yaxis.set_major_formatter(FuncFormatter(percent))


def _curve(axes: Any, curve: Learning, column: int) -> None:
    rows, values = curve.rounds[:, 0], curve.rounds[:, column]
    axes.plot(rows, values, color=COLOURS[0], alpha=0.35, linewidth=1, label="each round, before its step")
    if len(values) > 8:
        width = max(2, len(values) // 12)
        summed = np.convolve(values, np.ones(width) / width, mode="valid")
        axes.plot(rows[width - 1 :], summed, color=COLOURS[0], label=f"mean of {width} rounds")
    if len(curve.holdout):
        seen, at = curve.holdout[:, 0], curve.holdout[:, column]
        axes.plot(seen, at, "o--", color=COLOURS[1], markersize=5, linewidth=1, label="holdout")
    _set_row_axis(axes)
    axes.legend(loc="best")


@make_figure
def alphas(axes: Any, paths: Sequence[tuple[str, Mapping[str, float]]], chosen: float) -> None:
    """The loss of each alpha, on the sample and after each pass."""
    for i, (name, path) in enumerate(paths):
        points = sorted((float(alpha), value) for alpha, value in path.items())
        axes.plot(*zip(*points, strict=True), "o-", color=COLOURS[i % 10], markersize=4, label=name)
    axes.axvline(chosen, color=SOFT, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    mark(axes, chosen, f"chosen: {chosen:g}", SOFT)
    axes.minorticks_off()
    axes.set(xlabel="alpha", ylabel="loss, mean of a row")
    grid_lines(axes)
    axes.legend(loc="best")


@make_figure
def race(axes: Any, board: Sequence[Mapping[str, Any]]) -> None:
    """The candidates of a search: rows of the last rung that each ran, and its error on them."""
    name = "rmse" if "rmse" in board[0] else "error"
    known = [line for line in board if line.get(name) is not None]
    axes.plot([line["rows"] for line in known], [line[name] for line in known], "o", color=COLOURS[0], alpha=0.4)
    axes.plot(board[0]["rows"], board[0][name], "D", color=COLOURS[1], label="trained")
    axes.set_xscale("log")
    axes.set(xlabel="rows of the last rung", ylabel=name)
    axes.legend()
    grid_lines(axes)


@make_figure
def speeds(axes: Any, rates: Sequence[tuple[str, F64]]) -> None:
    """Rows a second of every round."""
    done = 0
    for i, (name, steps) in enumerate(rates):
        axes.plot(done + 1 + np.arange(len(steps)), steps[:, 1], color=COLOURS[i % 10], label=name, marker=".")
        done += len(steps)
    axes.set_ylim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    axes.set(xlabel="round", ylabel="rows a second")
    grid_lines(axes)
    if len(rates) > 1:
        axes.legend(loc="best")


@make_figure
def phases(axes: Any, seconds: Mapping[str, float]) -> None:
    """Seconds of every phase."""
    axes.figure.set_figheight(max(2.0, 0.9 + 0.3 * len(seconds)))
    names = list(seconds)[::-1]
    bars = axes.barh(names, [seconds[name] for name in names], color=COLOURS[0], height=0.62)
    axes.bar_label(bars, [f"{seconds[name]:,.1f} s" for name in names], padding=4, fontsize=8)
    axes.margins(x=0.18)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("seconds")
    grid_lines(axes, "x")


@make_figure
def spectrum_of(axes: Any, values: F64, rank: float | None) -> None:
    """Eigenvalues on logarithmic axes."""
    kept = values[values > 1e-16 * values[0]]
    axes.loglog(1 + np.arange(len(kept)), kept, color=COLOURS[0])
    if rank is not None:
        axes.axvline(rank, color=COLOURS[1], linewidth=1, linestyle="--")
        mark(axes, rank, f"effective rank {rank:,.1f}", COLOURS[1])
    axes.minorticks_off()
    axes.set(xlabel="index, from the largest", ylabel="eigenvalue / size")
    grid_lines(axes)


@make_figure
def confusion(axes: Any, quality: Quality) -> None:
    """Confusion matrix, as shares of the rows of a class."""
    counts, names = quality.confusion, quality.classes
    assert names is not None
    n = len(names)
    side = min(6.4, max(FIGURE_HEIGHT, 1.3 + 0.34 * n))
    axes.figure.set_size_inches(max(FIGURE_WIDTH, side * 1.15), side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    size = 9 if n <= 3 else 7.5 if n <= 10 else 5
    for (i, j), share in np.ndenumerate(shares):
        if n <= 10 or share >= 0.005:
            text = f"{100 * share:.1f} %\n{counts[i, j]:,.0f}" if n <= 4 else f"{100 * share:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if share > 0.55 else INK)
    short = [name if len(name) <= 14 else name[:13] + "…" for name in names]
    axes.set_xticks(range(n), short, rotation=90 if n > 10 or max(map(len, short)) > 8 else 0)
    axes.set_yticks(range(n), short)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="predicted" + ("" if n <= 4 else "; numbers are % of a row's class"), ylabel="true")


@make_figure
def curves(axes: Any, quality: Quality) -> None:
    """ROC curves: one for two classes, else each of the first ten against the rest."""
    shown = list(quality.one_against_rest())[:10]
    for i, (name, positive, s) in enumerate(shown):
        wrong, right, _ = roc_curve(positive, s, sample_weight=quality.weight)
        label = f"AUC {auc(wrong, right):.4f}" if len(shown) == 1 else f"{name}: {auc(wrong, right):.3f}"
        axes.plot(wrong, right, color=COLOURS[i % 10], label=label)
    _set_shares(axes, "false positive rate", "true positive rate")
    axes.legend(loc="lower right", ncols=2 if len(shown) > 5 else 1)


@make_figure
def calibrations(axes: Any, bins: F64, whose: str) -> None:
    """Observed shares over stated probabilities."""
    axes.plot(bins[:, 0], bins[:, 1], "o-", color=COLOURS[0], markersize=4.5, label="observed")
    _set_shares(axes, f"stated {whose}", "share of the rows", label="as stated")
    axes.legend(loc="upper left")


def _set_shares(axes: Any, x: str, y: str, label: str | None = None) -> None:
    """Axes of two shares, with their diagonal."""
    axes.plot([0, 1], [0, 1], color=SOFT, linewidth=0.8, linestyle=":", label=label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(percent))
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x, ylabel=y)
    grid_lines(axes)


@make_figure
def predictions(axes: Any, quality: Quality) -> None:
    """Predictions over truth."""
    axes.scatter(
        quality.truth[:4000], quality.predicted[:4000], s=4, color=COLOURS[0], alpha=0.35, linewidths=0, rasterized=True
    )
    ends = [float(quality.truth.min()), float(quality.truth.max())]
    axes.plot(ends, ends, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set(xlabel="label", ylabel="prediction")
    grid_lines(axes)


@make_figure
def residuals(axes: Any, quality: Quality) -> None:
    """Histogram of the errors."""
    error = quality.predicted - quality.truth
    ends = np.quantile(error, [0.002, 0.998])
    axes.hist(
        error,
        bins=50,
        range=(float(ends[0]), float(ends[1])) if ends[1] > ends[0] else None,
        weights=quality.weight,
        color=COLOURS[0],
    )
    axes.axvline(0, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set(xlabel="prediction - label", ylabel="rows")
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    grid_lines(axes, "y")


@make_figure
def decision(axes: Any, plane: Regions, names: Sequence[str], classes: Sequence[str] | None) -> None:
    """The answers over the plane of two columns, with rows of the holdout."""
    axes.figure.set_figheight(3.7)
    if classes is None:
        shown = axes.imshow(plane.values, origin="lower", extent=plane.extent, aspect="auto", cmap="viridis")
        axes.figure.colorbar(shown, ax=axes, label="prediction")
    else:
        codes = (plane.values > 0).astype(int) if len(classes) == 2 else plane.values.astype(int)
        rgb = np.array([mpl.colors.to_rgb(COLOURS[i % 10]) for i in range(len(classes))])
        axes.imshow(0.75 + 0.25 * rgb[codes], origin="lower", extent=plane.extent, aspect="auto")
        if len(classes) == 2:
            axes.contour(
                plane.values,
                [-1, 0, 1],
                extent=plane.extent,
                colors=INK,
                linewidths=[0.6, 1.3, 0.6],
                linestyles=["--", "-", "--"],
            )
        for i, name in enumerate(classes):
            mine = plane.points[plane.truth == i]
            axes.scatter(*mine.T, s=9, color=COLOURS[i % 10], edgecolors="white", linewidths=0.3, label=name)
        axes.legend(loc="upper right", markerscale=1.6)
    axes.set(xlim=plane.extent[:2], ylim=plane.extent[2:], xlabel=names[0], ylabel=names[1])


@make_figure
def local(axes: Any, regions: NDArray[np.int64], plane: Regions, names: Sequence[str]) -> None:
    """The cells, or the bins of one grid, over the plane of two features; neighbours have different colours."""
    axes.figure.set_figheight(3.7)
    # A multiplicative hash of the numbers: those of neighbours are often near each other.
    tints = (np.unique(regions, return_inverse=True)[1].reshape(regions.shape) * 2654435761 >> 7) % len(COLOURS)
    rgb = np.array([mpl.colors.to_rgb(colour) for colour in COLOURS])
    axes.imshow(0.6 + 0.4 * rgb[tints], origin="lower", extent=plane.extent, aspect="auto", interpolation="nearest")
    axes.scatter(*plane.points.T, s=3, color=INK, linewidths=0)
    axes.set(xlim=plane.extent[:2], ylim=plane.extent[2:], xlabel=names[0], ylabel=names[1])


@make_figure
def bars(axes: Any, values: Sequence[tuple[str, float]], label: str) -> None:
    """Names and numbers, the first on top, fifteen at the most."""
    values = values[:15]
    axes.figure.set_figheight(max(1.6, 0.6 + 0.2 * len(values)))
    names = [name if len(name) <= 28 else f"{name[:27]}…" for name, _ in values]
    axes.barh(range(len(values)), [value for _, value in values], color=COLOURS[0], height=0.62)
    axes.set_yticks(range(len(values)), names)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    grid_lines(axes, "x")


@make_figure
def dependence(axes: Any, effect: Dependence, classes: Sequence[str] | None) -> None:
    """The answer over the values of one feature; a line for each of up to ten classes."""
    several = effect.answers.shape[1] > 1
    for k in range(min(effect.answers.shape[1], len(COLOURS))):
        name = classes[k] if several and classes is not None else None
        axes.plot(effect.grid, effect.answers[:, k], color=COLOURS[k], label=name)
    if several:
        axes.legend()
    y = "share of the rows" if several else "prediction" if classes is None else "score"
    axes.set(xlabel=effect.name, ylabel=y)
    grid_lines(axes)
