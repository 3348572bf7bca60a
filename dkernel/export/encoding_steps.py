"""The encoding of a table as a ColumnTransformer of scikit-learn, fitted to a few made rows."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dkernel.encoding import CategoryColumn, Encoding, NumberColumn
from dkernel.encoding.columns import ONE_HOT
from dkernel.export.exact import leaving


def encoder_of(encoding: Encoding) -> Any:
    """Transformer of the columns to the inputs; a category is 1 where the encoding has sqrt(1/2)."""
    leaving(encoding, "scikit-learn")
    names = encoding.column_names
    by_place = names == tuple(map(str, range(len(names)))) and not _has_texts(encoding)
    parts = [
        (name, _part(column, encoding.strict), [j if by_place else name])
        for j, (name, column) in enumerate(zip(names, encoding.columns, strict=True))
    ]
    rows = pd.DataFrame({column.name: _made(column) for column in encoding.columns})
    return ColumnTransformer(parts).fit(rows.to_numpy() if by_place else rows)


def units_of(encoding: Encoding) -> NDArray[np.float64]:
    """The value of each input where the made one is 1."""
    units = [ONE_HOT if isinstance(c, CategoryColumn) else 1.0 for c in encoding.columns for _ in c.names]
    return np.array(units)


def _has_texts(encoding: Encoding) -> bool:
    return any(column.kind != "number" for column in encoding.columns)


def _part(column: NumberColumn | CategoryColumn, strict: bool) -> Any:
    if isinstance(column, CategoryColumn):
        return _one_hot(column)
    imputer = SimpleImputer(
        strategy="constant", fill_value=column.mean, add_indicator=column.indicator, keep_empty_features=True
    )
    number = FunctionTransformer(np.asarray, kw_args={"dtype": "float64"})  # also of truth values
    first = number if column.kind == "number" else _seconds(column)
    return first if strict else Pipeline([("number", first), ("missing", imputer)])


def _one_hot(column: CategoryColumn) -> Pipeline:
    """One-hot inputs of texts, in which 3 and 3.0 are "3" and a missing value is "", as the encoding has them."""
    levels = [*column.levels, *[""] * column.missing]
    return Pipeline(
        [
            ("whole", FunctionTransformer(pd.DataFrame.convert_dtypes)),
            ("text", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "string"})),
            ("missing", FunctionTransformer(pd.DataFrame.fillna, kw_args={"value": ""})),
            ("objects", FunctionTransformer(pd.DataFrame.astype, kw_args={"dtype": "object"})),
            (
                "levels",
                OneHotEncoder(
                    categories=[np.array(levels, dtype=object)], handle_unknown="ignore", sparse_output=False
                ),
            ),
        ]
    )


def _seconds(column: NumberColumn) -> Pipeline:
    """Seconds from the offset of the encoding, which is the first date of the training."""
    begin = pd.Timestamp(int(column.offset), unit="s")
    return Pipeline(
        [
            ("since", FunctionTransformer(pd.DataFrame.sub, kw_args={"other": begin})),
            ("seconds", FunctionTransformer(pd.DataFrame.div, kw_args={"other": pd.Timedelta(1, "s")})),
        ]
    )


def _made(column: NumberColumn | CategoryColumn) -> Any:
    """Two rows, of which the second has a missing value."""
    if isinstance(column, CategoryColumn):
        return pd.array([column.levels[0] if column.levels else "", None], dtype="object")
    if column.kind == "date":
        return pd.to_datetime([pd.Timestamp(int(column.offset), unit="s"), pd.NaT])
    return [column.mean, np.nan]
