"""One table through every format: the same blocks, the same order, the same label."""

import gzip
import pickle
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from dkernel.data.opening import open_source
from dkernel.data.source import Source
from dkernel.errors import DataError
from tests.data.blocks import read_blocks, read_kept

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

P = 4
NAMES = [str(j) for j in range(P)]


def table(rows: int = 60, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, P))
    X[rng.random((rows, P)) < 0.2] = 0.0
    return X, rng.integers(0, 5, rows)


def arrow(X: np.ndarray, y: np.ndarray) -> pa.Table:
    return pa.table({**{n: X[:, j] for j, n in enumerate(NAMES)}, "label": y})


def write_svmlight(path: Path, X: np.ndarray, y: np.ndarray, base: int = 0) -> None:
    lines = []
    for row, label in zip(X, y, strict=True):
        # Repeating the last index even when it is zero keeps the width.
        pairs = [f"{j + base}:{v!r}" for j, v in enumerate(row.tolist()) if v or j in (0, P - 1)]
        lines.append(" ".join([str(label), *pairs]))
    path.write_text("\n".join(lines) + "\n")


def write(kind: str, folder: Path, X: np.ndarray, y: np.ndarray) -> Path:
    path = folder / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(arrow(X, y), path, row_group_size=17)
    elif kind == "csv":
        arrow_csv.write_csv(arrow(X, y), path)
    elif kind == "csv.gz":
        arrow_csv.write_csv(arrow(X, y), folder / "plain.csv")
        path.write_bytes(gzip.compress((folder / "plain.csv").read_bytes()))
        (folder / "plain.csv").unlink()
    elif kind == "npz":
        np.savez(path, X=X, label=y)
    elif kind == "packed.npz":
        np.savez_compressed(path, X=X, label=y)
    elif kind == "npy":
        record = np.dtype([*((n, "f8") for n in NAMES), ("label", y.dtype)])
        rows = np.empty(len(y), record)
        for j, n in enumerate(NAMES):
            rows[n] = X[:, j]
        rows["label"] = y
        np.save(path, rows)
    elif kind == "zarr":
        group = zarr.open_group(path, mode="w")
        group.create_array("X", data=X, chunks=(13, 2))
        group.create_array("label", data=y, chunks=(13,))
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=X, chunks=(min(11, len(X)), P))
            file["label"] = y
    elif kind == "svmlight":
        write_svmlight(path, X, y)
    return path


KINDS = ["parquet", "csv", "csv.gz", "npy", "npz", "packed.npz", "zarr", "h5", "svmlight"]


def values(source: Source) -> tuple[np.ndarray, np.ndarray]:
    blocks = read_blocks(source)
    assert tuple(b.rows for b in blocks) == source.chunk_rows
    assert all(b.X.flags.c_contiguous and b.X.dtype == source.dtype for b in blocks)
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "dtype"), [(60, "float32"), (39, "float64"), (1, "float32")])
def test_every_format_gives_the_same_blocks(kind: str, rows: int, dtype: str, tmp_path: Path) -> None:
    X, y = table(rows)
    source = open_source(write(kind, tmp_path, X, y), label="label", dtype=dtype, scratch=tmp_path / "scratch")
    found, label = values(source)
    assert source.columns == tuple(NAMES)
    np.testing.assert_array_equal(found, X.astype(dtype))
    np.testing.assert_array_equal(label, y)
    assert label.dtype == np.int64
    assert source.label_kind == "int"
    assert (source.n_rows, source.n_in) == X.shape


@pytest.mark.parametrize("kind", KINDS)
def test_kept_weight_and_chosen_columns(kind: str, tmp_path: Path) -> None:
    X, y = table()
    X[:, 2] = np.abs(X[:, 2])
    path = write(kind, tmp_path, X, y)
    source = open_source(path, label="label", weight="2", keep=["3"], columns=["1", "0"], scratch=tmp_path / "s")
    np.testing.assert_array_equal(source.X.compute(scheduler="sync"), X[:, [1, 0]].astype("float32"))
    kept = read_kept(source).column("3").to_numpy()
    np.testing.assert_array_equal(kept.astype("float32"), X[:, 3].astype("float32"))
    weight = np.concatenate([block.weight for block in read_blocks(source)])
    np.testing.assert_allclose(weight, X[:, 2], rtol=1e-7)
    assert source.kept == ("3",)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_value_names_its_row_and_column(kind: str, bad: float, tmp_path: Path) -> None:
    for row, column in ((0, "2"), (37, "2"), (37, "label")):
        X, y = table()
        whole = np.column_stack([X, y.astype(float)])
        whole[row, [*NAMES, "label"].index(column)] = bad
        if (column, bad) == ("label", 1e300):
            continue  # a number like any other
        path = write(kind, tmp_path, whole[:, :P], whole[:, P])
        with pytest.raises(DataError, match=rf"table\.{kind}, row {row + 1}, column '{column}'"):
            values(open_source(path, label="label", scratch=tmp_path / "scratch"))


