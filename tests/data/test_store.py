"""Files of state and results, on a disk and at URLs: whole or not at all, the same bytes, the same refusals."""

import hashlib
from types import SimpleNamespace
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from aiohttp import ClientResponseError
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from dkernel import KernelClassifier, KernelRegressor, load, save
from dkernel.data.store import explain_errors, locate, open_store, write_whole
from dkernel.errors import ClusterError, DataError, ModelFileError, UnsupportedError


class Remote(MemoryFileSystem):
    """A file system that shows what has come so far, as sftp does."""

    protocol = "remote"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    fails = False
    sent: ClassVar = []

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("remote://", "memory://", 1))

    def put_file(self, lpath, rpath, **options):
        self.sent.append(rpath)
        super().put_file(lpath, rpath, **options)
        if Remote.fails:
            raise OSError("the line is dead")


fsspec.register_implementation("remote", Remote, clobber=True)


@pytest.fixture(params=["disk", "file", "memory", "remote"])
def folder(request, tmp_path):
    """A folder that is not there yet: a path, or a URL."""
    if request.param == "disk":
        return str(tmp_path)
    if request.param == "file":
        return f"file://{tmp_path}"
    return f"{request.param}://{tmp_path.name}"


def test_what_is_written_is_read_listed_replaced_and_removed(folder):
    store = open_store(folder)
    for content in (b"old", b"new bytes"):
        with store.replacing("a") as file:
            file.write(content)
    assert store.names() == ["a"]
    assert store.has("a")
    for all_of_it in (True, False):
        with store.reading("a", all_of_it) as file:
            assert file.read() == b"new bytes"
    store.remove("a")
    store.remove("a")
    assert not store.has("a")
    assert store.within("none").names() == []
    with pytest.raises(FileNotFoundError), store.reading("a"):
        pass


def test_files_are_taken_compared_and_given_on(folder):
    store, digest = open_store(folder), (3, hashlib.sha256(b"abc").hexdigest())
    with store.workplace() as here:
        (here / "made").write_bytes(b"abc")
        store.take(here / "made", "a")
    assert store.files() == {"a": 3}
    for read in (False, True):
        assert store.find_changed({"a": digest, "b": digest}, read) == {"b"}
    assert store.find_changed({"a": (3, "0")}, read=True) == {"a"}
    store.give("a", store, "b")
    with store.workplace(["b"]) as here:
        assert (here / "b").read_bytes() == store.read("b") == b"abc"
    store.remove_all()
    assert store.files() == {}


def test_a_writing_that_fails_leaves_the_old_file_and_no_other(folder):
    store, name = locate(f"{folder}/a")
    write_whole(f"{folder}/a", b"old")
    with pytest.raises(TypeError), store.replacing(name) as file:
        file.writelines([b"ne", "no bytes"])
    with store.reading(name) as file:
        assert file.read() == b"old"
    assert store.names() == ["a"]


def test_a_remote_file_has_a_hidden_name_until_all_of_it_is_there(monkeypatch):
    write_whole("remote://folder/a", b"old")
    assert Remote.sent[-1].startswith("/folder/.a.")
    monkeypatch.setattr(Remote, "fails", True)
    with pytest.raises(ClusterError, match="the line is dead"):
        write_whole("remote://folder/a", b"new")
    assert open_store("remote://folder").names() == ["a"]
    assert MemoryFileSystem.cat_file(Remote(), "/folder/a") == b"old"


def test_a_store_that_fails_while_a_file_is_read_is_named(monkeypatch):
    write_whole("memory://broken/a", b"bytes")
    with open_store("memory://broken").reading("a", all_of_it=False) as file:
        monkeypatch.setattr(MemoryFile, "seek", lambda *_: 1 / 0)
        with pytest.raises(ClusterError, match=r"memory://broken/a.*ZeroDivisionError"):
            file.seek(0)


def test_a_folder_is_tried_without_a_trace(folder):
    open_store(folder).check_writable()
    assert open_store(folder).names() == []


def test_a_model_is_the_same_file_on_a_disk_and_at_a_url(folder, tmp_path):
    machine = KernelRegressor(gamma=1.0, n_components=8).fit(np.arange(20.0)[:, None], np.arange(20.0))
    digest = save(machine, f"{folder}/m")
    assert save(machine, tmp_path / "other") == digest
    again = load(f"{folder}/m")
    assert save(again, tmp_path / "again") == digest
    with pytest.raises(ModelFileError, match="does not exist"):
        load(f"{folder}/none")
    write_whole(f"{folder}/m", b"no model")
    with pytest.raises(ModelFileError, match="is not a dkernel model"):
        load(f"{folder}/m")


def test_a_large_tensor_at_a_url_is_not_held_in_memory(monkeypatch):
    from dkernel.model import tensor_file

    document, arrays = {"protocol": 1}, {"x": np.arange(1000.0)}
    tensor_file.write_tensors("memory://large/t", document, arrays)
    monkeypatch.setattr(tensor_file, "LARGE_TENSOR", 1)
    with tensor_file.open_tensors("memory://large/t") as file:
        read = tensor_file.read_document(file, "t", 1)
        found = tensor_file.read_tensors(file, read, "t", {"x"})["x"]
    assert found.tolist() == arrays["x"].tolist()
    assert not found.flags.writeable


def test_an_estimator_keeps_its_checkpoint_at_a_url(tmp_path):
    folder = f"memory://{tmp_path.name}"
    X = np.random.default_rng(0).normal(size=(500, 2))
    y = (X**2).sum(axis=1) > 1.2
    machine = KernelClassifier("gaussian", gamma=1.0, n_components=8, solver="psgd", checkpoint=f"{folder}/c")
    whole = machine.fit(X, y).model_
    assert open_store(f"{folder}/c").has("checkpoint-result.safetensors")
    assert machine.fit(X, y).model_.coef.tolist() == whole.coef.tolist()


def test_a_url_that_cannot_be_reached_says_what_is_needed():
    with pytest.raises(UnsupportedError, match="cannot be used"):
        open_store("nonsense://bucket/a").names()
    with pytest.raises(DataError, match="a bucket and a name"):
        locate("s3://model.safetensors")
    with pytest.raises(DataError, match="a bucket and a name"):
        locate("s3://bucket/")


class NoCredentialsError(Exception):
    """As botocore calls it."""


def answer(status):
    """What a web server says instead of doing what was asked."""
    return ClientResponseError(SimpleNamespace(real_url="http://host"), (), status=status, message="no")


@pytest.mark.parametrize(
    ("found", "kind", "told"),
    [
        (NoCredentialsError("Unable to locate credentials"), DataError, "AWS_ACCESS_KEY_ID"),
        (PermissionError("Access Denied"), DataError, "the right to list, read, write and delete"),
        (FileNotFoundError("NoSuchBucket"), DataError, "no such bucket"),
        (ConnectionError("refused"), ClusterError, "Run the same command again"),
        (answer(405), DataError, "the server refuses this.*Name another place"),
        (answer(501), DataError, "the server refuses this.*Name another place"),
        (answer(429), ClusterError, "Run the same command again"),
        (answer(503), ClusterError, "Run the same command again"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_trouble_with_a_store_says_what_to_do(found, kind, told):
    with pytest.raises(kind, match=told), explain_errors("s3://bucket/a"):
        raise found
