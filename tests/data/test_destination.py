"""Outputs appear as a whole, in order, and keep what stood there before until they do."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dkernel.data.writers import atomic
from dkernel.data.writers.destination import Destination
from dkernel.data.writers.manifest import Manifest
from dkernel.errors import ClusterError, DataError, UnsupportedError

JOB = {"model": "m1", "input": "i1"}
COLUMNS = ("id", "label", "score")
ROWS = (5, 1, 7, 3)
NAMES = ("folder", "one.parquet", "one.csv", "one.npy", "one.zarr")


def table(first: int, n: int, text: bool = True) -> pa.Table:
    ids = np.arange(first, first + n)
    label = [f'cl,{i}\n"x" é' for i in ids] if text else ids % 2
    return pa.table({"id": ids, "label": label, "score": (ids / 3).astype("float32")})


def tables(name: str) -> list[pa.Table]:
    firsts = np.cumsum((0, *ROWS[:-1]))
    return [table(int(first), n, text=not name.endswith(".npy")) for first, n in zip(firsts, ROWS, strict=True)]


def write(path: Path, job=JOB, overwrite=False, skip=(), given=None):
    destination = Destination(path, overwrite)
    if destination.complete(job) is not None:
        return None
    with destination.stage(job) as staging:
        parts = staging.finished(ROWS)
        for index, part in enumerate(given or tables(path.name)):
            if index not in parts and index not in skip:
                # In two tables, as the blocks of a unit come.
                halves = [part.slice(0, part.num_rows // 2), part.slice(part.num_rows // 2)]
                parts[index] = staging.part_writer(index, ROWS[index]).write([t for t in halves if t.num_rows])
        if skip:
            raise KeyboardInterrupt
        return staging.commit([parts[i] for i in range(len(ROWS))], COLUMNS)


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".csv":
        return pd.read_csv(path).astype({"score": "float32"})
    if path.suffix == ".npy":
        return pd.DataFrame(np.load(path))
    if path.suffix == ".zarr":
        import zarr

        group = zarr.open_group(path, mode="r")
        assert sorted(name for name, _ in group.members()) == sorted(COLUMNS)
        return pd.DataFrame({name: pd.Series(np.asarray(group[name][:]).tolist()) for name in COLUMNS})
    return pd.read_parquet(path)


def expected(path: Path) -> pd.DataFrame:
    return pa.concat_tables(tables(path.name)).to_pandas()


def tree(path: Path):
    return atomic.file_digest(path) if path.exists() else None


def siblings(path: Path) -> set[str]:
    return {p.name for p in path.parent.iterdir()} - {path.name, f".{path.name}.manifest.json"}


@pytest.fixture(params=NAMES)
def path(request, tmp_path) -> Path:
    return tmp_path / request.param


def test_what_is_read_is_what_was_written_in_order(path):
    manifest = write(path)
    found = read(path)
    pd.testing.assert_frame_equal(found, expected(path), check_dtype=path.suffix not in (".zarr",))
    assert manifest.rows == sum(ROWS)
    assert siblings(path) == set()


def test_the_same_job_does_nothing(path):
    write(path)
    before = tree(path), path.stat().st_mtime_ns, path.stat().st_ino
    assert write(path) is None
    assert (tree(path), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert siblings(path) == set()


def test_equal_jobs_have_equal_outputs(path, tmp_path):
    write(path)
    other = tmp_path / "elsewhere" / path.name
    other.parent.mkdir()
    write(other)
    assert tree(path) == tree(other)


def test_another_job_is_refused_by_what_differs(path):
    write(path)
    before = tree(path)
    with pytest.raises(DataError, match=r"different: input\)\. Choose"):
        write(path, {**JOB, "input": "i2"})
    with pytest.raises(DataError, match=r"different: columns, model\)\. Choose"):
        write(path, {**JOB, "model": "m2", "columns": "x"})
    assert tree(path) == before
    assert siblings(path) == set()


def test_overwriting_replaces_and_leaves_nothing(path):
    write(path)
    changed = [t.set_column(0, "id", pa.array(t["id"].to_numpy() + 100)) for t in tables(path.name)]
    write(path, {**JOB, "model": "m2"}, overwrite=True, given=changed)
    assert read(path)["id"].tolist() == list(range(100, 116))
    assert siblings(path) == set()
    assert Destination(path).complete({**JOB, "model": "m2"}).rows == 16


def test_an_output_without_manifest_is_refused(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("precious")
    with pytest.raises(DataError, match="no manifest"):
        write(path)
    assert path.read_text() == "precious"
    assert siblings(path) == set()


def test_overwriting_never_deletes_a_folder_of_others(tmp_path):
    path = tmp_path / "thesis"
    path.mkdir()
    (path / "chapter1.txt").write_text("precious")
    with pytest.raises(DataError, match=r"chapter1\.txt"):
        write(path, overwrite=True)
    write(tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(DataError, match=r"notes\.txt"):
        write(tmp_path / "out", {**JOB, "model": "m2"}, overwrite=True)
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "b").write_text("precious")
    with pytest.raises(DataError, match="did not write"):
        write(tmp_path / "a.zarr", overwrite=True)


def test_an_empty_folder_is_a_free_place(tmp_path):
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert len(read(tmp_path / "out")) == 16


def test_finished_parts_are_taken_over_and_damaged_ones_are_not(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, skip=(2,))
    assert not path.exists()
    destination = Destination(path)
    with destination.stage(JOB) as staging:
        assert sorted(staging.finished(ROWS)) == [0, 1, 3]
        part = staging.finished(ROWS)[1]
        victim = staging.folder / part.staged
        victim.write_bytes(victim.read_bytes()[:-1] + b"\xa5")
        (staging.folder / ".part-00003.abc.partial").write_bytes(b"half")
    with destination.stage(JOB) as staging:
        assert sorted(staging.finished(ROWS)) == [0, 3]
        assert sorted(p.name[:10] for p in staging.folder.iterdir()) == ["lock", "part-00000", "part-00003"]
        assert staging.finished((5, 1, 7)).keys() == {0}
    write(path)
    pd.testing.assert_frame_equal(read(path), expected(path), check_dtype=False)


def test_a_failed_run_without_finished_parts_leaves_nothing(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, skip=range(4))
    assert siblings(path) == set()


def test_stale_staging_of_another_job_does_not_block_and_goes(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, {**JOB, "model": "old"}, skip=(3,))
    assert len(siblings(path)) == 1
    write(path)
    assert siblings(path) == set()


def test_two_clients_cannot_write_the_same_output(path):
    with Destination(path).stage(JOB) as staging:
        staging.part_writer(0, 5).write(tables(path.name)[:1])
        with pytest.raises(ClusterError, match="another run"):
            write(path)
        with pytest.raises(ClusterError, match="another run with another model"):
            write(path, {**JOB, "model": "m2"})
        assert len(staging.finished(ROWS)) == 1
    write(path, {**JOB, "model": "m2"})  # nobody lives there any more


def test_late_and_duplicate_attempts_add_no_rows(path):
    destination = Destination(path)
    with destination.stage(JOB) as staging:
        parts = [staging.part_writer(i, ROWS[i]).write([t]) for i, t in enumerate(tables(path.name))]
        for index, late in enumerate(tables(path.name)):
            other = late.set_column(2, "score", pa.array(np.full(late.num_rows, -1, "float32")))
            staging.part_writer(index, ROWS[index]).write([other])
        staging.commit(parts, COLUMNS)
    pd.testing.assert_frame_equal(read(path), expected(path), check_dtype=False)
    with pytest.raises(DataError, match="not there"):
        staging.part_writer(0, 5).write(tables(path.name)[:1])
    assert siblings(path) == set()


def test_rows_are_conserved(tmp_path):
    with Destination(tmp_path / "out").stage(JOB) as staging, pytest.raises(DataError, match="4 rows where 5"):
        staging.part_writer(0, 5).write([table(0, 4)])
    assert siblings(tmp_path / "out") == set()


@pytest.mark.parametrize("name", ["folder", "one.parquet", "one.zarr", "one.npy"])
def test_parts_of_different_types_are_refused(tmp_path, name):
    given = tables(name)
    given[2] = given[2].set_column(0, "id", pa.array(given[2]["id"].to_numpy().astype("float64")))
    with pytest.raises(DataError, match=r"part-00002 .*(id: double|'id', '<f8')"):
        write(tmp_path / name, given=given)
    assert not (tmp_path / name).exists()


def test_the_folder_holds_its_manifest_and_success(tmp_path):
    manifest = write(tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "_SUCCESS",
        "_manifest.json",
        *(f"part-0000{i}.parquet" for i in range(4)),
    ]
    text = (tmp_path / "out" / "_manifest.json").read_bytes()
    assert Manifest.from_bytes(text) == manifest
    document = json.loads(text)
    assert document["job"] == JOB
    assert [f["rows"] for f in document["files"]] == list(ROWS)
    for entry in document["files"]:
        assert atomic.file_digest(tmp_path / "out" / entry["name"]) == (entry["bytes"], entry["sha256"])
    for damaged in (b"", b"[]", b"{}", text[:-9], text.replace(b'"protocol": 2', b'"protocol": 3')):
        assert Manifest.from_bytes(damaged) is None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_what_is_finished(path, monkeypatch, code):
    real = os.fsync
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == 4:
            raise OSError(code, os.strerror(code))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ClusterError, match="make room"):
        write(path)
    monkeypatch.setattr(os, "fsync", real)
    assert not path.exists()
    with Destination(path).stage(JOB) as staging:
        assert len(staging.finished(ROWS)) >= 1
        assert not list(staging.folder.glob("*.partial"))
    write(path)
    pd.testing.assert_frame_equal(read(path), expected(path), check_dtype=False)


def test_doors(tmp_path):
    with pytest.raises(DataError, match="nowhere is not there"):
        Destination(tmp_path / "nowhere" / "out")
    with pytest.raises(UnsupportedError, match="shared folder"):
        Destination("s3://bucket/out")
    with pytest.raises(UnsupportedError, match=r"\.gz files are not written"):
        Destination(tmp_path / "out.csv.gz")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        Destination(tmp_path / "a.csv")
    (tmp_path / "b").write_text("")
    with pytest.raises(DataError, match="is a file"):
        Destination(tmp_path / "b", overwrite=True)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "out")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(read(tmp_path / "disk" / "out")) == 16


def test_a_kill_while_the_old_folder_stands_aside_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "out"
    write(path)
    before = tree(path)
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    real = os.rename
    monkeypatch.setattr(
        os, "rename", lambda *names: real(*names) if not (tmp_path / ".out.previous").exists() else 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        write(path, {**JOB, "model": "m2"}, overwrite=True)
    monkeypatch.setattr(os, "rename", real)
    assert not path.exists()
    assert write(path) is None
    assert tree(path) == before
    assert not (tmp_path / ".out.previous").exists()


def test_a_dead_client_blocks_nobody(tmp_path):
    script = (
        "import os, sys\nfrom dkernel.data.writers.destination import Destination\n"
        "staging = Destination(sys.argv[1]).stage({'model': 'm1', 'input': 'i1'}).__enter__()\nos._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "out"], check=False).returncode == 9
    assert len(siblings(tmp_path / "out")) == 1
    write(tmp_path / "out")
    assert siblings(tmp_path / "out") == set()
