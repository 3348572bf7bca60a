"""Seven kinds of input to four kinds of output: as many rows, in their order, with kept columns that lost nothing."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel.data.opening import open_source
from dkernel.data.writers import atomic, formats
from dkernel.data.writers.destination import Destination
from dkernel.errors import DataError
from dkernel.inference.score import write_scores
from dkernel.model.model_file import save
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from tests.inference.tables import read_table, write_table
from tests.inference.test_score import real_model

INPUTS = ("csv", "csv.gz", "parquet", "npy", "zarr", "h5", "svmlight")
OUTPUTS = ("csv", "parquet", "npy", "zarr")
ROWS, BAD = (9, 4, 7), 5
IDS = [f"{i:03d}" for i in range(sum(ROWS))]
"""As a CSV has them: text that is no number's own."""
NAMES = ["a", "b", "c"]


def rows() -> pd.DataFrame:
    """Ids and three features, of which one is missing."""
    X = np.random.default_rng(3).normal(size=(sum(ROWS), 3)).astype(np.float32)
    X[BAD, 1] = np.nan
    return pd.DataFrame(X, columns=NAMES).assign(id=IDS)[["id", *NAMES]]


@pytest.fixture
def model():
    return lambda kind: replace(real_model(), columns=("1", "2", "3") if kind == "svmlight" else tuple(NAMES))


def score_files(folder: Path, model, kind: str, out: Path, executor):
    """The name of the kept column, which is a number where the format has nothing else, and the result."""
    if not (folder / "in").exists():
        (folder / "in").mkdir()
        frame = rows() if kind.startswith("csv") else rows().astype({"id": int})
        for number, part in enumerate(np.split(frame.index, np.cumsum(ROWS)[:-1])):
            write_table(folder / "in" / f"{number}.{kind}", frame.loc[part], chunk=4)
    keep = "label" if kind == "svmlight" else "id"
    source = open_source(
        folder / "in",
        columns=model.columns,
        keep=[keep],
        scratch=folder / "scratch",
        kept_as=Destination(out).format.kept_as,
        quarantine=True,
        known=("label",),
    )
    return keep, write_scores(model, source, out, executor, write=["score"], max_bad_rows=1)


@pytest.mark.score("rows")
@pytest.mark.parametrize("kind", INPUTS)
def test_every_row_of_every_pair(tmp_path, model, kind, record_property):
    record_property("score", f"{len(OUTPUTS)}/{len(OUTPUTS)}")
    machine = model(kind)
    good = rows().drop(index=BAD)
    expected = machine.scores(good[NAMES].to_numpy())[:, 0]
    for ending in OUTPUTS:
        keep, result = score_files(tmp_path, machine, kind, tmp_path / f"out.{ending}", SerialExecutor())
        assert (result.rows, result.rejected, result.rows_in) == (sum(ROWS) - 1, 1, sum(ROWS))
        found = read_table(tmp_path / f"out.{ending}", dtype={keep: str})
        ids = good["id"] if kind.startswith("csv") and ending != "npy" else good["id"].astype(int)
        assert found[keep].tolist() == (ids.astype(str) if ending == "csv" else ids).tolist(), ending
        np.testing.assert_array_equal(found["score"].astype("float32"), expected)
        (listed,) = tmp_path.glob(f"out.{ending}.rejects-*.csv")
        assert str(listed) == result.rejects
        (row,) = csv.DictReader(listed.read_text().splitlines())
        assert row["file"].endswith(f"0.{kind}")
        assert row["line"] == str(BAD + 1 + kind.startswith("csv"))


@pytest.mark.cluster
def test_two_workers_write_the_same_bytes(tmp_path, model, two_workers):
    for kind, ending in zip(INPUTS, (*OUTPUTS, *OUTPUTS), strict=False):
        folder = tmp_path / kind
        folder.mkdir()
        outs = [folder / f"{name}" / f"out.{ending}" for name in ("serial", "cluster")]
        for out, place in zip(outs, (SerialExecutor(), two_workers), strict=True):
            out.parent.mkdir()
            score_files(folder, model(kind), kind, out, place)
        serial, cluster = ({p.name: atomic.file_digest(p) for p in out.parent.iterdir()} for out in outs)
        assert serial == cluster, (kind, ending)


