"""Columns of a data frame as the inputs of an ONNX graph."""

import numpy as np
import pandas as pd


def feed(machine, frame, name):
    """The values of a column as the graph takes them: categories by the texts that pandas has of them, in UTC."""
    column, kind = frame[name], machine.model_.encoding.kinds[name]
    if kind == "date":
        moments = np.asarray(column, "datetime64[us]")
        return np.where(np.isnat(moments), np.nan, moments.astype(float) / 1e6)[:, None]
    if kind == "duration":
        return pd.to_timedelta(column).dt.total_seconds().to_numpy()[:, None]
    if kind == "number":
        return column.astype("float64").to_numpy()[:, None]
    if column.dtype.kind == "m":
        column = column.dt.total_seconds()
    elif isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert(None)
    return column.astype(object).where(column.notna(), "").astype(str).to_numpy(object)[:, None]
