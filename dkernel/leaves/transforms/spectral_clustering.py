"""SpectralClustering on features, without the graph of all pairs; new rows can be assigned to clusters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.leaves.transforms.clustering import Clustering
from dkernel.leaves.transforms.feature_moments import FeatureMoments, Phi
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.connect import default_executor


class SpectralClustering(Clustering):
    """Spectral clustering: k-means on the eigenvectors of D^{-1/2} K D^{-1/2}, K the kernel of all pairs.

    With φ(x) . φ(z) ≈ k(x, z) the degree of a row is d(x) = φ(x) . Σ φ, and the eigenvectors are those of the small
    matrix Σ φ φ^T / d: two passes over the data, nothing of size n² or n m. A row is embedded as y(x) = Λ^{-1/2} V^T
    φ(x) / d(x)^{1/2}, scaled to length 1, which is also defined for new rows. `transform` gives the distance of y(x)
    to each centre.

    Parameters
    ----------
    n_clusters : int, default=8
        Number k of clusters, also of eigenvectors.
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name; it should not be negative.
    features and n_map_components : kind of the map, and its components, 1,024 by default.
    n_init, max_iter and tol : starts of k-means, its most passes, and the step that ends it.
    random_state : the seed; None is 0.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_clusters,)
        Eigenvalues of the normalized affinity, largest first; the first is 1, and others near 1 show that there are so
        many clusters.
    labels_, cluster_centers_ (n_clusters, n_clusters) in the space of y, inertia_, n_iter_ and the map.

    See Also
    --------
    KernelKMeans : Clusters in the space of the kernel itself.

    References
    ----------
    A. Ng, M. Jordan and Y. Weiss, "On spectral clustering", NeurIPS 2002.
    C. Fowlkes, S. Belongie, F. Chung and J. Malik, "Spectral grouping using the Nyström method", TPAMI 2004.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> angle, r = rng.uniform(0, 6.3, 300), np.repeat([1.0, 3.0], 150)
    >>> X = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    >>> machine = SpectralClustering(2, gamma=3.0).fit(X)
    >>> len(set(machine.labels_[:150])), len(set(machine.labels_[150:]))
    (1, 1)
    """

    def _learn(self, X: Any) -> None:
        source, phi, seed = self._embed(X)
        k, key = self._n_clusters(source), self._key(source)
        with default_executor() as executor:
            rows = self._sample(source, seed, executor)
            total = read_once(source, FeatureMoments(phi), executor, f"{key}-degrees", large=True).total
            normed = Phi(normalize_rows, (phi, total))
            gram = read_once(source, FeatureMoments(normed), executor, f"{key}-affinity", large=True).gram
        with one_blas_thread():
            values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
        self.eigenvalues_ = np.maximum(values, 0.0)
        basis = vectors / np.sqrt(np.maximum(values, 1e-10 * values[0]))
        self._phi = Phi(spectral_rows, (normed, np.ascontiguousarray(basis)))
        self._cluster(source, self._phi, rows, seed)
        self.labels_ = None if isinstance(X, Source) else self.predict(X)


def normalize_rows(carried: tuple[Phi, NDArray[np.float64]], X: NDArray[Any]) -> NDArray[np.float64]:
    """φ(x) / d(x)^{1/2} of a block."""
    phi, total = carried
    # A row that no other row is like has a degree of at least 1e-12 of the largest possible one.
    parts = [F / np.sqrt(np.maximum(F @ total, 1e-12 * (total @ total) ** 0.5))[:, None] for F in phi.strips(X)]
    return np.concatenate(parts) if parts else np.empty((0, len(total)))


def spectral_rows(carried: tuple[Phi, NDArray[np.float64]], X: NDArray[Any]) -> NDArray[np.float64]:
    """y(x) of a block, each of length 1."""
    normed, basis = carried
    Y = normed.function(normed.carried, X) @ basis
    return np.asarray(Y / np.maximum(np.linalg.norm(Y, axis=1), 1e-300)[:, None], np.float64)
