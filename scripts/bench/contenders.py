"""The others of the main job: each reads Parquet and learns as its own pages advise, in bounded memory.

A fit is a process of its own, which leaves its model in a file; another process counts the errors on the test rows.

    python scripts/bench/contenders.py LightGBM TRAIN LABEL MODEL
    python scripts/bench/contenders.py LightGBM TRAIN LABEL MODEL TEST
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

BATCH = 16_384  # rows that a map sees at once: their 1,024 components in float64 are 128 MiB
BLOCK = 4096  # rows of dask-ml's blocks: Dask advises blocks of which a worker holds some ten, and these are 32 MiB
GROUP = 131_072  # rows that trees read at once
COMPONENTS = 1024
TREES, LEAVES = 300, 63
CALENDAR = ("month", "day_of_week", "hour")


@dataclass(frozen=True)
class Columns:
    """How the columns of a Parquet table become numbers: a text by its place in a list, a date by day and calendar.

    Parameters
    ----------
    files : of the rows to train on
    label : its column
    kinds : name of an input -> "number", "date", or the texts that it has
    classes : the values of the label, sorted
    """

    files: tuple[Path, ...]
    label: str
    kinds: dict[str, Any]
    classes: NDArray[Any]

    @classmethod
    def of(cls, path: Path, label: str) -> "Columns":
        files = files_of(path)
        kinds: dict[str, Any] = {}
        for field in pq.read_schema(files[0]):
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                kinds[field.name] = pd.Index(different(files, field.name))
            else:
                kinds[field.name] = "date" if pa.types.is_timestamp(field.type) else "number"
        kinds.pop(label)
        return cls(files, label, kinds, np.sort(different(files, label)))

    def texts(self) -> list[int]:
        """Where texts stand among the inputs of trees."""
        kinds = list(self.kinds.values())
        ends = np.cumsum([1 + len(CALENDAR) * (str(kind) == "date") for kind in kinds])
        return [int(ends[i]) - 1 for i, kind in enumerate(kinds) if isinstance(kind, pd.Index)]

    def numbers(self, rows: pd.DataFrame, one_hot: bool) -> NDArray[np.float32]:
        """The inputs of some rows: (rows, inputs); `one_hot` has an input for each text, in place of its number."""
        found: list[Any] = []
        for name, kind in self.kinds.items():
            if isinstance(kind, pd.Index):
                codes = kind.get_indexer(rows[name])
                found += [np.eye(len(kind) + 1)[codes, :-1]] if one_hot else [np.where(codes < 0, np.nan, codes)]
            elif kind == "date":
                day = (rows[name] - pd.Timestamp(0)) / pd.Timedelta(days=1)
                found += [day, *(getattr(rows[name].dt, part) for part in CALENDAR)]
            else:
                found.append(rows[name])
        return np.column_stack(found).astype(np.float32, copy=False)

    def labels(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        return np.searchsorted(self.classes, rows[self.label].to_numpy())


def files_of(path: Path) -> tuple[Path, ...]:
    return tuple(sorted(path.glob("*.parquet"))) if path.is_dir() else (path,)


def different(files: Sequence[Path], name: str) -> NDArray[Any]:
    """The values of a column, each once."""
    parts = [pc.unique(pq.read_table(file, columns=[name])[name]) for file in files]
    return pc.unique(pa.concat_arrays(parts)).to_numpy(zero_copy_only=False)


def frames(files: Sequence[Path], rows: int) -> Iterator[pd.DataFrame]:
    """At most so many rows at a time, in the order of the files."""
    for file in files:
        with pq.ParquetFile(file) as opened:
            yield from (batch.to_pandas() for batch in opened.iter_batches(rows))


# --- a random map and a linear model


def sgd() -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(average=True, random_state=0)


def random_map() -> Any:
    from sklearn.kernel_approximation import RBFSampler

    return RBFSampler(gamma="scale", n_components=COMPONENTS, random_state=0)


def fit_scikit_learn(columns: Columns) -> Any:
    """scikit-learn's page of out-of-core learning: `partial_fit`, batch by batch."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler, sampler, linear = StandardScaler(), random_map(), sgd()
    for i, rows in enumerate(frames(columns.files, BATCH)):
        X = columns.numbers(rows, one_hot=True)
        scaled = scaler.partial_fit(X).transform(X)
        inputs = sampler.fit_transform(scaled) if i == 0 else sampler.transform(scaled)
        linear.partial_fit(inputs, columns.labels(rows), classes=range(len(columns.classes)))
    return make_pipeline(scaler, sampler, linear)


