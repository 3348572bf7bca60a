"""The check of a block: two-dimensional, the right width, a real dtype, finite.

Every block of every pass goes through `as_features`, inside the task that reads it, so an error names its place.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, MissingValueError, UnsupportedError

DTYPES = ("auto", "float32", "float64")

RowDescriber = Callable[[int], str]
"""Row of a block -> where it stands, in words."""


def silent_overflow() -> np.errstate:
    """A context in which overflow, and what follows from it, gives no warning: its end looks at what has come out."""
    return np.errstate(over="ignore", invalid="ignore")


def as_features(
    X: NDArray, columns: Sequence[str], dtype: str = "float32", describe: RowDescriber = "row {}".format
) -> NDArray[np.floating]:
    """X as a C-contiguous (rows, p) block of `dtype`, or a DataError that names row and column.

    Parameters
    ----------
    X : array of shape (rows, p)
    columns : the names of the p columns
    describe : says where a row of the block stands ("train.csv, row 17"), for the message

    Examples
    --------
    >>> as_features(np.array([[1, 2], [3, 4]]), ("a", "b")).dtype
    dtype('float32')
    """
    if X.ndim != 2:
        raise DataError(f"A block of features has {X.ndim} dimension(s) at {describe(0)}; a table of 2 is needed.")
    if X.shape[1] != len(columns):
        raise DataError(f"A block has {X.shape[1]} columns at {describe(0)}; {len(columns)} are needed.")
    if X.dtype.kind not in "fiub":
        raise DataError(f"The features at {describe(0)} are of type {X.dtype}; numbers are needed.")
    with silent_overflow():  # too large numbers become infinities of both signs
        block = np.ascontiguousarray(X, dtype=dtype)
        # One sum is finite if every number is and it does not overflow: the slow look only happens after a bad sign.
        suspicious = not np.isfinite(block.sum())
    if suspicious:
        _refuse_nonfinite(X, block, columns, describe)
    return block


def _refuse_nonfinite(X: NDArray, block: NDArray, columns: Sequence[str], describe: RowDescriber) -> None:
    bad = ~np.isfinite(block)
    if not bad.any():
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    value = X[row, column]
    where = f"{describe(row)}, column {columns[column]!r}"
    kind = MissingValueError if np.isnan(value) else DataError
    raise kind(explain_number(where, value, block.dtype, int(bad.sum()) - 1))


def explain_number(where: str, value: Any, dtype: Any, others: int) -> str:
    """The words for a number that is not finite in this dtype, with the number of the others of its block."""
    why = f"too large for {dtype}" if np.isfinite(value) else "not finite"
    more = f" (and {others} more in this block)" if others else ""
    return (
        f"{where}: the value {value} is {why}{more}. Every feature must be a number, neither NaN nor infinite: remove "
        "or fill these rows."
    )


_CALLED_ELSEWHERE = {
    "logistic": "bce binary_crossentropy log log_loss logloss",
    "softmax": "cross_entropy crossentropy multinomial",
    "hinge": "svm",
    "quantile": "absolute_error l1 mae pinball",
    "squared": "l2 least_squares mean_squared_error mse ridge rmse squared_error",
    "epsilon_insensitive": "epsilon-insensitive svr",
    "classify": "classification classifier",
    "regress": "regression regressor",
    "gaussian": "se squared_exponential",
    "laplacian": "laplace",
    "linear": "dot dot_product",
    "temperature": "isotonic platt sigmoid",
    "auto": "cv",
    "identity": "none",
    "nystrom": "nystroem",
    "fourier": "rff rbfsampler random_fourier",
    "psgd": "sgd",
    "pcg": "cg",
    "exact": "newton",
    "normal": "lsqr cholesky svd",
    "uniform": "random",
    "kmeans": "k-means kmeans++",
    "leverage": "rls",
    "standard": "standardize zscore",
    "sigma": "length_scale lengthscale bandwidth",
    "minmax": "min-max",
    "none": "off false",
    "float64": "double",
    "float32": "single float",
}
NAME_SYNONYMS = {name: word for word, names in _CALLED_ELSEWHERE.items() for name in names.split()}
"""What other tools call it -> the word here; it is the answer only where that word is possible."""


def refuse_url(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a URL where a path is needed; else the folder 's3:' would be made here.

    Examples
    --------
    >>> try:
    ...     refuse_url("s3://bucket/run", "a checkpoint")
    ... except UnsupportedError as error:
    ...     print(error)
    s3://bucket/run: a checkpoint lies on this machine or on a disk that it mounts, not at a URL. Give a path.
    """
    if "://" in os.fspath(path):
        raise UnsupportedError(
            f"{os.fspath(path)}: {what} lies on this machine or on a disk that it mounts, not at a URL. Give a path."
        )


def quote_name(name: Any) -> str:
    """A name for people, in quotes; its code points where letters and accents stand apart, as others look the same.

    Examples
    --------
    >>> print(quote_name("\u00e9"), quote_name("e\u0301"))
    'é' 'e\\u0301'
    """
    if isinstance(name, str) and len(name) > 200:
        name = f"{name[:200]}..."
    return repr(name) if unicodedata.is_normalized("NFC", str(name)) else ascii(name)


def nearest_name(name: str, names: Sequence[str], part: Callable[[str], str] = str) -> str:
    """' Did you mean ...?' for a misspelled name or one of another tool, or the names there are, or nothing.

    Parameters
    ----------
    part : of a name, by which others are like it

    Examples
    --------
    >>> nearest_name("lable", ["x", "label"]), nearest_name("Y", ["x", "y"])
    (" Did you mean 'label'?", " Did you mean 'y'?")
    >>> nearest_name("gb_per_month", ["income", "GB per month"])
    " Did you mean 'GB per month'?"
    >>> nearest_name("mse", ["hinge", "squared"])
    " Did you mean 'squared'?"
    """
    import difflib

    folded = {_fold(each): each for each in reversed(names)}
    meant = (_fold(name), _fold(NAME_SYNONYMS.get(name.lower(), "")))
    alike = [folded[each] for each in meant if each and each in folded and folded[each] != name]
    parts = {part(each): each for each in reversed(names)}
    close = alike[:1] or [parts[each] for each in difflib.get_close_matches(part(name), parts, n=1, cutoff=0.6)]
    if close:
        return f" Did you mean {quote_name(close[0])}?"
    listed = ", ".join(map(quote_name, names[:12])) + (", ..." if len(names) > 12 else "")
    return f" There are: {listed}." if names else ""


def _fold(name: str) -> str:
    """A name without case, blanks and what stands for them."""
    return re.sub(r"[\s_.-]+", "", name).lower() or name
