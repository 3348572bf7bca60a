"""Outputs appear as a whole, in order, and keep what stood there before until they do: on a disk and in a store."""

import errno
import json
import os
import posixpath
import subprocess
import sys
import uuid
from itertools import count
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem

from dkernel.data import store
from dkernel.data.writers import atomic
from dkernel.data.writers.destination import Destination, Staging
from dkernel.data.writers.manifest import Manifest
from dkernel.errors import ClusterError, DataError, UnsupportedError
from tests.inference.tables import read_table

JOB = {"model": "m1", "input": "i1"}
OTHER = {**JOB, "model": "m2"}
COLUMNS = ("id", "label", "score")
ROWS = (5, 1, 7, 3)
DISK = ("folder", "one.parquet", "one.csv", "one.npy", "one.zarr")
STORE = DISK[:-1]


def table(first: int, n: int, text: bool = True) -> pa.Table:
    ids = np.arange(first, first + n)
    label = [f'cl,{i}\n"x" é' for i in ids] if text else ids % 2
    return pa.table({"id": ids, "label": label, "score": (ids / 3).astype("float32")})


def tables(place, first=0) -> list[pa.Table]:
    firsts = first + np.cumsum((0, *ROWS[:-1]))
    return [table(int(i), n, text=not str(place).endswith(".npy")) for i, n in zip(firsts, ROWS, strict=True)]


