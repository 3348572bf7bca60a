"""KernelKMeans, and the base class of clusterings of φ of the rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin

from dkernel.data.collections.dask_arrays import is_dask
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import KernelLike, Seed
from dkernel.estimators.validation import check_table
from dkernel.leaves.transforms.embedding import OnFeatures, join_rows, linear_model
from dkernel.leaves.transforms.feature_moments import Clusters, Phi, nearest
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.connect import default_executor


class Clustering(ClusterMixin, OnFeatures):
    """Clusters of an embedding of the rows: k-means on a sample of them, then Lloyd's steps over all."""

    map_size, fitted = "n_map_components", "cluster_centers_"
    _phi: Phi

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: KernelLike = "gaussian",
        gamma: str | float = "auto",
        features: str = "auto",
        n_map_components: int = 1024,
        n_init: int = 10,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def _n_clusters(self, source: Source) -> int:
        if self.n_clusters > source.n_rows:
            raise DataError(f"n_clusters={self.n_clusters} of {source.n_rows} row(s): at most as many are needed.")
        return int(self.n_clusters)

    def _cluster(self, source: Source, phi: Phi, rows: NDArray[Any], seed: int) -> None:
        """Leave the centres in the space of phi; `rows` are the sample on which they begin."""
        from sklearn.cluster import KMeans  # half a second, which every estimator would pay

        k = self._n_clusters(source)
        clusters, key = Clusters(phi), f"{self._key(source)}-{seed}-{k}"
        with default_executor() as executor:
            with one_blas_thread():
                F = np.concatenate(list(phi.strips(rows)))
                start = KMeans(k, n_init=self.n_init, random_state=seed).fit(F)
                least = self.tol * float(F.var(axis=0).sum())
            centers = start.cluster_centers_
            for step in range(self.max_iter):
                sums = read_once(source, clusters, executor, f"{key}-{step}", large=True, broadcast=centers)
                # A cluster that has lost its rows stays where it was.
                moved = np.where(sums.count[:, None] > 0, sums.total / np.maximum(sums.count, 1.0)[:, None], centers)
                shift, centers = float(((moved - centers) ** 2).sum()), moved
                if shift <= least:
                    break
        self.cluster_centers_, self.inertia_, self.n_iter_ = centers, sums.inertia, step + 1

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def predict(self, X: Any) -> Any:
        """Find the nearest centre of each row.

        Gives (n_samples,) for rows X: Clusters, int64.
        """
        return self._nearest(X, cluster_rows, np.int64)

    def _nearest(self, X: Any, function: Any, dtype: Any) -> Any:
        require_fitted(self, "cluster_centers_")
        X = check_table(self, X, objects=bool(self.map_.objects))
        carried, arrays = (self._phi, self.cluster_centers_), (*self.map_.arrays().values(), self.cluster_centers_)
        return self._answer(X, function, carried, arrays, lambda: ["label"], dtype)

    def _transform_rows(self, X: Any) -> Any:
        """The distance |φ(x) - c| of each row to each centre."""
        carried = (self._phi, self.cluster_centers_)
        return self._transform(X, distance_rows, carried, *self.map_.arrays().values(), self.cluster_centers_)


class KernelKMeans(Clustering):
    """Kernel k-means: minimize Σ |φ(x) - c(x)|² over k centres, by Lloyd's steps.

    It begins with scikit-learn's KMeans on φ of up to 20,000 rows drawn by hash; then each step is one pass over the
    data, until no centre moves or `max_iter`. With Nystrom features and all rows as landmarks it is exact kernel
    k-means. `transform` gives the distance |φ(x) - c| of each row to each centre.

    Parameters
    ----------
    n_clusters : int, default=8
        Number k of clusters.
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name.
    features and n_map_components : kind of the map, and its components, 1,024 by default.
    n_init, max_iter and tol : starts of k-means, its most passes, and the step that ends it.
    random_state : the seed; None is 0.

    Attributes
    ----------
    labels_, cluster_centers_ (n_clusters, n_map_components_) in the space of φ, inertia_, n_iter_ and the map.
    model_ : Model
        For `dkernel.save` and `dkernel score`, of two clusters and more: its labels are the clusters.

    See Also
    --------
    SpectralClustering : Clusters of a graph of similar rows.

    References
    ----------
    I. Dhillon, Y. Guan and B. Kulis, "Kernel k-means, spectral clustering and normalized cuts", KDD 2004.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> angle, r = rng.uniform(0, 6.3, 300), np.repeat([1.0, 5.0], 150)
    >>> X = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    >>> machine = KernelKMeans(2, gamma=0.05).fit(X)
    >>> len(set(machine.labels_[:150])), len(set(machine.labels_[150:]))
    (1, 1)
    """

    def _learn(self, X: Any) -> None:
        source, phi, seed = self._embed(X)
        self._n_clusters(source)
        with default_executor() as executor:
            rows = self._sample(source, seed, executor)
        self._phi = self._center(phi, rows, source)
        self._cluster(source, self._phi, rows, seed)
        self.labels_ = None if isinstance(X, Source) else self.predict(X)
        if len(C := self.cluster_centers_) > 1:
            # The nearest centre is the one with the largest φ . c - |c|²/2; of two, the difference says it.
            weights, offsets = C.T, -0.5 * np.einsum("ij,ij->i", C, C)
            if len(C) == 2:
                weights, offsets = weights[:, 1:] - weights[:, :1], offsets[1:] - offsets[:1]
            self.model_ = linear_model(
                self, source, weights, offsets, np.arange(len(C)), {"inertia": float(self.inertia_)}
            )

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Compute -Σ |φ(x) - c(x)|² over rows, by which searches compare numbers of clusters of one kernel.

        X holds the rows: an array, dataframe, sparse matrix or Dask collection.
        y : object, default=None
            Ignored.

        Returns
        -------
        float
            Minus the sum of the squared distances to the nearest centres; `fit` makes it large on its own rows.

        Raises the errors of an answer: NotFittedError, DataError.
        """
        squares = self._nearest(X, square_rows, np.float64)
        return -float(squares.sum().compute() if is_dask(squares) else squares.sum())


def cluster_rows(carried: tuple[Phi, NDArray[Any]], X: NDArray[Any]) -> NDArray[np.int64]:
    """The cluster of each row of a block."""
    phi, centers = carried
    parts = [nearest(F, centers)[0] for F in phi.strips(X)]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def square_rows(carried: tuple[Phi, NDArray[Any]], X: NDArray[Any]) -> NDArray[np.float64]:
    """The squared distance of each row of a block to its nearest centre."""
    phi, centers = carried
    return np.concatenate([np.empty(0), *(nearest(F, centers)[1] for F in phi.strips(X))])


def distance_rows(carried: tuple[Phi, NDArray[Any]], X: NDArray[Any]) -> NDArray[np.floating]:
    """The distance of each row of a block to each centre."""
    phi, centers = carried
    norms = np.einsum("ij,ij->i", centers, centers)

    def distances(F: NDArray[np.float64]) -> NDArray[np.float64]:
        squares = np.einsum("ij,ij->i", F, F)[:, None] + norms - 2.0 * (F @ centers.T)
        return np.sqrt(np.maximum(squares, 0.0))

    return join_rows(map(distances, phi.strips(X)), X, len(centers))
