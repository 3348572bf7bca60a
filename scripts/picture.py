"""The one drawing of all pages: lines and marks that are named where they are, few ticks, no legend.

Colours and letters are those that read on a white page and on a dark one, in a width of 400 pixels too: the paper is
left out, and greys are of middle lightness.
"""

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

OURS, OTHERS = "#1a7fd4", "#757b85"
WIDTH, HEIGHT, DPI = 7.0, 4.4, 200  # inches; 1,400 pixels, of which a phone shows every fourth
STYLE = {"font.family": "DejaVu Sans", "font.size": 17, "axes.linewidth": 1.0}
ROOM = 0.12  # of an axis, left free at each end for the names
ROW = 16  # letters of the name of a line
ROOM_OF_A_LETTER = 0.03  # of the axis of x, right of lines, whose names stand there
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
MOST_TICKS = 3
PLACES = (
    ((12, 0), "left", "center"),
    ((0, 12), "center", "bottom"),
    ((0, -13), "center", "top"),
    ((-12, 0), "right", "center"),
    ((10, 10), "left", "bottom"),
    ((10, -10), "left", "top"),
    ((-10, 10), "right", "bottom"),
    ((-10, -10), "right", "top"),
)
"""Where a name may stand: points to the right of its mark and above it, and how it is aligned there."""


@dataclass(frozen=True)
class Picture:
    """Lines over one axis.

    Parameters
    ----------
    name : of the file
    title : what the numbers are of
    x, y : names of the axes
    lines : name -> (x, y); a mark where each is one number
    levels : name -> y of a line across
    scales : "log" or "linear", of x and of y
    ours : names drawn in the colour; None: all of them
    """

    name: str
    title: str
    x: str
    y: str
    lines: dict[str, tuple[Sequence[float], Sequence[float]]]
    levels: dict[str, float] = field(default_factory=dict)
    scales: tuple[str, str] = ("log", "log")
    ours: Sequence[str] | None = None


