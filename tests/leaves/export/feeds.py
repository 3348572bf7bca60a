"""What an ONNX graph answers, and the columns of a data frame as its inputs."""

import numpy as np
import onnx
import onnxruntime
import pandas as pd


def answers(graph, given):
    """Name -> value of every output; `given` has the inputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


def feeds(machine, frame, graph):
    """The columns of a frame as the graph takes them."""
    inputs = {value.name: value for value in graph.graph.input}
    given = {}
    for name in inputs:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(inputs[name].type.tensor_type.elem_type)
        given[name] = feed(machine, frame, inputs[name].doc_string).astype(dtype)
    return given


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
