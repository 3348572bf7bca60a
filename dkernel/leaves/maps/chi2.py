"""The sampled map of the additive chi-squared kernel: its Fourier series in log x, truncated."""

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.features.dense_maps import WholeMap
from dkernel.kernels import AdditiveChi2, Kernel

# Distance of the sampled frequencies for 1, 2, 3 of them (Vedaldi and Zisserman 2012); beyond, both errors are kept
# alike, that of the frequencies left out, exp(-π s L), and that of the period, exp(-π / L): L falls as s^{-1/2}.
INTERVALS = (0.8, 0.5, 0.4)


class Chi2Map(WholeMap):
    """φ_j(x) = (c_j x L sech(π j L))^{1/2} [cos, sin](j L log x), j = 0 ... s - 1, of every column, c_0 = 1, else 2.

    Nothing is random: 2xz / (x + z) = (xz)^{1/2} sech(log(x / z) / 2), and sech is its own Fourier transform, sampled
    at distance L. Columns must not be negative; where x is 0, φ is 0.

    Parameters
    ----------
    kernel : AdditiveChi2
    n_in : p
    steps : s, which makes (2 s - 1) p columns

    Examples
    --------
    >>> phi = Chi2Map(AdditiveChi2(), n_in=1, steps=5)
    >>> x, z = phi(np.array([[1.0], [3.0]]))
    >>> bool(abs(x @ z - 1.5) < 0.01)
    True
    """

    kind = "chi2"
    arguments = ("kernel", "n_in", "steps")

    def __init__(self, kernel: Kernel, n_in: int, steps: int) -> None:
        if kernel != AdditiveChi2():
            raise UnsupportedError(f"{kernel!r} has no sampled chi-squared map. Use features='nystrom'.")
        self.kernel, self.n_in, self.steps = kernel, n_in, steps
        self.interval = INTERVALS[steps - 1] if steps <= 3 else 0.7 * steps**-0.5
        self.n_components = (2 * steps - 1) * n_in

    @classmethod
    def within(cls, kernel: Kernel, n_in: int, n_components: int) -> "Chi2Map":
        """The map of most steps in at most `n_components` columns."""
        if n_components < n_in:
            raise RecipeError(
                f"n_components={n_components}: the map of {kernel!r} has at least a column for each of the {n_in} "
                f"inputs. Use n_components={n_in} or more."
            )
        return cls(kernel, n_in, (n_components // n_in + 1) // 2)

    def _components(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        if (X < 0).any():
            raise DataError(
                f"{self.kernel!r} was given the negative value {X.min():g}; it is for counts, shares and other columns "
                "of at least 0. Use scale='none' or scale='minmax'."
            )
        present = X > 0
        log = np.log(np.where(present, X, 1))
        out = np.empty((len(X), 2 * self.steps - 1, self.n_in), X.dtype)
        L = self.interval
        for j in range(self.steps):
            size = np.sqrt(np.where(present, X, 0) * X.dtype.type((2.0 if j else 1.0) * L / np.cosh(np.pi * j * L)))
            if j == 0:
                out[:, 0] = size
                continue
            angle = X.dtype.type(j * L) * log
            out[:, 2 * j - 1], out[:, 2 * j] = size * np.cos(angle), size * np.sin(angle)
        return out.reshape(len(X), -1)
