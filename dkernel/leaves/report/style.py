"""The style of a report's drawings, whose colours the page decides, and the parts that several drawings share."""

import io
import re
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

P = ParamSpec("P")

_NAME = "\u2060"  # stands before a name: matplotlib leaves out of legends what is empty or begins with "_"
INK, SOFT, GRID_LINE = "#1f2937", "#6b7280", "#e5e7eb"
# Okabe and Ito's colours first, which colour-blind readers can tell apart; none is what a dark page has for the first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#9467bd", "#8c564b", "#7f7f7f", "#bcbd22", "#17becf")
VARIABLES = {INK: "var(--ink)", SOFT: "var(--soft)", GRID_LINE: "var(--line)", COLOURS[0]: "var(--blue)"}
"""Colours of a drawing that are variables of the page, which has others where it is dark."""

STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
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
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name is one
}


def make_figure(draw: Callable[Concatenate[Any, P], None]) -> Callable[P, Figure]:
    """The function that makes the figure which `draw` puts on axes."""

    @wraps(draw)
    def make(*args: P.args, **named: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(3.9, 2.75), layout="constrained")  # letters of 13 to 16 pixels on any page
            draw(figure.add_subplot(), *args, **named)
            return figure

    return make


def svg(figure: Figure, title: str) -> str:
    """The drawing as part of a page: no date and no creator in it, so that equal fits draw equal pictures.

    Parameters
    ----------
    title : of the drawing, another on the page for each: the names of its parts follow from it
    """
    text = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": f"dkernel {title}"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # who reads the page has fonts of their own
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", dpi=150, metadata=nothing, transparent=True)
    drawn = text.getvalue()[text.getvalue().index("<svg") :]
    # A page knows its names of markup, nobody asks for these parts, and a comment may hold what ends it.
    drawn = re.sub(r' xmlns(:xlink)?="[^"]*"| id="[\w.]+_\d+"|<!--.*?-->', "", drawn, flags=re.DOTALL)
    for colour, name in VARIABLES.items():
        drawn = drawn.replace(colour, name)
    return drawn


def grid_lines(axes: Any, which: str = "both") -> None:
    axes.grid(axis=which, color=GRID_LINE, linewidth=0.7)


def format_ticks(axis: Any, as_text: Callable[[float, Any], str]) -> None:
    """Few ticks, each with this text."""
    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(as_text))


def thousands(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.6g}"


def percent(value: float, _: Any = None) -> str:
    return f"{100 * value:.6g} %"


def keep_in_legend(name: str) -> str:
    """A name as the label of a drawing: `legend_below` shows it, also one that is empty or begins with "_"."""
    return _NAME + name


def legend_below(axes: Any) -> None:
    """The legend under the axes, where it covers nothing."""
    legend = axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    for text in legend.get_texts():
        text.set_text(text.get_text().removeprefix(_NAME))
