"""SpectralClustering on features: the graph of all pairs, which is never made, and clusters that new rows can join."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data import Source
from dkernel.estimators.parameters import KernelLike, Seed
from dkernel.estimators.transforms.decomposition import Clustering
from dkernel.execution.connect import default_executor
from dkernel.inference.feature_moments import FeatureMoments, Phi, over
from dkernel.numerics.threads import one_blas_thread

__all__ = ["SpectralClustering"]

TINY = 1e-12  # of the largest possible degree: a row that nothing is like


class SpectralClustering(Clustering):
    """k-means on the leading eigenvectors of the normalized affinity D^{-1/2} K D^{-1/2}, K the kernel of all pairs.

    With φ(x) . φ(z) ≈ k(x, z) the degree of a row is d(x) = φ(x) . Σ φ, and the eigenvectors are those of the small
    matrix Σ φ φ^T / d: two passes over the data, nothing of size n² or n m. A row is embedded as
    y(x) = Λ^{-1/2} V^T φ(x) / d(x)^{1/2}, scaled to length 1, which is also defined for new rows.

    Parameters
    ----------
    n_clusters : k, also the number of eigenvectors
    kernel, gamma, features, n_columns, n_init, max_iter, tol, random_state : as of KernelKMeans; the kernel should not
        be negative

    Attributes
    ----------
    eigenvalues_ : of the normalized affinity, largest first, float64 (k,); the first is 1, and others near 1 say that
        there are so many clusters
    labels_, cluster_centers_, inertia_, n_iter_, kernel_, map_, n_columns_ : as of KernelKMeans, in the space of y

    Source: Ng, Jordan and Weiss 2002; with landmarks Fowlkes, Belongie, Chung and Malik 2004.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> angle, r = rng.uniform(0, 6.3, 300), np.repeat([1.0, 3.0], 150)
    >>> X = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    >>> machine = SpectralClustering(2, gamma=3.0).fit(X)
    >>> len(set(machine.labels_[:150])), len(set(machine.labels_[150:]))
    (1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: KernelLike = "gaussian",
        gamma: str | float = "auto",
        features: str = "auto",
        n_columns: int = 1024,
        n_init: int = 10,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.features = features
        self.n_columns = n_columns
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "SpectralClustering":  # noqa: ARG002
        """Find the clusters of X (n, p): numpy, pandas, Dask, or a Source."""
        source, phi, seed = self._embed(X)
        k, key = self._clusters_asked(source), self._key(source)
        with default_executor() as executor:
            total = over(source, FeatureMoments(phi), executor, f"{key}-degrees").total
            normed = Phi(normed_rows, (phi, total))
            gram = over(source, FeatureMoments(normed), executor, f"{key}-affinity").gram
        with one_blas_thread():
            values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
        self.eigenvalues_ = np.maximum(values, 0.0)
        basis = vectors / np.sqrt(np.maximum(values, 1e-10 * values[0]))
        self._phi = Phi(spectral_rows, (normed, np.ascontiguousarray(basis)))
        self._cluster(source, self._phi, seed)
        self.labels_ = None if isinstance(X, Source) else self.predict(X)
        return self


def normed_rows(carried: tuple[Phi, NDArray[np.float64]], X: NDArray[Any]) -> NDArray[np.float64]:
    """φ(x) / d(x)^{1/2} of a block."""
    phi, total = carried
    parts = [F / np.sqrt(np.maximum(F @ total, TINY * (total @ total) ** 0.5))[:, None] for F in phi.strips(X)]
    return np.concatenate(parts) if parts else np.empty((0, len(total)))


def spectral_rows(carried: tuple[Phi, NDArray[np.float64]], X: NDArray[Any]) -> NDArray[np.float64]:
    """y(x) of a block, each of length 1."""
    normed, basis = carried
    Y = normed.function(normed.carried, X) @ basis
    return np.asarray(Y / np.maximum(np.linalg.norm(Y, axis=1), 1e-300)[:, None], np.float64)