RAW = [
    "3.50",
    "007",
    '"quoted"',
    '"a,b"',
    '"two\nlines"',
    '"say ""no"""',
    '5" pipe',
    "",
    '""',
    " x ",
    "1e5",
    "é",
    "2.0",
]


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_kept_values_of_csv_come_back(sign, tmp_path, model):
    """Each alone too, since a column of numbers is read as numbers; a quote that closes nothing is part of no other."""
    loose = ['"Foo" Bar, Inc.'] if sign != "," else ['"Foo" Bar']
    for number, texts in enumerate([[*RAW, *loose], *([text] for text in (*RAW, "2.0", "17"))]):
        rows = [sign.join((text, str(i), "0.5", "1.5", "2.5")) for i, text in enumerate(texts)]
        path, out = tmp_path / f"{number}.csv", tmp_path / f"out{number}.csv"
        path.write_text(sign.join("tnabc") + "\n" + "\n".join(rows) + "\n")
        form = Destination(out).format.kept_as
        source = open_source(path, columns=NAMES, keep=["t", "n", "a"], kept_as=form, quarantine=True, dtype="float32")
        write_scores(model("csv"), source, out, SerialExecutor(), write=["score"])
        given = list(csv.reader(path.read_text().splitlines(keepends=True), delimiter=sign))
        found = list(csv.reader(out.read_text().splitlines(keepends=True)))
        assert [row[:3] for row in found] == [row[:3] for row in given]
        pd.testing.assert_frame_equal(pd.read_csv(out)[["t", "n", "a"]], pd.read_csv(path, sep=sign)[["t", "n", "a"]])


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "20"], pa.int64(), [1, 20]),
        (["1.5", "2.0"], pa.float64(), [1.5, 2.0]),
        (["3.50", "2"], pa.string(), ["3.50", "2"]),
        (["007", "8"], pa.string(), ["007", "8"]),
        (["9007199254740993"], pa.int64(), [9007199254740993]),
        (["x", ""], pa.string(), ["x", ""]),
    ],
)
def test_what_kept_csv_columns_become_in_parquet(tmp_path, model, texts, kind, values):
    (tmp_path / "x.csv").write_text("t,a,b,c\n" + "".join(f"{t},1,2,3\n" for t in texts))
    source = open_source(tmp_path / "x.csv", columns=NAMES, keep=["t"], quarantine=True)
    write_scores(model("csv"), source, tmp_path / "out.parquet", SerialExecutor(), write=["score"])
    found = pq.read_table(tmp_path / "out.parquet").column("t")
    assert (found.type, found.to_pylist()) == (kind, values)


def test_zarr_chunks_are_whole_however_the_input_is_cut(tmp_path, model, monkeypatch):
    import zarr

    monkeypatch.setattr(formats, "ROW_GROUP", 6)
    for name, executor in (("serial", SerialExecutor()), ("threads", ThreadsExecutor(3))):
        (tmp_path / name).mkdir()
        score_files(tmp_path, model("zarr"), "zarr", tmp_path / name / "out.zarr", executor)
        array = zarr.open_group(tmp_path / name / "out.zarr", mode="r")["score"]
        assert (array.shape, array.chunks) == ((sum(ROWS) - 1,), (6,))
    assert atomic.file_digest(tmp_path / "serial" / "out.zarr") == atomic.file_digest(tmp_path / "threads" / "out.zarr")


def test_files_are_scored_in_list_order_and_folders_in_natural_order(tmp_path, model):
    (tmp_path / "in").mkdir()
    for i in (1, 2, 10):
        (tmp_path / "in" / f"part.{i}.csv").write_text(f"c,id,b,a\n1,{i},2,3\n")
    named = [tmp_path / "in" / f"part.{i}.csv" for i in (10, 1, 2)]
    for paths, expected in ((named, [10, 1, 2]), (tmp_path / "in", [1, 2, 10])):
        source = open_source(paths, columns=NAMES, keep=["id"], quarantine=True)
        write_scores(model("csv"), source, tmp_path / "out", SerialExecutor(), overwrite=True)
        assert pd.read_parquet(tmp_path / "out")["id"].tolist() == expected


def test_columns_go_by_name_and_arrays_by_width(tmp_path, model):
    machine = model("csv")
    expected = machine.scores(np.array([[1, 2, 3]], np.float32))[0, 0]
    (tmp_path / "x.csv").write_text("c,a,b\n3,1,2\n")
    source = open_source(tmp_path / "x.csv", columns=NAMES, quarantine=True)
    write_scores(machine, source, tmp_path / "out.npy", SerialExecutor(), write=["score"])
    assert np.load(tmp_path / "out.npy")[0, 0] == expected
    (tmp_path / "x.csv").write_text("c,a,d,e\n3,1,2,0\n")
    with pytest.raises(DataError, match="lacks the columns 'b'"):
        open_source(tmp_path / "x.csv", columns=NAMES, quarantine=True)
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    with pytest.raises(DataError, match="has the columns '3' that the model does not know"):
        open_source(tmp_path / "x.npy", columns=["0", "1", "2"], quarantine=True)
    assert open_source(tmp_path / "x.npy", columns=["0", "1", "2"], quarantine=True, allow_extra=True).n_in == 3
    with pytest.raises(DataError, match="lacks the columns '4'"):
        open_source(tmp_path / "x.npy", columns=[str(i) for i in range(5)], quarantine=True)


def test_the_model_of_these_tests_is_a_real_one(tmp_path):
    save(real_model(), tmp_path / "m")
    assert dkernel.load(tmp_path / "m").model_.columns == tuple(NAMES)
