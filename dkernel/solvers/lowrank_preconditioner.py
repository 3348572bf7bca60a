"""The preconditioner of P-SGD for very many components: EigenPro's, in closed form over a sketch.

In coordinates w = c^{1/2} v (c the metric, a number here; the intercept as it is) let A be the features of m rows, a
row each. Q, of m rows and few orthonormal columns, makes the sketch B = Q^T A of it. With B B^T / m = U diag(μ) U^T
the directions V = B^T U (m μ)^{-1/2} are orthonormal, and with τ = μ_q + ρ, μ_q the smallest of the μ,

    P = V diag(1 / (μ + ρ)) V^T + (I - V V^T) / τ = (I - V diag(1 - τ / (μ + ρ)) V^T) / τ

is (S + ρ)^{-1} on the span of V, and a number on all other directions. V is never made: P and its root are numbers
times I - B^T F B with F of the size of U. Source: Ma and Belkin 2017; Halko, Martinsson and Tropp 2011.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel.errors import DataError
from dkernel.model.serialization import stored
from dkernel.numerics.array_types import F64
from dkernel.solvers.preconditioner import Preconditioner, find_ridge

Slice = NDArray[np.float32]
THREADS = 4  # slices at once: BLAS has one thread, and the threads do not change the bits
NOISE = 1e-9  # share of the largest μ that the rounding of float32 products may make


@stored("LowRank")
@dataclass(frozen=True, eq=False)
class LowRank(Preconditioner):
    """P of a sketch. Its root is R / τ^{1/2} with R = I - B^T factor B, symmetric; P itself has `inner` in that place.

    Parameters
    ----------
    factor, inner : U diag((1 - (τ / (μ + ρ))^{1/2}) / (m μ)) U^T, and the same without the root, float64 (q, q)
    sketch : B; all preconditioners of a fit share it
    tail : τ
    """

    inner: Any = None
    sketch: Any = None
    tail: float = 1.0

    @property
    def n(self) -> int:
        return int(sum(part.shape[1] for part in self.sketch.slices))

    def solve(self, gradient: F64) -> F64:
        """P g for g of shape (n + 1, heads)."""
        scale = self._scale
        out = scale * self._less(scale * gradient, self.inner) / self.tail
        if self.directions is not None and self.values is not None:
            shrink = (1 - 1 / self.values)[:, None]
            out -= self._damped_directions @ (shrink * (self._damped_directions.T @ gradient))
        return np.asarray(out)

    def half(self, v: F64) -> F64:
        """P^{1/2} c^{-1/2} v, with P of the coordinates w."""
        return np.asarray(self._less(self._scale * v, self.factor) / np.sqrt(self.tail))

    def half_transposed(self, v: F64) -> F64:
        """c^{-1/2} P^{1/2} v."""
        return np.asarray(self._scale * self._less(v, self.factor) / np.sqrt(self.tail))

    @cached_property
    def _damped_directions(self) -> F64:
        assert self.directions is not None
        return self.half_transposed(self.directions)

    @cached_property
    def _scale(self) -> F64:
        scale = np.full((self.n, 1), self.sketch.metric**-0.5)
        scale[-1] = 1.0
        return scale

    def _less(self, x: F64, middle: F64) -> F64:
        """(I - B^T middle B) x."""
        slices = self.sketch.slices
        pieces = np.split(x, np.cumsum([part.shape[1] for part in slices])[:-1])
        inside = [np.ascontiguousarray(piece.T, dtype=np.float32) for piece in pieces]
        # A few rows times a matrix: BLAS is quicker at that than at a matrix times a few columns.
        total = np.zeros((x.shape[1], len(middle)))
        for part in _together(lambda i: inside[i] @ slices[i].T, range(len(inside))):
            total += part
        z = (total @ middle).astype(np.float32)
        lifted = _together(lambda i: pieces[i] - (z @ slices[i]).T, range(len(inside)))
        return np.asarray(np.concatenate(list(lifted)), dtype=np.float64)


@stored("Sketch")
@dataclass(frozen=True, eq=False)
class Sketch:
    """B with the spectrum of B B^T / m.

    Parameters
    ----------
    slices : B cut by columns, float32 (q, width) each, C-contiguous; the intercept's column last
    metric : c
    weight : m, of the rows that were sketched, or their weights' sum
    vectors, values : U (q, k) and μ (k,), decreasing, without those that are noise
    """

    slices: tuple[Slice, ...]
    metric: float
    weight: float
    vectors: F64
    values: F64

    @classmethod
    def of(cls, slices: Sequence[Slice], metric: float, weight: float) -> "Sketch":
        """The sketch with these slices."""
        gram = np.zeros((len(slices[0]),) * 2)
        for part in _together(lambda i: slices[i] @ slices[i].T, range(len(slices))):
            gram += part
        values, vectors = sl.eigh(gram / weight, driver="evd", overwrite_a=True, check_finite=False)
        if not (np.isfinite(values).all() and values[-1] > 0):
            raise DataError("The features of the sample are all zero, or not finite: no preconditioner can be made.")
        real = values > NOISE * values[-1]
        vectors = np.ascontiguousarray(vectors[:, real][:, ::-1])
        return cls(tuple(slices), metric, weight, vectors, np.ascontiguousarray(values[real][::-1]))

    def ridge(self, target: float, floor: float) -> float:
        """The ρ at which the effective dimension Σ μ / (μ + ρ) equals `target`, at least `floor` and what is noise."""
        most = float(self.values.sum()) / min(target, 1.0)
        rho = find_ridge(self.values, np.ones(len(self.values)), target, most)
        return max(rho, floor, NOISE * float(self.values[0]))

    def project(self, features: Iterable[F64]) -> tuple[F64, F64]:
        """B φ (q, rows) and |φ|^2 (rows,) of rows whose features come slice by slice, each (width, rows), in w."""
        inside: Any = 0.0
        norms: Any = 0.0
        for part, piece in zip(self.slices, features, strict=True):
            inside = inside + part @ piece.astype(np.float32)
            norms = norms + np.einsum("ij,ij->j", piece, piece)
        return np.asarray(inside, np.float64), np.asarray(norms)

    def at(self, rho: float, unseen: tuple[F64, F64]) -> LowRank:
        """The preconditioner at a given ρ; `unseen` is what `project` says of rows outside the sample."""
        tail = float(self.values[-1]) + rho
        shrink = tail / (self.values + rho)
        size = self.weight * self.values

        def middle(values: F64) -> F64:
            return (self.vectors * (values / size)) @ self.vectors.T

        inside, norms = unseen
        inner = middle(1 - shrink)
        leverage = np.maximum(norms - np.einsum("ij,ij->j", inside, inner @ inside), 0.0) / tail
        return LowRank(
            rho,
            middle(1 - np.sqrt(shrink)),
            float(np.quantile(leverage, 0.95)),
            float(leverage.max()),
            inner=inner,
            sketch=self,
            tail=tail,
        )


def _together(function: Callable[[int], Any], items: range) -> Iterable[Any]:
    """Call the function on every item, THREADS at a time, so that few results wait; yield them in order."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(items), THREADS):
            yield from pool.map(function, items[start : start + THREADS])
