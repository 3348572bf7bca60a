"""Outputs in a store without rename: complete where `_SUCCESS` is, gone on with after a kill, never another job's."""

import io
import uuid

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.writers.destination import Destination
from dkernel.data.writers.manifest import Manifest
from dkernel.data.writers.object_store import StoreDestination, open_destination
from dkernel.errors import ClusterError, DataError, UnsupportedError

JOB = {"input": "1f", "model": "2e"}


def table(index, rows=10):
    return pa.table({"id": np.arange(rows) + 100 * index, "score": np.full(rows, float(index))})


@pytest.fixture
def store():
    """An empty folder of a store in memory: its file system and its URL."""
    name = uuid.uuid4().hex
    system = fsspec.filesystem("memory")
    yield system, f"memory://{name}"
    if system.exists(f"/{name}"):
        system.rm(f"/{name}", recursive=True)


def write(url, parts=3, job=JOB, overwrite=False, until=None):
    destination = open_destination(url, overwrite)
    assert destination.complete(job) is None
    with destination.stage(job) as staging:
        found = staging.finished([10] * parts)
        for i in range(parts if until is None else until):
            if i not in found:
                found[i] = staging.part_writer(i, 10).write([table(i)])
        if until is not None:
            return None
        return staging.commit([found[i] for i in range(parts)], ["id", "score"])


def names(system, url):
    return sorted(path.removeprefix(url.removeprefix("memory:/") + "/") for path in system.find(url))


def test_a_folder_holds_what_the_manifest_says_and_equals_one_on_a_disk(store, tmp_path):
    system, url = store
    manifest = write(f"{url}/scores")
    local = Destination(tmp_path / "scores")
    with local.stage(JOB) as staging:
        on_disk = staging.commit([staging.part_writer(i, 10).write([table(i)]) for i in range(3)], ["id", "score"])
    assert manifest == on_disk
    found = names(system, f"{url}/scores")
    assert found == ["_SUCCESS", "_manifest.json", *(f"part-0000{i}.parquet" for i in range(3))]
    for name in found:
        assert system.cat_file(f"{url}/scores/{name}") == (tmp_path / "scores" / name).read_bytes()
    assert [name for name in names(system, url) if "staging" in name] == []
    again = open_destination(f"{url}/scores")
    assert again.complete(JOB) == manifest


@pytest.mark.parametrize("name", ["scores.parquet", "scores.csv", "scores.npy"])
def test_a_single_object_equals_the_file_on_a_disk(name, store, tmp_path):
    system, url = store
    manifest = write(f"{url}/{name}")
    local = Destination(tmp_path / name)
    with local.stage(JOB) as staging:
        staging.commit([staging.part_writer(i, 10).write([table(i)]) for i in range(3)], ["id", "score"])
    assert names(system, url) == [f".{name}.manifest.json", name]
    assert system.cat_file(f"{url}/{name}") == (tmp_path / name).read_bytes()
    assert open_destination(f"{url}/{name}").complete(JOB) == manifest


def test_finished_parts_are_taken_over(store, monkeypatch):
    system, url = store
    write(f"{url}/scores", until=2)
    assert all(name.startswith(".scores.staging-") for name in names(system, url))
    written = []
    put = type(system).put_file
    monkeypatch.setattr(
        type(system),
        "put_file",
        lambda self, here, there, **more: (written.append(there), put(self, here, there, **more)),
    )
    write(f"{url}/scores")
    assert len(written) == 1


class Killed(BaseException):
    """What ends a process at once."""


@pytest.mark.parametrize("step", range(8))
def test_killed_at_any_step_of_the_commit_it_is_gone_on_with(step, store, monkeypatch):
    system, url = store
    steps = []

    def counted(name):
        real = getattr(type(system), name)

        def call(self, path, *args, **more):
            if "/.scores.staging" not in str(args[0] if name == "cp_file" else path):
                if len(steps) == step:
                    raise Killed
                steps.append(name)
            return real(self, path, *args, **more)

        monkeypatch.setattr(type(system), name, call)

    for name in ("pipe_file", "cp_file", "rm_file"):
        counted(name)
    try:
        write(f"{url}/scores")
    except Killed:
        assert not system.exists(f"{url}/scores/_SUCCESS")
    monkeypatch.undo()
    if open_destination(f"{url}/scores").complete(JOB) is None:
        write(f"{url}/scores")
    assert names(system, url) == [
        f"scores/{n}" for n in ("_SUCCESS", "_manifest.json", *(f"part-0000{i}.parquet" for i in range(3)))
    ]
    for i in range(3):
        assert pq.read_table(io.BytesIO(system.cat_file(f"{url}/scores/part-0000{i}.parquet"))).equals(table(i))


def test_another_job_is_refused_and_replaced_on_request(store):
    system, url = store
    write(f"{url}/scores")
    other = {**JOB, "model": "3d"}
    with pytest.raises(DataError, match="different: model"):
        open_destination(f"{url}/scores").complete(other)
    write(f"{url}/scores", parts=2, job=other, overwrite=True)
    assert names(system, f"{url}/scores") == ["_SUCCESS", "_manifest.json", "part-00000.parquet", "part-00001.parquet"]
    manifest = Manifest.from_bytes(system.cat_file(f"{url}/scores/_manifest.json"))
    assert manifest is not None
    assert dict(manifest.job) == other
    system.pipe_file(f"{url}/scores/mine.txt", b"mine")
    with pytest.raises(DataError, match=r"mine\.txt"):
        open_destination(f"{url}/scores", overwrite=True).complete(JOB)


def test_what_was_changed_since_is_no_output_of_this_job(store):
    system, url = store
    write(f"{url}/scores")
    system.pipe_file(f"{url}/scores/part-00001.parquet", b"other")
    with pytest.raises(DataError, match="changed"):
        open_destination(f"{url}/scores").complete(JOB)


def test_bad_data_leave_nothing(store):
    system, url = store
    destination = open_destination(f"{url}/scores")
    with destination.stage(JOB) as staging:
        staging.part_writer(0, 10).write([table(0)])
        staging.discard()
    assert names(system, url) == []
    with pytest.raises(DataError, match="10 rows where 11"), destination.stage(JOB) as staging:
        staging.part_writer(0, 11).write([table(0)])
    assert names(system, url) == []


def test_types_that_differ_between_parts_are_refused(store):
    _, url = store
    destination = open_destination(f"{url}/scores")
    with destination.stage(JOB) as staging:
        parts = [
            staging.part_writer(0, 10).write([table(0)]),
            staging.part_writer(1, 10).write([table(1).select(["id"])]),
        ]
        with pytest.raises(DataError, match="Part 1"):
            staging.commit(parts, ["id", "score"])


def test_what_a_store_cannot_hold_or_refuses_is_said(store, monkeypatch):
    system, url = store
    with pytest.raises(UnsupportedError, match="Zarr"):
        StoreDestination(f"{url}/scores.zarr")
    with pytest.raises(UnsupportedError, match="nowhere"):
        StoreDestination("nowhere://bucket/scores")

    def refuse(error):
        def call(*_, **__):
            raise error

        return call

    for error, kind in [
        (PermissionError("no"), DataError),
        (FileNotFoundError("no"), DataError),
        (KeyError("x"), ClusterError),
    ]:
        monkeypatch.setattr(type(system), "put_file", refuse(error))
        with pytest.raises(kind, match="memory://"):
            write(f"{url}/scores")
