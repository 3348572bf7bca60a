"""Random Fourier features: cosines and sines at frequencies drawn from the kernel's spectral law."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel import kernels
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.features.base import Coordinates, FeatureMap
from dkernel.kernels import Kernel
from dkernel.seeds import stream
from dkernel.tiles import COLUMNS, cos_turns_inplace, sincos_turns_inplace

__all__ = ["FORMS", "FourierMap"]

FORMS = ("pairs", "offset")
_PAIR = COLUMNS // 2  # frequencies a group of tiles: its cosines and sines together have the size of one tile


class FourierMap(FeatureMap):
    """φ(x) = m^{-1/2} [cos Ωx, sin Ωx] (pairs, m = D / 2), or (2 / D)^{1/2} cos(Ωx + b) (offset).

    Pairs are the default: |φ(x)| = 1 exactly, the variance (1 - k^2)^2 / D for the Gaussian kernel is the smaller
    one wherever the kernel is not small, and one product with m rows of Ω makes 2 m columns (Rahimi and Recht 2007;
    Sutherland and Schneider 2015). The columns are the bare cosines and sines, tile by tile: `_PAIR` cosines, then
    their sines, and so on; the factor is the whitening.

    Parameters
    ----------
    kernel : a shift-invariant kernel without placeholders
    frequencies : Ω, float64 (m, p)
    offsets : b, float64 (m,), for the form "offset"

    Examples
    --------
    >>> phi = FourierMap.draw(kernels.Gaussian(gamma=0.5), n_in=3, n_components=64, seed=0)
    >>> phi(np.zeros((1, 3))).shape
    (1, 64)
    """

    kind = "fourier"
    gram_dtype = "float32"  # their Gram matrix is well conditioned, and a float64 cosine costs thirty times as much

    def __init__(
        self, kernel: Kernel, frequencies: NDArray[np.float64], offsets: NDArray[np.float64] | None = None
    ) -> None:
        self.kernel, self.frequencies, self.offsets = kernel, frequencies, offsets
        m, self.n_in = frequencies.shape
        self.pairs = offsets is None
        self.n_columns = self.n_out = 2 * m if self.pairs else m
        width, tiles = (_PAIR, 2) if self.pairs else (COLUMNS, 1)
        self._starts = {tiles * i: i for i in range(0, m, width)}
        self.groups_ = tuple((first, tiles, min(width, m - i)) for first, i in self._starts.items())

    @classmethod
    def draw(
        cls, kernel: Kernel, n_in: int, n_components: int, seed: int, sampling: str = "auto", form: str = "pairs"
    ) -> "FourierMap":
        """The map of `n_components` columns whose frequencies are a function of the seed."""
        if not kernel.shift_invariant:
            raise UnsupportedError(
                f"FourierFeatures cannot approximate {kernel!r}: it is not shift-invariant. Use features='nystrom'."
            )
        if form not in FORMS:
            raise RecipeError(f"form={form!r}: Fourier features have the forms {', '.join(map(repr, FORMS))}.")
        if n_components < 1 or (form == "pairs" and n_components % 2):
            raise RecipeError(
                f"n_components={n_components}: sine and cosine come in pairs; give a positive even number, "
                "or form='offset'."
            )
        m = n_components // 2 if form == "pairs" else n_components
        if sampling == "auto":
            sampling = cls.default_sampling(kernel, n_in)
        omega = kernel.frequencies(n_in, m, stream(seed, "frequencies"), sampling=sampling)
        offsets = None if form == "pairs" else stream(seed, "offsets").uniform(0.0, 2 * np.pi, m)
        return cls(kernel, omega, offsets)

    @staticmethod
    def default_sampling(kernel: Kernel, n_in: int) -> str:
        """Sobol where the dimension is small, orthogonal where the law has directions, else independent draws."""
        if n_in <= 12:
            return "sobol"
        return "orthogonal" if isinstance(kernel, kernels.Gaussian) else ("sobol" if n_in <= 64 else "iid")

    @property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return self.groups_

    @cached_property
    def _blocks(self) -> dict[int, NDArray[np.float32]]:
        # In turns: the 1 / (2 pi) is folded in before float32 rounds, so the range reduction is exact.
        turns = self.frequencies.T / (2 * np.pi)
        if self.offsets is not None:
            turns = np.concatenate([turns, self.offsets[None] / (2 * np.pi)])
        return {
            first: np.ascontiguousarray(turns[:, self._starts[first] : self._starts[first] + width], dtype=np.float32)
            for first, _, width in self.groups_
        }

    def rows(self, X: NDArray) -> NDArray[np.float32]:
        if self.pairs:
            return np.ascontiguousarray(X, dtype=np.float32)
        return np.concatenate([X, np.ones((len(X), 1))], axis=1, dtype=np.float32)

    def fill(self, rows: NDArray[np.float32], first: int, out: NDArray[np.float32]) -> None:
        np.matmul(rows, self._blocks[first], out=out[0])
        if self.pairs:
            sincos_turns_inplace(out)
        else:
            cos_turns_inplace(out)

    def columns(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        z = X.astype(dtype, copy=False) @ self.frequencies.T.astype(dtype)
        if self.offsets is not None:
            return np.asarray(np.cos(z + self.offsets.astype(dtype)))
        out = np.empty((len(X), self.n_columns), dtype)
        for first, _, width in self.groups_:
            part = z[:, self._starts[first] : self._starts[first] + width]
            np.cos(part, out=out[:, first : first + width])
            np.sin(part, out=out[:, first + width : first + 2 * width])
        return out

    @property
    def whitening(self) -> float:
        return float(np.sqrt(2.0 / self.n_columns))

    def coordinates(self) -> Coordinates:
        return Coordinates(self.n_columns, self.n_columns / 2.0)

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "kernel": repr(self.kernel), "form": "pairs" if self.pairs else "offset"}

    def arrays(self) -> dict[str, NDArray]:
        arrays = {"frequencies": self.frequencies}
        return arrays if self.offsets is None else {**arrays, "offsets": self.offsets}

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "FourierMap":
        return cls(kernels.parse(spec["kernel"]), arrays["frequencies"], arrays.get("offsets"))

    def __getstate__(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "frequencies": self.frequencies, "offsets": self.offsets}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
