"""Each output format holds what it can, byte for byte, and names the column that it cannot."""

from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.endings import COMPRESSIONS, FORMATS, OTHER_ENDINGS
from dkernel.data.writers import formats
from dkernel.data.writers.destination import Destination
from dkernel.data.writers.formats import OUTPUT_FORMATS, choose_format
from dkernel.errors import DataError, UnsupportedError
from tests.data.test_destination import contents

JOB = {"model": "m1"}


@pytest.mark.parametrize(
    ("name", "column", "match"),
    [
        ("a.npy", pa.array(["x"]), "'c' is of type string"),
        ("a.npy", pa.array([None], pa.int64()), "'c' has 1 missing"),
        ("a.zarr", pa.array([None], pa.string()), "'c' has 1 missing"),
        ("a.zarr", pa.array([0], pa.timestamp("us")), "'c' is of type timestamp"),
        ("a.csv", pa.array([[1]]), "'c' is of type list"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_by_name(tmp_path, name, column, match):
    with pytest.raises(DataError, match=match), Destination(tmp_path / name).stage(JOB) as staging:
        staging.commit([staging.part_writer(0, 1).write([pa.table({"c": column})])], ("c",))
    assert not (tmp_path / name).exists()


def test_npy_of_one_type_is_a_plain_array(tmp_path):
    scores = pa.table({"score_a": np.float32([1, 2]), "score_b": np.float32([3, 4])})
    with Destination(tmp_path / "s.npy").stage(JOB) as staging:
        staging.commit([staging.part_writer(i, 2).write([scores]) for i in range(3)], scores.column_names)
    found = np.load(tmp_path / "s.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.tile([[1, 3], [2, 4]], (3, 1)))


def test_csv_keeps_text_and_missing_values_apart(tmp_path):
    kept = pa.table({'a,"b': ["007", "", None, "é\n,", '"'], "d": pa.array(list("xyxyx")).dictionary_encode()})
    with Destination(tmp_path / "s.csv").stage(JOB) as staging:
        staging.commit([staging.part_writer(0, 5).write([kept])], kept.column_names)
    assert (tmp_path / "s.csv").read_bytes() == ('"a,""b",d\n"007","x"\n"","y"\n,"x"\n"é\n,","y"\n"""","x"\n'.encode())


TEXTS = pa.array(["b", "", "a", "b"])
VALUES = {
    "text": [TEXTS, TEXTS.cast(pa.large_string()), TEXTS.cast(pa.binary()), pa.array([b"aa", b"bb"], pa.binary(2))],
    "numbers": [pa.array([3, 1, 3], pa.int8()), pa.array([0.5, 1], pa.float16()), pa.array([True, False])],
    "times": [
        *(pa.array([7, 0, 7], kind) for kind in (pa.date32(), pa.timestamp("s", "UTC"), pa.time64("us"))),
        pa.array([90_061, 0], pa.duration("s")),
        pa.array(["1.50", "2.00"]).cast(pa.decimal128(5, 2)),
    ],
}
HELD = {".csv": VALUES, ".npy": ["numbers"], ".zarr": ["numbers", "text"]}


@pytest.mark.parametrize(
    ("ending", "values"),
    [(ending, values) for ending, kinds in HELD.items() for kind in kinds for values in VALUES[kind]],
    ids=lambda value: value if isinstance(value, str) else str(value.type),
)
def test_a_category_is_written_as_its_values_and_bytes_as_their_text(tmp_path, ending, values):
    plain = values.cast(pa.string()) if values.type in (pa.binary(), pa.binary(2)) else values
    content = []
    for name, column in (("a", plain), ("b", values), ("c", values.dictionary_encode())):
        with Destination(tmp_path / f"{name}{ending}").stage(JOB) as staging:
            part = staging.part_writer(0, len(column)).write([pa.table({"c": column})])
            staging.commit([part], ("c",))
        content.append(contents(tmp_path / f"{name}{ending}"))
    assert content[0] == content[1] == content[2]


def test_zarr_chunks_and_row_groups_are_whole(tmp_path, monkeypatch):
    import zarr

    monkeypatch.setattr(formats, "ROW_GROUP", 4)
    rows = (5, 1, 7, 3)
    parts = [pa.table({"c": np.arange(10 * i, 10 * i + n)}) for i, n in enumerate(rows)]
    for name in ("a.zarr", "a.parquet"):
        with Destination(tmp_path / name).stage(JOB) as staging:
            written = [staging.part_writer(i, n).write([t]) for i, (n, t) in enumerate(zip(rows, parts, strict=True))]
            staging.commit(written, ("c",))
    array = zarr.open_group(tmp_path / "a.zarr", mode="r")["c"]
    assert array.chunks == (4,)
    np.testing.assert_array_equal(array[:], pa.concat_tables(parts)["c"].to_numpy())
    file = pq.ParquetFile(tmp_path / "a.parquet")
    # Small neighbours are joined, so that many small units do not make many small groups.
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [5, 8, 3]


def test_numbers_have_no_dictionary_in_parquet_and_texts_have(tmp_path):
    table = pa.table({"id": np.arange(9), "score": np.ones(9, "float32"), "label": ["a", "b", "a"] * 3})
    OUTPUT_FORMATS[".parquet"].stage([table], tmp_path / "a.parquet")
    file = pq.ParquetFile(tmp_path / "a.parquet")
    columns = [file.metadata.row_group(0).column(i) for i in range(3)]
    assert [column.has_dictionary_page for column in columns] == [False, False, True]
    assert file.read().equals(table)


@pytest.mark.parametrize("ending", OUTPUT_FORMATS)
def test_every_format_stages_and_assembles_the_same_bytes_twice(tmp_path, ending):
    form = OUTPUT_FORMATS[ending]
    content = []
    for attempt in ("1", "2"):
        staged = [tmp_path / f"{attempt}-{i}{form.ending}" for i in range(3)]
        for i, path in enumerate(staged):
            form.stage([pa.table({"c": np.arange(i, i + 4), "d": np.ones(4, "float32")})], path)
        output = tmp_path / f"out{attempt}"
        form.assemble(staged, ("c", "d"), output)
        files = sorted(p for p in output.rglob("*") if p.is_file()) if output.is_dir() else [output]
        content.append([p.read_bytes() for p in [*staged, *files]])
    assert content[0] == content[1]


def test_the_ending_decides():
    names = ("a.parquet", "A.CSV", "a.npy", "a.zarr", "a", "a.b", "2024.01")
    assert [choose_format(Path(name)).ending for name in names] == [".parquet", ".csv", ".npy", ".zarr", "", "", ""]


@pytest.mark.parametrize(
    "ending", sorted({*FORMATS, *COMPRESSIONS, *chain(*OTHER_ENDINGS.values())} - {*OUTPUT_FORMATS})
)
def test_no_folder_has_the_name_of_a_file(ending):
    with pytest.raises(UnsupportedError, match=rf"^a\{ending.upper()}: \{ending} files are not written"):
        choose_format(Path(f"a{ending.upper()}"))
