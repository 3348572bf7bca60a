"""Files of one job that differ: in columns that nobody reads, and in the types of columns that are kept."""

import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.errors import DataError
from tests.data.blocks import read_kept

N = 4


def write(folder, *tables):
    for number, columns in enumerate(tables):
        pq.write_table(pa.table({"x": np.arange(N) + 0.5, **columns}), folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("first", [{}, {"new": np.arange(N)}])
def test_excluded_columns_may_be_in_some_files_only(tmp_path, first):
    write(tmp_path, first, {"new": np.arange(N)}, {})
    source = open_source(tmp_path, columns=["x"], exclude="new")
    assert source.n_rows == 3 * N
    assert open_source(tmp_path, exclude="new").columns == ("x",)
    with pytest.raises(DataError, match=r"no column 'nw', named by exclude"):
        open_source(tmp_path, exclude="nw")


def test_a_column_more_in_a_file_names_the_ways_past_it(tmp_path):
    write(tmp_path, {}, {"new": np.arange(N)})
    with pytest.raises(DataError, match=r"1\.parquet has 'new' besides.*exclude=COLUMN, or .* allow_extra=True"):
        open_source(tmp_path, columns=["x"])
    with pytest.raises(DataError, match=r"1\.parquet has 'new' besides.*with exclude=COLUMN\."):
        open_source(tmp_path)
    assert open_source(tmp_path, columns=["x"], allow_extra=True).n_rows == 2 * N


def test_a_known_label_may_be_in_some_files_only(tmp_path):
    write(tmp_path, {"y": np.arange(N)}, {})
    assert open_source(tmp_path, columns=["x"], known=["y"]).n_rows == 2 * N


TEXT = ["a", "b", None, "a"]
SAME = [
    (pa.array(TEXT, pa.string()), pa.array(TEXT, pa.large_string()), pa.large_string()),
    (pa.array(TEXT).dictionary_encode(), pa.array(TEXT), pa.string()),
    (pa.array([1, 2, None, 3], pa.int32()), pa.array([2**40, 2, None, 3]), pa.int64()),
    (pa.array([1, 2, 3, 4]), pa.array([1.0, None, 3.0, 4.0]), pa.float64()),
    (pa.array([1, 2, 3, 4], pa.timestamp("s")), pa.array([1, 2, 3, 4], pa.timestamp("us")), pa.timestamp("us")),
    (pa.nulls(N), pa.array(TEXT), pa.string()),
]


@pytest.mark.parametrize(("one", "other", "kind"), SAME, ids=lambda value: str(getattr(value, "type", value)))
def test_kept_columns_of_several_types_come_out_in_one(tmp_path, one, other, kind):
    write(tmp_path, {"k": one}, {"k": other})
    found = read_kept(open_source(tmp_path, columns=["x"], keep="k"))["k"]
    assert found.type == kind
    assert found.to_pylist() == [*one.cast(kind).to_pylist(), *other.cast(kind).to_pylist()]


def test_kept_texts_of_arrays_and_tables_come_out_in_one_type(tmp_path):
    with h5py.File(tmp_path / "0.h5", "w") as file:
        file.update(x=np.arange(2.0), k=["a", "b"])
    with h5py.File(tmp_path / "1.h5", "w") as file:
        file.update(x=np.arange(2.0), k=np.array([b"c", b"d"]))
    np.savez(tmp_path / "2.npz", x=np.arange(2.0), k=np.array([b"e", b"f"]))
    pq.write_table(pa.table({"x": np.arange(2.0), "k": pa.array(["g", None], pa.large_string())}), tmp_path / "3.pq")
    found = read_kept(open_source(tmp_path, columns=["x"], keep="k"))["k"]
    assert (found.type, found.to_pylist()) == (pa.large_string(), [*"abcdefg", None])


def test_kept_columns_that_no_type_holds_are_refused(tmp_path):
    write(tmp_path, {"k": pa.array(range(N), pa.date32())}, {"k": pa.array(range(N), pa.timestamp("us"))})
    with pytest.raises(DataError, match="and no type holds both"):
        open_source(tmp_path, columns=["x"], keep="k")
    write(tmp_path, {"k": [2**60 + 1] * N}, {"k": [0.5] * N})
    with pytest.raises(DataError, match=r"0\.parquet: the kept column 'k' is of type int64, and not all of its values"):
        read_kept(open_source(tmp_path, columns=["x"], keep="k"))


BESIDE_TEXT = {
    "whole": (["1", "2"], pa.array([1, 2], pa.int32()), pa.int64()),
    "fraction": (["0.5", "2"], pa.array([1, 2], pa.int32()), pa.float64()),
    "text": (["u", "v"], pa.array(["u", "v"]).dictionary_encode(), pa.string()),
    "nothing beside decimals": (["", ""], pa.array([1, 2]).cast(pa.decimal128(21, 1)), pa.decimal128(21, 1)),
    "nothing beside lists": (["", ""], pa.array([[1], [2]]), pa.list_(pa.int64())),
    "text beside numbers": (["007", "1"], pa.array([1, 2]), None),
    "fractions beside decimals": (["0.5", "2"], pa.array([1, 2]).cast(pa.decimal128(21, 1)), None),
}


@pytest.mark.parametrize("texts_first", [True, False])
@pytest.mark.parametrize("case", BESIDE_TEXT)
def test_kept_columns_of_texts_and_typed_files_have_one_type(tmp_path, case, texts_first):
    texts, column, kind = BESIDE_TEXT[case]
    for folder in ("year=1", "year=2"):
        (tmp_path / folder).mkdir()
    text, typed = ("year=1", "year=2") if texts_first else ("year=2", "year=1")
    (tmp_path / text / "a.csv").write_text("x,k\n" + "".join(f"0.5,{value}\n" for value in texts))
    pq.write_table(pa.table({"x": [1.0, 2.0], "k": column}), tmp_path / typed / "a.parquet")
    if kind is None:
        with pytest.raises(DataError, match=r"the kept column 'k' is of type .* and no type holds both"):
            open_source(f"{tmp_path}/*/*", columns=["x"], keep=["k", "year"])
        return
    found = read_kept(open_source(f"{tmp_path}/*/*", columns=["x"], keep=["k", "year"]))
    assert (found["k"].type, len(found), found["k"].null_count) == (kind, 4, texts.count(""))
    assert found["year"].to_pylist() == [1, 1, 2, 2]


def test_kept_bytes_of_arrays_and_tables_have_one_type(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3.0), k=np.array([b"u", b"v", b"w"]))
    pq.write_table(pa.table({"x": [1.0], "k": [b"u"]}), tmp_path / "b.parquet")
    found = read_kept(open_source([tmp_path / "a.npz", tmp_path / "b.parquet"], columns=["x"], keep="k"))
    assert found["k"].cast(pa.string()).to_pylist() == ["u", "v", "w", "u"]


@pytest.mark.parametrize("url", ["memory://nobucket/train", "memory://nobucket/train/*.csv", "memory://nobucket/a.csv"])
def test_a_url_without_anything_is_not_said_to_be_of_no_format(url):
    with pytest.raises(
        DataError, match=r"no such file, folder or bucket, or no permission|no file matches, or there is no"
    ):
        expand(url)


def test_a_url_without_permission_says_so(monkeypatch):
    def refused(*_, **__):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "isdir", refused)
    with pytest.raises(DataError, match=r"or no permission to see it \(Access Denied\)"):
        expand("memory://bucket/train")


def test_a_missing_file_is_missing_on_this_machine(tmp_path):
    with pytest.raises(DataError, match="there is no such file or folder on this machine"):
        expand(tmp_path / "a.csv")


def test_names_that_look_alike_are_said_apart(tmp_path):
    write(tmp_path, {"\u00e9": [1.0] * N})
    with pytest.raises(
        DataError, match=r"lacks the columns 'e\\u0301' that .* Did you mean '\u00e9'|There are: .*'\u00e9'"
    ):
        open_source(tmp_path, columns=["x", "e\u0301"])
