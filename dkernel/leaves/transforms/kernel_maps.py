"""FourierFeatures and NystromFeatures: the feature maps alone, as transformers of scikit-learn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.collections.dask_arrays import refuse_parts, unwrap
from dkernel.data.collections.tables import stays_sparse
from dkernel.data.source import Source
from dkernel.errors import RecipeError
from dkernel.estimators.parameters import KernelLike, LandmarksLike, Seed, check_parameters
from dkernel.estimators.validation import check_table, make_source, parse_landmarks
from dkernel.features import FourierMap, NystromMap
from dkernel.kernels import parse
from dkernel.leaves.transforms.base import MapTransformer, choose_dtype
from dkernel.numerics.rows import result_dtype, wide
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.streaming.execution.connect import default_executor
from dkernel.training.selection.landmark_selection import given_landmarks, sample_rows

COMPLEX = {"float32": "complex64", "float64": "complex128"}


class FourierFeatures(MapTransformer):
    """Random Fourier features φ(x) = (2 / D)^{1/2} [cos Ωx, sin Ωx], φ(x) . φ(z) ≈ k(x, z).

    Ω is drawn from the spectral law of the kernel. `fit` reads X only for a gamma that asks for it. X is used as it is,
    never scaled. Each row of `transform` is computed in the dtype of X.

    Parameters
    ----------
    kernel and gamma : the kernel and its number. Shift-invariant kernel, its expression, or its name.
    n_components : int, default=1024
        D, components of the output; an odd number gives (2 / D)^{1/2} cos(Ωx + b), which needs no pairs.
    sampling : {"auto", "iid", "orthogonal", "sobol", "structured", "fastfood"}, default="auto"
        Way to draw the frequencies.
    form : {"auto", "pairs", "offset", "exponential"}, default="auto"
        Form of the features; "exponential" is D^{-1/2} exp(i Ωx), complex, with φ(x) . conj(φ(z)) ≈ k(x, z).
    random_state : the seed; None is 0.

    Attributes
    ----------
    kernel_ : Kernel
        Kernel with numbers.
    frequencies_ : ndarray of shape (D / 2, p) or (D, p)
        Ω, float64; D / 2 rows for pairs.
    map_ : FourierMap
        The map.
    n_components_ : int
        D.

    See Also
    --------
    NystromFeatures : Features of any kernel from landmarks.
    BinningFeatures : Sparse features of the Laplacian kernel.
    KernelFeatures : The map that suits the kernel.

    References
    ----------
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NeurIPS 2007.

    Examples
    --------
    >>> FourierFeatures(gamma=0.5, n_components=64).fit_transform(np.zeros((3, 2))).shape
    (3, 64)
    """

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        gamma: str | float = "auto",
        n_components: int = 1024,
        sampling: str = "auto",
        form: str = "auto",
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def _learn(self, X: Any) -> None:
        form = ("offset" if self.n_components % 2 else "pairs") if self.form == "auto" else self.form
        recipe = self._recipe(features="fourier", sampling=self.sampling)
        D = int(recipe.n_components) * (2 if form == "exponential" else 1)
        trial = parse(recipe.kernel)
        if not trial.column_names:
            FourierMap.draw(trial.bind(lambda *_: 1.0), 1, D, 0, "iid", form)  # refuses what has no Fourier features
        self.kernel_ = self._kernel(X, recipe)
        sparse = X.sparse if isinstance(X, Source) else stays_sparse(X)
        self.map_ = FourierMap.draw(self.kernel_, self.n_features_in_, D, recipe.seed, recipe.sampling, form, sparse)
        self.n_components_ = recipe.n_components

    @property
    def frequencies_(self) -> NDArray[np.float64]:
        """Frequencies Ω of the map."""
        return self.map_.frequencies

    def _transform_rows(self, X: Any) -> Any:
        if self.map_.form == "exponential":
            return self._transform(X, complex_rows, self.map_, *self.map_.arrays().values(), made=COMPLEX)
        return super()._transform_rows(X)


class NystromFeatures(MapTransformer):
    """Nyström features φ(x) = k(x, Z) U Λ^{-1/2}, with k(Z, Z) = U Λ U^T.

    φ(x) . φ(z) = k(x, z) when x or z is a landmark. The landmarks Z are chosen from rows of X drawn by hash, whatever
    the chunks. X is used as it is, never scaled. Columns and whitening are computed in float64, and eigenvalues under
    1e-14 of the largest are left out, so there may be fewer components than landmarks; with fewer rows than
    `n_components`, all rows are landmarks.

    Parameters
    ----------
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name.
    n_components : int, default=1024
        Number of landmarks, and of components of the output at most.
    rank : int, default=None
        Number of eigenvalues to keep; None for all.
    landmarks : {"uniform", "stratified", "kmeans", "leverage", "rpcholesky"} or array, default="uniform"
        Rule that chooses the landmarks ("stratified" by the classes y), or landmarks that are used as they are.
    random_state : the seed; None is 0.

    Attributes
    ----------
    kernel_ : Kernel
        Kernel with numbers.
    landmarks_ : ndarray of shape (c, p)
        Landmarks Z.
    whitening_ : ndarray of shape (c, n_components_)
        U Λ^{-1/2}, float64.
    map_ : NystromMap
        The map.
    n_components_ : int
        Components of the output.

    See Also
    --------
    FourierFeatures : Random features of shift-invariant kernels.
    KernelFeatures : The map that suits the kernel.
    nystrom_operator : The approximate Gram matrix as a linear operator.

    References
    ----------
    C. Williams and M. Seeger, "Using the Nyström method to speed up kernel machines", NeurIPS 2001.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> phi = NystromFeatures(gamma=0.5, n_components=50).fit_transform(X)
    >>> from dkernel.kernels import Gaussian
    >>> bool(np.abs(phi @ phi.T - Gaussian(gamma=0.5)(X, X)).max() < 1e-6)
    True
    """

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        gamma: str | float = "auto",
        n_components: int = 1024,
        rank: int | None = None,
        landmarks: LandmarksLike = "uniform",
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None) -> "NystromFeatures":
        """Choose the landmarks in one pass over X, and whiten them.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : array of shape (n_samples,), default=None
            Classes, for stratified landmarks; else ignored.

        Returns this object.

        Raises the errors of a fit: RecipeError, DataError, ClusterError.
        """
        check_parameters(self)
        word, given = parse_landmarks(self.landmarks)
        recipe = self._recipe(features="nystrom", landmarks=word)
        if self.rank is not None and isinstance(recipe.n_components, int) and self.rank > recipe.n_components:
            raise RecipeError(f"rank={self.rank} is more than n_components={self.n_components}. Give no larger rank.")
        refuse_parts(X := unwrap(X))
        source = make_source(self, X, dtype=choose_dtype(X))
        if word == "stratified" and y is not None and not isinstance(X, Source):
            X = check_table(self, X, objects=bool(source.objects))
            source = from_arrays(X, y, dtype=choose_dtype(X), kernel=self.kernel)
        recipe, given = given_landmarks(recipe, given, source)
        with default_executor() as executor:
            kernel, Z = sample_rows(source, recipe, int(recipe.n_components), executor)
        Z = Z if given is None else given
        with one_blas_thread():
            self.map_ = NystromMap(kernel, Z, self.rank)
            self.whitening_ = self.map_.whitening
        self.kernel_, self.landmarks_ = kernel, self.map_.landmarks
        self.n_components_ = self.whitening_.shape[1]
        return self

    def _transform_rows(self, X: Any) -> Any:
        # A worker is sent the whitening too: to make it again costs a decomposition, which might round differently.
        carried = (self.kernel_, wide(self.landmarks_), self.whitening_)
        return self._transform(X, nystrom_rows, carried, *self.map_.arrays().values(), self.whitening_)


def complex_rows(map: FourierMap, X: NDArray[Any]) -> NDArray[np.complexfloating]:
    """φ of a block, in the complex dtype of its own."""
    return map.waves(X, X.dtype.name)


def nystrom_rows(carried: tuple[Any, NDArray[Any], NDArray[Any]], X: NDArray[Any]) -> NDArray[np.floating]:
    """φ of a block, in its dtype, computed in float64."""
    kernel, Z, whitening = carried
    out = np.empty((len(X), whitening.shape[1]), result_dtype(X))
    for first in range(0, len(X), PIECE_ROWS):
        out[first : first + PIECE_ROWS] = kernel(wide(X[first : first + PIECE_ROWS]), Z) @ whitening
    return out
