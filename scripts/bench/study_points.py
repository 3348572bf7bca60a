"""The points of the study: sets, methods, sizes, in the order in which they are worth running, and what each costs.

A point is one fit. The order makes every part of the list useful from its beginning: first what the small study has,
then all sets and methods at up to 60,000 rows, small sizes first, then widths and metrics, other seeds, and more rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SIZES = (256, 1024, 4096)
SEEDS = (0, 1, 2)
WIDTHS = (0.25, 4.0, 16.0)
"""Multiples of the chosen gamma."""
HOURS = 8.0  # what the whole list may cost
ROWS = 60_000  # of the full grid, at most


@dataclass(frozen=True)
class Set:
    """A set: rows to learn from, inputs, scores (one a class where there are more than two), and its task."""

    rows: int
    inputs: int
    scores: int
    regress: bool
    made: bool = False


SETS: Mapping[str, Set] = {
    "letter": Set(15_000, 16, 26, False),
    "magic": Set(15_216, 10, 1, False),
    "covtype": Set(522_911, 54, 1, False),
    "california": Set(16_512, 8, 1, True),
    "kin40k": Set(36_000, 8, 1, True),
    "diamonds": Set(45_000, 26, 1, True),
    "smooth": Set(100_000_000, 5, 1, True, made=True),
    "rough": Set(100_000_000, 5, 1, True, made=True),
}


@dataclass(frozen=True)
class Method:
    """A way to fit.

    Parameters
    ----------
    family : methods that stand together in plots and verdicts
    kernel : "gaussian" or "polynomial", whose width and alpha are the set's; "" for none
    settings : of the recipe
    size : setting that the size of a point is; the others keep `settings`
    ns, setup : predicted: nanoseconds of a row and unit of size, and of the setup per cube of the size; measured on
        some of the first points
    """

    family: str
    kernel: str = ""
    settings: Mapping[str, Any] | None = None
    size: str = "n_components"
    ns: float = 1.5
    setup: float = 0.2


def _nystrom(rule: str, **more: Any) -> dict[str, Any]:
    return {"features": "nystrom", "landmarks": rule, "local": "none", **more}


def _fourier(sampling: str) -> dict[str, Any]:
    return {"features": "fourier", "sampling": sampling, "local": "none"}


BELOW = 1024  # components below grids and cells
METHODS: Mapping[str, Method] = {
    "Fourier, iid": Method("frequencies", "gaussian", _fourier("iid")),
    "Fourier, orthogonal": Method("frequencies", "gaussian", _fourier("orthogonal")),
    "Fourier, structured": Method("frequencies", "gaussian", _fourier("structured")),
    "Nystrom, uniform": Method("landmarks", "gaussian", _nystrom("uniform")),
    "Nystrom, k-means": Method("landmarks", "gaussian", _nystrom("kmeans")),
    "Nystrom, leverage": Method("landmarks", "gaussian", _nystrom("leverage")),
    "Nystrom, RPCholesky": Method("landmarks", "gaussian", _nystrom("rpcholesky")),
    "TensorSketch": Method("polynomial", "polynomial", {"features": "tensorsketch", "local": "none"}, ns=20.0),
    "Nystrom, polynomial": Method("polynomial", "polynomial", _nystrom("uniform")),
    "grids": Method("local", "", {"features": "none", "local": "grids"}, "local.n_grids", 13.0, 0.0),
    "cells": Method("local", "", {"features": "none", "local": "cells"}, "local.rows", 5.0, 0.0),
    "Nystrom and grids": Method("local", "gaussian", _nystrom("uniform", local="grids"), "local.n_grids", 13.0, 0.0),
    "Nystrom and cells": Method("local", "gaussian", _nystrom("uniform", local="cells"), "local.rows", 5.0, 0.0),
    "metric off": Method("metric", "", _nystrom("uniform", kernel="gaussian")),
    "metric on": Method("metric", "", _nystrom("uniform", kernel="gaussian", metric="full")),
    "linear": Method("others", "", {"kernel": "linear", "features": "exact", "local": "none"}, "", 0.0, 0.0),
    "exact": Method("others", "gaussian", None, ""),
    "LightGBM": Method("others", "", None, "trees", 10.0, 0.0),
}
MAPS = tuple(name for name, method in METHODS.items() if method.family in ("frequencies", "landmarks"))
COMPARED = tuple(name for name, method in METHODS.items() if method.family not in ("metric", "others"))
TREES = {100: 31, 500: 255}
"""LightGBM's numbers of trees, and the leaves of each."""
EXACT_ROWS = 20_000  # that scikit-learn's exact machines are fitted to, at most
CHOICES = {"gaussian": ("metric off", BELOW), "polynomial": ("Nystrom, polynomial", BELOW)}
"""Kernel -> the point of each set, of seed 0, that chooses its width and alpha, from the rows of the full grid."""


