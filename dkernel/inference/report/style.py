"""The style of a report's drawings, and the parts that several drawings share."""

import io
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

P = ParamSpec("P")

FIGURE_WIDTH, FIGURE_HEIGHT = 4.7, 3.2  # inches of one figure
INK, SOFT, GRID_LINE = "#1f2937", "#6b7280", "#e5e7eb"
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f", "#bcbd22", "#17becf")
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.5,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.fontsize": 8,
    "svg.fonttype": "path",
    "svg.hashsalt": "dkernel",
}


def make_figure(draw: Callable[Concatenate[Any, P], None]) -> Callable[P, Figure]:
    """The function that makes the figure which `draw` puts on axes."""

    @wraps(draw)
    def make(*args: P.args, **named: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(FIGURE_WIDTH, FIGURE_HEIGHT), layout="constrained")
            draw(figure.add_subplot(), *args, **named)
            return figure

    return make


def svg(figure: Figure) -> bytes:
    """The drawing: no date and no creator in it, so that equal fits draw equal pictures."""
    text = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(text, format="svg", dpi=110, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return text.getvalue()


def grid_lines(axes: Any, which: str = "both") -> None:
    axes.grid(axis=which, color=GRID_LINE, linewidth=0.7)


def thousands(value: float, _: Any = None) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def percent(value: float, _: Any = None) -> str:
    return f"{100 * value:.4g} %"


def mark(axes: Any, x: float, text: str, colour: str) -> None:
    """A word beside a vertical line, on the side that has room."""
    low, high = axes.get_xlim()
    right = np.log(x / low) > 0.55 * np.log(high / low)
    axes.annotate(
        text,
        (x, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if right else 4, -2),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top",
        color=colour,
        fontsize=8,
    )
