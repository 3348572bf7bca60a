"""Scoring as a nightly job: all columns kept, only new files scored, bad files left out and named."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel.data.store import open_store
from dkernel.errors import DataError, RecipeError
from tests.inference.tables import read_table, write_table

ROWS, KEPT = 20, ["id", "note"]


@pytest.fixture(scope="module")
def machine():
    X = np.random.default_rng(0).normal(size=(300, 2))
    frame = pa.table({"x": X[:, 0], "y": X[:, 1]}).to_pandas()
    return dkernel.KernelRegressor("gaussian", gamma=0.5, n_components=16).fit(frame, X[:, 0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with the folder new/ of five files, and an empty store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    for i in range(5):
        write(i)
    fsspec.filesystem("memory").store.clear()
    return tmp_path


def write(i, **more):
    """A file of some row groups, so that a part of it can be scored before damage is met."""
    X = np.random.default_rng(i).normal(size=(ROWS, 2))
    columns = {"id": np.arange(ROWS) + ROWS * i, "x": X[:, 0], "y": X[:, 1], "note": [f"{i} {n}" for n in range(ROWS)]}
    write_table(f"new/{i}.parquet", pd.DataFrame({**columns, **more}), chunk=ROWS // 4)


BAD = ["empty", "truncated", "a column less", "damaged in its middle"]


def spoil(kind, i=3):
    name = f"new/{i}.parquet"
    if kind in ("empty", "no file of Parquet"):
        Path(name).write_text("" if kind == "empty" else "x")
    elif kind == "truncated":
        os.truncate(name, 200)
    elif kind == "a column less":
        write_table(name, pd.DataFrame({"id": [1], "y": [1.0], "note": ["x"]}))
    else:
        page = pq.read_metadata(name).row_group(1).column(1).data_page_offset
        with open(name, "r+b") as file:
            file.seek(page)
            file.write(b"\xff" * 40)


def test_python_scores_files_sources_and_models_of_any_kind(machine, folder):
    dkernel.save(machine, "memory://nightly/m")
    result = dkernel.score(machine, "new", "a", keep=KEPT)
    assert (result.rows, result.parts) == (5 * ROWS, 5)
    expected = machine.predict(pd.read_parquet("new")[["x", "y"]])
    assert read_table("a")["score"].to_numpy() == pytest.approx(expected)
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
    assert list(read_table("a").columns) == ["id", "x", "y", "note", "score"]
    dkernel.score(machine, "new", "b", keep=["all"], exclude="note")
    assert list(read_table("b").columns) == ["id", "x", "y", "score"]
    (folder / "d.csv").write_text("y,x,id\n1.50,-0.25,007\n2e0,1,008\n")
    dkernel.score(machine, "d.csv", "d-scores.csv", keep="all")
    kept = [line.rsplit(",", 1)[0] for line in (folder / "d-scores.csv").read_text().splitlines()]
    assert kept == ["y,x,id", '1.5,-0.25,"007"', '2,1,"008"'], "values, and text where it is no number's own"


@pytest.mark.usefixtures("folder")
def test_a_column_that_is_called_all_is_that_column(machine):
    write(0, all=np.arange(ROWS))
    dkernel.score(machine, "new/0.parquet", "a", keep="all", allow_extra=True)
    assert list(read_table("a").columns) == ["all", "score"]


def test_folders_by_key_are_kept_columns_too(machine, folder):
    (folder / "in" / "day=1").mkdir(parents=True)
    shutil.move("new/0.parquet", "in/day=1/0.parquet")
    dkernel.score(machine, "in", "a", keep="all")
    assert pq.read_table("a")["day"].to_pylist() == [1] * ROWS


@pytest.mark.parametrize("done", ["done.json", "memory://nightly/done.json"])
def test_only_new_and_changed_files_are_scored(machine, folder, done):
    assert dkernel.score(machine, "new", "monday", keep=KEPT, done=done).rows == 5 * ROWS
    again = dkernel.score(machine, "new", "tuesday", keep=KEPT, done=done)
    assert (again.rows, again.parts, again.skipped) == (0, 0, True)
    assert not (folder / "tuesday").exists()
    write(5)
    write(2, more=np.zeros(ROWS))
    assert dkernel.score(machine, "new", "tuesday", keep=KEPT, allow_extra=True, done=done).rows == 2 * ROWS
    assert sorted(set(read_table("tuesday")["id"] // ROWS)) == [2, 5]
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


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("out", ["a", "a.parquet", "memory://nightly/a", "memory://nightly/a.parquet"])
def test_bad_files_among_many_are_left_out_whole_and_named(machine, folder, kind, out, monkeypatch):
    monkeypatch.setattr("dkernel.data.opening.chunk_limit", lambda *_: ROWS // 4)
    nightly = partial(dkernel.score, machine, "new", out, keep=KEPT)
    too_many = r"(?s)2 of 5 files cannot be read, and max_bad_files=1 allows no more.*2\.parquet.*3\.parquet"
    for i in (2, 3):
        spoil(kind, i)
    for allowed, words in ((0, r"new/[23]\.parquet"), (1, too_many)):
        with pytest.raises(DataError, match=words):
            nightly(max_bad_files=allowed)
    result = nightly(max_bad_files=2)
    assert (result.rows, result.rejected, list(result.bad_files)) == (3 * ROWS, 0, ["new/2.parquet", "new/3.parquet"])
    assert read_table(out)["id"].tolist() == [*range(2 * ROWS), *range(4 * ROWS, 5 * ROWS)]
    with fsspec.open(
        f"{out}/_manifest.json" if out.endswith("a") else out.replace("a.", ".a.") + ".manifest.json"
    ) as file:
        assert json.loads(file.read())["bad_files"] == result.bad_files
    with fsspec.open(result.rejects, "rb") as file:
        assert b"new/3.parquet,,,," in file.read()
    again = nightly(max_bad_files=2, done="done.json")
    assert (again.skipped, again.bad_files, again.parts) == (True, result.bad_files, result.parts)
    scored = [str(folder / "new" / f"{i}.parquet") for i in (0, 1, 4)]
    assert list(json.loads((folder / "done.json").read_bytes())["files"]) == scored
    with pytest.raises(DataError, match=too_many):
        nightly(max_bad_files=1)


@pytest.mark.parametrize("kind", BAD)
def test_known_bad_files_alone_are_no_new_ones(machine, folder, kind):
    """They are tried again, as another run may read what this one could not, and may end no night."""
    spoil(kind)
    nightly = {"keep": "all", "done": "done.json", "max_bad_files": 1}
    bad = dkernel.score(machine, "new", "monday", **nightly).bad_files
    tuesday = dkernel.score(machine, "new", "tuesday", **nightly)
    assert (tuesday.rows, tuesday.parts, tuesday.skipped) == (0, 0, True)
    assert tuesday.bad_files == bad == {"new/3.parquet": bad["new/3.parquet"]}
    with pytest.raises(DataError, match=r"new/3\.parquet"):
        dkernel.score(machine, "new", "tuesday", keep="all", done="done.json")
    assert [name for name in os.listdir(folder) if "tuesday" in name] == []
    spoil("empty", 5)
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
    for i in (20, 21, 22):
        spoil("empty", i)
    words = (
        "25 files cannot be read, and max_bad_files=13 allows no more"
        if kind == "empty"
        else "14 files .* and none is left"
    )
    with pytest.raises(DataError, match=f"14 of {words}"):
        dkernel.score(machine, "new", "last", **nightly)


def test_a_run_of_bad_files_alone_and_a_fit_of_some_are_refused(machine, folder):
    spoil("truncated")
    spoil("empty", 1)
    with pytest.raises(DataError, match="none is left"):
        dkernel.score(machine, ["new/1.parquet", "new/3.parquet"], "a", keep=KEPT, max_bad_files=2)
    with pytest.raises(RecipeError, match="not of data that are learned from"):
        dkernel.open_source("new", label="x", max_bad_files=1)
    assert not (folder / "a").exists()


ENDINGS = [".parquet", ".csv", ".csv.gz", ".zarr", ".h5"]
OUTPUTS = ["a", "a.parquet", "a.csv", "a.npy", "a.zarr", "memory://nightly/a", "memory://nightly/a.csv"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.usefixtures("folder")
def test_a_day_without_rows_has_an_output_without_rows(machine, ending, out):
    frame = pd.DataFrame({"id": np.arange(3), "x": np.arange(3.0), "y": np.arange(3.0)})
    keep = ["id"] if not out.endswith((".npy", ".zarr")) else []
    nightly = partial(dkernel.score, machine, f"day{ending}", out, keep=keep, allow_extra=True, done="done.json")
    for night, rows in (("first", 0), ("again", 0), ("later", 3)):
        if night != "again":
            write_table(f"day{ending}", frame[:rows])
        result = nightly(overwrite=rows > 0)
        found = read_table(out)
        assert (result.rows, result.rejected, result.skipped) == (rows, 0, night == "again"), night
        assert (len(found), list(found)) == (rows, [*keep, "score"])


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