@dataclass(frozen=True)
class Point:
    """One fit; equal points give equal models."""

    set: str
    rows: int
    method: str
    size: int = 0
    seed: int = 0
    width: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.set}/{self.rows}/{self.method}/{self.size}/{self.seed}/{self.width:g}"

    @property
    def chooses(self) -> bool:
        """True if width and alpha are open here."""
        return self.method.startswith("metric") or self == choice(self.set, "polynomial")

    @property
    def seconds(self) -> float:
        """Of one core, predicted: start, reading, setup, rounds; errs upwards, and knows nothing of the values."""
        about, method = SETS[self.set], METHODS[self.method]
        if self.method == "exact":
            return 8 + 5e-12 * float(self.rows) ** 3
        size = self.size * TREES.get(self.size, 1) ** 0.5 / 5 if self.method == "LightGBM" else self.size
        start = 6 + 5e-7 * self.rows * (1 + about.inputs / 10)
        passes = max(1, min(12, 300_000 / self.rows)) if method.setup else 1
        work = method.ns * size * self.rows * passes * about.scores**0.5 * (0.75 + about.inputs / 20)
        if method.size == "local.rows":
            work += 0.035 * self.rows * size**2
        if self.method in ("Nystrom and grids", "Nystrom and cells"):
            work += METHODS["Nystrom, uniform"].ns * BELOW * self.rows
        return start + 1e-9 * work + 1e-9 * method.setup * float(size) ** 3


def full_rows(name: str) -> int:
    """Rows of a set in the full grid."""
    return min(SETS[name].rows, ROWS)


def choice(name: str, kernel: str) -> Point:
    """The point that chooses width and alpha of a set."""
    method, size = CHOICES[kernel]
    return Point(name, full_rows(name), method, size)


def _others(name: str, rows: int) -> Iterator[Point]:
    """The machines beside the methods."""
    yield Point(name, rows, "linear")
    yield from (Point(name, rows, "LightGBM", trees) for trees in TREES)
    if rows <= EXACT_ROWS:
        yield Point(name, rows, "exact")


def _grid(sets: Sequence[str], sizes: Sequence[int], seeds: Sequence[int]) -> Iterator[Point]:
    """All methods at the rows of the full grid."""
    for seed in seeds:
        for size in sizes:
            for name in sets:
                yield from (Point(name, full_rows(name), method, size, seed) for method in COMPARED)


SMALL_SETS = ("magic", "california", "smooth", "rough")
WIDTH_SETS = ("kin40k", "smooth")
WIDTH_MAPS = ("Fourier, iid", "Nystrom, uniform")
MANY = ("Nystrom, uniform", "Fourier, structured", "grids", "cells", "Nystrom and grids", "Nystrom and cells")
MOST = ("Nystrom, uniform", "Fourier, structured", "grids")
TWO = (256, 1024)
MADE = ("smooth", "rough")


def _small(sets: Sequence[str]) -> Iterator[Point]:
    """What a clone measures in ten minutes: some of every table and plot."""
    yield from (choice(name, kernel) for name in sets for kernel in CHOICES)
    for name in sets:
        yield from _others(name, full_rows(name))
        yield from (Point(name, full_rows(name), "metric on", size) for size in (BELOW,))
        yield from (Point(name, full_rows(name), "metric off", size) for size in SIZES[:1])
    yield from _grid(sets, TWO, (0,))
    for name in MADE:
        yield from _widths(name, TWO) if name in WIDTH_SETS else ()
        yield from (Point(name, 100_000, method, size) for method in MOST for size in TWO)


def _widths(name: str, sizes: Sequence[int]) -> Iterator[Point]:
    for size in sizes:
        for width in WIDTHS:
            yield from (Point(name, full_rows(name), method, size, 0, width) for method in WIDTH_MAPS)


def _metrics(sets: Sequence[str]) -> Iterator[Point]:
    for name in sets:
        yield Point(name, full_rows(name), "metric on", BELOW)
        yield from (Point(name, full_rows(name), "metric off", size) for size in SIZES)


def stages() -> dict[str, list[Point]]:
    """Name of a stage -> its points that no stage before it has, in the order of their worth."""
    names = list(SETS)
    made = {
        "small": list(_small(SMALL_SETS)),
        "others": [point for name in names for point in (*_choices(name), *_others(name, full_rows(name)))],
        **{f"{size:,}": list(_grid(names, (size,), SEEDS[:1])) for size in SIZES},
        "metrics": list(_metrics(names)),
        "widths": [point for name in WIDTH_SETS for point in _widths(name, SIZES)],
        "seeds": [point for seed in SEEDS[1:] for size in SIZES for point in _grid(names, (size,), (seed,))],
        "1e6": list(_many({100_000: TWO, 1_000_000: SIZES[1:]}, COMPARED)),
        "1e7": list(_many({10_000_000: TWO}, MANY)),
        "1e8": [Point(name, 100_000_000, method, BELOW) for method in MOST for name in MADE[1:]],
    }
    known: set[Point] = set()
    for name, points in made.items():
        made[name] = [point for point in dict.fromkeys(points) if point not in known]
        known |= set(points)
    return made


def _choices(name: str) -> Iterator[Point]:
    yield from (choice(name, kernel) for kernel in CHOICES)


def _many(asked: Mapping[int, Sequence[int]], methods: Sequence[str]) -> Iterator[Point]:
    """The made sets, at sizes for each number of rows, and forest cover where it has as many rows."""
    for n, sizes in asked.items():
        places = [(name, n) for name in MADE] + ([("covtype", SETS["covtype"].rows)] if n == 1_000_000 else [])
        for size in sizes:
            for name, held in places:
                yield from (Point(name, held, method, size) for method in methods)
        for name, held in places:
            yield from _others(name, held)


def within(points: Mapping[str, list[Point]], hours: float = HOURS) -> tuple[list[Point], list[Point]]:
    """The points that are run, and those that the hours leave out: a point that does not fit is passed over."""
    taken, left, seconds = [], [], 0.0
    for point in (point for stage in points.values() for point in stage):
        fits = seconds + point.seconds <= 3600 * hours
        (taken if fits else left).append(point)
        seconds += point.seconds if fits else 0.0
    return taken, left
