"""Passages that the docstrings of estimators share: where a line is `{name}` the passage of that name is meant.

One with {} takes words: `{answers: (n_samples,) | Labels.}`.
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
    "parameters of rows": _ROWS,
    "answers": f"""\
{_ROWS}

Returns
-------
ndarray or dask.array.Array of shape {{}}
    {{}} Lazy for Dask collections.

{_ERRORS_OF_ANSWERS}""",
    "score": f"""\
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
    "parameters of fits": """\
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
    "parameters of views": """\
Parameters
----------
X : array, dataframe or Dask collection of shape (n_samples, p)
    First view.
y : array, dataframe or Dask collection of shape (n_samples, q) or (n_samples,), default=None
    Second view.""",
    "page to write": """\
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
    "groups of answers": """\
groups : array or Dask collection of shape (n_samples,), default=None
    Group of each row, of those given to `conformalize`: the coverage is then that of each group. Of a Dask
    dataframe it is a series of its partitions, of a Dask array one of its chunks or in memory.""",
    "errors of coverages": """\
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
    "returns itself": """\
Returns
-------
object
    This object.""",
    "errors of fits": """\
Raises
------
RecipeError
    If a parameter has no meaning.
DataError
    If the data hold values that are not finite numbers, or too few rows.
ClusterError
    If the workers are lost, or refuse the versions of this process.""",
    "errors of answers": _ERRORS_OF_ANSWERS,
    "kernel and gamma": """\
kernel : Kernel or str, default="gaussian"
    {}
gamma : float or {{"auto", "median", "scale"}}, default="auto"
    Number for a kernel given by name, or with gamma="auto" in it. Without a label, "auto" is the median rule.""",
    "features": """\
features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
    Kind of the map.""",
    "features and n_map_components": """\
features : {"auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch"}, default="auto"
    Kind of the map.
n_map_components : int, default=1024
    Number of landmarks, or of random features.""",
    "random_state": """\
random_state : int, numpy Generator or RandomState, default=None
    Seed; None is 0.""",
    "steps of k-means": """\
n_init : int or "auto", default=10
    Starts on the sample, of which the best is taken.
max_iter : int, default=100
    Most passes over the data.
tol : float, default=0.0001
    A step in which the centres move by less than this share of the variance of φ is the last.""",
    "kernel_ and map_": """\
kernel_ : Kernel
    Kernel with numbers.
map_ : FeatureMap
    The map.
{} : int
    Components of the map.""",
    "clusters and map": """\
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
    "attributes of machines": """\
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
