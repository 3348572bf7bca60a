"""KernelPCA: principal components of φ of the rows, for data of any size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.estimators.parameters import KernelLike, Seed
from dkernel.leaves.transforms.embedding import OnFeatures, join_rows
from dkernel.leaves.transforms.feature_moments import FeatureMoments, Phi
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.connect import default_executor


class KernelPCA(OnFeatures):
    """Kernel principal component analysis: z(x) = (φ(x) - mean φ)^T V, V the eigenvectors of cov φ.

    The covariance of the features is summed in one pass over the data: the rows never have to fit in memory. With
    Nystrom features and all rows as landmarks it is `sklearn.decomposition.KernelPCA`, up to the signs of components.

    Parameters
    ----------
    n_components : int, default=None
        Components to keep; None for all whose eigenvalue is not rounding.
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name.
    features and n_map_components : kind of the map, and its components, 1,024 by default.
    random_state : the seed; None is 0.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components_,)
        Eigenvalues of the centred Gram matrix of all rows, largest first.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Their share of the variance of φ.
    components_ : ndarray of shape (n_components_, n_map_components_)
        V^T, float64.
    mean_ : ndarray of shape (n_map_components_,)
        Mean of φ.
    kernel_, map_ and n_map_components_ : the kernel with numbers, the map and its components.
    n_components_ : int
        Components of the output.

    See Also
    --------
    KernelCCA : Components that two views share.
    KernelFeatures : The features themselves.

    References
    ----------
    B. Schölkopf, A. Smola and K.-R. Müller, "Nonlinear component analysis as a kernel eigenvalue problem", Neural
    Computation 1998.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> KernelPCA(n_components=2, gamma=0.5).fit_transform(X).shape
    (60, 2)
    """

    map_size, fitted = "n_map_components", "components_"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: KernelLike = "gaussian",
        gamma: str | float = "auto",
        features: str = "auto",
        n_map_components: int = 1024,
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def _learn(self, X: Any) -> None:
        """Choose the map, and sum the covariance in one more pass over X."""
        n_components = self.n_components
        source, self._phi, _ = self._embed(X)
        with default_executor() as executor:
            sums = read_once(source, FeatureMoments(self._phi), executor, self._key(source), large=True)
        self.mean_ = sums.total / sums.n
        with one_blas_thread():
            covariance = sums.gram - sums.n * np.outer(self.mean_, self.mean_)
            values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        # A component below 1e-10 of the largest eigenvalue is rounding.
        keep = max(1, int(np.count_nonzero(values > 1e-10 * values[0])))
        keep = keep if n_components is None else min(int(n_components), len(values))
        V = vectors[:, :keep].T
        # An eigenvector has no sign of its own: the entry of the largest size is positive.
        V *= np.where(V[np.arange(keep), np.abs(V).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        self.components_, self.eigenvalues_ = np.ascontiguousarray(V), values[:keep]
        self.explained_variance_ratio_ = values[:keep] / max(values.sum(), 1e-300)
        self.n_components_ = keep

    def _transform_rows(self, X: Any) -> Any:
        carried = (self._phi, self.mean_, np.ascontiguousarray(self.components_.T))
        return self._transform(X, component_rows, carried, *self.map_.arrays().values(), *carried[1:])


def component_rows(carried: tuple[Phi, NDArray[Any], NDArray[Any]], X: NDArray[Any]) -> NDArray[np.floating]:
    """The principal components of a block."""
    phi, mean, V = carried
    return join_rows(((F - mean) @ V for F in phi.strips(X)), X, V.shape[1])