def draw(picture: Picture, path: Path) -> None:
    """Write the picture as PNG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        canvas, panel = FigureCanvasAgg(figure), figure.subplots()
        marks = [_plot(panel, picture, name) for name in picture.lines]
        for level in picture.levels.values():
            panel.axhline(level, linestyle=(0, (4, 4)), color=OTHERS, linewidth=1.3, zorder=1)
        _set_axes(panel, picture)
        canvas.draw()  # the constrained layout: places of names are those of the final panel
        _set_names(panel, picture, marks)
        figure.savefig(path, dpi=DPI, transparent=True, metadata={"Software": None})


def _colour(picture: Picture, name: str) -> str:
    return OURS if picture.ours is None or name in picture.ours else OTHERS


def _plot(panel: Any, picture: Picture, name: str) -> Any:
    (x, y), colour = picture.lines[name], _colour(picture, name)
    dash = DASHES[list(picture.lines).index(name) % len(DASHES)]
    return panel.plot(x, y, "o", linestyle=dash, color=colour, markersize=10 if len(x) == 1 else 6, linewidth=2)[0]


def _set_axes(panel: Any, picture: Picture) -> None:
    values: tuple[list[float], list[float]] = ([], list(picture.levels.values()))
    for line in picture.lines.values():
        for axis in (0, 1):
            values[axis].extend(map(float, line[axis]))
    panel.set(xscale=picture.scales[0], yscale=picture.scales[1])
    for axis, set_limits, found, scale in (
        (panel.xaxis, panel.set_xlim, values[0], picture.scales[0]),
        (panel.yaxis, panel.set_ylim, values[1], picture.scales[1]),
    ):
        right = _room_of_names(picture) if axis is panel.xaxis else ROOM
        low, high = set_limits(*_limits(min(found), max(found), scale == "log", right))
        shown = few_ticks(low, high, scale == "log")
        axis.set_ticks(shown, [f"{value:,.6g}" for value in shown])
        axis.set_minor_locator(NullLocator())
        axis.set_tick_params(color=OTHERS, labelcolor=OTHERS)
    panel.set_xlabel(picture.x, color=OTHERS, loc="right")
    low = panel.get_ylim()[0]
    begins = f"axis from {low:.2g}" if picture.scales[1] == "linear" and low > 0 else ""
    title = "\n".join(filter(None, (picture.title, picture.y, begins)))
    panel.set_title(title, color=OTHERS, loc="left", fontsize=17, pad=14)
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(OTHERS)


def _room_of_names(picture: Picture) -> float:
    """Of the axis of x, for the names that stand right of their lines."""
    words = [word for name, (x, _) in picture.lines.items() if len(x) > 1 for word in _in_rows(name).split("\n")]
    return max(ROOM, ROOM_OF_A_LETTER * max(map(len, words), default=0))


def _in_rows(name: str) -> str:
    """The name of a line, in rows of so many letters."""
    return textwrap.fill(name, ROW)


def _limits(low: float, high: float, log: bool, right: float) -> tuple[float, float]:
    ends = np.log([low, high]) if log else np.array([low, high])
    ends = np.add(ends, np.array([-ROOM, right]) * (ends[1] - ends[0] or 1.0))
    first, last = np.exp(ends) if log else ends
    return float(first), float(last)


def few_ticks(low: float, high: float, log: bool) -> list[float]:
    """Two or three round numbers between the ends.

    Examples
    --------
    >>> few_ticks(4, 260, True)
    [10.0, 100.0]
    >>> few_ticks(9.5, 13.2, False)
    [10.0, 12.0]
    """
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1) if log else ()
    whole = [float(f"1e{power}") for power in powers]
    for steps in ((1,), (1, 2, 5)):
        inside = [step * each for each, step in itertools.product(whole, steps) if low <= step * each <= high]
        if len(inside) >= 2:
            return inside if len(inside) <= MOST_TICKS else [inside[0], inside[(len(inside) - 1) // 2], inside[-1]]
    found = MaxNLocator(MOST_TICKS, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(value) for value in found if low <= value <= high][:MOST_TICKS]


def _set_names(panel: Any, picture: Picture, marks: Sequence[Any]) -> None:
    """Names where they are: of a line right of its end, of a mark where it covers least."""
    renderer, lines = panel.figure.canvas.get_renderer(), {}
    taken = [Bbox.from_bounds(x - 8, y - 8, 16, 16) for mark in marks for x, y in _dots(panel, mark)]
    inside = panel.get_window_extent(renderer)
    frame = Bbox.from_extents(inside.x0, inside.y0, panel.figure.bbox.x1, panel.figure.bbox.y1)
    for name, mark in zip(picture.lines, marks, strict=True):
        end, colour = (mark.get_xdata()[-1], mark.get_ydata()[-1]), _colour(picture, name)
        if len(mark.get_xdata()) > 1:
            lines[name] = panel.annotate(
                _in_rows(name), end, (12, 0), textcoords="offset points", va="center", color=colour
            )
            continue
        texts = [
            panel.annotate(name, end, at, textcoords="offset points", ha=ha, va=va, color=colour)
            for at, ha, va in PLACES
        ]
        boxes = [text.get_window_extent(renderer) for text in texts]
        best = int(np.argmin([_covered(box, taken) + 10 * _outside(box, frame) for box in boxes]))
        taken.append(boxes[best])
        for text in texts[:best] + texts[best + 1 :]:
            text.remove()
    _spread(list(lines.values()), renderer)
    for name, level in picture.levels.items():
        low = panel.get_xlim()[0]
        panel.annotate(name, (low, level), (8, 5), textcoords="offset points", color=OTHERS, fontsize=15)


def _spread(texts: Sequence[Any], renderer: Any) -> None:
    """Move names apart, up and down, until none covers another."""
    texts = sorted(texts, key=lambda text: text.get_window_extent(renderer).y0)
    boxes = [text.get_window_extent(renderer) for text in texts]
    moved = np.zeros(len(texts))
    for _ in range(100):
        for i in range(len(texts) - 1):
            over = boxes[i].y1 + moved[i] - boxes[i + 1].y0 - moved[i + 1]
            moved[i : i + 2] += np.array([-0.5, 0.5]) * max(over, 0)
    for text, pixels in zip(texts, moved, strict=True):
        text.set_position((12, pixels * 72 / text.figure.dpi))  # points


def _dots(panel: Any, mark: Any) -> Any:
    return panel.transData.transform(np.column_stack([mark.get_xdata(), mark.get_ydata()]).astype(float))


def _covered(box: Bbox, taken: Sequence[Bbox]) -> float:
    both = [Bbox.intersection(box, other) for other in taken]
    return float(sum(each.width * each.height for each in both if each is not None))


def _outside(box: Bbox, frame: Bbox) -> float:
    inside = Bbox.intersection(box, frame)
    return float(box.width * box.height - (inside.width * inside.height if inside else 0.0))
