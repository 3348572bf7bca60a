"""Arrays in files: plain matrices with numbered columns, named arrays, every memory order, alignment with chunks."""

import contextlib
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dkernel.data.opening import open_source
from dkernel.data.source import Source
from dkernel.errors import DataError

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

X = np.arange(40.0).reshape(10, 4)
Y = np.arange(10) % 2


def values(source: Source) -> np.ndarray:
    return source.X.compute(scheduler="sync")


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i1", ">i8", "u2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_every_type_and_order(tmp_path: Path, dtype: str, order: str) -> None:
    array = np.asarray(X, dtype=dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", array)
    for name in ("a.npy", "a.npz"):
        found = values(open_source(tmp_path / name))
        np.testing.assert_array_equal(found, array.astype("float32"))


def test_units_of_a_long_npy_are_equal_slices(tmp_path: Path) -> None:
    array = np.arange(600_000, dtype=np.float32).reshape(300_000, 2)
    for order in ("C", "F"):
        np.save(tmp_path / "a.npy", np.asarray(array, order=order))
        source = open_source(tmp_path / "a.npy", label="-1")
        assert [u.rows for u in source.units] == [(100_000,)] * 3
        np.testing.assert_array_equal(values(source)[:, 0], array[:, 0])
        np.testing.assert_array_equal(source.y.compute(scheduler="sync"), array[:, 1])


@pytest.mark.parametrize("label", ["3", "-1"])
def test_columns_by_number(tmp_path: Path, label: str) -> None:
    np.save(tmp_path / "a.npy", X)
    source = open_source(tmp_path / "a.npy", label=label, exclude="-3", keep="0")
    assert (source.columns, source.label, source.kept) == (("2",), "3", ("0",))
    block = source.units[0].task.compute(scheduler="sync")[0]
    assert block.y.tolist() == X[:, 3].tolist()
    assert block.kept.column("0").to_pylist() == X[:, 0].tolist()
    with pytest.raises(DataError, match="no column '4'"):
        open_source(tmp_path / "a.npy", label="4")


@pytest.mark.parametrize("strip", [1, 300, 2**18])
@pytest.mark.parametrize("stored", ["a.npy", "a.npz"])
def test_columns_are_told_apart_strip_by_strip(tmp_path: Path, monkeypatch, strip: int, stored: str) -> None:
    monkeypatch.setattr("dkernel.leaves.arrays.npy._STRIP", strip)
    array = np.random.default_rng(0).normal(size=(401, 6)).astype("float32")
    words = np.arange(401) % 3
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", X=array, word=words)
    source = open_source(tmp_path / stored, columns=["1", "3", "4"], label="5", allow_extra=True)
    block = source.units[0].task.compute(scheduler="sync")[0]
    np.testing.assert_array_equal(block.X, array[:, [1, 3, 4]])  # no neighbours: read as a whole
    columns = ["1", "2", "3"]
    source = open_source(tmp_path / stored, columns=columns, label="5", keep=["0", "2"], allow_extra=True)
    block = source.units[0].task.compute(scheduler="sync")[0]
    np.testing.assert_array_equal(block.X, array[:, 1:4])
    assert block.X.flags.c_contiguous
    assert block.y.tolist() == array[:, 5].tolist()
    assert block.kept.to_pydict() == {"0": array[:, 0].tolist(), "2": array[:, 2].tolist()}
    if stored == "a.npz":
        source = open_source(tmp_path / stored, columns=columns, label="word", allow_extra=True)
        assert source.units[0].task.compute(scheduler="sync")[0].y.tolist() == words.tolist()


def header(text: str, length: int | None = None) -> bytes:
    content = text.encode()
    return b"\x93NUMPY\x02\x00" + (length or len(content)).to_bytes(4, "little") + content


SHAPED = "{{'descr': '{}', 'fortran_order': False, 'shape': {}}}".format


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (header(SHAPED("<f8", "(0, 1000000000000)")), "at most 4,194,304 columns"),
        (header("-" * 60_000), "truncated or damaged"),
        (header("[" * 60_000), "truncated or damaged"),
        (header("{}", 2**32 - 1), "4,294,967,295 bytes, which none needs"),
        (header(SHAPED("|V0", "(1000000000000,)")), "truncated or damaged"),
        (header(SHAPED("<U0", "(1000000000000, 2)")), "truncated or damaged"),
        (header(SHAPED("<f8", "(1000000000000000000000, 2)")), "truncated: an array"),
    ],
)
def test_a_header_that_asks_for_the_impossible_is_refused(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", content)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=match):
            open_source(tmp_path / name)


@pytest.mark.parametrize("form", ["zarr", "h5"])
def test_an_array_of_too_many_columns_is_refused_before_they_are_named(tmp_path: Path, form: str) -> None:
    shape = {"shape": (3, 10**12), "chunks": (1, 1000), "dtype": "f4"}
    if form == "zarr":
        zarr.create_array(tmp_path / "a.zarr", **shape)
    else:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("X", **shape)
    with pytest.raises(DataError, match="at most 4,194,304 columns"):
        open_source(tmp_path / f"a.{form}")


PACKED = [
    ({"scale_factor": 0.1}, "i2", "scale_factor=0.1"),
    ({"add_offset": 5.0, "scale_factor": 1.0}, "f4", "add_offset=5.0"),
    ({"_FillValue": -32768}, "i2", "_FillValue=-32768"),
    ({"missing_value": -9999.0}, "f4", "missing_value=-9999.0"),
    ({"_FillValue": "AAAAAAAA+H8="}, "f8", None),
    ({"_FillValue": float("nan"), "scale_factor": 1, "add_offset": 0.0, "units": "m"}, "f4", None),
]


@pytest.mark.parametrize(("attributes", "dtype", "said"), PACKED)
@pytest.mark.parametrize("form", ["zarr", "h5"])
def test_packed_numbers_are_refused(tmp_path: Path, form: str, attributes: dict, dtype: str, said: str | None) -> None:
    path = tmp_path / f"a.{form}"
    with contextlib.ExitStack() as opened:
        zarr_or_hdf5 = zarr.open_group(path, mode="w") if form == "zarr" else opened.enter_context(h5py.File(path, "w"))
        for key in ("X", "t"):
            made = zarr_or_hdf5.create_array if form == "zarr" else zarr_or_hdf5.create_dataset
            array = made(key, data=np.ones((4, 2) if key == "X" else 4, dtype))
            array.attrs.update(attributes if key == "t" else {})
    if said is None:
        assert open_source(path).columns == ("0", "1", "t")
        return
    with pytest.raises(DataError, match=rf"the array 't' is packed \({said}\)"):
        open_source(path)
    assert open_source(path, exclude="t").columns == ("0", "1")


def test_the_tables_of_pandas_in_hdf5_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("df").attrs["pandas_type"] = "frame_table"
        file["df"]["table"] = np.zeros(3, [("index", "i8"), ("a", "f8")])
    with pytest.raises(DataError, match=r"'df' is a table in the form of PyTables.*read_hdf\('.*a\.h5', 'df'\)"):
        open_source(tmp_path / "a.h5", label="y")


def test_structured_npy_has_names(tmp_path: Path) -> None:
    rows = np.array([(1.5, 2, "a"), (2.5, 3, "b")], dtype=[("x", "f8"), ("n", "i2"), ("word", "U3")])
    np.save(tmp_path / "a.npy", rows)
    source = open_source(tmp_path / "a.npy", label="word", keep=["n"])
    block = source.units[0].task.compute(scheduler="sync")[0]
    assert source.columns == ("x",)
    assert block.y.tolist() == ["a", "b"]
    assert block.kept.to_pydict() == {"n": [2, 3]}


def test_arrays_of_one_value_a_row_alone(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/a"], file["group/b"] = X[:, 0], Y
        file["word"] = ["w"] * 10
    source = open_source(tmp_path / "a.h5", label="word")
    assert source.columns == ("group/a", "group/b")
    np.testing.assert_array_equal(values(source), np.stack([X[:, 0], Y], axis=1))
    np.savez(tmp_path / "a.npz", a=X[:, 0], b=Y[:, None])
    np.testing.assert_array_equal(values(open_source(tmp_path / "a.npz")), np.stack([X[:, 0], Y], axis=1))


def test_zarr_array_and_alignment_with_its_chunks(tmp_path: Path) -> None:
    array = np.arange(500_000, dtype=np.float32).reshape(250_000, 2)
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(30_000, 2))
    source = open_source(tmp_path / "a.zarr")
    starts = np.cumsum([0, *(u.n_rows for u in source.units)])[:-1]
    assert (starts % 30_000 == 0).all()
    assert len(source.units) == 3
    np.testing.assert_array_equal(values(source), array)
    zarr.create_array(tmp_path / "b.zarr", data=array, chunks=(200_000, 2))
    assert [u.rows for u in open_source(tmp_path / "b.zarr").units] == [(100_000, 100_000), (50_000,)]


def test_zarr_of_the_second_format(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", data=X, chunks=(4, 4), zarr_format=2)
    np.testing.assert_array_equal(values(open_source(tmp_path / "a.zarr")), X)


def test_damaged_zarr(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", data=X, chunks=(10, 4))
    source = open_source(tmp_path / "a.zarr")
    chunk = next(p for p in (tmp_path / "a.zarr" / "c").rglob("*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"a\.zarr, rows 1 to 10: a chunk is truncated"):
        values(source)
    (tmp_path / "b.zarr").mkdir()
    with pytest.raises(DataError, match=r"b\.zarr.*not a Zarr store"):
        open_source(tmp_path / "b.zarr")


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"X": X, "y": Y[:9]}, r"'X' has the shape \(10, 4\), but the array 'y' has the shape \(9,\)"),
        ({"a": X, "b": X}, "several two-dimensional arrays"),
        ({"X": X[None]}, "a table of 2 dimensions"),
        ({"X": X, "0": Y}, "'0' has the name of a column"),
    ],
)
def test_arrays_that_do_not_make_a_table(tmp_path: Path, arrays: dict, match: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=rf"a\.npz.*{match}"):
        open_source(tmp_path / "a.npz")


def test_named_matrix_among_others(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, other=X[:, :2], y=Y)
    assert values(open_source(tmp_path / "a.npz", label="y")).tolist() == X.tolist()


ODD = {
    "another length": (np.arange(2), r"'other' has the shape \(2,\)"),
    "objects": (np.array([{}, *[None] * 9]), "'other' holds Python objects"),
    "a matrix": (np.ones((10, 2)), "several two-dimensional arrays"),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_array_that_cannot_be_read_can_be_excluded(tmp_path: Path, kind: str) -> None:
    odd, match = ODD[kind]
    np.savez(tmp_path / "a.npz", first=X, y=Y, other=odd)
    with pytest.raises(DataError, match=match):
        open_source(tmp_path / "a.npz", label="y")
    assert values(open_source(tmp_path / "a.npz", label="y", exclude="other")).tolist() == X.tolist()


def test_missing_values_name_the_row_of_the_file(tmp_path: Path) -> None:
    array = np.zeros((300_000, 2), np.float32)
    array[222_222, 1] = np.nan
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match=r"a\.npy, row 222223, column '1'"):
        values(open_source(tmp_path / "a.npy"))


def test_row_groups_are_joined_and_cut(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"x": np.arange(300_000, dtype=np.float32)})
    pq.write_table(table, tmp_path / "small.parquet", row_group_size=50_000)
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=300_000)
    assert [u.rows for u in open_source(tmp_path / "small.parquet").units] == [(100_000,)] * 3
    large = open_source(tmp_path / "large.parquet")
    assert [u.rows for u in large.units] == [(100_000,) * 3]
    np.testing.assert_array_equal(values(large)[:, 0], np.arange(300_000))


