"""FourierFeatures and NystromFeatures: the feature maps alone, as transformers of scikit-learn."""

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dkernel.data import Source, from_arrays
from dkernel.data.collections.dask_arrays import is_dask
from dkernel.data.collections.sparse_arrays import stays_sparse
from dkernel.errors import RecipeError
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import KernelLike, Landmarks, NamedParameters, Seed
from dkernel.estimators.prediction import BlockPrediction, apply, content_key
from dkernel.estimators.validation import checked_rows, rule_of, seed_of, source_of
from dkernel.execution.connect import default_executor
from dkernel.features import FeatureMap, FourierMap, NystromMap
from dkernel.kernels import Kernel, parse
from dkernel.numerics.rows import result_dtype, wide
from dkernel.numerics.sparse_rows import RangeNames
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import PIECE_ROWS, ROWS
from dkernel.recipe import Recipe
from dkernel.selection.landmark_selection import for_given, sample_rows

STRIP_VALUES = 1 << 22  # of columns that exist at one time beside the answer
COMPLEX = {"float32": "complex64", "float64": "complex128"}


class TransformerBase(NamedParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of transformers of unscaled rows."""

    map_: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """scikit-learn makes pandas of what `set_output` names; of Dask collections that stays a Dask dataframe."""
        super().__init_subclass__(**kwargs)
        wrapped = cls.__dict__.get("transform")
        if wrapped is not None:
            cls.transform = _lazily_framed(wrapped)
            if "fit_transform" not in cls.__dict__:
                cls.fit_transform = _fit_transform

    def _columns(self) -> tuple[str, ...]:
        return tuple(getattr(self, "feature_names_in_", map(str, range(self.n_features_in_))))

    def _names(self) -> Sequence[str]:
        """Names of the columns that the map takes, numbered ones of sparse rows."""
        return RangeNames(0, int(self.n_features_in_)) if self.map_.sparse else self._columns()

    def _kernel(self, X: Any, recipe: Recipe, sparse: bool | None = None) -> Kernel:
        """The kernel with numbers; X is read for a gamma that asks for it, or, in memory, to check it."""
        kernel = parse(recipe.kernel)
        asked = {recipe.gamma if word == "auto" else word for word in kernel.placeholders}
        if is_dask(X) and not any(isinstance(word, str) for word in asked):
            checked_rows(self, X, fitting=True)
            return kernel.bind_columns(self._columns()).bind(lambda *_: float(recipe.gamma))
        with default_executor() as executor:
            return sample_rows(source_of(self, X, dtype=dtype_of(X), sparse=sparse), recipe, 1, executor)[0]

    def _transform(
        self, X: Any, function: Any, carried: Any, *arrays: NDArray[Any], made: Mapping[str, str] | None = None
    ) -> Any:
        def key() -> str:
            return f"map-{content_key(repr(self.map_.spec()), *arrays)}"

        names, places = self._names(), self.map_.objects
        X = checked_rows(self, X, objects=bool(places))
        dtype = dtype_of(X)
        made_dtype = (made or {}).get(dtype, dtype)
        objects = tuple(names[j] for j in places)
        answer = BlockPrediction(
            function, carried, key, names, dtype, made_dtype, self._n_features_out, objects, self.get_feature_names_out
        )
        return apply(answer, X)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags


def _fit_transform(self: Any, X: Any, y: Any = None, **parameters: Any) -> Any:
    """Fit to the rows, and transform the same rows.

    Parameters
    ----------
    X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
        Rows to learn from.
    y : array of shape (n_samples,), default=None
        Labels, where `fit` uses them.
    **parameters : dict
        Further arguments of `fit`.

    Returns
    -------
    ndarray, sparse matrix or dask.array.Array
        What `transform` gives.

    Raises
    ------
    RecipeError
        If a parameter has no meaning.
    DataError
        If the data hold values that are not finite numbers, or too few rows.
    """
    if not is_dask(X):
        return TransformerMixin.fit_transform(self, X, y, **parameters)
    return self.fit(X, y, **parameters).transform(X)


def _lazily_framed(wrapped: Any) -> Any:
    """A `transform` that answers Dask collections lazily, whatever `set_output` says."""

    @wraps(wrapped)
    def transform(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        if not is_dask(X) or others or named:
            return wrapped(self, X, *others, **named)
        answer = wrapped.__wrapped__(self, X)
        default = getattr(self, "_sklearn_output_config", {}).get("transform", "default") == "default"
        if default or hasattr(X, "index"):
            return answer
        import dask.dataframe as dd

        return dd.from_dask_array(answer, columns=list(self.get_feature_names_out()))

    return transform


class FourierFeatures(TransformerBase):
    """Random Fourier features φ(x) = (2 / D)^{1/2} [cos Ωx, sin Ωx], φ(x) . φ(z) ≈ k(x, z).

    Ω is drawn from the spectral law of the kernel. X is used as it is, never scaled. Each row of `transform` is
    computed in the dtype of X.

    Parameters
    ----------
    kernel : Kernel or str, default="gaussian"
        Shift-invariant kernel, its expression, or its name.
    gamma : float or {"auto", "median", "scale"}, default="auto"
        Number for a kernel given by name, or with gamma="auto" in it. Without a label, "auto" is the median rule.
    n_components : int, default=1024
        D, components of the output; an odd number gives (2 / D)^{1/2} cos(Ωx + b), which needs no pairs.
    sampling : {"auto", "iid", "orthogonal", "sobol", "halton", "structured", "fastfood"}, default="auto"
        Way to draw the frequencies.
    form : {"auto", "pairs", "offset", "exponential"}, default="auto"
        Form of the features; "exponential" is D^{-1/2} exp(i Ωx), complex, with φ(x) . conj(φ(z)) ≈ k(x, z).
    random_state : int, numpy Generator or RandomState, default=None
        Seed; None is 0.

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
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.sampling = sampling
        self.form = form
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "FourierFeatures":  # noqa: ARG002
        """Draw the frequencies.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows; read only for a gamma that asks for it, and checked where they are in memory.
        y : object, default=None
            Ignored.

        Returns
        -------
        FourierFeatures
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        UnsupportedError
            If the kernel has no such map.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        form = ("offset" if _is_odd(self.n_components) else "pairs") if self.form == "auto" else self.form
        recipe = Recipe(
            kernel=self.kernel,  # type: ignore[arg-type]  # the recipe keeps its text
            gamma=self.gamma, features="fourier", n_components=self.n_components, form=form,
            sampling=self.sampling, seed=seed_of(self.random_state),
        )  # fmt: skip
        D = columns_of(recipe) * (2 if form == "exponential" else 1)
        trial = parse(recipe.kernel)
        if not trial.column_names:
            FourierMap.draw(trial.bind(lambda *_: 1.0), 1, D, 0, "iid", form)  # refuses what has no Fourier features
        self.kernel_ = self._kernel(X, recipe)
        sparse = X.sparse if isinstance(X, Source) else stays_sparse(X)
        self.map_ = FourierMap.draw(self.kernel_, self.n_features_in_, D, recipe.seed, recipe.sampling, form, sparse)
        self.n_components_ = recipe.n_components
        return self

    @property
    def frequencies_(self) -> NDArray[np.float64]:
        """Frequencies Ω of the map."""
        return self.map_.frequencies

    def transform(self, X: Any) -> Any:
        """Compute the features φ of the rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_components_)
            Features, in the dtype of X. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "map_")
        arrays = self.map_.arrays().values()
        if self.map_.form == "exponential":
            return self._transform(X, complex_rows, self.map_, *arrays, made=COMPLEX)
        return self._transform(X, random_rows, self.map_, *arrays)