def write(place, job=JOB, overwrite=False, skip=(), given=None):
    destination = Destination(place, overwrite)
    if destination.complete(job) is not None:
        return None
    given = given or tables(place)
    rows = [part.num_rows for part in given]
    with destination.stage(job) as staging:
        parts = staging.finished(rows)
        for index, part in enumerate(given):
            if index not in parts and index not in skip:
                # In two tables, as the blocks of a unit come.
                halves = [part.slice(0, part.num_rows // 2), part.slice(part.num_rows // 2)]
                parts[index] = staging.part_writer(index, rows[index]).write([t for t in halves if t.num_rows])
        if skip:
            raise KeyboardInterrupt
        return staging.commit([parts[i] for i in range(len(rows))], COLUMNS)


def check_read(place, first=0):
    found, expected = read_table(place), pa.concat_tables(tables(place, first)).to_pandas()
    pd.testing.assert_frame_equal(found, expected, check_dtype=not str(place).endswith((".csv", ".zarr")))


def contents(place) -> dict[str, bytes]:
    """The bytes of every file of an output."""
    system, path = url_to_fs(str(place))
    return {name.removeprefix(path): system.cat_file(name) for name in system.find(path)}


def siblings(place) -> set[str]:
    system, path = url_to_fs(str(place))
    folder, name = posixpath.split(path)
    there = system.ls(folder, detail=False) if system.exists(folder) else []
    return {posixpath.basename(path) for path in there} - {name, f".{name}.manifest.json"}


def write_others(place):
    """Let another program make what is no output of dkernel."""
    inside = "/b" if "." not in posixpath.basename(place) or place.endswith(".zarr") else ""
    put(place + inside, b"precious")


def put(place, content: bytes):
    system, path = url_to_fs(str(place))
    system.makedirs(posixpath.dirname(path), exist_ok=True)
    system.pipe_file(path, content)


@pytest.fixture
def bucket():
    """The URL of an empty folder of a store in memory."""
    name = uuid.uuid4().hex
    yield f"memory://{name}"
    if (system := fsspec.filesystem("memory")).exists(f"/{name}"):
        system.rm(f"/{name}", recursive=True)


@pytest.fixture(params=["disk", "store"])
def root(request, tmp_path):
    return str(tmp_path) if request.param == "disk" else request.getfixturevalue("bucket")


@pytest.fixture(params=DISK)
def path(request, tmp_path) -> Path:
    return tmp_path / request.param


PLACES = [*(("disk", name) for name in DISK), *(("store", name) for name in STORE)]


@pytest.fixture(params=PLACES, ids="-".join)
def place(request, tmp_path):
    where, name = request.param
    return f"{tmp_path if where == 'disk' else request.getfixturevalue('bucket')}/{name}"


def test_what_is_read_is_what_was_written_in_order(place):
    manifest = write(place)
    check_read(place)
    assert manifest.rows == sum(ROWS)
    assert siblings(place) == set()
    assert Destination(place).complete(JOB) == manifest


def test_the_same_job_does_nothing(place):
    write(place)
    system, path = url_to_fs(place)
    before = contents(place), system.find(path, detail=True)
    assert write(place) is None
    assert (contents(place), system.find(path, detail=True)) == before
    assert siblings(place) == set()


def test_equal_jobs_have_equal_outputs(place, tmp_path):
    write(place)
    other = tmp_path / "elsewhere" / posixpath.basename(place)
    other.parent.mkdir()
    write(other)
    assert contents(place) == contents(other)


def test_another_job_is_refused_by_what_differs(place):
    write(place)
    before = contents(place)
    with pytest.raises(DataError, match=r"different: input\)\. Choose"):
        write(place, {**JOB, "input": "i2"})
    with pytest.raises(DataError, match=r"different: columns, model\)\. Choose"):
        write(place, {**OTHER, "columns": "x"})
    assert contents(place) == before
    assert siblings(place) == set()


def test_overwriting_replaces_and_leaves_nothing(place):
    write(place)
    write(place, OTHER, overwrite=True, given=tables(place, 100))
    check_read(place, 100)
    assert siblings(place) == set()
    assert Destination(place).complete(OTHER).rows == 16


def test_what_was_changed_since_is_no_output_of_its_job(place):
    write(place)
    found = contents(place)
    put(place + max(found, key=lambda name: len(found[name])), b"other")
    with pytest.raises(DataError, match="changed"):
        write(place)


def test_an_output_without_manifest_is_refused(root):
    put(f"{root}/mine.csv", b"precious")
    with pytest.raises(DataError, match="no manifest"):
        write(f"{root}/mine.csv")
    assert contents(f"{root}/mine.csv") == {"": b"precious"}
    assert siblings(f"{root}/mine.csv") == set()


@pytest.mark.parametrize("name", ["notes.txt", "zarr.json", "notes.partial"])
def test_overwriting_never_deletes_what_others_wrote(root, name):
    put(f"{root}/thesis/{name}", b"precious")
    write(f"{root}/out")
    put(f"{root}/out/{name}", b"precious")
    for folder in ("thesis", "out"):
        with pytest.raises(DataError, match=name):
            write(f"{root}/{folder}", OTHER, overwrite=True)


def test_overwriting_deletes_no_folder_that_is_no_zarr(tmp_path):
    put(f"{tmp_path}/a.zarr/b", b"precious")
    with pytest.raises(DataError, match="did not write"):
        write(tmp_path / "a.zarr", overwrite=True)


@pytest.mark.parametrize("name", ["out", "a.zarr"])
def test_an_empty_folder_is_a_free_place(tmp_path, name):
    (tmp_path / name).mkdir()
    write(tmp_path / name)
    check_read(tmp_path / name)


def test_finished_parts_are_taken_over(place):
    with pytest.raises(KeyboardInterrupt):
        write(place, skip=(2,))
    assert contents(place) == {}
    with Destination(place).stage(JOB) as staging:
        assert staging.finished((5, 1, 7)).keys() == {0, 1}
    write(place)
    check_read(place)


def test_damaged_parts_are_made_again(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, skip=(2,))
    with Destination(path).stage(JOB) as staging:
        victim = Path(staging.store.path(staging.finished(ROWS)[1].staged))
        victim.write_bytes(victim.read_bytes()[:-1] + b"\xa5")
        victim.with_name(".part-00003.abc.partial").write_bytes(b"half")
    with Destination(path).stage(JOB) as staging:
        assert sorted(staging.finished(ROWS)) == [0, 3]
        assert [name[:10] for name in staging.store.names()] == ["lock", "part-00000", "part-00003"]
    write(path)
    check_read(path)


def test_a_failed_run_without_finished_parts_leaves_nothing(place):
    with pytest.raises(KeyboardInterrupt):
        write(place, skip=range(4))
    with pytest.raises(DataError, match="4 rows where 5"), Destination(place).stage(JOB) as staging:
        staging.part_writer(0, 5).write([tables(place)[0].slice(1)])
    with Destination(place).stage(JOB) as staging:
        staging.part_writer(0, 5).write(tables(place)[:1])
        staging.discard()
    assert siblings(place) == set()


def test_a_part_that_is_finished_while_bad_data_are_discarded_goes_too(path):
    with Destination(path).stage(JOB) as staging:
        staging.part_writer(0, 5).write(tables(path)[:1])
        late = {name: staging.store.read(name) for name in staging.store.names() if name.startswith("part-")}
        staging.discard()
        Path(staging.store.where).mkdir()  # as if it had not been empty yet
        for name, content in late.items():
            staging.store.write(name, content)
    assert late
    assert siblings(path) == set()


def test_stale_staging_of_another_job_does_not_block_and_goes(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, OTHER, skip=(3,))
    assert len(siblings(path)) == 1
    write(path)
    assert siblings(path) == set()


def test_two_clients_cannot_write_the_same_output(path):
    with Destination(path).stage(JOB) as staging:
        staging.part_writer(0, 5).write(tables(path)[:1])
        with pytest.raises(ClusterError, match="another run"):
            write(path)
        with pytest.raises(ClusterError, match="another run with another model"):
            write(path, OTHER)
        assert len(staging.finished(ROWS)) == 1
    write(path, OTHER)  # nobody lives there any more


@pytest.mark.parametrize("name", STORE)
def test_of_two_clients_of_a_store_the_second_replaces_nothing(bucket, name):
    place = f"{bucket}/{name}"
    with Destination(place).stage(JOB) as same, Destination(place).stage(OTHER) as other:
        parts = {
            staging: [staging.part_writer(i, ROWS[i]).write([t]) for i, t in enumerate(tables(place))]
            for staging in (same, other)
        }
        write(place)
        before = url_to_fs(place)[0].find(place, detail=True)
        assert same.commit(parts[same], COLUMNS) == Destination(place).complete(JOB)
        with pytest.raises(DataError, match="different: model"):
            other.commit(parts[other], COLUMNS)
    assert url_to_fs(place)[0].find(place, detail=True) == before


def meanwhile(monkeypatch, act):
    """Let something happen while a commit makes the output, which it does after it has looked at the place."""
    real = Staging._make_manifest
    monkeypatch.setattr(Staging, "_make_manifest", lambda *args: (monkeypatch.undo(), act(), real(*args))[-1])


def test_what_appears_while_an_output_is_made_stays(place, monkeypatch):
    meanwhile(monkeypatch, lambda: write_others(place))
    with pytest.raises(DataError, match="no manifest"):
        write(place)
    assert b"precious" in contents(place).values()
    assert len(contents(place)) == 1


@pytest.mark.parametrize("name", STORE)
def test_a_job_that_another_client_finishes_meanwhile_is_done(bucket, name, monkeypatch):
    place, before = f"{bucket}/{name}", []
    meanwhile(monkeypatch, lambda: before.append((write(place), url_to_fs(place)[0].find(place, detail=True))))
    assert (write(place), url_to_fs(place)[0].find(place, detail=True)) == before[0]
    assert siblings(place) == set()


def test_a_listing_that_is_late_hides_no_part(path, monkeypatch):
    files = store.FolderStore.files
    monkeypatch.setattr(store.FolderStore, "files", lambda s: {} if "staging" in s.folder.name else files(s))
    write(path)
    check_read(path)


def test_late_and_duplicate_attempts_add_no_rows(path):
    with Destination(path).stage(JOB) as staging:
        parts = [staging.part_writer(i, ROWS[i]).write([t]) for i, t in enumerate(tables(path))]
        for index, late in enumerate(tables(path)):
            other = late.set_column(2, "score", pa.array(np.full(late.num_rows, -1, "float32")))
            staging.part_writer(index, ROWS[index]).write([other])
        staging.commit(parts, COLUMNS)
    check_read(path)
    with pytest.raises(DataError, match="not there"):
        staging.part_writer(0, 5).write(tables(path)[:1])
    assert siblings(path) == set()


JOINED = [place for place in PLACES if place[1] not in ("folder", "one.csv")]


@pytest.mark.parametrize("place", JOINED, ids="-".join, indirect=True)
def test_parts_of_different_types_are_not_joined(place):
    given = tables(place)
    given[2] = given[2].set_column(0, "id", pa.array(given[2]["id"].to_numpy().astype("float64")))
    with pytest.raises(DataError, match=r"part-00002 .*(id: double|'id', '<f8')"):
        write(place, given=given)
    assert contents(place) == {}


def test_the_folder_holds_its_manifest_and_success(root):
    manifest = write(f"{root}/out")
    found = contents(f"{root}/out")
    assert sorted(found) == ["/_SUCCESS", "/_manifest.json", *(f"/part-0000{i}.parquet" for i in range(4))]
    text = found["/_manifest.json"]
    assert Manifest.from_bytes(text) == manifest
    document = json.loads(text)
    assert document["job"] == JOB
    assert [f["rows"] for f in document["files"]] == list(ROWS)
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
    with pytest.raises(ClusterError, match="Make room"):
        write(path)
    monkeypatch.setattr(os, "fsync", real)
    assert not path.exists()
    with Destination(path).stage(JOB) as staging:
        assert len(staging.finished(ROWS)) >= 1
        assert not [name for name in staging.store.names() if name.endswith(".partial")]
    write(path)
    check_read(path)


def test_doors(tmp_path):
    with pytest.raises(DataError, match="nowhere is not there"):
        Destination(tmp_path / "nowhere" / "out")
    with pytest.raises(UnsupportedError, match=r"\.gz files are not written"):
        Destination(tmp_path / "out.csv.gz")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        Destination(tmp_path / "a.csv")
    (tmp_path / "b").write_text("")
    with pytest.raises(DataError, match="is a file"):
        Destination(tmp_path / "b", overwrite=True)
    with pytest.raises(UnsupportedError, match="Zarr"):
        Destination("memory://bucket/scores.zarr")
    with pytest.raises(UnsupportedError, match="is not divided"):
        Destination("memory://bucket/scores", partition_by=("id",))
    with pytest.raises(UnsupportedError, match="nowhere"):
        Destination("nowhere://bucket/scores")


def test_a_link_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "out")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    check_read(tmp_path / "disk" / "out")


def test_a_kill_while_the_old_folder_stands_aside_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "out"
    write(path)
    before = contents(path)
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    real = os.rename
    monkeypatch.setattr(
        os, "rename", lambda *names: real(*names) if not (tmp_path / ".out.previous").exists() else 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        write(path, OTHER, overwrite=True)
    monkeypatch.setattr(os, "rename", real)
    assert not path.exists()
    assert write(path) is None
    assert contents(path) == before
    assert not (tmp_path / ".out.previous").exists()


def test_without_links_the_output_is_the_same_also_after_a_kill(tmp_path, monkeypatch):
    write(tmp_path / "linked")
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    with monkeypatch.context() as patched:
        patched.setattr(Staging, "_check_uploads", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "out")
    write(tmp_path / "out")
    assert contents(tmp_path / "linked") == contents(tmp_path / "out")
    assert siblings(tmp_path / "out") == {"linked"}


def test_a_dead_client_blocks_nobody(tmp_path):
    script = (
        "import os, sys\nfrom dkernel.data.writers.destination import Destination\n"
        "with Destination(sys.argv[1]).stage({'model': 'm1', 'input': 'i1'}):\n    os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "out"], check=False).returncode == 9
    assert len(siblings(tmp_path / "out")) == 1
    write(tmp_path / "out")
    assert siblings(tmp_path / "out") == set()


class Killed(BaseException):
    """What ends a process at once."""


def fail_at(monkeypatch, step, error):
    """Let the `step`-th change of the store in memory fail, and those after it."""
    steps = count()

    def counted(change):
        def call(*args, **more):
            if next(steps) >= step:
                raise error
            return change(*args, **more)

        return call

    for name in ("put_file", "cp_file", "rm_file", "mv"):
        monkeypatch.setattr(MemoryFileSystem, name, counted(getattr(MemoryFileSystem, name)))


@pytest.fixture(params=["objects", "files"])
def system(request, monkeypatch):
    """The store in memory as one of objects, or as a remote file system, where a file has a hidden name first."""
    if request.param == "files":
        monkeypatch.setattr(store, "OBJECT_STORES", set())
        rename = lambda self, old, new: self.store.update({new: self.store.pop(old)})  # noqa: E731
        monkeypatch.setattr(MemoryFileSystem, "mv", rename)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    ("name", "before", "system"),
    [("folder", b, s) for b in ("new", "old") for s in ("objects", "files")] + [("one.npy", "old", "objects")],
    indirect=["system"],
)
def test_killed_at_any_step_of_the_commit_it_is_gone_on_with(name, before, bucket, tmp_path, monkeypatch):
    write(tmp_path / name)
    complete = contents(tmp_path / name)
    for step in count():
        place, old, killed = f"{bucket}/{step}/{name}", {}, False
        if before == "old":
            write(place, OTHER, given=tables(place, 100) + tables(place, 200))
            old = contents(place)
        with monkeypatch.context() as patched:
            fail_at(patched, step, Killed())
            try:
                write(place, overwrite=before == "old")
            except Killed:
                killed = True
        if "." in name or "/_SUCCESS" in contents(place):
            assert contents(place) in (old, complete)
        if before == "old" and Destination(place, overwrite=True).complete(OTHER):
            assert contents(place) == old
        write(place, overwrite=before == "old")
        assert contents(place) == complete
        assert siblings(place) == set()
        if not killed:
            break
    assert step > len(ROWS) + 4


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PermissionError("no"), DataError), (FileNotFoundError("no"), DataError), (KeyError("x"), ClusterError)],
)
def test_trouble_with_a_store_names_it(bucket, monkeypatch, error, kind):
    fail_at(monkeypatch, 0, error)
    with pytest.raises(kind, match="memory://"):
        write(f"{bucket}/scores")


