"""KernelFeatures: the map that suits a kernel, or one that is named, as a transformer."""

from typing import Any

from dkernel.data.collections.tables import stays_sparse
from dkernel.data.source import Source
from dkernel.errors import UnsupportedError
from dkernel.estimators.parameters import KernelLike, Seed
from dkernel.features import by_landmarks, choose_map, is_complete, resolve_features
from dkernel.kernels import parse
from dkernel.leaves.transforms.base import MapTransformer
from dkernel.leaves.transforms.kernel_maps import NystromFeatures
from dkernel.model.recipe import Recipe

MOST_DENSE_COLUMNS = 2**16  # columns of sparse rows that are made dense, 2,048 rows (half a gigabyte) at a time


def _width(X: Any) -> int:
    """Columns of X, before it is checked; 1 where that is not known."""
    if isinstance(X, Source):
        return X.n_in
    shape: Any = getattr(X, "shape", ())
    return max(int(shape[1]), 1) if len(shape) == 2 else 1


class KernelFeatures(MapTransformer):
    """Features of any kernel: Nyström up to 20,000 components, above it the random maps of its parts.

    Parameters
    ----------
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name.
    features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
        Kind of the map. "maclaurin" (Kar and Karnick 2012) and "tensorsketch" (Pham and Pagh 2013) are unbiased random
        maps of polynomials; the variance of the former grows as |x|^{2 degree}, so rows should have a length of 1 or
        so.
    n_components : int, default=1024
        Components of the output, at most.
    sampling : str, default="auto"
        Way to draw the frequencies, as of FourierFeatures.
    random_state : the seed; None is 0.

    Attributes
    ----------
    kernel_, map_ and n_components_ : the kernel with numbers, the map and its components.

    See Also
    --------
    NystromFeatures : Features from landmarks.
    FourierFeatures : Random Fourier features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> kernel = "Gaussian(gamma=0.1) + 0.5 * Polynomial(degree=2)"
    >>> KernelFeatures(kernel, features="random", n_components=64).fit_transform(X).shape
    (40, 64)
    """

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        gamma: str | float = "auto",
        features: str = "auto",
        n_components: int = 1024,
        sampling: str = "auto",
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def _learn(self, X: Any) -> None:
        """Choose the map, and draw it, or its landmarks from X."""
        recipe = self._recipe(features=self.features, sampling=self.sampling)
        D, word = int(recipe.n_components), recipe.features
        if word == "auto":
            # Only the map of landmarks takes every kernel of sparse rows.
            sparse = not isinstance(X, Source) and stays_sparse(X)
            word = "nystrom" if sparse else resolve_features(parse(recipe.kernel), _width(X), D, "auto")
        self.nystrom_ = None
        if not by_landmarks(word):
            self._draw(X, recipe, word, D)
            return
        inner = NystromFeatures(self.kernel, gamma=self.gamma, n_components=D, random_state=recipe.seed).fit(X)
        for name in ("n_features_in_", "feature_names_in_", "kernel_", "map_", "n_components_"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self.nystrom_ = inner

    def _draw(self, X: Any, recipe: Recipe, features: str, D: int) -> None:
        """Draw a map of no landmarks; X is only checked."""
        if (p := _width(X)) > MOST_DENSE_COLUMNS and stays_sparse(X):
            raise UnsupportedError(
                f"features={features!r} of sparse rows of {p:,} columns would make them dense. Use NystromFeatures or "
                f"FourierFeatures, which do not, or up to {MOST_DENSE_COLUMNS:,} columns."
            )
        trial = parse(recipe.kernel)
        if not is_complete(features) and not trial.column_names:
            resolve_features(trial, _width(X), D, features)  # refuses what has no such map before X is read
        self.kernel_ = self._kernel(X, recipe, sparse=False)
        form = "offset" if D % 2 else "pairs"
        map = choose_map(self.kernel_, self.n_features_in_, D, features, recipe.sampling, form, recipe.seed)
        assert not isinstance(map, str)
        self.map_, self.n_components_ = map, map.n_components

    def _transform_rows(self, X: Any) -> Any:
        return super()._transform_rows(X) if self.nystrom_ is None else self.nystrom_.transform(X)
