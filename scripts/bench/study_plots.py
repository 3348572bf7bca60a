"""The six pictures of the study, in the style of the reports; the same lines draw the same bytes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from study_lines import Lines
from study_points import BELOW, MADE, MAPS, METHODS, SETS, SIZES, WIDTH_MAPS, WIDTH_SETS, WIDTHS, full_rows

from dkernel.inference.report.style import COLOURS, STYLE, grid_lines, thousands

SHOWN = [name for name, method in METHODS.items() if method.family != "metric" and name != "linear"]
"""The linear machine, far above all others, stands in the tables alone."""
MARKS = "osD^vPX"
FAMILIES = list(dict.fromkeys(METHODS[name].family for name in SHOWN))


def look(method: str) -> dict[str, Any]:
    """Colour of a family, mark of a method in it."""
    family = METHODS[method].family
    place = [name for name in SHOWN if METHODS[name].family == family].index(method)
    line = "-" if METHODS[method].size != "trees" and family != "others" else "--"
    return {"color": COLOURS[FAMILIES.index(family)], "marker": MARKS[place], "markersize": 3.5, "linewidth": 0.9,
            "linestyle": line, "alpha": 0.85}  # fmt: skip


def _panels(columns: int, count: int, draw: Callable[[Sequence[Any]], None], legend: int = 4) -> Figure:
    """Panels in rows, one legend below them."""
    with mpl.rc_context(STYLE):
        rows = -(-count // columns)
        figure = Figure(figsize=(2.7 * columns, 2.3 * rows + 0.8), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        draw(panels)
        for panel in panels[count:]:
            panel.set_visible(False)
        named = {text: mark for panel in panels for mark, text in zip(*panel.get_legend_handles_labels(), strict=True)}
        if named:
            order = sorted(named, key=lambda text: SHOWN.index(text) if text in SHOWN else -1)
            figure.legend([named[text] for text in order], order, loc="outside lower center", ncols=legend)
        return figure


def _logarithmic(panel: Any, title: str, x: str, y: str) -> None:
    panel.set(title=title, xlabel=x, ylabel=y)
    if panel.lines:
        panel.set(xscale="log", yscale="log")
    panel.yaxis.set_major_locator(mpl.ticker.MaxNLocator(5))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_minor_locator(mpl.ticker.NullLocator())
        axis.set_major_formatter(mpl.ticker.FuncFormatter(thousands))
    grid_lines(panel)


def _unit(name: str) -> str:
    return "test error, sd" if SETS[name].regress else "test error, %"


def against(lines: Lines, what: str, axis: str) -> Figure:
    """Error of each set against a figure of the fits, at the rows of the full grid; bars are ranges over seeds."""

    def draw(panels: Sequence[Any]) -> None:
        for panel, name in zip(panels, SETS, strict=True):
            for method in SHOWN:
                sizes = lines.sizes(name, method)
                errors = [lines.figures(name, method, size) for size in sizes]
                xs = [size if what == "size" else lines.mean(name, method, size, what) for size in sizes]
                known = [(x, np.mean(e), min(e), max(e)) for x, e in zip(xs, errors, strict=True) if x]
                if known:
                    x, y, low, high = map(np.array, zip(*known, strict=True))
                    panel.plot(x, y, label=method, **look(method))
                    if any(low < high):
                        panel.vlines(x, low, high, color=look(method)["color"], linewidth=0.7)
            _logarithmic(panel, f"{name}, {full_rows(name):,} rows", axis, _unit(name))

    return _panels(4, len(SETS), draw)


def widths(lines: Lines) -> Figure:
    """Error against the width of the kernel, and test error against the error of the kernel."""

    def draw(panels: Sequence[Any]) -> None:
        for panel, name in zip(panels, WIDTH_SETS, strict=False):
            for k, map in enumerate(WIDTH_MAPS):
                for i, size in enumerate(SIZES):
                    known = [(w, lines.mean(name, map, size, width=w)) for w in sorted((1.0, *WIDTHS))]
                    points = [(w, error) for w, error in known if error is not None]
                    if points:
                        panel.plot(*zip(*points, strict=True), color=COLOURS[k], marker=MARKS[i], markersize=3.5,
                                   linewidth=0.6 + 0.4 * i, label=f"{map}, {size:,}")  # fmt: skip
            _logarithmic(panel, name, "gamma over the chosen one", _unit(name))
        for map in MAPS:
            found = [(lines.mean(name, map, size, "kernel_error"), lines.mean(name, map, size),
                      lines.mean(name, "Nystrom, uniform", size)) for name in SETS for size in SIZES]  # fmt: skip
            points = [(kernel, error / base) for kernel, error, base in found if kernel and error and base]
            if points:
                style = {**look(map), "linestyle": "", "alpha": 0.6}
                panels[len(WIDTH_SETS)].plot(*zip(*points, strict=True), label=map, **style)
        _logarithmic(panels[len(WIDTH_SETS)], "all sets and sizes", "error of the kernel", "error over uniform's")

    return _panels(3, 3, draw)


def rows(lines: Lines) -> Figure:
    """Error of the made sets against their rows, at 1,024 components, grids or rows a cell."""

    def draw(panels: Sequence[Any]) -> None:
        for panel, name in zip(panels, MADE, strict=True):
            for method in SHOWN:
                size = 500 if method == "LightGBM" else BELOW
                known = [(n, lines.mean(name, method, size, rows=n)) for n in lines.rows(name)]
                points = [(n, error) for n, error in known if error is not None]
                if points:
                    panel.plot(*zip(*points, strict=True), label=method, **look(method))
            _logarithmic(panel, name, "rows", _unit(name))

    return _panels(2, len(MADE), draw, legend=3)


PICTURES: dict[str, Callable[[Lines], Figure]] = {
    "study-components": lambda lines: against(lines, "size", "components, grids or rows a cell"),
    "study-seconds": lambda lines: against(lines, "fit_s", "seconds of one core"),
    "study-bytes": lambda lines: against(lines, "bytes", "bytes of the model"),
    "study-predict": lambda lines: against(lines, "predict_s", "seconds for a million rows"),
    "study-widths": widths,
    "study-rows": rows,
}


def draw_all(lines: Lines, folder: Path) -> None:
    """Write the pictures as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        picture(lines).savefig(folder / f"{name}.png", dpi=75)
