"""KernelPCA and KernelKMeans: the linear methods on φ of the rows, for data of any size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from dkernel.data import Source
from dkernel.errors import DataError, RecipeError
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import KernelLike, Seed
from dkernel.estimators.prediction import BlockPrediction, apply, content_key
from dkernel.estimators.transforms.kernel_maps import TransformerBase, dtype_of, nystrom_rows, random_rows
from dkernel.estimators.transforms.sketches import KernelFeatures
from dkernel.estimators.validation import checked_rows, seed_of, source_of
from dkernel.execution.base import Executor
from dkernel.execution.connect import default_executor
from dkernel.execution.versions import versions
from dkernel.features import FeatureMap, Scaling
from dkernel.features.nystrom import NystromMap, wide
from dkernel.inference.feature_moments import Clusters, FeatureMoments, Phi, nearest, over
from dkernel.model import Model
from dkernel.numerics.threads import one_blas_thread
from dkernel.problem.finite_check import check_products
from dkernel.recipe import Recipe
from dkernel.selection.landmark_selection import sample_rows

__all__ = ["SAMPLE", "Clustering", "Embedding", "KernelKMeans", "KernelPCA", "OnFeatures", "linear_model"]

FLOOR = 1e-10  # of the largest eigenvalue: below it a component is rounding
SAMPLE = 20_000  # rows on which clusters begin


class Embedding(BaseEstimator):
    """An estimator on φ of the rows; subclasses say what it learns from one or more readings."""

    kernel: Any
    gamma: Any
    features: Any
    n_columns: Any
    random_state: Any
    n_features_in_: int
    map_: FeatureMap
    _shift: NDArray[np.float64]

    def _embed(self, X: Any) -> tuple[Source, Phi, int]:
        """The map, fitted and copied to this estimator; the rows to learn from; and the seed."""
        seed = seed_of(self.random_state)
        made = KernelFeatures(
            self.kernel, gamma=self.gamma, features=self.features, n_components=self.n_columns, random_state=seed
        ).fit(X)
        source = source_of(self, X, dtype=dtype_of(X), sparse=made.map_.sparse)
        self.kernel_, self.map_, self.n_columns_ = made.kernel_, made.map_, made.n_components_
        self._shift = np.zeros(1 if self.map_.sparse else source.n_in)
        inner = made.nystrom_
        self.whitening_ = None if inner is None else inner.whitening_
        if inner is None:
            return source, Phi(random_rows, made.map_), seed
        return source, Phi(nystrom_rows, (inner.kernel_, wide(inner.landmarks_), inner.whitening_)), seed

    def _sample(self, source: Source, seed: int, executor: Executor) -> NDArray[Any]:
        """Up to SAMPLE rows, drawn by hash."""
        recipe = Recipe(kernel=repr(self.kernel_), features="nystrom", n_components=1, seed=seed)
        return sample_rows(source, recipe, min(source.n_rows, SAMPLE), executor)[1]

    def _centered(self, phi: Phi, rows: NDArray[Any], source: Source) -> Phi:
        """φ of the rows less the offsets of columns that are far from 0, where the kernel sees no shift.

        The map of a model holds float32, in which such offsets leave nothing of the rows. Products of such columns are
        refused.
        """
        check_products(self.kernel_, rows, source.columns)
        if rows.dtype != np.float64 or not self.kernel_.shift_invariant:
            return phi
        moments = rows.mean(axis=0), rows.var(axis=0), rows.min(axis=0), rows.max(axis=0)
        shift = Scaling.of("none", *moments, free=True, rounding=1e-14).shift
        if not shift.any():
            return phi
        self._shift = shift
        if self.whitening_ is not None:
            assert isinstance(self.map_, NystromMap)
            self.map_ = NystromMap(self.kernel_, self.map_.landmarks - shift)
            phi = Phi(nystrom_rows, (self.kernel_, wide(self.map_.landmarks), self.whitening_))
        return Phi(shifted_rows, (shift, phi))

    def _key(self, source: Source) -> str:
        key = content_key(f"{source.token}{self.map_.spec()!r}", self._shift, *self.map_.arrays().values())
        return f"dkernel-{type(self).__name__}-{key[:16]}"


class OnFeatures(Embedding, TransformerBase):
    """One whose answers are numbers of every row."""

    map_: Any


class KernelPCA(OnFeatures):
    """Kernel principal component analysis: z(x) = (φ(x) - mean φ)^T V, V the eigenvectors of cov φ.

    The covariance of the features is summed in one pass over the data: the rows never have to fit in memory. With
    Nystrom features and all rows as landmarks it is `sklearn.decomposition.KernelPCA`, up to the signs of components.

    Parameters
    ----------
    n_components : int, default=None
        Components to keep; None for all whose eigenvalue is not rounding.
    kernel : Kernel or str, default="gaussian"
        Kernel, its expression, or its name.
    gamma : float or {"auto", "median", "scale"}, default="auto"
        Number for a kernel given by name, or with gamma="auto" in it. Without a label to judge by, "auto" is the median
        rule.
    features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
        Kind of the map.
    n_columns : int, default=1024
        Number of landmarks, or of random features.
    random_state : int, numpy Generator or RandomState, default=None
        Seed; None is 0.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components_,)
        Eigenvalues of the centred Gram matrix of all rows, largest first.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Their share of the variance of φ.
    components_ : ndarray of shape (n_components_, n_columns_)
        V^T, float64.
    mean_ : ndarray of shape (n_columns_,)
        Mean of φ.
    kernel_ : Kernel
        Kernel with numbers.
    map_ : FeatureMap
        The map.
    n_columns_ : int
        Columns of the map.
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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: KernelLike = "gaussian",
        gamma: str | float = "auto",
        features: str = "auto",
        n_columns: int = 1024,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.features = features
        self.n_columns = n_columns
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "KernelPCA":  # noqa: ARG002
        """Choose the map, and sum the covariance in one more pass over X.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : object, default=None
            Ignored.

        Returns
        -------
        KernelPCA
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        wanted = self.n_components
        if wanted is not None and (not isinstance(wanted, int | np.integer) or wanted < 1):
            raise RecipeError(f"n_components={wanted!r}: a positive whole number, or None, is needed.")
        source, self._phi, _ = self._embed(X)
        with default_executor() as executor:
            sums = over(source, FeatureMoments(self._phi), executor, self._key(source))
        self.mean_ = sums.total / sums.n
        with one_blas_thread():
            covariance = sums.gram - sums.n * np.outer(self.mean_, self.mean_)
            values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        keep = max(1, int(np.count_nonzero(values > FLOOR * values[0])))
        keep = keep if wanted is None else min(int(wanted), len(values))
        V = vectors[:, :keep].T
        # An eigenvector has no sign of its own: the entry of the largest size is positive.
        V *= np.where(V[np.arange(keep), np.abs(V).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        self.components_, self.eigenvalues_ = np.ascontiguousarray(V), values[:keep]
        self.explained_variance_ratio_ = values[:keep] / max(values.sum(), 1e-300)
        self.n_components_ = keep
        return self

    def transform(self, X: Any) -> Any:
        """Compute the components of the rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_components_)
            Components, in the dtype of X. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "components_")
        carried = (self._phi, self.mean_, np.ascontiguousarray(self.components_.T))
        return self._transform(X, component_rows, carried, *self.map_.arrays().values(), *carried[1:])


