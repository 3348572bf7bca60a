"""Base classes of maps that numpy computes: by groups of components, or all components at once."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dkernel import kernels
from dkernel.errors import UnsupportedError
from dkernel.features.base import Coordinates, FeatureMap, map_from
from dkernel.numerics.array_record import arrays_under
from dkernel.numerics.tiling import TILE_COMPONENTS

# Their float64 coefficients are 128 MiB; a list of the tiles of more than that would never end.
MOST_DENSE_COMPONENTS = 2**24


def in_groups(n: int) -> list[tuple[int, int, int]]:
    """Groups of one tile each over n components."""
    if n > MOST_DENSE_COMPONENTS:
        raise UnsupportedError(
            f"A feature map of {n:,} components is larger than any that fits: at most {MOST_DENSE_COMPONENTS:,}."
        )
    return [(i, 1, min(TILE_COMPONENTS, n - i)) for i in range(0, n, TILE_COMPONENTS)]


def same_dtype(X: NDArray, dtype: str) -> NDArray[np.floating]:
    """X, C-contiguous in `dtype`."""
    return np.ascontiguousarray(X, dtype=dtype)


IN_FILES = {"n_components": "n_columns"}
"""Argument of a map -> its name in model files, where it is older."""


class PlainMap(FeatureMap):
    """A map whose columns are φ times a number, `whitening`: nothing to whiten by a matrix.

    A model file holds its `arguments`: the kernel, numbers, arrays, and a map `inner` or several `maps`, whose arrays
    have names that begin with the number of the map.
    """

    @property
    def whitening(self) -> float:
        return 1.0

    @property
    def n_out(self) -> int:  # type: ignore[override]
        return self.n_components

    @property
    def text(self) -> str:
        parts = ", ".join(part.text for part in getattr(self, "maps", ()))
        return f"{self.kind} of {parts}" if parts else self.kind

    def coordinates(self) -> Coordinates:
        return Coordinates(self.n_components, 1.0 / self.whitening**2)

    def spec(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.arguments if name != "kernel"}
        parts = {IN_FILES.get(name, name): _as_json(v) for name, v in values.items() if not isinstance(v, np.ndarray)}
        return {"kind": self.kind, "kernel": repr(self.kernel), **parts}

    def arrays(self) -> dict[str, NDArray]:
        values = {name: getattr(self, name) for name in self.arguments}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        arrays |= values["inner"].arrays() if "inner" in values else {}
        for i, part in enumerate(values.get("maps", ())):
            arrays |= {f"{i}.{name}": array for name, array in part.arrays().items()}
        return arrays

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Self:
        values = {**arrays, **spec, "kernel": kernels.parse(spec["kernel"])}
        if "inner" in spec:
            values["inner"] = map_from(spec["inner"], arrays)
        if "maps" in spec:
            values["maps"] = [map_from(each, arrays_under(f"{i}.", arrays)) for i, each in enumerate(spec["maps"])]
        return cls(*(values[IN_FILES.get(name, name)] for name in cls.arguments))


def _as_json(value: Any) -> Any:
    """A number as it is, a map by its spec, and several of either as a list."""
    if isinstance(value, FeatureMap):
        return value.spec()
    return [_as_json(each) for each in value] if isinstance(value, list | tuple) else value


class InnerMap(PlainMap):
    """A map that changes the rows or the components of another, its `inner`."""

    inner: FeatureMap

    @property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return self.inner.groups

    @property
    def whitening(self) -> float:
        return float(self.inner.whitening)

    def rows(self, X: NDArray) -> Any:
        return self.inner.rows(X)

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        self.inner.fill(rows, first, out)


class TiledMap(PlainMap):
    """A map that writes any group of its columns by itself."""

    @abstractmethod
    def _write(self, X: NDArray[np.floating], first: int, out: NDArray[np.floating]) -> None:
        """Write the group that begins at `first` into out, (n, width)."""

    def rows(self, X: NDArray) -> Any:
        return same_dtype(X, "float32")

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        self._write(rows, first, out[0])

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        X = same_dtype(X, dtype)
        out = np.empty((len(X), self.n_components), dtype)
        for first, _, width in self.groups:
            self._write(X, first, out[:, first : first + width])
        return out


class WholeMap(PlainMap):
    """A map whose columns depend on each other's work: a tile of rows is computed whole, and handed out in groups."""

    @abstractmethod
    def _components(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Compute all components of a block, (n, n_components), in its dtype, float32 or float64."""

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(in_groups(self.n_components))

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        return self._components(same_dtype(X, dtype))

    def rows(self, X: NDArray) -> Any:
        return self._components(same_dtype(X, "float32"))

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        out[0] = rows[:, first : first + out.shape[2]]