def test_dask_arrays_of_a_source(tmp_path: Path) -> None:
    X, y = table()
    source = open_source(write("parquet", tmp_path, X, y), label="label", weight=None)
    assert source.X.chunks == (source.chunk_rows, (P,))
    np.testing.assert_array_equal(source.X.compute(scheduler="sync"), X.astype("float32"))
    np.testing.assert_array_equal(source.y.compute(scheduler="sync"), y)
    assert source.nbytes == X.size * 4


def test_keys_are_the_same_in_every_opening_and_differ_between_selections(tmp_path: Path) -> None:
    path = write("parquet", tmp_path, *table())
    first, second = open_source(path, label="label"), open_source(path, label="label")
    assert [u.task.key for u in first.units] == [u.task.key for u in second.units]
    assert first.fingerprint == second.fingerprint
    other = open_source(path, label="label", exclude=["1"])
    assert not {u.task.key for u in first.units} & {u.task.key for u in other.units}


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_travel(kind: str, tmp_path: Path) -> None:
    source = open_source(write(kind, tmp_path, *table(2000)), label="label", scratch=tmp_path / "scratch")
    for unit in source.units:
        assert len(pickle.dumps(dict(unit.task.__dask_graph__()))) < 5_000


@pytest.mark.parametrize("label", [np.array([True, False, True]), np.array([0.5, 1, 2]), np.array(["a", "bc", "a"])])
def test_labels_of_every_kind_in_every_typed_format(label: np.ndarray, tmp_path: Path) -> None:
    X = np.eye(3)
    np.savez(tmp_path / "a.npz", X=X, label=label)
    pq.write_table(arrow(X[:, [0, 1, 2, 0]], label), tmp_path / "a.parquet")
    categories = arrow(X[:, [0, 1, 2, 0]], label)
    coded = categories.set_column(4, "label", categories.column("label").dictionary_encode())
    pq.write_table(coded, tmp_path / "coded.parquet")
    arrow_csv.write_csv(arrow(X[:, [0, 1, 2, 0]], label), tmp_path / "a.csv")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X
        file["label"] = label.tolist() if label.dtype.kind == "U" else label
    for name in ("a.npz", "a.parquet", "coded.parquet", "a.csv", "a.h5"):
        source = open_source(tmp_path / name, label="label")
        found = values(source)[1]
        assert found.tolist() == label.tolist(), name
        assert found.dtype.kind == label.dtype.kind, name
        assert source.label_kind == {"b": "bool", "f": "float", "U": "text"}[label.dtype.kind]


def test_text_labels_of_several_widths(tmp_path: Path) -> None:
    for i, word in enumerate(("a", "longer", "b")):
        pq.write_table(pa.table({"x": [1.0], "y": [word]}), tmp_path / f"{i}.parquet")
    source = open_source(tmp_path, label="y")
    assert source.y.compute(scheduler="sync").tolist() == ["a", "longer", "b"]
    assert source.label_dtype == "U"


def test_kept_columns_travel_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": np.zeros(300_000), "k": np.arange(300_000)}), tmp_path / "a.parquet")
    blocks = read_blocks(open_source(tmp_path, keep="k"))
    assert len(blocks) == 3
    assert all(len(pickle.dumps(b.kept)) < 1_000_000 for b in blocks)


def test_pandas_frames_as_written_by_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2, 3], "c": pd.Categorical(["x", "y", "x"])}, index=[5, 7, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", label="c")
    assert source.columns == ("a",)
    assert values(source)[1].tolist() == ["x", "y", "x"]


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    system.mkdirs("/dk", exist_ok=True)
    yield system
    system.rm("/dk", recursive=True)


@pytest.mark.parametrize("kind", KINDS)
def test_urls(kind: str, tmp_path: Path, memory: fsspec.AbstractFileSystem) -> None:
    X, y = table()
    path = write(kind, tmp_path, X, y)
    memory.put(str(path), f"/dk/{path.name}", recursive=True)
    source = open_source(f"memory://dk/{path.name}", label="label", scratch=tmp_path / "scratch")
    np.testing.assert_array_equal(values(source)[0], X.astype("float32"))
    if kind != "zarr":
        memory.pipe(f"/dk/{path.name}", b"other")
        with pytest.raises(DataError, match="changed"):
            source.units[0].task.compute(scheduler="sync")


def test_a_folder_behind_a_url_is_in_natural_order(memory: fsspec.AbstractFileSystem) -> None:
    for i in (10, 2):
        memory.pipe(f"/dk/part.{i}.csv", f"x\n{i}\n".encode())
    memory.pipe("/dk/_SUCCESS", b"")
    for url in ("memory://dk", "memory://dk/*.csv"):
        assert open_source(url).X.compute(scheduler="sync")[:, 0].tolist() == [2, 10]
    with pytest.raises(DataError, match="no such file"):
        open_source("memory://dk/none.csv")
