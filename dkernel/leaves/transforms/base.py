"""The base class of transformers, which have a feature map and answer Dask collections lazily."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dkernel.data.collections.dask_arrays import is_dask, refuse_parts, unwrap
from dkernel.data.source import Source
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import NamedParameters, check_parameters
from dkernel.estimators.prediction import BlockPrediction, Inputs, apply_prediction, content_key
from dkernel.estimators.validation import check_table, draw_seed, make_source
from dkernel.features import FeatureMap
from dkernel.kernels import Kernel, parse
from dkernel.model.recipe import Recipe
from dkernel.numerics.layout import Layout
from dkernel.numerics.sparse_rows import RangeNames
from dkernel.numerics.tiling import TILE_ROWS
from dkernel.streaming.execution.connect import default_executor
from dkernel.training.selection.landmark_selection import sample_rows

STRIP_VALUES = 1 << 22  # values of the columns that exist at one time beside the answer


class Unsupervised(NamedParameters):
    """Base class of estimators that learn from rows without a label."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn from the rows.

        Parameters
        ----------
        X : array, dataframe, sparse matrix, Dask collection or Source of shape (n_samples, n_features)
            Rows to learn from.
        y : object, default=None
            Ignored.

        Returns this object.

        Raises the errors of a fit: RecipeError, DataError, ClusterError.
        UnsupportedError
            If the kernel has no such map.
        """
        check_parameters(self)
        refuse_parts(X)
        self._learn(unwrap(X))
        return self

    def _learn(self, X: Any) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError


class TransformerBase(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Unsupervised):
    """Base class of transformers of unscaled rows."""

    map_: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """scikit-learn makes pandas of what `set_output` names; of Dask collections that stays a Dask dataframe."""
        super().__init_subclass__(**kwargs)
        wrapped = cls.__dict__.get("transform")
        if wrapped is not None:
            cls.transform = _frame_lazily(wrapped)
            if "fit_transform" not in cls.__dict__:
                cls.fit_transform = _fit_transform

    def _recipe(self, **more: Any) -> Recipe:
        """The recipe of the parameters that all maps of a kernel have, and of these."""
        kernel, seed = self.kernel, draw_seed(self.random_state)
        return Recipe(kernel=kernel, gamma=self.gamma, n_components=self.n_components, seed=seed, **more)

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
            check_table(self, X, fitting=True)
            return kernel.bind_columns(self._columns()).bind(lambda *_: float(recipe.gamma))
        with default_executor() as executor:
            return sample_rows(make_source(self, X, dtype=choose_dtype(X), sparse=sparse), recipe, 1, executor)[0]

    def _transform(
        self, X: Any, function: Any, carried: Any, *arrays: NDArray[Any], made: Mapping[str, str] | None = None
    ) -> Any:
        """The features of the rows, in their dtype or in what `made` has for it."""
        X = check_table(self, X, objects=bool(self.map_.objects))
        dtype = (made or {}).get(choose_dtype(X), choose_dtype(X))
        return self._answer(X, function, carried, arrays, self.get_feature_names_out, dtype, self._n_features_out)

    def _answer(
        self,
        X: Any,
        function: Any,
        carried: Any,
        arrays: Sequence[NDArray[Any]],
        named: Callable[[], Sequence[str]],
        made: Any,
        width: int | None = None,
    ) -> Any:
        """The answers function(carried, block) to rows that were checked.

        Parameters
        ----------
        arrays : that the answers depend on, beside the spec of the map
        """

        def key() -> str:
            return f"{function.__name__}-{content_key(repr(self.map_.spec()), *arrays)}"

        names = self._names()
        inputs = Inputs(Layout(names, choose_dtype(X), tuple(names[j] for j in self.map_.objects)))
        return apply_prediction(BlockPrediction(function, carried, key, inputs, named, made, width), X)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
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


def _frame_lazily(wrapped: Any) -> Any:
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


class MapTransformer(TransformerBase):
    """Base class of transformers of one block of rows; the answers are the features φ of `map_`, or made of them."""

    fitted: ClassVar[str] = "map_"
    """Name of the attribute that `fit` leaves last."""

    def transform(self, X: Any) -> Any:
        """Compute the features of the rows.

        X holds the rows: an array, dataframe, sparse matrix or Dask collection.

        Returns
        -------
        ndarray, sparse array or dask.array.Array of shape (n_samples, n_features_out)
            Features as the class describes them, in the dtype of X. Lazy for Dask collections.

        Raises the errors of an answer: NotFittedError, DataError.
        """
        require_fitted(self, self.fitted)
        return self._transform_rows(X)

    def _transform_rows(self, X: Any) -> Any:
        return self._transform(X, random_rows, self.map_, *self.map_.arrays().values())


def random_rows(map: FeatureMap, X: NDArray[Any]) -> NDArray[np.floating]:
    """φ of a block, in its dtype."""
    out = np.empty((len(X), map.n_components), X.dtype)
    step = max(TILE_ROWS, STRIP_VALUES // map.n_components // TILE_ROWS * TILE_ROWS)
    for first in range(0, len(X), step):
        out[first : first + step] = map.components(X[first : first + step], X.dtype.name)
    out *= map.whitening
    return out


def choose_dtype(X: Any) -> str:
    """The dtype in which rows are computed: float32 stays, everything else is float64."""
    if isinstance(X, Source):
        return X.dtype
    dtypes = list(X.dtypes) if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    return "float32" if dtypes and all(dtype == np.float32 for dtype in dtypes) else "float64"
