"""Passages that the docstrings of estimators share, each in the place of a sentence that an editor shows as it stands.

{} in a sentence is any words, which fill the passage in their order.
"""

import inspect
from collections.abc import Mapping

from dkernel.model.local_settings import fill_docstring

_ROWS = """\
Parameters
----------
X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
    Rows."""
_ERRORS_OF_ANSWERS = """\
Raises
------
NotFittedError
    Before `fit`.
DataError
    If X holds values that are not finite numbers, or other features than those of `fit`."""

PASSAGES: Mapping[str, str] = {
    "X holds the rows: an array, dataframe, sparse matrix or Dask collection.": _ROWS,
    "Gives {} for rows X: {}": f"""\
{_ROWS}

Returns
-------
ndarray or dask.array.Array of shape {{}}
    {{}} Lazy for Dask collections.

{_ERRORS_OF_ANSWERS}""",
    "Compares the answers for rows X with y, {} true {}: {}": f"""\
Parameters
----------
X : array, dataframe, sparse matrix, Dask collection or stream of shape (n_samples, n_features)
    Rows.
y : array of shape {{}} or str
    True {{}}; of a stream the name of their column.
sample_weight : array of shape (n_samples,) or str, default=None
    Weights; of a stream the name of their column.

Returns
-------
float
    {{}}

{_ERRORS_OF_ANSWERS}""",
    "Learns from rows; those of eval_set, or those held out, judge {}.": """\
Parameters
----------
X : array, dataframe, sparse matrix, Dask collection, Source or stream of shape (n_samples, n_features)
    Rows to learn from. A stream (a LazyFrame of Polars, a relation of DuckDB, a RecordBatchReader) has its
    label as a column, which `y` names; its rows are kept once on scratch, a batch at a time.
y : array of shape (n_samples,), or of a regressor (n_samples, k), or str, default=None
    Labels or numbers; None for a Source, which has a label.
sample_weight : array of shape (n_samples,), or str, default=None
    Weights; a row of weight k is k rows, and one of weight 0 is none.
eval_set : (X, y), (X, y, sample_weight) or Source, default=None
    Rows by which {} are judged, in place of a holdout; up to 16,384 of
    them. The fit then learns from all rows of X.
groups : array of shape (n_samples,), default=None
    Group of each row of an array, a dataframe in memory or a Dask array. The holdout is then of whole groups,
    as many as hold its share of the rows.""",
    "X and y hold the first and the second view of the rows.": """\
Parameters
----------
X : array, dataframe or Dask collection of shape (n_samples, p)
    First view.
y : array, dataframe or Dask collection of shape (n_samples, q) or (n_samples,), default=None
    Second view.""",
    "Writes to path; NotFittedError before `fit`, UnsupportedError without matplotlib.": """\
Parameters
----------
path : str or path-like
    Page to write.

Raises
------
NotFittedError
    Before `fit`.
UnsupportedError
    If the fit was in another process, or matplotlib is not installed.""",
    "groups : the group of each row, for a coverage of each group.": """\
groups : array or Dask collection of shape (n_samples,), default=None
    Group of each row, of those given to `conformalize`: the coverage is then that of each group. Of a Dask
    dataframe it is a series of its partitions, of a Dask array one of its chunks or in memory.""",
    "Raises the errors of a coverage; DataError: {}": """\
Raises
------
NotFittedError
    Before `fit`.
RecipeError
    If coverage is no share.
DataError
    {}
UnsupportedError
    If the fit left no rows out, or these had no groups and groups are given.""",
    "Returns this object.": """\
Returns
-------
object
    This object.""",
    "Raises the errors of a fit: RecipeError, DataError, ClusterError.": """\
Raises
------
RecipeError
    If a parameter has no meaning.
DataError
    If the data hold values that are not finite numbers, or too few rows.
ClusterError
    If the workers are lost, or refuse the versions of this process.""",
    "Raises the errors of an answer: NotFittedError, DataError.": _ERRORS_OF_ANSWERS,
    "kernel and gamma : the kernel and its number. {}": """\
kernel : Kernel or str, default="gaussian"
    {}
gamma : float or {{"auto", "median", "scale"}}, default="auto"
    Number for a kernel given by name, or with gamma="auto" in it. Without a label, "auto" is the median rule.""",
    'features : kind of the map, "auto" by default.': """\
features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
    Kind of the map.""",
    "features and n_map_components : kind of the map, and its components, 1,024 by default.": """\
features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
    Kind of the map.
n_map_components : int, default=1024
    Number of landmarks, or of random features.""",
    "random_state : the seed; None is 0.": """\
random_state : int, numpy Generator or RandomState, default=None
    Seed; None is 0.""",
    "n_init, max_iter and tol : starts of k-means, its most passes, and the step that ends it.": """\
n_init : int or "auto", default=10
    Starts on the sample, of which the best is taken.
max_iter : int, default=100
    Most passes over the data.
tol : float, default=0.0001
    A step in which the centres move by less than this share of the variance of φ is the last.""",
    "kernel_, map_ and {} : the kernel with numbers, the map and its components.": """\
kernel_ : Kernel
    Kernel with numbers.
map_ : FeatureMap
    The map.
{} : int
    Components of the map.""",
    "labels_, cluster_centers_ (n_clusters, {}) in the space of {}, inertia_, n_iter_ and the map.": """\
labels_ : ndarray, dask.array.Array or None
    Cluster of each row of `fit`; None of a Source.
cluster_centers_ : ndarray of shape (n_clusters, {})
    Centres in the space of {}, float64.
inertia_ : float
    Σ |φ(x) - c(x)|² before the last step.
n_iter_ : int
    Passes.
kernel_ : Kernel
    Kernel with numbers.
map_ : FeatureMap
    The map.
n_map_components_ : int
    Components of the map.""",
    "model_, kernel_, n_components_, alpha_, n_iter_, norm_, support_, schema_, chosen_ : what a fit has found.": """\
model_ : Model
    The model, which `dkernel.save` writes.
n_components_ : int
    Components of the map.
kernel_ : Kernel
    Kernel with its numbers.
alpha_ : float
    Strength of the regularization.
n_iter_ : int
    Passes of the solver.
norm_ : float, or ndarray of shape (C,)
    |f|_H of the function in the space of the kernel, without intercept and local stage: the larger, the wigglier.
support_, support_vectors_, dual_coef_ : ndarray of shape (n_support,), (n_support, p), (C, n_support)
    Rows whose coefficient is not 0, and these, if `solver` is "exact" with all rows as landmarks, in memory.
feature_weights_ : pandas.Series or None
    Share of each column in the learned metric; without one `sklearn.inspection.permutation_importance` helps.
schema_ : dict or None
    Column -> what training saw of it: type, zone, share of missing values, range, levels.
chosen_ : dict
    Parameters that were chosen, with the reasons.""",
}


def fill_docstrings(cls: type, passages: Mapping[str, str]) -> None:
    """Put the passages that estimators share, and these, into the docstrings of a class and its methods."""
    members = (getattr(member, "fn", member) for member in vars(cls).values())  # fn: of methods that may be missing
    for documented in (cls, *filter(inspect.isfunction, members)):
        fill_docstring(documented, {**PASSAGES, **passages})
