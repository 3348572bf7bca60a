"""Checks of X, y and weights: numpy and what becomes it, pandas, CSR, Dask arrays and dataframes, a Source.

Names and widths are checked by scikit-learn's own functions; values go through the same gate as those of files.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from dkernel.data.block import as_label, holds_lists, is_missing, refuse_masked, targets_in
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.collections.dask_arrays import dense, is_dask, refuse_parts, unwrap
from dkernel.data.collections.tables import as_rows, holds_objects
from dkernel.data.column_types import are_numbers
from dkernel.data.encoded_columns import read_as
from dkernel.data.opening import open_source
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.estimators.errors import refusals
from dkernel.estimators.parameters import DOCUMENTED
from dkernel.kernels import parse
from dkernel.model.parameters import PARAMETERS
from dkernel.model.recipe import GIVEN
from dkernel.model.recipe_checks import whole
from dkernel.numerics.sparse_rows import RangeNames


def check_table(
    estimator: Any,
    X: Any,
    names: Sequence[str] = (),
    *,
    fitting: bool = False,
    least: int = 1,
    objects: bool = False,
) -> Any:
    """X as numpy, pandas or Dask, with the names and the number of columns that the estimator knows or now learns.

    Parameters
    ----------
    names, objects : as of `as_rows`
    """
    X = as_rows(X, names, objects=objects)
    with refusals():
        if objects or is_dask(X) or hasattr(X, "iloc"):
            if X.ndim != 2:
                raise DataError(f"X has {X.ndim} dimension(s); a table of 2 (rows, columns) is needed.")
            if is_dask(X) and not hasattr(X, "columns"):
                dense(X._meta)  # refuses chunks that numpy does not take, such as those of PyData's sparse
            # The names of a Dask dataframe stand in its empty pandas twin.
            validate_data(
                estimator, getattr(X, "_meta", X) if hasattr(X, "columns") else X, reset=fitting, skip_check_array=True
            )
            if not is_dask(X) and len(X) < least:
                raise DataError(
                    f"X has {len(X)} sample(s); {type(estimator).__name__} needs at least {least}, and more are better."
                )
            return X
        return validate_data(
            estimator,
            X,
            reset=fitting,
            accept_sparse="csr",
            ensure_all_finite=False,
            ensure_min_samples=least,
            order=None,
            copy=False,
        )


def open_stream(X: Any, y: Any, sample_weight: Any, call: str, **reading: Any) -> Source:
    """The source of a stream, whose label and weight are columns of it that `y` and `sample_weight` name.

    Parameters
    ----------
    call : method of the estimator that was given the stream
    reading : as of `open_source`
    """
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if not isinstance(given, str) and (name == "y" or given is not None):
            raise DataError(
                f"X is a {type(X).__name__}, whose rows come in batches, so {name} must be the name of a column of X: "
                f"{call}(X, 'label'). {name} is a {type(given).__name__}."
            )
    return open_source(X, label=y, weight=sample_weight, **reading)


def make_source(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    dtype: str = "float32",
    *,
    fitting: bool = True,
    least: int = 2,
    sparse: bool | None = None,
    encode: Mapping[str, Any] | None = None,
) -> Source:
    """The source of a fit, or of rows that follow it: the caller's own, or that of collections, checked.

    Parameters
    ----------
    least : rows in memory that a fit to labels needs; of 1 all may be without weight
    sparse : whether rows stay sparse, None by the rule of `from_arrays`
    encode : how columns are encoded, as of `from_arrays`; "missing" alone is with the estimator's categories
    """
    if isinstance(X, Source):
        _check_targets(estimator, X)
        if y is not None or sample_weight is not None:
            raise DataError("A Source holds its own label and weights: fit(source), and nothing beside it.")
        if not fitting:
            known = getattr(estimator, "feature_names_in_", RangeNames(0, estimator.n_features_in_))
            return read_as(X, known, (encode or {}).get("encoding"), dtype)
        estimator.n_features_in_ = len(X.table_columns)
        if not X.sparse:  # whose columns have numbers
            estimator.feature_names_in_ = np.array(list(X.table_columns), dtype=object)
        return X
    if isinstance(y, str):
        raise DataError(
            f"y is the text {y!r}, and X a {type(X).__name__}. A column is named in place of y where the rows come in "
            "batches, as of a LazyFrame of Polars, a relation of DuckDB or a RecordBatchReader (of a Dataset of Arrow: "
            "dataset.scanner().to_reader()). Else give X without the labels, and these as y."
        )
    X, y, sample_weight = unwrap(X), unwrap(y), unwrap(sample_weight)
    refuse_parts(X, y, sample_weight)
    # All kernels that kernel="auto" chooses from take numbers.
    kernel = parse("gaussian" if isinstance(estimator.kernel, str) and estimator.kernel == "auto" else estimator.kernel)
    objects = holds_objects(kernel, X)
    if not estimator.__sklearn_tags__().target_tags.required:
        X = check_table(estimator, X, fitting=True, objects=objects)
        return from_arrays(X, dtype=dtype, kernel=kernel, sparse=sparse)
    names = None if fitting else getattr(estimator, "feature_names_in_", None)
    label = _label(estimator, y)  # before X: scikit-learn forgets the names of X when it looks at y alone
    if names is not None:
        estimator.feature_names_in_ = names
    encode = dict(encode or {})
    if "missing" in encode:
        encode["categorical"] = parse_categorical(estimator.categorical_features, as_rows(X, objects=objects))
    X = check_table(estimator, X, fitting=fitting, least=least if fitting else 1, objects=objects)
    source = from_arrays(X, label, check_weight(sample_weight, X, least < 2), dtype=dtype, kernel=kernel, **encode)
    _check_targets(estimator, source)
    return source


def refuse_reading(estimator: Any, X: Any) -> None:
    """Refuse parameters of an estimator that say how rows are read, if X is a Source, which was opened without them."""
    if not isinstance(X, Source):
        return
    for name in ("categorical_features", "missing", "dates", "formats"):
        value, argument = getattr(estimator, name), name.removesuffix("_features")  # of `open_source`
        asked = parse_categorical(value) if argument == "categorical" else value
        if asked and asked != PARAMETERS[argument].default:
            raise DataError(
                f"{name}={value!r} says how {type(estimator).__name__} reads columns, and a Source has its own "
                f"reading: open it with {argument}=..., and leave {name} out here."
            )


def _check_targets(estimator: Any, source: Source) -> None:
    if source.targets > 1 and not estimator.__sklearn_tags__().target_tags.multi_output:
        raise DataError(
            f"y has {source.targets} columns, and a {type(estimator).__name__} learns one. Fit each alone, or numbers "
            "with a KernelRegressor."
        )


def as_plain(y: Any, classes: bool = True) -> Any:
    """A label in memory as pandas or numpy has it; classes that are Python objects in the type of their values."""
    refuse_parts(y)
    y = unwrap(y)
    refuse_masked("y", y)
    with refusals():
        values = np.asarray(y)
    if not classes or values.dtype.kind not in "OS" or values.ndim != 1 or (len(values) and isinstance(values[0], str)):
        return y
    values = as_label(values, "y, row {}".format, str(getattr(y, "name", None) or "y"))
    return type(y)(values, y.index, name=y.name) if hasattr(y, "iloc") else values


def facts_of_targets(y: Any) -> dict[str, Any]:
    """The names of several targets as a fact of a model, where y is a frame and they differ.

    Examples
    --------
    >>> import pandas
    >>> facts_of_targets(pandas.DataFrame({"u": [1.0], "v": [2.0]})), facts_of_targets(np.zeros((1, 2)))
    ({'targets': ['u', 'v']}, {})
    """
    names = list(map(str, getattr(y, "columns", ())))
    return {"targets": names} if 1 < len(names) == len(set(names)) else {}


def _label(estimator: Any, y: Any) -> Any:
    if y is None:
        raise DataError(f"This {type(estimator).__name__} requires y to be passed, but the target y is None.")
    if is_dask(y):
        return y
    if hasattr(y, "iloc") and y.ndim == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0]
    tags = estimator.__sklearn_tags__()
    classifies = tags.estimator_type == "classifier"
    with refusals():
        if tags.target_tags.multi_output and targets_in(y) > 1:
            return y  # whose numbers pass the gate that names a bad one by row and column
        y = as_plain(y, classes=False)
        _refuse_missing(y)
        y = as_plain(y, classifies)
        values = validate_data(estimator, y=y, y_numeric=not classifies)
        if classifies:
            check_classification_targets(values)
    # Only the series knows the name of the label.
    return y if hasattr(y, "name") and hasattr(y, "to_numpy") else values


def _refuse_missing(y: Any) -> None:
    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    # numpy makes the text "nan" of a NaN in a list of texts.
    values = np.asarray(values, object if isinstance(values, list | tuple) else None)
    if values.dtype == object and values.ndim == 1 and holds_lists(values):
        raise DataError("y holds lists; one value per row is needed, or a matrix with a row of targets for each.")
    missing = np.flatnonzero(is_missing(values))
    if len(missing):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise DataError(f"Input y contains NaN: row {missing[0]} has no label{more}. Fill or remove these rows.")


def check_weight(sample_weight: Any, X: Any, zeros: bool = False) -> Any:
    """The weights of the rows X, checked; with `zeros` all of them may be 0."""
    sample_weight = unwrap(sample_weight)
    if sample_weight is None or is_dask(sample_weight) or is_dask(X):
        return sample_weight
    refuse_masked("sample_weight", sample_weight)
    with refusals():
        given = np.asarray(sample_weight)
        if given.dtype != object and not are_numbers(given.dtype):
            raise DataError(f"sample_weight is of type {given.dtype}; one number per row is needed.")
        if zeros and not given.any():
            return given if given.ndim else np.zeros(X.shape[0])
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def parse_landmarks(landmarks: Any) -> tuple[Any, Any]:
    """The recipe's word for landmarks, and the array where one is given.

    Examples
    --------
    >>> parse_landmarks("kmeans"), parse_landmarks([[0.0]])
    (('kmeans', None), ('given', [[0.0]]))
    """
    return (landmarks, None) if landmarks is None or isinstance(landmarks, str) else (GIVEN, landmarks)


def rows_for(machine: Any, X: Any) -> Any:
    """X as the model of a fitted estimator takes it: of a table that it encodes, lists and arrays of several types too.

    Rows of other columns than those of the fit are refused.
    """
    model = machine.model_
    names = model.columns if model.encoding is not None and hasattr(machine, "feature_names_in_") else ()
    return check_table(machine, X, names, objects=bool(model.objects))


def parse_categorical(features: Any, X: Any = None) -> str | tuple[str, ...]:
    """The recipe's word for `categorical_features`: "auto", "none", or names.

    Parameters
    ----------
    features : "from_dtype", None, or names, positions or a mask of columns
    X : whose columns the positions are of

    Examples
    --------
    >>> parse_categorical("from_dtype"), parse_categorical(None), parse_categorical([0, 2])
    ('auto', 'none', ('0', '2'))
    """
    if features is None or (isinstance(features, str) and features == "none"):
        return "none"
    if isinstance(features, str):
        if features not in ("from_dtype", "auto"):
            raise RecipeError(
                f"categorical_features={features!r} means nothing. Possible: 'from_dtype' | None | a list of columns."
            )
        return "auto"
    listed = np.asarray(features)
    if listed.dtype.kind == "b":
        listed = np.flatnonzero(listed)
    names = None if X is None or not hasattr(X, "columns") else list(map(str, X.columns))
    if listed.dtype.kind in "iu":
        return tuple(str(j) if names is None else names[j] for j in listed.tolist()) or "none"
    return tuple(map(str, listed.tolist())) or "none"


def draw_seed(random_state: Any) -> int:
    """The recipe's seed: 0 for None, a whole number itself, else a draw from the generator.

    Examples
    --------
    >>> draw_seed(None), draw_seed(7)
    (0, 7)
    """
    if random_state is None or isinstance(random_state, int | np.integer):
        return whole(0)(DOCUMENTED["random_state"], random_state or 0)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    with refusals():
        return int(check_random_state(random_state).randint(2**31 - 1))
