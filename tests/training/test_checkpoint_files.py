"""The files of a checkpoint against disks that fail: what is half there is never taken."""

import errno
import os

import pytest

from dkernel.data import store
from dkernel.errors import ClusterError
from dkernel.streaming.progress import Progress
from dkernel.training.checkpoint import Checkpoint, FolderJournal, describe_run
from tests.training.fits import RECIPE, a_source, digest, fit

SMALL = RECIPE.replace(rounds=4, n_components=8)


class Disk:
    """Counts what reaches the disk, and refuses the N-th."""

    def __init__(self, refuse, code=errno.ENOSPC):
        self.refuse, self.code, self.done = refuse, code, 0

    def check(self):
        self.done += 1
        if self.done == self.refuse:
            raise OSError(self.code, os.strerror(self.code))

    def open(self, *args, **kwargs):
        file = open(*args, **kwargs)  # noqa: SIM115
        if "x" not in (args[1] if len(args) > 1 else ""):
            return file
        write = file.write
        return _File(file, lambda data: (self.check(), write(data))[1])

    def checked(self, function):
        def call(*args, **kwargs):
            self.check()
            return function(*args, **kwargs)

        return call


class _File:
    def __init__(self, file, write):
        self._file, self.write = file, write

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._file.close()


@pytest.fixture
def disk(monkeypatch):
    def put(refuse, code=errno.ENOSPC):
        disk = Disk(refuse, code)
        monkeypatch.setattr(store, "open", disk.open, raising=False)
        for name in ("fsync", "replace"):
            monkeypatch.setattr(store.os, name, disk.checked(REAL[name]))
        return disk

    return put


REAL = {"fsync": os.fsync, "replace": os.replace}


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_the_nth_write_fsync_or_rename_fails(step, tmp_path, disk, monkeypatch):
    expected = digest(fit(None, recipe=SMALL), tmp_path)
    write, committed = FolderJournal._write, []

    def noted(self, name, value):
        write(self, name, value)
        committed.append(name)

    monkeypatch.setattr(FolderJournal, "_write", noted)
    monkeypatch.setattr("dkernel.training.checkpoint.EVERY", 2)
    for n in range(1, 1000, step):
        folder = tmp_path / str(n)
        committed.clear()
        failing = disk(n, errno.ENOSPC if n % 2 else errno.EIO)
        said = f"{folder} again"
        try:
            fit(folder, recipe=SMALL)
        except ClusterError as error:
            said = str(error)
        disk(0)
        assert str(folder) in said
        assert "again" in said
        kept = [name for name in committed if (folder / f"checkpoint-{name}.safetensors").exists()]
        gone = [name for name in committed if name not in kept]
        # Only the oldest rounds make way, the readings when the polish is, and the stages when the result is there.
        assert all(name.startswith(("rounds-", "polish-")) for name in gone) or "result" in kept
        with Checkpoint(folder).open(describe_run(a_source(), SMALL), 0, Progress("none")) as journal:
            assert all(journal.stored(name) is not None for name in kept)
        assert not list(folder.glob(".*partial"))
        assert digest(fit(folder, recipe=SMALL), tmp_path) == expected, n
        if failing.done < n:
            assert n > 40
            return
    raise AssertionError("the run never ends")