MATRICES = [(suffix, kind) for suffix in (".npy", ".npz", ".zarr") for kind in ("M8[D]", "M8[h]", "m8[m]")]


@pytest.mark.parametrize(("suffix", "kind"), [*MATRICES, (".npy", "S"), (".npz", "S"), (".h5", "S")])
def test_a_matrix_that_holds_no_numbers_is_read_as_its_columns(tmp_path: Path, suffix: str, kind: str) -> None:
    """A matrix of bytes had levels such as "b'red'", and one of dates ended in an error of numpy."""
    matrix = np.array([["red", "blue"]] * 6) if kind == "S" else np.arange(12).reshape(6, 2)
    matrix = matrix.astype(kind)
    if suffix == ".npy":
        np.save(tmp_path / "a.npy", matrix)
    elif suffix == ".npz":
        np.savez(tmp_path / "a.npz", matrix)
    elif suffix == ".zarr":
        zarr.save_array(tmp_path / "a.zarr", matrix, zarr_format=2)
    else:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["X"] = matrix
    source = open_source(tmp_path / f"a{suffix}")
    assert source.encoding is not None
    assert set(source.encoding.kinds.values()) == {{"S": "category", "M": "date", "m": "duration"}[kind[0]]}
    if kind == "S":
        assert source.encoding.names == ("0=red", "1=blue")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.h5", "a.svmlight"])
@pytest.mark.parametrize("dtype", ["auto", "float32", "float64"])
def test_missing_numbers_of_columns_are_counted_in_every_dtype(tmp_path: Path, name: str, dtype: str) -> None:
    """The plain command ended in a TypeError of numpy: columns of numbers were counted in the dtype "auto"."""
    columns = {"1": np.arange(20.0), "2": np.arange(20, dtype=np.float32), "label": np.arange(20) % 2}
    columns["1"][3] = np.nan
    if name == "a.npy":
        np.save(tmp_path / name, np.rec.fromarrays(list(columns.values()), names=list(columns)))
    elif name == "a.npz":
        np.savez(tmp_path / name, **columns)
    elif name == "a.h5":
        with h5py.File(tmp_path / name, "w") as file:
            file.update(columns)
    else:
        rows = zip(*columns.values(), strict=True)
        (tmp_path / name).write_text("".join(f"{y} 1:{a} 2:{b}\n" for a, b, y in rows))
    source = open_source(tmp_path / name, label="label", dtype=dtype, missing="indicator")
    assert source.filled is not None
    X = source.filled().X.compute()
    assert X.shape == (20, 3)
    assert [float(i == 3) for i in range(20)] in X.T.tolist()
