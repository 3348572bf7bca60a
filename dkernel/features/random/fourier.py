"""Random Fourier features: cosines and sines at frequencies drawn from the kernel's spectral law."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel import kernels
from dkernel.errors import ModelFileError, RecipeError, UnsupportedError
from dkernel.features.base import Coordinates, FeatureMap, in_tiles
from dkernel.features.random.projections import FAST, MOST_STORED, Dense, Projection, Seeded, draw_projection
from dkernel.features.random.sparse_frequencies import SCATTERED, Scattered
from dkernel.kernels import Kernel
from dkernel.kernels.landmark_columns.wide import WideColumns, product_columns
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import is_whole, product_walks
from dkernel.numerics.random_streams import stream
from dkernel.numerics.tiling import cos_turns_inplace, sincos_turns_inplace

FORMS = ("pairs", "offset", "exponential")
MOST_DRAWN = 2**28  # frequencies of a model file that go by their seed


class FourierMap(FeatureMap):
    """φ(x) = m^{-1/2} [cos Ωx, sin Ωx] (pairs, m = D / 2), or (2 / D)^{1/2} cos(Ωx + b) (offset).

    Pairs are the default: |φ(x)| = 1 exactly, the variance (1 - k^2)^2 / D for the Gaussian kernel is the smaller
    one wherever the kernel is not small, and one product with m rows of Ω makes 2 m columns (Rahimi and Recht 2007;
    Sutherland and Schneider 2015). The columns are the bare cosines and sines, tile by tile: half a tile of
    cosines, then their sines, and so on; the factor is the whitening.

    Parameters
    ----------
    kernel : a shift-invariant kernel without placeholders
    frequencies : Ω, float64 (m, p), or a projection that makes it; over MOST_STORED numbers `draw` keeps their seed
    offsets : b, float64 (m,), for the form "offset"
    form : without offsets "pairs", or "exponential": the same columns, which a transformer gives as m^{-1/2} exp(i Ωx)

    Examples
    --------
    >>> phi = FourierMap.draw(kernels.Gaussian(gamma=0.5), n_in=3, n_components=64, seed=0)
    >>> phi(np.zeros((1, 3))).shape
    (1, 64)
    """

    kind = "fourier"
    arguments = ("kernel", "projection", "offsets", "form")
    gram_dtype = "float32"  # their Gram matrix is well conditioned, and a float64 cosine costs thirty times as much

    def __init__(
        self,
        kernel: Kernel,
        frequencies: NDArray[np.float64] | Projection,
        offsets: NDArray[np.float64] | None = None,
        form: str = "pairs",
    ) -> None:
        self.projection = frequencies if isinstance(frequencies, Projection) else Dense(frequencies)
        self.kernel, self.offsets = kernel, offsets
        self.n_in, m = self.projection.p, self.projection.m
        self.pairs = offsets is None
        self.form = form if self.pairs else "offset"
        self.n_components = self.n_out = 2 * m if self.pairs else m

    @classmethod
    def draw(
        cls,
        kernel: Kernel,
        n_in: int,
        n_components: int,
        seed: int,
        sampling: str = "auto",
        form: str = "pairs",
        sparse: bool = False,
    ) -> "FourierMap":
        """The map of `n_components` columns whose frequencies are a function of the seed; with `sparse`, of sparse
        rows."""
        if not kernel.shift_invariant:
            raise UnsupportedError(
                f"FourierFeatures cannot approximate {kernel!r}: it is not shift-invariant. Use features='nystrom'."
            )
        if form not in FORMS:
            raise RecipeError(f"form={form!r}: Fourier features have the forms {', '.join(map(repr, FORMS))}.")
        if n_components < 1 or (form != "offset" and n_components % 2):
            raise RecipeError(
                f"n_components={n_components}: sine and cosine come in pairs; give a positive even number, "
                "or form='offset'."
            )
        m = n_components if form == "offset" else n_components // 2
        projection = (
            Scattered.draw(kernel, n_in, m, seed, sampling)
            if sparse
            else draw_projection(kernel, n_in, m, seed, sampling, MOST_STORED)
        )
        offsets = stream(seed, "offsets").uniform(0.0, 2 * np.pi, m) if form == "offset" else None
        return cls(kernel, projection, offsets, form)

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """Ω, (m, p)."""
        return self.projection.frequencies

    @property
    def sampling(self) -> str:
        """Way in which the frequencies were drawn, "" where that is not known."""
        return self.projection.sampling

    @property
    def sparse(self) -> bool:
        return isinstance(self.projection, Scattered)

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return self.projection.groups(2 if self.pairs else 1)

    @cached_property
    def panels(self) -> PackedComponents | None:
        whole = self._turns.whole if self.pairs else None
        if whole is None:
            return None
        return replace(whole, order=self._layered)

    @cached_property
    def wide(self) -> tuple[WideColumns, ...]:
        if not self.pairs or not isinstance(self.projection, Dense):
            return ()
        return product_columns("sincos", self._turns.frequencies, order=self._layered)

    @property
    def _layered(self) -> NDArray[np.intp]:
        """Places in the layers: the columns stand group by group, and there all cosines come before all sines."""
        groups = [np.arange(first // 2, first // 2 + width) for first, _, width in self.groups]
        m = self.n_components // 2
        return np.concatenate([part for group in groups for part in (group, m + group)])

    @cached_property
    def _turns(self) -> Projection:
        # In turns: the 1 / (2 pi) is folded in before float32 rounds, so the range reduction is exact.
        return self.projection.divide(2 * np.pi)

    @cached_property
    def _offset_turns(self) -> NDArray[np.float32] | None:
        return None if self.offsets is None else (self.offsets / (2 * np.pi)).astype(np.float32)

    def rows(self, X: NDArray) -> Any:
        return self._turns.rows(X)

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        offsets = self._offset_turns
        panels = self._turns.panels(first // 2, out.shape[2]) if offsets is None else None
        if panels is not None and is_whole(panels, out[0]):
            product_walks["sincos"](rows, panels, out)
        elif offsets is None:
            self._turns.fill(rows, first // 2, out[0])
            sincos_turns_inplace(out)
        else:
            self._turns.fill(rows, first, out[0])
            out[0] += offsets[first : first + out.shape[2]]
            cos_turns_inplace(out)

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        seeded = isinstance(self.projection, Seeded)
        if dtype == "float32" and (seeded or self.sampling in FAST):
            return in_tiles(self, X)
        z = self.projection.products(X, dtype)
        if self.offsets is not None:
            return np.asarray(np.cos(z + self.offsets.astype(dtype)))
        out = np.empty((len(X), self.n_components), dtype)
        for first, _, width in self.groups:
            part = z[:, first // 2 : first // 2 + width]
            np.cos(part, out=out[:, first : first + width])
            np.sin(part, out=out[:, first + width : first + 2 * width])
        return out

    def waves(self, X: NDArray, dtype: str) -> NDArray[np.complexfloating]:
        """m^{-1/2} exp(i Ωx), complex (n, m), of X in float32 or float64: the real part of φ φ^H is the kernel."""
        F = self.components(X, dtype) * np.dtype(dtype).type(self.whitening)
        out = np.empty((len(X), self.n_components // 2), np.result_type(F.dtype, np.complex64))
        for first, _, width in self.groups:
            part = out[:, first // 2 : first // 2 + width]
            part.real, part.imag = F[:, first : first + width], F[:, first + width : first + 2 * width]
        return out

    @property
    def whitening(self) -> float:
        return float(np.sqrt(2.0 / self.n_components))

    def coordinates(self) -> Coordinates:
        return Coordinates(self.n_components, self.n_components / 2.0)

    @property
    def text(self) -> str:
        return f"{self.kind} ({self.sampling})" if self.sampling else self.kind

    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"kind": self.kind, "kernel": repr(self.kernel), "form": self.form}
        if self.sampling:
            spec["sampling"] = self.sampling
        if self.sampling in FAST:
            spec["n_in"] = self.n_in
        return spec | self.projection.spec() if isinstance(self.projection, Seeded) else spec

    def arrays(self) -> dict[str, NDArray]:
        arrays = self.projection.arrays()
        return arrays if self.offsets is None else {**arrays, "offsets": self.offsets}

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "FourierMap":
        if spec["form"] not in FORMS:
            raise ModelFileError(f"Fourier features of the form {spec['form']!r} are unknown; known are {FORMS}.")
        kernel, sampling = kernels.parse(spec["kernel"]), spec.get("sampling", "")
        if "frequencies" in spec:
            numbers = [spec[name] for name in ("n_in", "frequencies", "seed")]
            if not all(type(number) is int and number >= 0 for number in numbers) or numbers[1] > MOST_DRAWN:
                raise ModelFileError(f"Frequencies of the numbers {numbers} cannot be drawn: this is no model's.")
            p, m, seed = numbers
            if sampling == SCATTERED:
                return cls(kernel, Scattered(kernel, p, m, seed), arrays.get("offsets"), spec["form"])
            return cls(kernel, Seeded(kernel, p, m, seed, sampling), arrays.get("offsets"), spec["form"])
        projection = Projection.build(sampling, spec.get("n_in", 0), arrays)
        return cls(kernel, projection, arrays.get("offsets"), spec["form"])
