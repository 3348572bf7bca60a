"""The contract of a feature map, and the coordinates in which a solver sees it.

A map is fitted when it is made: drawn from a seed, or built from landmarks. What the workers compute are its
*components*, raw and unwhitened; φ(x) = components(x) @ T. T is never applied per row (2 c^2 flops a row): the solver
works on coefficients of the components, and the metric M, with |w|^2 = α^T M α for w = T^{-1} α, is all that it needs
of T."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import ModelFileError
from dkernel.features.block_coordinates import BlockBasis
from dkernel.kernels import Kernel
from dkernel.kernels.landmark_columns.wide import WideColumns
from dkernel.leaf_table import LEAF_OF_MAP, load_leaf
from dkernel.numerics import tiling
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.tiling import TILE_ROWS, Components

# Rows whose components there are at one time: of 5,000 components no slower than more, in half the pages.
COMPONENT_STRIP = 512
MOST_DENSE = 20_000
"""Coordinates of which a solver makes square matrices; of more there is a sketch instead
(`solvers.lowrank_preconditioner`)."""


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of the solver's vector v: the coefficients α = expand(v), and |w|^2 = v^T M v.

    Parameters
    ----------
    n : length of v
    metric : M, float64 (n, n), or a number c for M = c I
    basis : None for α = v, or B for α = B v, of a map in blocks
    """

    n: int
    metric: float | NDArray[np.float64]
    basis: BlockBasis | None = None

    def expand(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients of the components, (n_components, ...)."""
        return v if self.basis is None else self.basis @ v

    def reduce(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gradient in v of a function whose gradient in α is given: B^T g."""
        return gradient if self.basis is None else self.basis.T @ gradient

    def congruence(self, gram: NDArray[np.float64]) -> NDArray[np.float64]:
        """B^T G B: the Gram matrix of the components, seen in these coordinates."""
        return gram if self.basis is None else self.basis.T @ (self.basis.T @ gram).T

    def norm(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """|w| of each column of v (n, outputs), which is the norm of the function in the space of the kernel."""
        M = self.metric
        squares = M * (v * v).sum(axis=0) if isinstance(M, float) else (v * (M @ v)).sum(axis=0)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def within(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """The v whose `expand` is these coefficients of the components."""
        return coefficients if self.basis is None else self.basis.undone(coefficients)


class FromArguments:
    """An object that is pickled as the arguments of its constructor, and prepares everything else again."""

    arguments: ClassVar[tuple[str, ...]]
    """Attributes that hold them, in their order."""

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, name) for name in self.arguments)


_KINDS: dict[str, type["FeatureMap"]] = {}
"""Map classes by the word that a model file has for them; each enters itself when it is defined."""


class FeatureMap(FromArguments, ABC):
    """Feature map φ : R^p -> R^n_out with φ(x) . φ(z) ≈ k(x, z), as components(x) @ whitening.

    It is also the `Components` of `dkernel.numerics.tiling`: `groups`, `rows` and `fill` give the components one cache
    tile at a time.

    See Also
    --------
    Kernel : What a map approximates.
    """

    kind: ClassVar[str]
    gram_dtype: ClassVar[str] = "float64"
    """Type of the components whose Gram matrix is that of a preconditioner."""
    landmarks: Any = None
    """Landmarks (n_components, p) of a map that has some."""
    rank: int | None = None
    """Directions that a map of landmarks keeps, None for all."""
    kernel: Kernel
    n_in: int
    n_components: int
    n_out: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            _KINDS.setdefault(cls.kind, cls)

    @property
    def objects(self) -> tuple[int, ...]:
        """Positions of the inputs that are objects; the others are numbers."""
        return ()

    @property
    def sparse(self) -> bool:
        """True for a map of sparse rows (dkernel.numerics.sparse_rows)."""
        return False

    @property
    def text(self) -> str:
        """The map in words, for people and for the record."""
        return self.kind

    @property
    def quick(self) -> bool:
        """True if a `fill` is many times as quick as `components` of float64, which rounds less."""
        return self.gram_dtype == "float32"

    @property
    def panels(self) -> PackedComponents | None:
        """Products with one block that make all components, for a compiled walk over rows; None without them."""
        return None

    @property
    def wide(self) -> tuple[WideColumns, ...]:
        """Columns whose sum is all components in float64, where a compiled walk makes them; else none."""
        return ()

    @property
    @abstractmethod
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        """Groups of tiles that one `fill` writes: first component, tiles, width."""

    @abstractmethod
    def rows(self, X: NDArray) -> Any:
        """Prepare a tile of rows for `fill`.

        Parameters
        ----------
        X : ndarray of shape (TILE_ROWS, p)
            Rows.

        Returns
        -------
        object
            What `fill` takes.
        """

    @abstractmethod
    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        """Write one group of components.

        Parameters
        ----------
        rows : object
            What `rows` gave.
        first : int
            First component of the group.
        out : ndarray of shape (tiles, TILE_ROWS, width)
            Written, float32.
        """

    def wide_scores(self, X: NDArray, coef: NDArray[np.float64], scaled: Callable[[Any], Any]) -> NDArray[np.float64]:
        """Compute components(scaled(X)) @ coef in float64; a row has the same alone and in any block.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Rows.
        coef : ndarray of shape (n_components, outputs)
            Coefficients.
        scaled : callable
            Makes the rows that the map takes, float64, of some rows of X.

        Returns
        -------
        ndarray of shape (n, outputs)
            Scores.
        """
        if self.wide:
            return np.asarray(sum(columns.scores(X, coef, scaled) for columns in self.wide))
        return tiling.wide_scores(lambda rows: self.components(scaled(rows)), X, coef)

    @abstractmethod
    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        """Compute all components of a small block at once: for samples, never for the data.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Rows.
        dtype : {"float32", "float64"}, default="float64"
            Dtype of the components.

        Returns
        -------
        ndarray of shape (n, n_components)
            Components.
        """

    @property
    @abstractmethod
    def whitening(self) -> NDArray[np.float64] | float:
        """Whitening T, (n_components, n_out), or a number c for T = c I."""

    @abstractmethod
    def coordinates(self) -> Coordinates:
        """Give the coordinates in which a solver works on this map.

        Returns
        -------
        Coordinates
            Coordinates and their metric.
        """

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Give the parts of the map that are no arrays.

        Returns
        -------
        dict
            Values that JSON holds.
        """

    @abstractmethod
    def arrays(self) -> dict[str, NDArray]:
        """Give the arrays of the map.

        Returns
        -------
        dict
            Name -> array.
        """

    @classmethod
    @abstractmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "FeatureMap":
        """Make the map of `spec` and `arrays`.

        Parameters
        ----------
        spec : dict
            What `spec` gave.
        arrays : dict
            What `arrays` gave.

        Returns
        -------
        FeatureMap
            The map.

        Raises
        ------
        ModelFileError
            If they describe no map.
        """

    def beyond(self, X: NDArray, root: NDArray[np.float64] | None = None) -> NDArray[np.float64] | None:  # noqa: ARG002
        """Compute the part of k(x, x) that the components leave, for a map of landmarks.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Rows.
        root : ndarray, default=None
            Lower Cholesky factor of the metric, if it is known.

        Returns
        -------
        ndarray of shape (n,) or None
            The rest; None of a map without landmarks.
        """
        return None

    def __call__(self, X: NDArray) -> NDArray[np.float64]:
        """φ of a small block, float64 (n, n_out)."""
        components, T = self.components(X, "float64"), self.whitening
        return np.asarray(components * T if isinstance(T, float) else components @ T, dtype=np.float64)


def in_tiles(
    columns: Components, X: NDArray, groups: Sequence[tuple[int, int, int]] | None = None, out: NDArray | None = None
) -> NDArray:
    """The components of a small block by its tiles, float32 (n, components): for maps whose tiles are the quick way.

    Parameters
    ----------
    groups : neighbours among the groups of the map; all of them when None
    out : where they are written, (n, components), in its type
    """
    groups = columns.groups if groups is None else groups
    start = groups[0][0]
    if out is None:
        out = np.empty((len(X), sum(k * width for _, k, width in groups)), np.float32)
    buffer = np.empty(max(k * TILE_ROWS * width for _, k, width in groups), np.float32)
    for row in range(0, len(X), TILE_ROWS):
        n = min(TILE_ROWS, len(X) - row)
        prepared = columns.rows(_tile(X, row, n))
        for first, k, width in groups:
            tile = buffer[: k * TILE_ROWS * width].reshape(k, TILE_ROWS, width)
            columns.fill(prepared, first, tile)
            for t in range(k):
                at = first - start + t * width
                out[row : row + n, at : at + width] = tile[t, :n]
    return out


def _tile(X: NDArray, first: int, n: int) -> NDArray:
    if not isinstance(X, np.ndarray):  # sparse rows
        return X.pad(first, TILE_ROWS)
    # Rows of float64 are scaled as such: their differences from the mean may be nothing in float32, and they infinite.
    rows = np.zeros((TILE_ROWS, X.shape[1]), np.float64 if X.dtype == np.float64 else np.float32)
    rows[:n] = X[first : first + n]
    return rows


def map_from(spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> FeatureMap:
    """The feature map that a model file describes."""
    if spec.get("kind") in LEAF_OF_MAP:
        rare_map(spec["kind"])
    if spec.get("kind") not in _KINDS:
        raise ModelFileError(f"A feature map of kind {spec.get('kind')!r} is unknown; known are {sorted(_KINDS)}.")
    return _KINDS[spec["kind"]].build(spec, arrays)


def rare_map(kind: str) -> ModuleType:
    """The module of a map that a leaf has."""
    return load_leaf(LEAF_OF_MAP[kind], kind, f"A map of the kind {kind}")
