"""Passages that the docstrings of estimators share: where a line is `{name}` the passage of that name is meant."""

import inspect
from collections.abc import Mapping

from dkernel.model.local_settings import fill_docstring

PASSAGES: Mapping[str, str] = {
    "parameters of rows": """\
Parameters
----------
X : array, dataframe, sparse matrix or Dask collection of shape (n_samples, n_features)
    Rows.""",
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
    If the data hold values that are not finite numbers, or too few rows.""",
    "errors of answers": """\
Raises
------
NotFittedError
    Before `fit`.
DataError
    If X holds values that are not finite numbers, or other features than those of `fit`.""",
    "kernel and gamma": """\
kernel : Kernel or str, default="gaussian"
    Kernel, its expression, or its name.
gamma : float or {"auto", "median", "scale"}, default="auto"
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
    The map.""",
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
chosen_ : dict
    Parameters that were chosen, with the reasons.""",
}


def fill_docstrings(cls: type, passages: Mapping[str, str]) -> None:
    """Put the passages that estimators share, and these, into the docstrings of a class and its methods."""
    members = (getattr(member, "fn", member) for member in vars(cls).values())  # fn: of methods that may be missing
    for documented in (cls, *filter(inspect.isfunction, members)):
        fill_docstring(documented, {**PASSAGES, **passages})