@pytest.mark.parametrize("name", STORE)
def test_a_place_that_cannot_be_asked_for_is_not_free(bucket, name, monkeypatch):
    write(f"{bucket}/{name}")
    monkeypatch.setattr(MemoryFileSystem, "exists", lambda *_, **__: False)
    with pytest.raises(DataError, match="different: model"):
        write(f"{bucket}/{name}", OTHER)


def test_what_a_part_saw_and_nobody_may_read_is_refused(bucket, monkeypatch):
    with Destination(f"{bucket}/folder").stage(JOB) as staging:
        staging.part_writer(0, 5).write(tables("folder")[:1], seen={"a": 1})
        fail = lambda *_, **__: (_ for _ in ()).throw(PermissionError("no"))  # noqa: E731
        monkeypatch.setattr(MemoryFileSystem, "get_file", fail)
        with pytest.raises(DataError, match=r"seen.*no permission"):
            staging.finished(ROWS)


@pytest.mark.parametrize("name", ["folder", "one.csv"])
def test_what_is_not_whole_in_a_store_is_refused(bucket, name, monkeypatch):
    def cut(change):
        def call(self, path, other, **more):
            change(self, path, other, **more)
            if f"/{name}" in other and not other.endswith(".json"):
                self.pipe_file(other, self.cat_file(other)[:-1])

        return call

    for change in ("put_file", "cp_file"):
        monkeypatch.setattr(MemoryFileSystem, change, cut(getattr(MemoryFileSystem, change)))
    with pytest.raises(ClusterError, match=f"{name}.* is not whole"):
        write(f"{bucket}/{name}")
    monkeypatch.undo()
    write(f"{bucket}/{name}", overwrite=True)
    check_read(f"{bucket}/{name}")
