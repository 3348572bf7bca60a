"""The steps of a commit, one by one."""

import errno
import os
from pathlib import Path

import pytest

from dkernel.data.store import write_whole
from dkernel.data.writers import atomic
from dkernel.errors import ClusterError, DataError


def test_a_place_without_permission_is_named():
    error = atomic.explain_os_error(PermissionError(errno.EACCES, "Permission denied"), Path("out"))
    assert isinstance(error, DataError)
    assert "out: not writable" in str(error)


@pytest.mark.parametrize(("error", "said"), [(OSError("odd"), "odd"), (OSError(errno.ENOSPC, "full"), "out'")])
def test_an_error_of_a_write_names_the_file_and_keeps_its_words(tmp_path, error, said):
    with pytest.raises(OSError, match=said), atomic.replacing(tmp_path / "out"):
        raise error


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_replaces_another(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    atomic.rename_into_place(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "file").read_text() == "new"
    assert (tmp_path / "new" / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_takes_the_place_of_another(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    atomic.rename_into_place(tmp_path / "new", tmp_path / "old")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("old", "new")]


def test_restoring_finishes_a_replacement_that_was_done(tmp_path):
    for name in ("out", ".out.previous"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "new").write_text("")
    atomic.restore(tmp_path / "out")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["out", "out/new"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    write_whole(path, b"old")

    def full(_handle):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_the_digest_of_a_folder_covers_names_and_bytes(tmp_path):
    def made(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content)
        return atomic.file_digest(folder)

    first = made(a="1", b="2")
    assert first == made(b="2", a="1")
    assert first[0] == 2
    assert len({first, made(a="1", c="2"), made(a="1", b="3"), made(a="12"), made(a="1")}) == 5


def test_other_trouble_can_be_tried_again():
    assert isinstance(atomic.explain_os_error(OSError(errno.EIO, "Input/output error"), Path("out")), ClusterError)
    with pytest.raises(DataError, match="every worker"):
        raise atomic.explain_os_error(FileNotFoundError(errno.ENOENT, "No such file"), Path("out"))
