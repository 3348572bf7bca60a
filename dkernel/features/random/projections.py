"""Frequencies, and the product of rows with them: stored as a matrix, made again from their seed, or of Hadamard
transforms.

A structured projection needs 3 log2(q) sums a frequency instead of p products, with q the power of two above p, and is
as good as orthogonal directions. Cosines included, a column costs as much as by a product at p = 64 and at 90 (q =
128), 0.4 of it at 256 and a sixth at 784. Lengths are drawn from the kernel's own law in q dimensions; the directions
are sums of q random signs, uniform on the sphere but for a part that falls with q, so q is at least 32: at 8 a bias can
be measured (see LEAST_COORDINATES). Frequencies of Fastfood follow the law exactly.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from dkernel.errors import DKernelError, UnsupportedError
from dkernel.features.base import FromArguments
from dkernel.kernels import Kernel
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import supports_products
from dkernel.numerics.random_streams import stream
from dkernel.numerics.tiling import TILE_COMPONENTS

FAST = ("structured", "fastfood")
"""Samplings that are made of Hadamard transforms."""

MOST_STORED = 2**22
"""Numbers of a matrix of frequencies that is stored, and sent to workers: more are made again from their seed."""
MOST_KEPT = 2**26  # bytes of frequencies that a process keeps; those beyond it are drawn in every tile
SEEDED = 256  # frequencies of one draw: those of a tile of cosines and its sines

# Coordinates of a block: at p = 5, 8 of them have a bias of six standard errors of 400 seeds, 32 none.
LEAST_COORDINATES = 32


class Projection(FromArguments, ABC):
    """Ω, (m, p), and z = X Ω^T tile by tile."""

    sampling: str
    m: int
    p: int

    def widths(self, most: int) -> list[int]:
        """Numbers of frequencies that each `fill` writes, in their order; `most` where the projection can choose."""
        return [min(most, self.m - first) for first in range(0, self.m, most)]

    def groups(self, tiles: int) -> tuple[tuple[int, int, int], ...]:
        """Groups of a map that makes so many tiles of each frequency: their first component, tiles, width."""
        widths = self.widths(TILE_COMPONENTS // tiles)
        return tuple((tiles * first, tiles, w) for first, w in zip(accumulate([0, *widths]), widths, strict=False))

    def rows(self, X: NDArray) -> NDArray[np.float32]:
        """Prepare ROWS rows for `fill`, float32."""
        return np.ascontiguousarray(X, dtype=np.float32)

    @abstractmethod
    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        """Write z of the frequencies from `first` on into out, float32 (ROWS, width)."""

    @property
    def whole(self) -> PackedComponents | None:
        """Give all frequencies as one block, where a matrix of them is held; else None."""
        return None

    def panels(self, first: int, width: int) -> NDArray[np.float32] | None:  # noqa: ARG002 - a matrix has them
        """Packed frequencies from `first` on for `dkernel.numerics.fused.products`, None where it is of no
        use."""
        return None

    @property
    @abstractmethod
    def frequencies(self) -> NDArray[np.float64]:
        """Ω, float64 (m, p)."""

    def products(self, X: NDArray, dtype: str) -> NDArray[np.floating]:
        """X Ω^T of a small block in a dtype, (n, m)."""
        return np.asarray(X.astype(dtype, copy=False) @ self.frequencies.T.astype(dtype))

    @abstractmethod
    def divide(self, number: float) -> "Projection":
        """Divide Ω by a number."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray]:
        """Arrays that the projection is made of."""

    @staticmethod
    def build(sampling: str, p: int, arrays: Mapping[str, NDArray]) -> "Projection":
        """The projection again, from `arrays`."""
        if sampling in FAST:
            signs, lengths = arrays["signs"], arrays["lengths"]
            return Fast(sampling, p, signs, lengths, arrays.get("gaussians"), arrays.get("order"))
        return Dense(arrays["frequencies"], sampling)


class BlockProjection(Projection):
    """Frequencies that are multiplied with tiles of rows block by block."""

    @abstractmethod
    def part(self, first: int, width: int) -> NDArray[np.float64]:
        """Ω of some frequencies, (width, p)."""

    @cached_property
    def _blocks(self) -> dict[tuple[int, int], NDArray[np.float32]]:
        return {}

    def _block(self, first: int, width: int) -> NDArray[np.float32]:
        return np.ascontiguousarray(self.part(first, width).T, dtype=np.float32)

    def fill(self, rows: NDArray[np.float32], first: int, out: NDArray[np.float32]) -> None:
        columns = first, out.shape[1]
        block = self._blocks.get(columns)
        if block is None:
            block = self._block(*columns)
            if self._keeps(sum(columns)):
                self._blocks[columns] = block
        np.matmul(rows, block, out=out)

    def _keeps(self, last: int) -> bool:  # noqa: ARG002 - they are stored anyway
        """True if a process keeps a block whose frequencies end here."""
        return True


