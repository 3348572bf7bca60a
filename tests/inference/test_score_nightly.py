"""Scoring as a nightly job: all columns kept, only new files scored, bad files left out and named."""

import json
import os
import shutil

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel.data.store import open_store
from dkernel.errors import DataError, RecipeError

ROWS, KEPT = 20, ["id", "note"]


@pytest.fixture(scope="module")
def machine():
    X = np.random.default_rng(0).normal(size=(300, 2))
    frame = pa.table({"x": X[:, 0], "y": X[:, 1]}).to_pandas()
    return dkernel.KernelRegressor("gaussian", gamma=0.5, n_components=16).fit(frame, X[:, 0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with the folder new/ of five files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    for i in range(5):
        write(i)
    return tmp_path


def write(i, **more):
    X = np.random.default_rng(i).normal(size=(ROWS, 2))
    columns = {"id": np.arange(ROWS) + ROWS * i, "x": X[:, 0], "y": X[:, 1], "note": [f"{i} {n}" for n in range(ROWS)]}
    pq.write_table(pa.table({**columns, **more}), f"new/{i}.parquet")


def read(folder):
    return pq.read_table(folder).to_pandas()


def test_python_scores_files_sources_and_models_of_any_kind(machine, folder):
    dkernel.save(machine, "memory://nightly/m")
    result = dkernel.score(machine, "new", "a", keep=KEPT)
    assert (result.rows, result.parts) == (5 * ROWS, 5)
    expected = machine.predict(read("new")[["x", "y"]])
    assert read("a")["score"].to_numpy() == pytest.approx(expected)
    dkernel.score("memory://nightly/m", ["new"], "memory://nightly/b", keep=KEPT)
    dkernel.score(machine.model_, dkernel.open_source("new", columns=["x", "y"], keep=KEPT), "c")
    for i in range(5):
        part = f"part-0000{i}.parquet"
        assert (folder / "a" / part).read_bytes() == (folder / "c" / part).read_bytes()
        with open_store("memory://nightly/b").reading(part) as file:
            assert file.read() == (folder / "a" / part).read_bytes()
    assert dkernel.score(machine, "new", "a", keep=KEPT).skipped


def test_all_columns_are_kept_features_and_unknown_ones_too(machine, folder):
    dkernel.score(machine, "new", "a", keep="all")
    assert list(read("a").columns) == ["id", "x", "y", "note", "score"]
    dkernel.score(machine, "new", "b", keep=["all"], exclude="note")
    assert list(read("b").columns) == ["id", "x", "y", "score"]
    (folder / "d.csv").write_text("y,x,id\n1.50,-0.25,007\n2e0,1,008\n")
    dkernel.score(machine, "d.csv", "d-scores.csv", keep="all")
    kept = [line.rsplit(",", 1)[0] for line in (folder / "d-scores.csv").read_text().splitlines()]
    assert kept == (folder / "d.csv").read_text().splitlines(), "verbatim"


@pytest.mark.usefixtures("folder")
def test_a_column_that_is_called_all_is_that_column(machine):
    write(0, all=np.arange(ROWS))
    dkernel.score(machine, "new/0.parquet", "a", keep="all", allow_extra=True)
    assert list(read("a").columns) == ["all", "score"]


def test_folders_by_key_are_kept_columns_too(machine, folder):
    (folder / "in" / "day=1").mkdir(parents=True)
    shutil.move("new/0.parquet", "in/day=1/0.parquet")
    dkernel.score(machine, "in", "a", keep="all")
    assert pq.read_table("a")["day"].to_pylist() == [1] * ROWS


@pytest.mark.parametrize("done", ["done.json", "memory://nightly-done/done.json"])
def test_only_new_and_changed_files_are_scored(machine, folder, done):
    fsspec.filesystem("memory").store.pop("/nightly-done/done.json", None)
    assert dkernel.score(machine, "new", "monday", keep=KEPT, done=done).rows == 5 * ROWS
    again = dkernel.score(machine, "new", "tuesday", keep=KEPT, done=done)
    assert (again.rows, again.parts, again.skipped) == (0, 0, True)
    assert not (folder / "tuesday").exists()
    write(5)
    write(2, more=np.zeros(ROWS))
    assert dkernel.score(machine, "new", "tuesday", keep=KEPT, allow_extra=True, done=done).rows == 2 * ROWS
    assert sorted(set(read("tuesday")["id"] // ROWS)) == [2, 5]
    assert dkernel.score(machine, str(folder / "new"), "wednesday", keep=KEPT, done=done).skipped, (
        "whatever they are called"
    )


def test_a_run_that_ended_before_its_list_was_written_adds_to_it(machine, folder):
    dkernel.score(machine, "new", "a", keep=KEPT, done="done.json")
    whole = (folder / "done.json").read_bytes()
    (folder / "done.json").unlink()
    assert dkernel.score(machine, "new", "a", keep=KEPT, done="done.json").skipped
    assert (folder / "done.json").read_bytes() == whole
    (folder / "done.json").write_text('{"files": [1]}')
    with pytest.raises(DataError, match="not a list of scored files"):
        dkernel.score(machine, "new", "b", keep=KEPT, done="done.json")


def spoil(kind):
    if kind == "empty":
        open("new/3.parquet", "w").close()
    elif kind == "no file of Parquet":
        with open("new/3.parquet", "w") as file:
            file.write("x")
    elif kind == "truncated":
        with open("new/3.parquet", "r+b") as file:
            file.truncate(200)
    else:
        pq.write_table(pa.table({"id": [1], "y": [1.0], "note": ["x"]}), "new/3.parquet")


@pytest.mark.parametrize("kind", ["empty", "truncated", "a column less"])
@pytest.mark.parametrize("out", ["a", "a.parquet", "memory://nightly-bad/a", "memory://nightly-bad/a.parquet"])
def test_a_bad_file_among_many_is_left_out_and_named(machine, folder, kind, out):
    if out.startswith("memory") and fsspec.filesystem("memory").exists("/nightly-bad"):
        fsspec.filesystem("memory").rm("/nightly-bad", recursive=True)
    spoil(kind)
    with pytest.raises(DataError, match=r"new/3\.parquet"):
        dkernel.score(machine, "new", out, keep=KEPT)
    for done in (None, "done.json"):
        result = dkernel.score(machine, "new", out, keep=KEPT, max_bad_files=1, done=done)
        assert result.rows == 4 * ROWS
        assert list(result.bad_files) == ["new/3.parquet"]
        store, name = open_store(out), "_manifest.json"
        if out.endswith(".parquet"):
            store, name = open_store(out.rpartition("/")[0] or "."), ".a.parquet.manifest.json"
        with store.reading(name) as file:
            assert json.loads(file.read())["bad_files"] == result.bad_files
        with fsspec.open(result.rejects, "rb") as file:
            assert b"new/3.parquet,,,," in file.read()
    assert list(json.loads((folder / "done.json").read_bytes())["files"]) == [
        str(folder / "new" / f"{i}.parquet") for i in (0, 1, 2, 4)
    ]
    spoil("empty")
    left = dkernel.score(machine, "new", f"{out}-2", keep=KEPT, done="done.json", max_bad_files=1)
    assert (left.skipped, list(left.bad_files)) == (True, ["new/3.parquet"])
    open("new/5.parquet", "w").close()
    left = dkernel.score(machine, "new", f"{out}-2", keep=KEPT, done="done.json", max_bad_files=1)
    assert (left.skipped, list(left.bad_files)) == (True, ["new/3.parquet", "new/5.parquet"])
    open("new/6.parquet", "w").close()
    open("new/7.parquet", "w").close()
    with pytest.raises(DataError, match="4 of 8 files cannot be read, and 3 may be left out"):
        dkernel.score(machine, "new", f"{out}-2", keep=KEPT, done="done.json", max_bad_files=1)


@pytest.mark.parametrize("kind", ["truncated", "a column less", "damaged in its middle"])
def test_known_bad_files_alone_are_no_new_ones(machine, folder, kind):
    """They are tried again, as another run may read what this one could not, and may end no night."""
    if kind == "damaged in its middle":
        groups(folder)
        damage(3)
    else:
        spoil(kind)
    nightly = {"keep": "all", "done": "done.json", "max_bad_files": 1}
    bad = dkernel.score(machine, "new", "monday", **nightly).bad_files
    tuesday = dkernel.score(machine, "new", "tuesday", **nightly)
    assert (tuesday.rows, tuesday.parts, tuesday.skipped) == (0, 0, True)
    assert tuesday.bad_files == bad == {"new/3.parquet": bad["new/3.parquet"]}
    with pytest.raises(DataError, match=r"new/3\.parquet"):
        dkernel.score(machine, "new", "tuesday", keep="all", done="done.json")
    assert [name for name in os.listdir(folder) if "tuesday" in name] == []
    open("new/5.parquet", "w").close()
    assert list(dkernel.score(machine, "new", "tuesday", **nightly).bad_files) == ["new/3.parquet", "new/5.parquet"]
    os.unlink("new/5.parquet")
    spoil("no file of Parquet")
    with pytest.raises(DataError, match="1 of 1 files cannot be read, and none is left"):
        dkernel.score(machine, "new", "wednesday", **nightly)
    write(3)
    assert dkernel.score(machine, "new", "thursday", **nightly).rows == ROWS
    assert list(json.loads((folder / "done.json").read_bytes())["bad"]) == [str(folder / "new" / "5.parquet")], "gone"


@pytest.mark.parametrize("kind", ["empty", "truncated", "a column less", "no file of Parquet"])
def test_a_bad_file_uses_up_what_is_allowed_in_its_first_night_alone(machine, folder, kind):
    """Each night brings a good file and as many bad ones as are allowed, and in the third an old one is repaired."""
    nightly = {"keep": KEPT, "done": "done.json", "max_bad_files": 2}
    repaired = 0
    for night in range(6):
        for i in (3, 10 + night):
            write(i)
        spoil(kind)
        os.replace("new/3.parquet", f"new/bad-{night}-1.parquet")
        write(3)
        spoil(kind)
        os.replace("new/3.parquet", f"new/bad-{night}-2.parquet")
        if night == 2:
            write(99)
            os.replace("new/99.parquet", "new/bad-0-1.parquet")
            repaired = 1
        result = dkernel.score(machine, str(folder / "new") if night % 2 else "new", f"out-{night}", **nightly)
        assert result.rows == ROWS * (5 if night == 0 else 2 if night == 2 else 1), night
        assert len(result.bad_files) == 2 * (night + 1) - repaired
    assert len(os.listdir(folder / "new")) == 4 + 6 * 3


def damage(i):
    """Damage a page of the file of this number: its ends stay whole."""
    begin = pq.read_metadata(f"new/{i}.parquet").row_group(1).column(1).data_page_offset
    with open(f"new/{i}.parquet", "r+b") as file:
        file.seek(begin)
        file.write(b"\xff" * 40)


def groups(folder, n=400, size=100):
    """Files of some row groups each, so that a part of a file can be scored before its damage is met."""
    for i in range(5):
        X = np.random.default_rng(i).normal(size=(n, 2))
        ids = np.arange(n) + n * i
        table = pa.table({"id": ids, "x": X[:, 0], "y": X[:, 1], "note": ids.astype(str)})
        pq.write_table(table, folder / "new" / f"{i}.parquet", row_group_size=size)


@pytest.mark.parametrize("out", ["a", "a.parquet", "memory://nightly-damaged/a"])
def test_a_file_that_is_damaged_in_its_middle_is_left_out_whole(machine, folder, out, monkeypatch):
    monkeypatch.setattr("dkernel.data.opening.chunk_limit", lambda *_: 100)
    if out.startswith("memory") and fsspec.filesystem("memory").exists("/nightly-damaged"):
        fsspec.filesystem("memory").rm("/nightly-damaged", recursive=True)
    groups(folder)
    damage(2)
    damage(3)
    with pytest.raises(DataError, match=r"new/[23]\.parquet: the file is truncated, damaged"):
        dkernel.score(machine, "new", out, keep=KEPT)
    with pytest.raises(
        DataError, match=r"(?s)2 of 5 files cannot be read, and 1 may be left out.*2\.parquet.*3\.parquet"
    ):
        dkernel.score(machine, "new", out, keep=KEPT, max_bad_files=1)
    result = dkernel.score(machine, "new", out, keep=KEPT, max_bad_files=2, done="done.json")
    assert (result.rows, result.rejected, list(result.bad_files)) == (1200, 0, ["new/2.parquet", "new/3.parquet"])
    with fsspec.open(result.rejects, "rb") as file:
        assert b"new/2.parquet,,,," in file.read()
    files = fsspec.open_files(out if out.endswith(".parquet") else f"{out}/part-*.parquet", "rb")
    found = []
    for file in files:
        with file as stream:
            found += pq.read_table(stream)["id"].to_pylist()
    assert found == [*range(800), *range(1600, 2000)]
    assert sorted(json.loads((folder / "done.json").read_bytes())["files"]) == [
        str(folder / "new" / f"{i}.parquet") for i in (0, 1, 4)
    ]
    again = dkernel.score(machine, "new", out, keep=KEPT, max_bad_files=2)
    assert (again.skipped, again.bad_files, again.parts) == (True, result.bad_files, result.parts)
    with pytest.raises(DataError, match=r"2 of 5 files cannot be read, and 1 may be left out"):
        dkernel.score(machine, "new", out, keep=KEPT, max_bad_files=1)


def test_more_bad_files_than_are_allowed_end_the_run(machine, folder):
    spoil("truncated")
    open("new/1.parquet", "w").close()
    with pytest.raises(DataError, match=r"(?s)2 of 5 files cannot be read, and 1 may be left out.*1\.parquet"):
        dkernel.score(machine, "new", "a", keep=KEPT, max_bad_files=1)
    with pytest.raises(DataError, match="none is left"):
        dkernel.score(machine, ["new/1.parquet", "new/3.parquet"], "a", keep=KEPT, max_bad_files=2)
    with pytest.raises(RecipeError, match="not of data that are learned from"):
        dkernel.open_source("new", label="x", max_bad_files=1)
    assert not (folder / "a").exists()


def write_rows(frame, name):
    """A file of the format that its name ends in."""
    if name.endswith(".parquet"):
        frame.to_parquet(name, index=False)
    elif ".csv" in name:
        frame.to_csv(name, index=False)
    else:
        package = pytest.importorskip("zarr" if name.endswith(".zarr") else "h5py")
        group = package.open_group(name, mode="w") if name.endswith(".zarr") else package.File(name, "w")
        for column in frame:
            make = group.create_array if name.endswith(".zarr") else group.create_dataset
            make(column, data=frame[column].to_numpy())
        if name.endswith(".h5"):
            group.close()


ENDINGS = [".parquet", ".csv", ".csv.gz", ".zarr", ".h5"]
OUTPUTS = ["a", "a.parquet", "a.csv", "a.npy", "a.zarr", "memory://nightly-none/a", "memory://nightly-none/a.csv"]


def rows_of(out):
    """Rows and columns of an output."""
    if out.endswith((".npy", ".zarr")):
        found = np.load(out) if out.endswith(".npy") else pytest.importorskip("zarr").open_group(out, mode="r")
        return (len(found), None) if out.endswith(".npy") else (found["score"].shape[0], sorted(found.array_keys()))
    with fsspec.open(f"{out}/part-00000.parquet" if out.endswith("/a") or out == "a" else out, "rb") as file:
        frame = pd.read_csv(file) if out.endswith(".csv") else pq.read_table(file).to_pandas()
    return len(frame), list(frame.columns)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.usefixtures("folder")
def test_a_day_without_rows_has_an_output_without_rows(machine, ending, out):
    if out.startswith("memory") and fsspec.filesystem("memory").exists("/nightly-none"):
        fsspec.filesystem("memory").rm("/nightly-none", recursive=True)
    frame = pd.DataFrame({"id": np.arange(3), "x": np.arange(3.0), "y": np.arange(3.0)})
    write_rows(frame[:0], f"day{ending}")
    keep = ["id"] if not out.endswith((".npy", ".zarr")) else []
    for night in ("first", "again"):
        result = dkernel.score(machine, f"day{ending}", out, keep=keep, allow_extra=True, done="done.json")
        assert (result.rows, result.rejected, result.skipped) == (0, 0, night == "again"), night
        assert rows_of(out) in [(0, [*keep, "score"]), (0, None)]
    write_rows(frame, f"day{ending}")
    result = dkernel.score(machine, f"day{ending}", out, keep=keep, allow_extra=True, done="done.json", overwrite=True)
    assert rows_of(out) in [(3, [*keep, "score"]), (3, None)]


@pytest.mark.parametrize("local", ["none", "cells"])
def test_an_output_without_rows_has_the_columns_and_types_of_others(folder, local):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=900), "b": rng.choice(["u", "v"], 900), "n": rng.integers(9, size=900)})
    frame["d"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["n"], unit="D")
    settings = {"kernel": "gaussian", "gamma": 0.5, "n_components": 16, "local": local}
    machine = dkernel.KernelClassifier(**settings).fit(frame, np.where(frame["a"] > 0, "in", "out"))
    for name, rows in (("none", frame[:0]), ("some", frame)):
        rows.to_parquet(f"{name}.parquet", index=False)
        dkernel.score(machine, f"{name}.parquet", name, keep="all", write=["label", "score", "probability", "set"])
    assert pq.read_schema("none/part-00000.parquet") == pq.read_schema("some/part-00000.parquet")
    assert pq.read_table("none").num_rows == 0
    frame[:0].to_csv("none.csv", index=False)
    dkernel.score(machine, "none.csv", "none-scores.csv", keep="all", write=["label", "probability"])
    assert (folder / "none-scores.csv").read_text() == "a,b,n,d,label,probability_in,probability_out\n"
