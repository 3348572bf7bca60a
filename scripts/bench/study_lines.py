"""The lines of the study as they are asked for: a figure of a method on a set, its mean over seeds, ratios of two."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from study_points import SETS, Point, full_rows


@dataclass(frozen=True)
class Lines:
    """Lines of the points that were run and did not fail, by key."""

    by_key: Mapping[str, Mapping[str, Any]]

    @cached_property
    def points(self) -> dict[Point, Mapping[str, Any]]:
        return {_point(key): line for key, line in self.by_key.items() if "failed" not in line}

    @cached_property
    def _by_place(self) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
        found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for point, line in self.points.items():
            found.setdefault((point.set, point.rows, point.method, point.size, point.width), []).append(line)
        return found

    def figures(
        self, name: str, method: str, size: int, what: str = "error", rows: int | None = None, width: float = 1.0
    ) -> list[float]:
        """A figure of every seed that was run; `rows` of the full grid where it is not given."""
        lines = self._by_place.get((name, rows or full_rows(name), method, size, width), [])
        return [float(line[what]) for line in lines if what in line]

    def mean(self, *place: Any, **more: Any) -> float | None:
        """Mean of `figures`, None where there are none."""
        found = self.figures(*place, **more)
        return float(np.mean(found)) if found else None

    def ratios(self, method: str, other: str, size: int, what: str = "error", width: float = 1.0) -> dict[str, float]:
        """Set -> the figure of a method over that of another one, on the rows of the full grid."""
        found = {}
        for name in SETS:
            mine, theirs = (self.mean(name, which, size, what, width=width) for which in (method, other))
            if mine and theirs:
                found[name] = mine / theirs
        return found

    def rows(self, name: str) -> list[int]:
        """Numbers of rows of a set that were run."""
        return sorted({point.rows for point in self.points if point.set == name})


def _point(key: str) -> Point:
    name, rows, method, size, seed, width = key.split("/")
    return Point(name, int(rows), method, int(size), int(seed), float(width))


def geometric(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def components_for(error: float, curve: Sequence[tuple[int, float]]) -> float:
    """Number of components at which a curve of errors reaches one, between its points; not beyond its ends."""
    sizes, errors = zip(*sorted(curve), strict=True)
    falling = np.minimum.accumulate(errors)
    return float(np.exp(np.interp(-np.log(error), -np.log(falling), np.log(sizes))))


def pairs(values: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return ((values[i], values[j]) for i in range(len(values)) for j in range(i))