def fit_dask_ml(columns: Columns) -> Any:
    """dask-ml's page of `Incremental`, in two workers of 1 GiB: the map runs in parallel, the linear model in turn."""
    import dask.dataframe as dd
    from dask_ml.preprocessing import StandardScaler
    from dask_ml.wrappers import Incremental
    from distributed import Client, LocalCluster
    from sklearn.pipeline import make_pipeline

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(np.column_stack([columns.numbers(rows, one_hot=True), columns.labels(rows)]))

    with LocalCluster(2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0") as made, Client(made):
        frame = dd.read_parquet([str(file) for file in columns.files], split_row_groups=True)
        meta = table(next(frames(columns.files, 1)))
        whole = frame.map_partitions(table, meta=meta).to_dask_array(lengths=True).rechunk((BLOCK, -1))
        scaler, sampler = StandardScaler().fit(whole[:, :-1]), random_map()
        scaled = scaler.transform(whole[:, :-1])
        sampler.fit(scaled[:BLOCK].compute())
        inputs = scaled.map_blocks(sampler.transform, chunks=(scaled.chunks[0], (COMPONENTS,)), dtype=np.float64)
        linear = Incremental(sgd()).fit(inputs, whole[:, -1], classes=list(range(len(columns.classes))))
    return make_pipeline(scaler, sampler, linear.estimator_)


# --- trees


def fit_lightgbm(columns: Columns) -> Any:
    """LightGBM's page of its Python package: a `Sequence` for each row group, which it samples, reads and bins."""
    import lightgbm

    @lru_cache(maxsize=1)
    def group(file: Path, i: int) -> NDArray[np.float32]:
        with pq.ParquetFile(file) as opened:
            return columns.numbers(opened.read_row_group(i).to_pandas(), one_hot=False)

    class RowGroup(lightgbm.Sequence):
        def __init__(self, file: Path, i: int, rows: int) -> None:
            self.place, self.batch_size = (file, i), rows

        def __len__(self) -> int:
            return self.batch_size

        def __getitem__(self, at: Any) -> NDArray[np.float32]:
            rows = group(*self.place)[at]
            return rows if isinstance(at, slice) else rows.astype(np.float64)  # as a sample is asked for

    found = [(file, pq.read_metadata(file)) for file in columns.files]
    groups = [RowGroup(file, i, at.row_group(i).num_rows) for file, at in found for i in range(at.num_row_groups)]
    labels = columns.labels(pd.concat([pd.read_parquet(file, columns=[columns.label]) for file in columns.files]))
    data = lightgbm.Dataset(groups, labels, categorical_feature=columns.texts())
    objective = "binary" if len(columns.classes) == 2 else "multiclass"
    settings = {"objective": objective, "num_class": max(1, len(columns.classes) * (objective != "binary"))}
    return lightgbm.train({**settings, "num_leaves": LEAVES, "verbose": -1, "seed": 0}, data, TREES)


def fit_xgboost(columns: Columns) -> Any:
    """XGBoost's page of external memory: an iterator of batches, whose bins are kept in files."""
    import xgboost

    kinds = ["q"] * columns.numbers(next(frames(columns.files, 1)), one_hot=False).shape[1]
    for i in columns.texts():
        kinds[i] = "c"

    class Batches(xgboost.DataIter):
        def next(self, input_data: Callable[..., None]) -> bool:
            rows = next(self.left, None)
            if rows is not None:
                data = columns.numbers(rows, one_hot=False)
                input_data(data=data, label=columns.labels(rows), feature_types=kinds)
            return rows is not None

        def reset(self) -> None:
            self.left = frames(columns.files, GROUP)

    objective = "binary:logistic" if len(columns.classes) == 2 else "multi:softprob"
    settings = {"objective": objective, "num_class": len(columns.classes) * (objective != "binary:logistic")}
    grown = {"tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0, "max_leaves": LEAVES}
    with tempfile.TemporaryDirectory() as folder:
        batches = Batches(cache_prefix=f"{folder}/rows")
        batches.reset()
        data = xgboost.ExtMemQuantileDMatrix(batches, enable_categorical=True)
        model = xgboost.train({**settings, **grown, "seed": 0}, data, TREES)
        del data  # its files before their folder
    return model


# --- processes


FITS: dict[str, Callable[[Columns], Any]] = {
    "scikit-learn": fit_scikit_learn,
    "dask-ml": fit_dask_ml,
    "LightGBM": fit_lightgbm,
    "XGBoost": fit_xgboost,
}


def predict(model: Any, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
    """Numbers of classes."""
    found = model.inplace_predict(inputs) if hasattr(model, "inplace_predict") else model.predict(inputs)
    if np.issubdtype(found.dtype, np.floating) and found.ndim == 2:
        return found.argmax(axis=1)
    return (found > 0.5).astype(np.int64) if found.dtype.kind == "f" else found


def error(way: str, columns: Columns, model: Any, test: Path) -> float:
    """The share of test rows with a wrong label."""
    wrong = total = 0
    for rows in frames(files_of(test), BATCH):
        found = predict(model, columns.numbers(rows, one_hot=way in ("scikit-learn", "dask-ml")))
        wrong += int((found != columns.labels(rows)).sum())
        total += len(rows)
    return wrong / total


def main(arguments: list[str]) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("way", choices=list(FITS))
    for name, kind in (("train", Path), ("label", str), ("model", Path)):
        ask.add_argument(name, type=kind)
    ask.add_argument("test", type=Path, nargs="?", help="say the error there, in place of a fit")
    args = ask.parse_args(arguments)
    columns = Columns.of(args.train, args.label)
    if args.test is None:
        joblib.dump(FITS[args.way](columns), args.model)
        return 0
    print(json.dumps({"error": error(args.way, columns, joblib.load(args.model), args.test)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