class Clustering(ClusterMixin, OnFeatures):
    """Clusters of an embedding of the rows: k-means on a sample of them, then Lloyd's steps over all."""

    _phi: Phi

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

    def _clusters_asked(self, source: Source) -> int:
        k = self.n_clusters
        if not isinstance(k, int | np.integer) or not 1 <= k <= source.n_rows:
            raise DataError(f"n_clusters={k!r} of {source.n_rows} row(s): a whole number from 1 to the rows is needed.")
        return int(k)

    def _cluster(self, source: Source, phi: Phi, rows: NDArray[Any], seed: int) -> None:
        """Leave the centres in the space of phi; `rows` are the sample on which they begin."""
        from sklearn.cluster import KMeans  # half a second, which every estimator would pay

        k = self._clusters_asked(source)
        clusters, key = Clusters(phi), f"{self._key(source)}-{seed}-{k}"
        with default_executor() as executor:
            with one_blas_thread():
                F = np.concatenate(list(phi.strips(rows)))
                start = KMeans(k, n_init=self.n_init, random_state=seed).fit(F)
                least = self.tol * float(F.var(axis=0).sum())
            centers = start.cluster_centers_
            for step in range(self.max_iter):
                sums = over(source, clusters, executor, f"{key}-{step}", centers)
                # A cluster that has lost its rows stays where it was.
                moved = np.where(sums.count[:, None] > 0, sums.total / np.maximum(sums.count, 1.0)[:, None], centers)
                shift, centers = float(((moved - centers) ** 2).sum()), moved
                if shift <= least:
                    break
        self.cluster_centers_, self.inertia_, self.n_iter_ = centers, sums.inertia, step + 1
        self.n_components_ = k

    def fit_predict(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002
        """Find the clusters of X, and give those of its rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : object, default=None
            Ignored.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples,)
            Clusters, int64.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        return self.fit(X).labels_

    def predict(self, X: Any) -> Any:
        """Find the nearest centre of each row.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples,)
            Clusters, int64. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "cluster_centers_")
        names = self._names()
        X = checked_rows(self, X, objects=bool(self.map_.objects))
        objects = tuple(names[j] for j in self.map_.objects)
        centers = self.cluster_centers_
        key = content_key(repr(self.map_.spec()), *self.map_.arrays().values(), centers)
        carried = (self._phi, centers)
        answer = BlockPrediction(
            cluster_rows, carried, lambda: f"clusters-{key}", names, dtype_of(X), np.int64, None, objects
        )
        return apply(answer, X)

    def transform(self, X: Any) -> Any:
        """Compute the distance |φ(x) - c| of each row to each centre.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_clusters)
            Distances, in the dtype of X. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "cluster_centers_")
        carried = (self._phi, self.cluster_centers_)
        return self._transform(X, distance_rows, carried, *self.map_.arrays().values(), self.cluster_centers_)


class KernelKMeans(Clustering):
    """Kernel k-means: minimize Σ |φ(x) - c(x)|² over k centres, by Lloyd's steps.

    It begins with scikit-learn's KMeans on φ of up to 20,000 rows drawn by hash; then each step is one pass over the
    data, until no centre moves or `max_iter`. With Nystrom features and all rows as landmarks it is exact kernel
    k-means.

    Parameters
    ----------
    n_clusters : int, default=8
        Number k of clusters.
    kernel : Kernel or str, default="gaussian"
        Kernel, its expression, or its name.
    gamma : float or {"auto", "median", "scale"}, default="auto"
        Number for a kernel given by name, or with gamma="auto" in it. Without a label to judge by, "auto" is the median
        rule.
    features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
        Kind of the map.
    n_columns : int, default=1024
        Number of landmarks, or of random features.
    n_init : int, default=10
        Starts on the sample, of which the best is taken.
    max_iter : int, default=100
        Most passes over the data.
    tol : float, default=0.0001
        A step in which the centres move by less than this share of the variance of φ is the last.
    random_state : int, numpy Generator or RandomState, default=None
        Seed; None is 0.

    Attributes
    ----------
    labels_ : ndarray, dask.array.Array or None
        Cluster of each row of `fit`; None of a Source.
    cluster_centers_ : ndarray of shape (n_clusters, n_columns_)
        Centres in the space of φ, float64.
    inertia_ : float
        Σ |φ(x) - c(x)|² before the last step.
    n_iter_ : int
        Passes.
    model_ : Model
        For `dkernel.save` and `dkernel score`, of two clusters and more: its labels are the clusters.
    kernel_ : Kernel
        Kernel with numbers.
    map_ : FeatureMap
        The map.
    n_columns_ : int
        Columns of the map.

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

    def fit(self, X: Any, y: Any = None) -> "KernelKMeans":  # noqa: ARG002
        """Find the clusters of X.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : object, default=None
            Ignored.

        Returns
        -------
        KernelKMeans
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        source, phi, seed = self._embed(X)
        self._clusters_asked(source)
        with default_executor() as executor:
            rows = self._sample(source, seed, executor)
        self._phi = self._centered(phi, rows, source)
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
        return self


def linear_model(
    machine: Embedding, source: Source, weights: NDArray[np.float64], offsets: NDArray[np.float64],
    classes: NDArray[np.int64], facts: dict[str, Any], alpha: float = 0.0,
) -> Model:  # fmt: skip
    """Make the Model of a machine whose answers are signs or maxima of φ(x) . weights + offsets."""
    T = machine.map_.whitening if machine.whitening_ is None else machine.whitening_
    coef = weights * T if isinstance(T, float) else T @ weights
    features = "nystrom" if machine.whitening_ is not None else "random"
    recipe = Recipe(
        task="classify", kernel=repr(machine.kernel_), features=features, n_components=machine.map_.n_columns,
        loss="hinge", alpha=alpha, scale="none", metric="identity", holdout=0.0, seed=seed_of(machine.random_state),
        dtype="float64" if source.dtype == "object" else source.dtype,
    )  # fmt: skip
    p = machine.n_features_in_
    scaling = Scaling("none", machine._shift, np.ones(p))
    if machine.map_.sparse:
        scaling = Scaling.of_sparse("none", np.zeros(p))
    facts = {"rows": source.n_rows, "columns": machine.map_.n_columns, **facts, "versions": versions()}
    return Model(
        recipe=recipe, scaling=scaling, map=machine.map_,
        coef=np.ascontiguousarray(coef, dtype=np.float64), intercept=offsets, classes=classes, columns=source.columns,
        label="label", facts=facts,
    )  # fmt: skip


def shifted_rows(carried: tuple[NDArray[np.float64], Phi], X: NDArray[Any]) -> NDArray[np.floating]:
    """φ of a block less the offsets of its columns."""
    shift, phi = carried
    return phi.function(phi.carried, X - shift)


def component_rows(carried: tuple[Phi, NDArray[Any], NDArray[Any]], X: NDArray[Any]) -> NDArray[np.floating]:
    """The principal components of a block."""
    phi, mean, V = carried
    return _joined(((F - mean) @ V for F in phi.strips(X)), X, V.shape[1])


def cluster_rows(carried: tuple[Phi, NDArray[Any]], X: NDArray[Any]) -> NDArray[np.int64]:
    """The cluster of each row of a block."""
    phi, centers = carried
    parts = [nearest(F, centers)[0] for F in phi.strips(X)]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def distance_rows(carried: tuple[Phi, NDArray[Any]], X: NDArray[Any]) -> NDArray[np.floating]:
    """The distance of each row of a block to each centre."""
    phi, centers = carried
    norms = np.einsum("ij,ij->i", centers, centers)

    def distances(F: NDArray[np.float64]) -> NDArray[np.float64]:
        squares = np.einsum("ij,ij->i", F, F)[:, None] + norms - 2.0 * (F @ centers.T)
        return np.sqrt(np.maximum(squares, 0.0))

    return _joined(map(distances, phi.strips(X)), X, len(centers))


def _joined(parts: Any, X: NDArray[Any], width: int) -> NDArray[np.floating]:
    out = np.empty((len(X), width), np.float64 if X.dtype.kind == "O" else X.dtype)
    at = 0
    for part in parts:
        out[at : at + len(part)] = part
        at += len(part)
    return out