class Dense(BlockProjection):
    """Frequencies stored as a matrix: one product per tile."""

    arguments = ("_frequencies", "sampling")

    def __init__(self, frequencies: NDArray[np.float64], sampling: str = "") -> None:
        self._frequencies, self.sampling = frequencies, sampling
        self.m, self.p = frequencies.shape

    @property
    def frequencies(self) -> NDArray[np.float64]:
        return self._frequencies

    def part(self, first: int, width: int) -> NDArray[np.float64]:
        return self._frequencies[first : first + width]

    @cached_property
    def whole(self) -> PackedComponents | None:
        return PackedComponents.of("sincos", self._block(0, self.m)) if supports_products(self.p) else None

    def panels(self, first: int, width: int) -> NDArray[np.float32] | None:
        return None if self.whole is None else self.whole.some(first, width)

    def divide(self, number: float) -> "Dense":
        return Dense(self._frequencies / number, self.sampling)

    def arrays(self) -> dict[str, NDArray]:
        return {"frequencies": self._frequencies}


class Seeded(BlockProjection):
    """Frequencies that are not stored: each group of SEEDED is drawn again from the seed and its number.

    What a worker is sent, and what a model file holds, are a few numbers. A process keeps the first MOST_KEPT bytes of
    what it has drawn and draws the rest whenever a tile asks, to the same bits; the order of the tiles is nothing to
    them.

    Parameters
    ----------
    kernel : whose law it is
    divisor : the frequencies are those of the law divided by this number

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> Seeded(Gaussian(gamma=0.5), 3, 1000, 0, "orthogonal").frequencies.shape
    (1000, 3)
    """

    arguments: ClassVar[tuple[str, ...]] = ("kernel", "p", "m", "seed", "sampling", "divisor")

    def __init__(self, kernel: Kernel, p: int, m: int, seed: int, sampling: str, divisor: float = 1.0) -> None:
        self.kernel, self.p, self.m, self.seed, self.sampling = kernel, p, m, seed, sampling
        self.divisor = divisor

    def part(self, first: int, width: int) -> NDArray[np.float64]:
        """Ω of some frequencies, (width, p); `first` is a multiple of SEEDED."""
        drawn = []
        for at in range(first, first + width, SEEDED):
            rng = stream(self.seed, "frequencies", at // SEEDED)
            drawn.append(self.kernel.frequencies(self.p, min(SEEDED, self.m - at), rng, sampling=self.sampling))
        return np.concatenate(drawn)[:width] / self.divisor

    def _keeps(self, last: int) -> bool:
        return 4 * self.p * last <= MOST_KEPT

    @property
    def frequencies(self) -> NDArray[np.float64]:
        return self.part(0, self.m)

    def divide(self, number: float) -> "Seeded":
        return Seeded(self.kernel, self.p, self.m, self.seed, self.sampling, self.divisor * number)

    def arrays(self) -> dict[str, NDArray]:
        return {}

    def spec(self) -> dict[str, int]:
        """Numbers that the projection is made of, beside kernel and sampling."""
        return {"n_in": self.p, "frequencies": self.m, "seed": self.seed}


class Fast(Projection):
    """Blocks of q frequencies: ω_i = l_i / |row i| times row i of H D H D H D (structured) or H G Π H D (Fastfood).

    D are random signs, G normal numbers, Π a permutation, H the Hadamard matrix; the first p coordinates are kept.
    Structured rows are orthogonal, so the lengths do what orthogonal random features do (Yu et al. 2016; Choromanski
    et al. 2017); Fastfood (Le, Sarlos, Smola 2013) is here because it is known: its error is larger.

    Parameters
    ----------
    signs : bool (blocks, 3 or 1, q), true for -1
    lengths : float64 (m,), l_i
    gaussians, order : float64 and int32 (blocks, q), of Fastfood
    """

    arguments = ("sampling", "p", "signs", "lengths", "gaussians", "order")

    def __init__(
        self,
        sampling: str,
        p: int,
        signs: NDArray[np.bool_],
        lengths: NDArray[np.float64],
        gaussians: NDArray[np.float64] | None = None,
        order: NDArray[np.int32] | None = None,
    ) -> None:
        self.sampling, self.p, self.signs, self.lengths = sampling, p, signs, lengths
        self.gaussians, self.order = gaussians, order
        self.m, self.q = len(lengths), signs.shape[2]

    @classmethod
    def draw(cls, sampling: str, kernel: Kernel, p: int, m: int, seed: int) -> "Fast":
        """m frequencies of the kernel's law, a function of the seed."""
        q = max(LEAST_COORDINATES, 1 << max(p - 1, 0).bit_length())
        blocks = -(-m // q)
        # The norm of a draw in q dimensions has the law that makes a uniform direction a draw; a block of it at a time.
        lengths = np.concatenate(
            [
                np.linalg.norm(kernel.frequencies(q, min(q, m - b * q), stream(seed, "lengths", b)), axis=1)
                for b in range(blocks)
            ]
        )
        rng = stream(seed, "structure")
        signs = rng.integers(0, 2, (blocks, 1 if sampling == "fastfood" else 3, q)).astype(bool)
        if sampling == "structured":
            return cls(sampling, p, signs, lengths)
        order = np.argsort(rng.random((blocks, q)), axis=1).astype(np.int32)
        return cls(sampling, p, signs, lengths, rng.standard_normal((blocks, q)), order)

    def widths(self, most: int) -> list[int]:
        width = max(self.q, most // self.q * self.q)
        return [min(width, self.m - first) for first in range(0, self.m, width)]

    def rows(self, X: NDArray) -> NDArray[np.float32]:
        """The rows as columns, (q, rows)."""
        padded = np.zeros((self.q, len(X)), np.float32)
        padded[: self.p] = X.T
        return padded

    @cached_property
    def _diagonals(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The factors before each transform (blocks, steps, q), and those after the last (m,), which normalize all."""
        factors = [(1.0 - 2.0 * self.signs).astype(np.float32)]
        norms = np.full(len(self.signs), float(self.q) ** (self.signs.shape[1] / 2))
        if self.gaussians is not None:
            factors.append(self.gaussians.astype(np.float32)[:, None])
            norms = self.q**0.5 * np.array([float(np.linalg.norm(g)) for g in self.gaussians])
        after = self.lengths / np.repeat(norms, self.q)[: self.m]
        return np.concatenate(factors, axis=1), after.astype(np.float32)

    def fill(self, rows: NDArray[np.float32], first: int, out: NDArray[np.float32]) -> None:
        from dkernel.numerics.hadamard import hadamard_blocks  # compiles what no other projection needs

        factors, after = self._diagonals
        last = first + out.shape[1]
        blocks = slice(first // self.q, -(-last // self.q))
        order = None if self.order is None else self.order[blocks]
        hadamard_blocks(rows, factors[blocks], order, after[first:last], out)

    def divide(self, number: float) -> "Fast":
        return Fast(self.sampling, self.p, self.signs, self.lengths / number, self.gaussians, self.order)

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        H, blocks = hadamard(self.q, np.float64), []
        for b, signs in enumerate(1.0 - 2.0 * self.signs):
            W = H * signs[0]
            for s in signs[1:]:
                W = H @ (s[:, None] * W)
            if self.gaussians is not None and self.order is not None:
                W = H @ (self.gaussians[b][:, None] * W[self.order[b]])
            lengths = self.lengths[b * self.q : (b + 1) * self.q, None]
            W = W[: len(lengths)]
            blocks.append((lengths / np.linalg.norm(W, axis=1, keepdims=True) * W)[:, : self.p])
        return np.concatenate(blocks)

    def arrays(self) -> dict[str, NDArray]:
        arrays: dict[str, NDArray] = {"signs": self.signs, "lengths": self.lengths}
        if self.gaussians is not None and self.order is not None:
            arrays |= {"gaussians": self.gaussians, "order": self.order}
        return arrays


def is_isotropic(kernel: Kernel) -> bool:
    """True if the spectral law of a kernel is the same in every direction."""
    try:
        kernel.frequencies(2, 1, stream(0, "isotropic"), sampling="orthogonal")
    except DKernelError:
        return False
    return True


def draw_projection(kernel: Kernel, p: int, m: int, seed: int, sampling: str, stored: int | None = None) -> Projection:
    """m frequencies of the kernel's spectral law in the way named: a function of the seed.

    Parameters
    ----------
    sampling : "auto", one of `kernels.SAMPLINGS` or of `FAST`
    stored : numbers that may be stored as a matrix; None for any
    """
    if sampling == "auto":
        sampling = default_sampling(kernel, p)
    if sampling not in FAST:
        if stored is not None and m * p > stored:
            return Seeded(kernel, p, m, seed, sampling)
        return Dense(kernel.frequencies(p, m, stream(seed, "frequencies"), sampling=sampling), sampling)
    if not is_isotropic(kernel):
        raise UnsupportedError(
            f"sampling={sampling!r} needs a kernel of the Euclidean distance: the spectral law of {kernel!r} is not "
            "the same in every direction. Use sampling='sobol' or sampling='iid'."
        )
    return Fast.draw(sampling, kernel, p, m, seed)


def default_sampling(kernel: Kernel, p: int) -> str:
    """Sobol where the dimension is small; then orthogonal and structured where the law has directions, else iid."""
    if p <= 12:
        return "sobol"
    if is_isotropic(kernel):
        return "structured" if p >= 64 else "orthogonal"
    return "sobol" if p <= 64 else "iid"
