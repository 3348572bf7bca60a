"""Rows to score, a model for them, and tables of any format as they are written and read back."""

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from dask.base import tokenize
from dask.delayed import Delayed

from dkernel.data.block import Block
from dkernel.data.rejected_rows import REJECTS
from dkernel.data.source import Source, Unit
from dkernel.errors import UnsupportedError

ROWS = ((3, 2), (4,), (1, 0, 1))


class LinearModel:
    """Stands for a Model: the first features are the scores."""

    reading = training_moments = None

    def __init__(self, classes, outputs=1, logistic=False, shift=0.0):
        self.classes = None if classes is None else np.asarray(classes)
        self.intercept = np.full(outputs, shift)
        self.logistic = self.has_probabilities = logistic

    def sum(self):
        return repr((self.classes, self.intercept))

    def scores(self, X):
        return (X[:, : len(self.intercept)] + self.intercept).astype(np.float32)

    def labels(self, S):
        return self.classes[(S[:, 0] > 0).astype(int) if S.shape[1] == 1 else S.argmax(axis=1)]

    def probabilities(self, S):
        if not self.logistic:
            raise UnsupportedError("no probabilities. Use loss='logistic'.")
        p = 1 / (1 + np.exp(-S.astype(np.float64)))
        return np.column_stack([1 - p[:, 0], p[:, 0]]) if S.shape[1] == 1 else p / p.sum(axis=1, keepdims=True)


def make_unit(rows, blocks, place, *names):
    """Blocks as a unit. A scheduler takes equal keys for equal values, so `names` are all that they depend on."""
    key = f"unit-{tokenize(*names)}"
    return Unit(rows, Delayed(key, {key: (tuple, blocks)}), place)


def a_source(rows=ROWS, fingerprint="f1", text=True, seed=0):
    """Units of blocks with an id and a text column, both kept."""
    X = np.random.default_rng(seed).normal(size=(sum(map(sum, rows)), 3)).astype(np.float32)
    units, first = [], 0
    for number, sizes in enumerate(rows):
        blocks = []
        for n in sizes:
            ids = np.arange(first, first + n)
            kept = {"id": ids} | ({"name": pa.array([f'n"{i},\n' for i in ids], pa.string())} if text else {})
            blocks.append(Block(X[first : first + n], kept=pa.table(kept)))
            first += n
        units.append(make_unit(sizes, blocks, f"file{number}", rows, fingerprint, text, seed, number))
    kept = ("id", "name") if text else ("id",)
    return Source(tuple(units), ("a", "b", "c"), kept=kept, fingerprint=fingerprint), X


def rejecting(source, bad):
    """The source with unit -> so many of its rows, counted but refused; of unit 3 no row is good."""
    units = []
    for number, unit in enumerate(source.units):
        n = bad.get(number, 0)
        listed = [("in.csv", 10 * number + i, 7, "a", "'?' is not a number", '?,"x\n"') for i in range(n)]
        table = pa.table([list(c) for c in zip(*listed, strict=True)], schema=REJECTS) if n else None
        first, *rest = unit.task.compute(scheduler="sync")
        rows = (unit.rows[0] + n, *unit.rows[1:])
        if n and number == 3:
            first, rest, rows = replace(first, X=first.X[:0], kept=first.kept[:0]), [], (n,)
        units.append(make_unit(rows, [replace(first, refused=table), *rest], unit.name, unit.task.key, n))
    return replace(source, units=tuple(units), fingerprint=f"rejecting {bad}")


def a_rejecting_source():
    return rejecting(a_source(rows=((3, 2), (4,), (1, 0, 1), (2,), (3,)))[0], {1: 2, 3: 4, 4: 1})


def write_table(path, frame, chunk=100):
    """A file of the format that its name ends in, in groups of so many rows; svmlight has the first column as label."""
    path = Path(path)
    kind = path.name.split(".", 1)[1]
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=chunk)
    elif kind == "npy":
        np.save(path, frame.to_records(index=False).view(np.ndarray))
    elif kind == "svmlight":
        rows = [" ".join([str(y), *(f"{j + 1}:{x}" for j, x in enumerate(X))]) for y, *X in frame.to_numpy(object)]
        path.write_text("\n".join([*rows, ""]))
    else:
        write_arrays(path, frame, (min(chunk, len(frame)) or 1,))


def write_arrays(path, frame, chunks):
    """A group of arrays, one a column, as Zarr or HDF5."""
    if path.suffix == ".zarr":
        import zarr

        group = zarr.open_group(path, mode="w")
        for name in frame:
            group.create_array(name, data=frame[name].to_numpy(copy=True), chunks=chunks)
    else:
        import h5py

        with h5py.File(path, "w") as file:
            for name in frame:
                file.create_dataset(name, data=frame[name], chunks=chunks if len(frame) else None)


def read_table(out, **options):
    """An output of any kind, on a disk or in a store, as a frame; `options` are of the reader of CSV."""
    out = str(out)
    if out.endswith(".npy"):
        with fsspec.open(out, "rb") as stream:
            array = np.load(BytesIO(stream.read()))
        return pd.DataFrame(array if array.dtype.names else array[:, 0], columns=array.dtype.names or ["score"])
    if out.endswith(".zarr"):
        import zarr

        group = zarr.open_group(out, mode="r")
        return pd.DataFrame({name: np.asarray(group[name][:]).tolist() for name in sorted(group.array_keys())})
    frames = []
    for file in fsspec.open_files(out if out.endswith((".csv", ".parquet")) else f"{out}/part-*.parquet", "rb"):
        with file as stream:
            frames.append(pd.read_csv(stream, **options) if out.endswith(".csv") else pd.read_parquet(stream))
    return pd.concat(frames, ignore_index=True)
