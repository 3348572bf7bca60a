"""Small units are read many to a task, to the same bits."""

import numpy as np
import pytest

from dkernel.data import open_source
from dkernel.execution.local import SerialExecutor
from dkernel.recipe import Recipe
from dkernel.streaming import block_reader
from dkernel.training.fit import train

FILES = 90


class Counting(SerialExecutor):
    """Counts the tasks that read."""

    def __init__(self):
        super().__init__()
        self.read = 0

    def compute(self, calls, ahead=()):
        self.read += len(ahead)
        return super().compute(calls, ahead)


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for i in range(FILES):
        row = np.zeros(1, [("a", "f4"), ("b", "f4"), ("y", "i8")])
        row["a"], row["b"] = rng.standard_normal(2)
        row["y"] = i % 2
        np.save(tmp_path / "data" / f"{i:03d}.npy", row)
    return open_source(str(tmp_path / "data"), label="y")


def test_many_small_files_are_few_tasks_and_the_same_model(source, monkeypatch):
    def job():
        executor = Counting()
        model = train(source, Recipe(n_components=8, gamma=0.5, kernel="gaussian", alpha=1e-3), executor).model
        return model.scores(np.eye(2)).tobytes(), executor.read

    together, few = job()
    monkeypatch.setattr(block_reader, "grouped", lambda units, _: [range(i, i + 1) for i in range(len(units))])
    alone, many = job()
    assert together == alone
    assert few < many / 20