class NystromFeatures(TransformerBase):
    """Nyström features φ(x) = k(x, Z) U Λ^{-1/2}, with k(Z, Z) = U Λ U^T.

    φ(x) . φ(z) = k(x, z) when x or z is a landmark. The landmarks Z are chosen from rows of X drawn by hash, whatever
    the chunks. X is used as it is, never scaled. Columns and whitening are computed in float64, and eigenvalues under
    1e-14 of the largest are left out, so there may be fewer components than landmarks; with fewer rows than
    `n_components`, all rows are landmarks.

    Parameters
    ----------
    kernel : Kernel or str, default="gaussian"
        Kernel, its expression, or its name.
    gamma : float or {"auto", "median", "scale"}, default="auto"
        Number for a kernel given by name, or with gamma="auto" in it. Without a label, "auto" is the median rule.
    n_components : int, default=1024
        Number of landmarks, and of components of the output at most.
    rank : int, default=None
        Number of eigenvalues to keep; None for all.
    landmarks : {"uniform", "stratified", "kmeans", "leverage", "rpcholesky"} or array, default="uniform"
        Rule that chooses the landmarks ("stratified" by the classes y), or landmarks that are used as they are.
    random_state : int, numpy Generator or RandomState, default=None
        Seed; None is 0.

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
        landmarks: Landmarks = "uniform",
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.rank = rank
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "NystromFeatures":
        """Choose the landmarks in one pass over X, and whiten them.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : array of shape (n_samples,), default=None
            Classes, for stratified landmarks; else ignored.

        Returns
        -------
        NystromFeatures
            This object.

        Raises
        ------
        RecipeError
            If a parameter has no meaning.
        DataError
            If the data hold values that are not finite numbers, or too few rows.
        """
        word, given = rule_of(self.landmarks)
        recipe = Recipe(
            kernel=self.kernel,  # type: ignore[arg-type]  # the recipe keeps its text
            gamma=self.gamma, features="nystrom", n_components=self.n_components, rank=self.rank,
            landmarks=word, seed=seed_of(self.random_state),
        )  # fmt: skip
        source = source_of(self, X, dtype=dtype_of(X))
        if word == "stratified" and y is not None and not isinstance(X, Source):
            X = checked_rows(self, X, objects=bool(source.objects))
            source = from_arrays(X, y, dtype=dtype_of(X), kernel=self.kernel)
        recipe, given = for_given(recipe, given, source)
        with default_executor() as executor:
            kernel, Z = sample_rows(source, recipe, columns_of(recipe), executor)
        Z = Z if given is None else given
        with one_blas_thread():
            self.map_ = NystromMap(kernel, Z, recipe.rank)
            self.whitening_ = self.map_.whitening
        self.kernel_, self.landmarks_ = kernel, self.map_.landmarks
        self.n_components_ = self.whitening_.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Compute the features φ of the rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or dask.array.Array of shape (n_samples, n_components_)
            Features, in the dtype of X. Lazy for Dask collections.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataError
            If X holds values that are not finite numbers, or other features than those of `fit`.
        """
        require_fitted(self, "map_")
        # A worker is sent the whitening too: to make it again costs a decomposition, which might round differently.
        carried = (self.kernel_, wide(self.landmarks_), self.whitening_)
        return self._transform(X, nystrom_rows, carried, *self.map_.arrays().values(), self.whitening_)


def random_rows(map: FeatureMap, X: NDArray[Any]) -> NDArray[np.floating]:
    """φ of a block, in its dtype."""
    out = np.empty((len(X), map.n_components), X.dtype)
    step = max(ROWS, STRIP_VALUES // map.n_components // ROWS * ROWS)
    for first in range(0, len(X), step):
        out[first : first + step] = map.components(X[first : first + step], X.dtype.name)
    out *= map.whitening
    return out


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


def columns_of(recipe: Recipe) -> int:
    if isinstance(recipe.n_components, str):
        raise RecipeError(f"n_components={recipe.n_components!r}: a transformer needs a whole number of components.")
    return recipe.n_components


def _is_odd(n: Any) -> bool:
    return isinstance(n, int | np.integer) and n % 2 == 1


def dtype_of(X: Any) -> str:
    """The dtype in which rows are computed: float32 stays, everything else is float64."""
    if isinstance(X, Source):
        return X.dtype
    dtypes = list(X.dtypes) if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    return "float32" if dtypes and all(dtype == np.float32 for dtype in dtypes) else "float64"
