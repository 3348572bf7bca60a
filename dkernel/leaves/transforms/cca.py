"""KernelCCA: canonical correlations of two views of the same rows, each with its kernel."""

from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from sklearn.base import clone

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.collections.dask_arrays import as_chunks, compute_values, dense, is_dask, make_arrays
from dkernel.data.collections.tables import as_rows, matrix
from dkernel.data.compute import dask_compute
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import KernelLike, Seed, check_parameters
from dkernel.estimators.validation import check_table
from dkernel.leaves.transforms.base import choose_dtype
from dkernel.leaves.transforms.decomposition import KernelPCA
from dkernel.leaves.transforms.embedding import OnFeatures
from dkernel.leaves.transforms.feature_moments import FeatureMoments, Phi
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.connect import default_executor


class View(KernelPCA):
    """One of the two views: its map, and afterwards the projections of its rows."""

    def _learn(self, X: Any) -> None:
        source, self._phi, _ = self._embed(X)
        source.layout.require_numbers("KernelCCA", "Use NystromFeatures before it, which gives columns of numbers.")

    def project(self, mean: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Set the attributes that `transform` needs: (φ - mean) @ weights."""
        self.mean_, self.components_ = mean, weights.T
        self.n_components_ = weights.shape[1]


class KernelCCA(OnFeatures):
    """Kernel canonical correlation analysis: the functions of two views that vary together most.

    maximize over f, g:  cov(f(x), g(y))  with  var f(x) + alpha |f|² = 1 = var g(y) + alpha |g|²,  one pair after the
    other, f = w . (φ(x) - mean φ), each uncorrelated with those before it

    Auto- and cross-covariances of the features of both views are summed in one pass over the rows, (m_x + m_y)²
    numbers: n never has to fit in memory. With Nystrom features and all rows as landmarks it is regularized kernel CCA;
    with kernel="linear" and alpha near 0 it is `sklearn.cross_decomposition.CCA`, up to scale and sign of components.
    Without alpha a rich kernel finds perfect correlations in anything: choose it by `correlations` of other rows.

    Parameters
    ----------
    n_components : int, default=2
        Pairs of functions, at most as many as the smaller view has columns.
    kernel and gamma : the kernel and its number. Kernel of the first view, its expression, or its name.
    kernel_y : Kernel or str, default=None
        Kernel of the second view; None as of the first.
    gamma_y : float or {"auto", "median", "scale"}, default=None
        Gamma of the second view; None as of the first.
    features : kind of the map, "auto" by default.
    n_map_components : int, default=512
        Number of landmarks, or of random features, of each view.
    alpha : float, default=0.001
        Strength of the regularization, in the unit of var φ.
    random_state : the seed; None is 0.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_components_,)
        Regularized correlations cov(f, g) of the pairs, largest first.
    x_weights_, y_weights_ : ndarray of shape (n_map_components_, n_components_)
        Coefficients w of the features of each view, float64.
    x_view_, y_view_ : object
        The two views, with kernel_, map_ and mean_ of the features.
    n_components_ : int
        Pairs.
    kernel_, map_, n_map_components_ : object
        Those of the first view.

    See Also
    --------
    KernelPCA : Components of one view.

    References
    ----------
    S. Akaho, "A kernel method for canonical correlation analysis", IMPS 2001.
    F. Bach and M. Jordan, "Kernel independent component analysis", JMLR 2002.
    D. Lopez-Paz, S. Sra, A. Smola, Z. Ghahramani and B. Schölkopf, "Randomized nonlinear component analysis", ICML
    2014.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 6.3, 500)
    >>> X = np.stack([np.cos(angle), rng.normal(size=500)], axis=1)
    >>> Y = np.stack([np.sin(angle) ** 2, rng.normal(size=500)], axis=1)  # no line sees what they share
    >>> machine = KernelCCA(1, gamma=0.5, n_map_components=64, alpha=1e-2).fit(X, Y)
    >>> bool(machine.correlations(X, Y)[0] > 0.9)
    True
    >>> [Z.shape for Z in machine.transform(X, Y)]
    [(500, 1), (500, 1)]
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: KernelLike = "gaussian",
        gamma: str | float = "auto",
        kernel_y: KernelLike | None = None,
        gamma_y: str | float | None = None,
        features: str = "auto",
        n_map_components: int = 512,
        alpha: float = 1e-3,
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None) -> "KernelCCA":
        """Choose both maps, and sum the covariances in one more pass.

        X and y hold the first and the second view of the rows.

        Returns this object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the views have different numbers of rows, or values that are not finite numbers.
        """
        check_parameters(self)
        if y is None:
            raise DataError("This KernelCCA requires y to be passed, but the target y is None: it is the second view.")
        X, Y = self._views(X, y)
        view = View(
            kernel=self.kernel,
            gamma=self.gamma,
            features=self.features,
            n_map_components=self.n_map_components,
            random_state=self.random_state,
        )
        other = clone(view).set_params(
            kernel=self.kernel if self.kernel_y is None else self.kernel_y,
            gamma=self.gamma if self.gamma_y is None else self.gamma_y,
        )
        self.x_view_, self.y_view_ = view.fit(X), other.fit(Y)
        self._solve(*self._moments(X, Y))
        for name in ("kernel_", "map_", "n_map_components_"):
            setattr(self, name, getattr(view, name))
        return self

    def _views(self, X: Any, Y: Any, *, fitting: bool = True) -> tuple[Any, Any]:
        """Make tables of both, and refuse those of unequal rows."""
        if isinstance(X, Source) or isinstance(Y, Source):
            raise DataError("KernelCCA takes two tables of the same rows, and a Source is one: give Dask arrays.")
        X = check_table(self, X, fitting=fitting, least=2 if fitting else 1)
        Y = as_rows(Y.to_frame() if hasattr(Y, "to_frame") and Y.ndim == 1 else Y)
        if Y.ndim == 1:
            Y = Y.reshape(-1, 1)
        if not is_dask(X) and not is_dask(Y) and X.shape[0] != Y.shape[0]:
            raise DataError(f"The views have {X.shape[0]} and {Y.shape[0]} rows: they are to be of the same rows.")
        return X, Y

    def _moments(self, X: Any, Y: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and covariance of φ(x) and φ(y), one after the other."""
        view, other = self.x_view_, self.y_view_
        p = view.n_features_in_
        dtype = "float64" if "float64" in (choose_dtype(X), choose_dtype(Y)) else "float32"
        both = from_arrays(_beside(X, Y, dtype), dtype=dtype)
        phi = Phi(both_rows, (view._phi, other._phi, p))
        key = f"{view._key(both)}-{other._key(both)}"
        with default_executor() as executor:
            sums = read_once(both, FeatureMoments(phi), executor, key, large=True)
        mean = sums.total / sums.n
        return mean, sums.gram / sums.n - np.outer(mean, mean)

    def _solve(self, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        m, k = self.x_view_.n_map_components_, int(self.n_components)
        with one_blas_thread():
            roots = []
            for part in (covariance[:m, :m], covariance[m:, m:]):
                roots.append(sl.cholesky(part + self.alpha * np.eye(len(part)), lower=True, check_finite=False))
            middle = sl.solve_triangular(roots[0], covariance[:m, m:], lower=True, check_finite=False)
            middle = sl.solve_triangular(roots[1], middle.T, lower=True, check_finite=False).T
            U, values, Vt = np.linalg.svd(middle, full_matrices=False)
            k = min(k, len(values))
            A, B = U[:, :k], Vt[:k].T
            # A pair has no sign of its own: the entry of the largest size in the first view is positive.
            signs = np.where(A[np.abs(A).argmax(axis=0), np.arange(k)] < 0, -1.0, 1.0)
            weights = [
                np.ascontiguousarray(sl.solve_triangular(root, half * signs, lower=True, trans=1, check_finite=False))
                for root, half in zip(roots, (A, B), strict=True)
            ]
        self.x_weights_, self.y_weights_ = weights
        self.correlations_, self.n_components_ = np.minimum(values[:k], 1.0), k
        self.x_view_.project(mean[:m], weights[0])
        self.y_view_.project(mean[m:], weights[1])

    def transform(self, X: Any, y: Any = None) -> Any:
        """Compute the functions f of the first view, and with y also g of the second.

        X and y hold the first and the second view of the rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_components_)
            Values f; with y the pair of f and g. Lazy for Dask collections.

        Raises the errors of an answer: NotFittedError, DataError.
        """
        require_fitted(self, "x_weights_")
        if y is None:
            return self.x_view_.transform(check_table(self, X))
        X, Y = self._views(X, y, fitting=False)
        return self.x_view_.transform(X), self.y_view_.transform(Y)

    def correlations(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Compute the correlation of f(x) and g(y) over these rows.

        Parameters
        ----------
        X : array, dataframe or Dask collection of shape (n_samples, p)
            First view.
        y : array, dataframe or Dask collection of shape (n_samples, q) or (n_samples,)
            Second view.

        Returns
        -------
        ndarray of shape (n_components_,)
            Correlations; those of new rows show what the pairs are worth.

        Raises the errors of an answer: NotFittedError, DataError.
        """
        F, G = (np.asarray(Z, np.float64) for Z in compute_values(self.transform(X, y), dask_compute))
        F, G = F - F.mean(axis=0), G - G.mean(axis=0)
        size = np.sqrt((F**2).sum(axis=0) * (G**2).sum(axis=0))
        return np.asarray((F * G).sum(axis=0) / np.maximum(size, 1e-300))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def both_rows(carried: tuple[Phi, Phi, int], XY: NDArray[Any]) -> NDArray[np.float64]:
    """φ(x) and φ(y) side by side of a block with the columns of both views."""
    phi, other, p = carried
    X, Y = np.ascontiguousarray(XY[:, :p]), np.ascontiguousarray(XY[:, p:])
    return np.concatenate([phi.function(phi.carried, X), other.function(other.carried, Y)], axis=1)


def _beside(X: Any, Y: Any, dtype: str) -> Any:
    """The columns of both views in one table, in the chunks of X."""
    if not (is_dask(X) or is_dask(Y)):
        return np.concatenate([_plain(X, dtype), _plain(Y, dtype)], axis=1)
    import dask.array as da

    parts = make_arrays(
        *(as_chunks(Z, matrix, dtype) if is_dask(Z) else da.from_array(_plain(Z, dtype)) for Z in (X, Y))
    )
    for i, part in enumerate(parts):
        if any(np.isnan(size) for size in part.chunks[0]):
            parts[i] = part.compute_chunk_sizes()
    if len({len(part) for part in parts}) > 1:
        raise DataError(f"The views have {len(parts[0])} and {len(parts[1])} rows: they are to be of the same rows.")
    return da.concatenate([parts[0], parts[1].rechunk({0: parts[0].chunks[0]})], axis=1).rechunk({1: -1})


def _plain(X: Any, dtype: str) -> NDArray[Any]:
    return dense(matrix(X, dtype)).astype(dtype, copy=False)
