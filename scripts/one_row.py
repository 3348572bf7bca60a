"""Print how an ONNX graph of a model agrees with the model, and how long one row takes: one_row.py MODEL DATA."""

import sys
from time import perf_counter

import numpy as np
import onnxruntime
import pandas as pd

import dkernel

ROWS = 300


def inputs(model, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The rows of a frame as the graph takes them."""
    if model.encoding is None or model.encoding.plain:
        return {"X": frame[list(model.columns)].to_numpy(np.float32)}
    found = {}
    for name, kind in model.encoding.kinds.items():
        column = frame[name]
        if kind == "category":
            found[name] = column.astype("object").where(column.notna(), "").astype(str).to_numpy(object)[:, None]
        elif kind == "date":
            found[name] = ((pd.to_datetime(column) - pd.Timestamp(0)) / pd.Timedelta(1, "s")).to_numpy()[:, None]
        else:
            found[name] = column.to_numpy(np.float32)[:, None]
    return found


def main(path: str, data: str) -> None:
    """Compare and time."""
    estimator = dkernel.load(path)
    model = estimator.model_
    frame = (pd.read_csv if data.endswith(".csv") else pd.read_parquet)(data).iloc[:2000]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    graph = dkernel.to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    given = inputs(model, frame)
    scores = session.run(["score"], given)[0]
    answer = estimator.predict if model.classes is None else estimator.decision_function
    own = np.asarray(answer(frame[list(model.columns)])).reshape(scores.shape)
    times = []
    for i in range(min(ROWS, len(frame))):
        row = {name: values[i : i + 1] for name, values in given.items()}
        begin = perf_counter()
        session.run(None, row)
        times.append(perf_counter() - begin)
    local = "no local stage" if model.local is None else model.local.kind
    off = np.abs(scores - own).max() / np.abs(own).max()
    print(
        f"{path}: {local}, {len(graph):,} bytes; off by {off:.2g} of the largest score (rounding {model.rounding:.2g})"
    )
    print(f"one row: {1e3 * np.median(times):.2f} ms (median of {len(times)})")


if __name__ == "__main__":
    main(*sys.argv[1:])
