"""A file that another takes the place of, of as many rows, while a training reads it."""

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.opening import open_source
from dkernel.errors import DataError
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import Plan

ROWS = 6000
X = np.random.default_rng(0).standard_normal((ROWS, 2)).astype(np.float32)
Y = (X**2).sum(axis=1) > 1.4


def write(path, y):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    pq.write_table(table, path.with_suffix(".new"), row_group_size=500)
    os.replace(path.with_suffix(".new"), path)


class Replacing(Progress):
    """Puts the opposite labels in the place of the file when the fit begins what it names `at`."""

    def __init__(self, path, at):
        super().__init__("none")
        self.path, self.at = path, at

    def phase(self, name, *args, **more):
        if self.at and name.startswith(self.at):
            self.at = ""
            write(self.path, ~Y)
        super().phase(name, *args, **more)


@pytest.mark.parametrize("at", ["choose", "prepare", "pass"])
@pytest.mark.parametrize("held", [True, False])
def test_a_model_has_the_rows_of_one_file_or_there_is_none(tmp_path, monkeypatch, held, at):
    """What is held was read from the first; what has to be read again is refused, though the sizes are the same."""
    path = tmp_path / "t.parquet"
    write(path, Y)
    source = open_source(path, label="y")
    if not held:
        plan = Plan.of
        monkeypatch.setattr(Plan, "of", lambda *args, **more: replace(plan(*args, **more), keeps_rows=False))
    recipe = Recipe(solver="psgd", kernel="Gaussian(gamma=0.5)", n_components=32, alpha=1e-6)
    executor = SerialExecutor()
    if held:
        model = train(source, recipe, executor, progress=Replacing(path, at)).model
        assert np.mean(model.predict(X) == Y) > 0.95
    else:
        with pytest.raises(DataError, match="the file changed since it was opened"):
            train(source, recipe, executor, progress=Replacing(path, at))
