"""Nystrom features: the kernel at a set of landmarks, whitened by their own Gram matrix."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel import kernels
from dkernel.errors import DataError, RecipeError
from dkernel.features.base import MOST_DENSE, Coordinates, FeatureMap
from dkernel.features.block_coordinates import BLOCK_COLUMNS, BlockBasis
from dkernel.features.dense_maps import in_groups
from dkernel.kernels import Kernel
from dkernel.kernels.landmark_columns.base import SparseColumns
from dkernel.kernels.landmark_columns.wide import WideColumns
from dkernel.numerics import linalg, thin_linalg
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.rows import contiguous, for_kernels, in_dtype, object_places, pack_rows, unpack_rows, wide
from dkernel.numerics.sparse_rows import SparseRows
from dkernel.numerics.threads import MOST_THREADS, for_each, usable_cores

# Eigenvalues of the landmarks' Gram matrix under 1e-6 of the largest are noise of float32 columns. A ridge stands in
# for their truncation: a Cholesky factor then does what an eigendecomposition would for a twentieth of its price. It
# also shrinks the directions above it, so it is smaller: on covtype with 5,000 landmarks 1e-6 cost 0.6 points of error
# against 1e-8 and 1e-9.
SOLVER_RIDGE = 1e-9  # a share of the largest eigenvalue
# A transformer computes in float64 and truncates where float64 ends.
TRANSFORM_FLOOR = 1e-14
NYSTROM_STRIP = 256  # rows whose float64 columns one thread makes at one time
SQUARE_STRIP = 128  # rows of the landmarks' own Gram matrix that are made, and mirrored, while they are in the caches


def indefinite(kernel: Kernel) -> DataError:
    """The error for a kernel that is not positive semi-definite."""
    return DataError(f"{kernel!r} is not positive semi-definite on these rows; use a kernel that is.")


class NystromMap(FeatureMap):
    """φ(x) = k(x, Z) U Λ^{-1/2}, with k(Z, Z) = U Λ U^T, Λ truncated.

    φ(x) . φ(z) is the Nystrom approximation k(x, Z) k(Z, Z)^+ k(Z, z): exact when x or z is a landmark.

    Parameters
    ----------
    kernel : a kernel without placeholders
    landmarks : Z, (c, p), in scaled coordinates; sparse rows where the rows will be
    rank : keep the `rank` largest eigenvalues only (the rank-k form of Drineas and Mahoney 2005)

    Examples
    --------
    >>> Z = np.array([[0.0], [1.0]])
    >>> phi = NystromMap(kernels.Gaussian(gamma=1.0), Z)
    >>> K = phi(Z) @ phi(Z).T
    >>> bool(np.allclose(K, kernels.Gaussian(gamma=1.0)(Z, Z)))
    True
    """

    kind = "nystrom"
    arguments = ("kernel", "landmarks", "rank")

    def __init__(self, kernel: Kernel, landmarks: Any, rank: int | None = None) -> None:
        if rank is not None and rank < 1:
            raise RecipeError(f"rank={rank}: a Nystrom map keeps at least 1 eigenvalue; give a positive rank or None.")
        self.kernel = kernel
        self.landmarks: Any = contiguous(landmarks)
        if self.sparse:
            kernel.require_sparse()
        self.rank = None if rank is None or rank >= len(landmarks) else rank
        self.n_components, self.n_in = self.landmarks.shape

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(in_groups(self.n_components))

    @property
    def quick(self) -> bool:
        return bool(self._columns.quick)

    @property
    def panels(self) -> PackedComponents | None:
        packed: PackedComponents | None = self._columns.panels
        return packed

    @cached_property
    def wide(self) -> tuple[WideColumns, ...]:
        return () if self.sparse or self.objects else self.kernel.wide_columns(wide(self.landmarks))

    @cached_property
    def _columns(self) -> Any:
        if self.sparse:
            return SparseColumns(self.kernel, self.landmarks)
        return self.kernel.columns(self.landmarks)

    @property
    def sparse(self) -> bool:
        return isinstance(self.landmarks, SparseRows)

    @property
    def objects(self) -> tuple[int, ...]:
        return object_places(self.landmarks)

    def rows(self, X: NDArray) -> Any:
        return self._columns.rows(for_kernels(X))

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        self._columns.fill(rows, first, out[0])

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        return np.asarray(self.kernel(in_dtype(X, dtype), in_dtype(self.landmarks, dtype)), dtype=dtype)

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """k(Z, Z), float64 (c, c), exactly symmetric."""
        return self._gram()

    def _gram(self) -> NDArray[np.float64]:
        """Compute the Gram matrix for one use, in strips of its lower half, so that one square is in memory."""
        Z, c = wide(self.landmarks), self.n_components
        K = np.empty((c, c))

        def strip(first: int) -> None:
            block = slice(first, min(first + SQUARE_STRIP, c))
            rows = Z[block]
            if first:
                K[block, :first] = self.kernel(rows, Z[:first])
                K[:first, block] = K[block, :first].T
            among = np.asarray(self.kernel(rows, rows), np.float64)  # one block twice: some kernels know that
            K[block, block] = 0.5 * (among + among.T)

        longest_first = range(0, c, SQUARE_STRIP)[::-1]
        for_each(strip, longest_first, min(usable_cores(), MOST_THREADS))
        return K

    @cached_property
    def _spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        values, vectors = sl.eigh(self.gram, driver="evd")
        return values[::-1], vectors[:, ::-1]

    @property
    def n_out(self) -> int:  # type: ignore[override]
        return int(np.asarray(self.whitening).shape[1])

    @cached_property
    def whitening(self) -> NDArray[np.float64]:
        values, vectors = self._spectrum
        keep = int(np.count_nonzero(values > TRANSFORM_FLOOR * values[0]))
        keep = min(keep, self.rank or keep)
        return vectors[:, :keep] / np.sqrt(values[:keep])

    def coordinates(self) -> Coordinates:
        """α itself with the metric K + ε I; of more landmarks than a square has room for, w of blocks of them.

        No solver is given a map of a rank: that is a transformer's.
        """
        if self.n_components > MOST_DENSE:
            return Coordinates(self.n_components, 1.0, self.blocks)
        return Coordinates(self.n_components, _regularize(self._gram()))

    @cached_property
    def blocks(self) -> BlockBasis:
        """The coordinates of blocks of landmarks, BLOCK_COLUMNS of each."""
        parts = [
            NystromMap(self.kernel, self.landmarks[i : i + BLOCK_COLUMNS])
            for i in range(0, self.n_components, BLOCK_COLUMNS)
        ]
        try:
            return BlockBasis(
                [sl.cholesky(_regularize(part._gram()), lower=True, check_finite=False) for part in parts]
            )
        except sl.LinAlgError:
            raise indefinite(self.kernel) from None

    @cached_property
    def _root(self) -> NDArray[np.float64]:
        """Lower Cholesky factor of k(Z, Z) + ε I, ε as small as rounding lets it be."""
        scale = float(np.trace(self.gram))
        for ridge in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10):
            try:
                regular = self.gram.copy()
                regular.flat[:: self.n_components + 1] += ridge * scale
                return linalg.cholesky(regular)
            except sl.LinAlgError:
                continue
        raise indefinite(self.kernel)

    def residual(self, X: NDArray) -> NDArray[np.float64]:
        """r(x) = k(x, x) - |φ(x)|^2 of every row, (n,): what the approximation leaves of its own norm.

        Zero on the landmarks and never negative, up to rounding; the mean over rows is tr(K - K-hat) / n, and bounds
        the error of every eigenvalue of K / n. Also the variance at x of a Gaussian process that saw the landmarks
        without noise: a row with a large one is unlike all of them. c^2 flops a row.
        """
        if self.rank is not None:
            return self._residual(X, lambda K: (K @ self.whitening).T)
        if self.n_components > MOST_DENSE:
            return self._residual(X, lambda K: self.blocks.T @ K.T)
        return self._residual(X, lambda K: linalg.forward(self._root, K).T)

    def left_out(self) -> NDArray[np.float64]:
        """r(z) of each landmark by all others: 1 / (K^{-1})_ii, (c,). Not of a given rank."""
        inverse, _ = sl.lapack.dtrtri(self._root.T)  # of a triangle: a tenth of the seconds of a solution for each row
        return np.asarray(1.0 / np.einsum("ij,ij->i", inverse, inverse))

    def beyond(self, X: NDArray, root: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Compute k(x, x) - c^T M^{-1} c, as a solver has it: the smallest eigenvalues do not count in its coordinates.

        `root` is the lower Cholesky factor of their metric M, if it is known.
        """
        factor, basis = self._solver_root if root is None else (root, None)
        if basis is None:
            return self._residual(X, lambda K: linalg.forward(factor, K).T)
        return self._residual(X, lambda K: basis.T @ K.T)

    @cached_property
    def _solver_root(self) -> tuple[Any, Any]:
        coordinates = self.coordinates()
        if coordinates.basis is not None:
            return None, coordinates.basis
        assert not isinstance(coordinates.metric, float)
        return linalg.cholesky(coordinates.metric), None

    def _residual(self, X: NDArray, half_of: Callable[[Any], Any]) -> NDArray[np.float64]:
        """k(x, x) less the squared length of half_of(columns), of every row, (n,)."""
        out = np.empty(len(X))

        def strip(i: int) -> None:
            half = half_of(self.components(X[i : i + NYSTROM_STRIP]))
            out[i : i + NYSTROM_STRIP] = self.kernel.diag(wide(X[i : i + NYSTROM_STRIP])) - np.einsum(
                "ij,ij->j", half, half
            )

        for_each(strip, range(0, len(X), NYSTROM_STRIP), min(usable_cores(), MOST_THREADS))
        return out

    @property
    def effective_rank(self) -> float:
        """(Σλ)^2 / Σλ^2 of the landmarks' Gram matrix: c for landmarks that know nothing of each other, 1 for equal."""
        return float(np.trace(self.gram) ** 2 / np.sum(self.gram**2))

    def eigenvalues(self, n: int | None = None) -> NDArray[np.float64]:
        """(n / c) λ_i, decreasing: approximations of the largest eigenvalues of the Gram matrix of n rows.

        Of n = 1 those of the integral operator under the law of the landmarks (Williams and Seeger 2001). None is c.
        """
        values = self._spectrum[0][: self.n_out]
        return values if n is None else values * (n / self.n_components)

    def eigenfunctions(self, X: NDArray) -> NDArray[np.float64]:
        """ψ_i(x) = c^{1/2} / λ_i Σ_j u_ji k(x, z_j), (n, n_out): orthonormal under the law of the landmarks.

        k(x, z) ≈ Σ_i (λ_i / c) ψ_i(x) ψ_i(z), the truncated expansion of Mercer's theorem.
        """
        return np.asarray(self(X) * np.sqrt(self.n_components / self.eigenvalues()))

    def spec(self) -> dict[str, Any]:
        spec, _ = pack_rows(self.landmarks, "landmarks")
        return {"kind": self.kind, "kernel": repr(self.kernel), "rank": self.rank, **spec}

    def arrays(self) -> dict[str, NDArray]:
        """The landmarks (c, p)."""
        return pack_rows(self.landmarks, "landmarks")[1]

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "NystromMap":
        return cls(kernels.parse(spec["kernel"]), unpack_rows(spec, arrays, "landmarks"), spec["rank"])


def _regularize(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Gram matrix plus SOLVER_RIDGE times its largest eigenvalue (power iteration, a fixed start), in its place."""
    n = len(gram)
    v = np.ones(n) / np.sqrt(n)
    image = thin_linalg.product(gram, v[:, None])
    if np.linalg.norm(image) < np.trace(gram) / n:
        # The linear kernel of centred rows takes ones to 0. No column of the largest diagonal is orthogonal to all.
        column = gram[np.argmax(np.diagonal(gram))]
        image = thin_linalg.product(gram, column[:, None] / np.linalg.norm(column))
    before, largest = 0.0, float(np.linalg.norm(image))
    for _ in range(19):
        if largest - before <= 1e-3 * largest:  # it grows to the eigenvalue
            break
        image = thin_linalg.product(gram, image / largest)
        before, largest = largest, float(np.linalg.norm(image))
    gram.flat[:: n + 1] += SOLVER_RIDGE * largest
    return gram
