"""Print how an ONNX graph of a model agrees with the model, and how long one row takes, in Python and in LightGBM too.

python scripts/one_row.py MODEL DATA
"""

import sys
from collections.abc import Callable
from time import perf_counter

import lightgbm
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


def milliseconds(call: Callable[[int], object], rows: int) -> str:
    """The least and the median time of a call for one row."""
    times = []
    for i in range(min(ROWS, rows)):
        begin = perf_counter()
        call(i)
        times.append(1e3 * (perf_counter() - begin))
    return f"{min(times):.3f} ms (median {np.median(times):.3f} of {len(times)})"


def grow_trees(X: np.ndarray, answers: np.ndarray, regression: bool) -> lightgbm.LGBMModel:
    """Trees of the usual size that answer as the model does."""
    kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    return kind(n_estimators=300, num_leaves=63, n_jobs=1, verbose=-1).fit(X, answers)


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
    local = "no local stage" if model.local is None else model.local.kind
    off = np.abs(scores - own).max() / np.abs(own).max()
    print(
        f"{path}: {local}, {len(graph):,} bytes; off by {off:.2g} of the largest score (rounding {model.rounding:.2g})"
    )
    rows = frame[list(model.columns)]
    print(
        "one row, graph:", milliseconds(lambda i: session.run(None, {n: v[i : i + 1] for n, v in given.items()}), ROWS)
    )
    print("Python, of a frame:", milliseconds(lambda i: estimator.predict(rows[i : i + 1]), len(rows)))
    numbers = rows.select_dtypes("number").to_numpy(np.float32)
    if numbers.shape[1] == len(model.columns):
        by_array = dkernel.load(path)
        del by_array.feature_names_in_  # scikit-learn warns of arrays where it has names
        print("Python, of an array:", milliseconds(lambda i: by_array.predict(numbers[i : i + 1]), len(rows)))
    trees = grow_trees(numbers, estimator.predict(rows), model.classes is None)
    print("LightGBM, of an array:", milliseconds(lambda i: trees.predict(numbers[i : i + 1]), len(rows)))
    print("its booster:", milliseconds(lambda i: trees.booster_.predict(numbers[i : i + 1]), len(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
