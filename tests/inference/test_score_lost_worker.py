"""A worker that is killed for real while it scores: the output has the bytes of a run without that."""

import os
import signal
from pathlib import Path

import dask
import pandas as pd
import pytest

from dkernel.data.writers import atomic
from dkernel.data.writers.partitions import files_in
from dkernel.inference.score import write_scores
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor
from tests.inference.score_kills import LinearModel, a_source
from tests.inference.test_score import _stand_in, real_model  # noqa: F401 - a fixture of every test


class Vanishing(LinearModel):
    """Ends the first process that scores with it, in the middle of the task."""

    def __init__(self, classes, folder):
        super().__init__(classes)
        self.folder = str(folder)

    def scores(self, X):
        try:
            os.close(os.open(Path(self.folder) / "once", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().scores(X)
        os.kill(os.getpid(), signal.SIGKILL)
        return None


@pytest.mark.cluster
@pytest.mark.parametrize("keys", [(), pytest.param(("id",), marks=pytest.mark.slow)], ids=["one folder", "divided"])
def test_a_worker_that_is_killed_while_it_scores_changes_no_byte(tmp_path, keys):
    source, _ = a_source(rows=((3, 2), (4,), (1, 0, 1), (2,), (7,)))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    write_scores(LinearModel([0, 1]), source, tmp_path / "a" / "out", SerialExecutor(), partition_by=keys)
    # Here a death is meant: the scheduler has its usual patience with tasks whose worker died.
    with dask.config.set({"distributed.scheduler.allowed-failures": 3}), connect(workers=2) as executor:
        write_scores(Vanishing([0, 1], tmp_path), source, tmp_path / "b" / "out", executor, partition_by=keys)
    assert (tmp_path / "once").exists()
    assert pd.read_parquet(tmp_path / "a" / "out").equals(pd.read_parquet(tmp_path / "b" / "out"))
    folders = [tmp_path / name / "out" for name in ("a", "b")]
    assert files_in(folders[0]) == files_in(folders[1])
    parts = [[atomic.file_digest(path) for path in sorted(folder.rglob("part-*"))] for folder in folders]
    assert len(parts[0]) == (20 if keys else 5)  # rows, units
    assert parts[0] == parts[1]
