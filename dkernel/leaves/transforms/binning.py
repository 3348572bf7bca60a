"""BinningFeatures: random binning of the rows, as a transformer to sparse rows."""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dkernel.data.collections.dask_arrays import as_chunks, is_dask, make_arrays
from dkernel.data.collections.tables import matrix, stays_sparse
from dkernel.errors import UnsupportedError
from dkernel.estimators.parameters import Seed
from dkernel.estimators.prediction import BlockPrediction, Inputs, apply_prediction
from dkernel.estimators.validation import check_table, draw_seed, make_source
from dkernel.leaves.transforms.base import MapTransformer, choose_dtype
from dkernel.model.local.binning import Binning
from dkernel.model.recipe import Recipe
from dkernel.numerics.layout import Layout
from dkernel.streaming.execution.connect import default_executor
from dkernel.training.selection.landmark_selection import sample_rows

CENTER_ROWS = 101  # rows, whose median is a place among the rows, whatever a few of them are


class BinningFeatures(MapTransformer):
    """Random binning: φ(x) has 1 / sqrt(n_grids) in the bin of x in each grid, so φ(x) . φ(z) ≈ exp(-γ |x - z|_1).

    Each grid divides every feature into intervals of one random width δ ~ Gamma(2, 1 / gamma) that begin at a random
    place. Two rows share a bin, an interval of every feature, with probability exp(-γ |x - z|_1), the Laplacian kernel.
    The output is a scipy.sparse.csr_array, of a Dask collection a Dask array of such chunks, with `n_grids` values
    in a row whatever the number of features, so a linear model on it can follow a target that is far too rough for
    some thousand dense features. X is used as it is, never scaled.

    Parameters
    ----------
    gamma : float or {"auto", "median", "scale"}, default="auto"
        γ of the kernel. "auto" and "median" are the inverse of the median distance of rows.
    n_grids : int, default=256
        Number of grids. The error of the kernel falls as 1 / sqrt(n_grids).
    n_bins : int, default=2**14
        Columns of a grid, a power of two up to 2**24. Bins are hashed to them; the more bins the rows occupy, the more
        columns keep them apart.
    random_state : int, numpy Generator or RandomState, default=None
        Seed of the grids; None is 0.

    Attributes
    ----------
    kernel_ : Laplacian
        The kernel with its gamma.
    center_ : ndarray of shape (n_features_in_,)
        Subtracted from the rows, in their dtype, before they become float32; it has no part in the kernel.
    n_components_ : int
        Columns of the output, n_grids * n_bins.

    See Also
    --------
    FourierFeatures : Dense features of this kernel and others.
    NystromFeatures : Features of any kernel from landmarks.

    References
    ----------
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NeurIPS 2007, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(5, 3))
    >>> Z = BinningFeatures(gamma=0.5, n_grids=64, n_bins=256).fit_transform(X)
    >>> Z.shape, Z.nnz
    ((5, 16384), 320)
    """

    def __init__(
        self, gamma: str | float = "auto", *, n_grids: int = 256, n_bins: int = 2**14, random_state: Seed = None
    ) -> None:
        self._set_parameters(locals())

    kernel, fitted = "laplacian", "binning_"

    def _learn(self, X: Any) -> None:
        """Draw the grids; the rows are read once, for the center and for a gamma that asks for it."""
        n_grids, bits = int(self.n_grids), int(self.n_bins).bit_length() - 1
        if stays_sparse(X):
            raise UnsupportedError("BinningFeatures divides every feature, zeros too: X must be dense.")
        recipe = Recipe(
            kernel=self.kernel, gamma=self.gamma, n_components=CENTER_ROWS, seed=draw_seed(self.random_state)
        )
        with default_executor() as executor:
            source = make_source(self, X, dtype=choose_dtype(X), sparse=False)
            self.kernel_, rows = sample_rows(source, recipe, CENTER_ROWS, executor)
        self.center_ = np.median(rows, axis=0).astype(rows.dtype)
        gamma: float = self.kernel_.gamma  # type: ignore[attr-defined]
        self.binning_ = Binning.draw(gamma, self.n_features_in_, n_grids, bits, recipe.seed)
        self.n_components_ = n_grids << bits

    def _transform_rows(self, X: Any) -> Any:
        """The bins of the rows, a sparse array; of a Dask collection a Dask array of sparse chunks."""
        X, dtype, bits = check_table(self, X), choose_dtype(X), int(self.binning_.bits[0])
        inputs = Inputs(Layout(self._columns(), dtype))
        carried, names = (self.center_, self.binning_), self.get_feature_names_out
        answer = BlockPrediction(_codes, carried, self._key, inputs, names, "uint32", self.n_grids)
        if not is_dask(X):
            return _sparse(apply_prediction(answer, X), bits, dtype)
        (rows,) = make_arrays(as_chunks(X, matrix, dtype))
        codes = apply_prediction(answer, rows)
        chunks, meta = (codes.chunks[0], (self.n_components_,)), scipy.sparse.csr_array((0, 0), dtype=dtype)
        return codes.map_blocks(_sparse, bits, dtype, chunks=chunks, dtype=dtype, meta=meta)

    def _key(self) -> str:
        parts = (self.center_, self.binning_.inverse, self.binning_.shift, self.binning_.multiplier)
        return f"grids-{hashlib.sha256(b''.join(part.tobytes() for part in parts)).hexdigest()}"


def _codes(carried: tuple[NDArray[Any], Binning], X: NDArray[Any]) -> NDArray[np.uint32]:
    """Codes of a block, (rows, n_grids)."""
    center, binning = carried
    return binning.codes((X - center).astype(np.float32)).T


def _sparse(codes: NDArray[np.uint32], bits: int, dtype: str) -> scipy.sparse.csr_array:
    """Rows with 1 / sqrt(n_grids) in the column of each code."""
    rows, n_grids = codes.shape
    width = np.int64(n_grids << bits)
    index = np.int32 if max(width, rows * n_grids) < 2**31 else np.int64
    columns = codes.astype(index) + np.left_shift(np.arange(n_grids, dtype=index), bits, dtype=index)
    ends = np.arange(rows + 1, dtype=index) * index(n_grids)
    values = np.full(columns.size, n_grids**-0.5, dtype)
    return scipy.sparse.csr_array((values, columns.ravel(), ends), shape=(rows, int(width)))
