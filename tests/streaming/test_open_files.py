"""Files that this process does not see are opened by a worker; here workers are a loop with folders of their own."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dkernel.errors import DataError, UnseenFileError
from dkernel.streaming import open_files as opening
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.open_files import open_files


class Workers(SerialExecutor):
    """Calls run where the file `rows.npy` is the worker's own, if it has one."""

    def __init__(self, place, own):
        super().__init__()
        self.place, self.own = place, own

    def processes(self):
        return dict.fromkeys(self.own, 1)

    def compute(self, calls, ahead=(), read_on=()):  # noqa: ARG002 - nothing is read ahead
        found = []
        for call in calls:
            content = self.own[call.at]
            if content is not None:
                np.save(self.place, content)
                os.utime(self.place, (0, 0))
            found += super().compute([call])[0]
            self.place.unlink(missing_ok=True)
        return found, []


@pytest.fixture
def opened(tmp_path, monkeypatch):
    def by(own):
        monkeypatch.setattr(
            opening, "_open", lambda paths, options: (opening.open_source(paths, **options), True, True)
        )
        place = tmp_path / "rows.npy"
        return partial(open_files, [place], Workers(place, own), label="-1")

    return by


ROWS = np.arange(12.0).reshape(4, 3)


def test_a_worker_opens_what_only_workers_see(opened):
    source = opened({"a": ROWS, "b": ROWS})()
    assert (source.n_rows, source.n_in) == (4, 2)
    again = source.filled()
    assert again.n_rows == 4


def test_without_workers_or_where_none_sees_it_nothing_is_opened(opened, tmp_path):
    with pytest.raises(UnseenFileError, match="there is no such file or folder on this machine"):
        opened({})()
    with pytest.raises(DataError, match=r"on this machine\. None of the 2 workers sees it either\."):
        opened({"a": None, "b": None})()
    assert not Path(tmp_path, "rows.npy").exists()


@pytest.mark.parametrize(
    ("other", "words"),
    [(None, "does not see this file, which"), (ROWS[:2], "has another file of this name")],
    ids=["missing", "stale"],
)
def test_workers_that_see_different_files_are_named(opened, other, words):
    with pytest.raises(DataError, match=words):
        opened({"a": ROWS, "b": other})()
