"""Small units are read many to a task, to the same bits."""

import time
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.failures import KilledCallError
from dkernel.data.opening import open_source
from dkernel.errors import ClusterError
from dkernel.model.recipe import Recipe
from dkernel.streaming import block_reader, read_groups
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.read_groups import join_units
from dkernel.streaming.schedule import cut_pieces
from dkernel.streaming.survey import Survey
from dkernel.training.fit import train
from tests.streaming.execution.stand_ins import Counted

FILES = 90


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
        executor = Counted()
        model = train(
            source, Recipe(solver="psgd", n_components=8, gamma=0.5, kernel="gaussian", alpha=1e-3), executor
        ).model
        return model.scores(np.eye(2)).tobytes(), executor.read

    monkeypatch.setattr(read_groups, "JOINED", 0)
    together, few = job()
    monkeypatch.setattr(block_reader, "group_units", lambda units, _: [range(i, i + 1) for i in range(len(units))])
    alone, many = job()
    assert together == alone
    assert few < many / 20


def test_files_of_a_few_rows_are_learned_as_files_of_a_piece(tmp_path):
    """Each was padded to a tile of 256 rows, in every pass: 1,000 files of 20 rows took three times as long as one."""
    rng, recipe = (
        np.random.default_rng(0),
        Recipe(solver="psgd", n_components=64, gamma=0.5, kernel="gaussian", alpha=1e-3),
    )
    rows = np.zeros(2060, [("a", "f4"), ("b", "f4"), ("y", "i8"), ("w", "f8")])
    rows["a"], rows["b"], rows["w"] = rng.standard_normal(2060), rng.standard_normal(2060), rng.random(2060)
    rows["y"] = rows["a"] + rows["b"] > 0
    found = []
    for name, ends in (("small", range(10, 2070, 10)), ("joined", (2040, 2060))):
        (tmp_path / name).mkdir()
        for first, last in pairwise((0, *ends)):
            np.save(tmp_path / name / f"{first:04d}.npy", rows[first:last])
        source = open_source(str(tmp_path / name), label="y", weight="w")
        found.append(train(source, recipe, SerialExecutor()).model.scores(np.eye(2)).tobytes())
    assert found[0] == found[1]


def test_a_joined_unit_has_the_rows_of_its_parts_in_their_order(source):
    (unit,) = join_units(source).units
    (block,) = unit.task.compute(scheduler="sync")
    parts = [part.task.compute(scheduler="sync")[0] for part in source.units]
    assert unit.rows == (FILES,)
    assert unit.parts == source.units
    for name in ("X", "y"):
        assert np.array_equal(getattr(block, name), np.concatenate([getattr(part, name) for part in parts]))


def test_of_a_joined_unit_the_file_that_ends_the_workers_is_named(source):
    deadly = source.units[31]

    class Killed(Counted):
        def compute(self, calls, ahead=()):
            for task in ahead:
                raise KilledCallError(task.key, "a worker was killed")
            for call in calls:
                if call.key.startswith(deadly.task.key):
                    raise KilledCallError(call.key, "a worker was killed")
            return super().compute(calls, ahead)

    small = join_units(source)
    feed = BlockReader(Killed(), small, keep=True)
    with pytest.raises(ClusterError, match=r"031\.npy.*rows 32 to 32 of the source"):
        feed.fold(Survey(0, FILES, 8), cut_pieces([unit.rows for unit in small.units]), "one", Progress("none"))


def test_a_reading_of_many_small_files_asks_a_few_times(source):
    executor = Counted()
    feed = BlockReader(executor, source, keep=True)
    pieces = cut_pieces([unit.rows for unit in source.units])
    for reading in ("one", "two"):
        before = executor.asked
        survey = feed.fold(Survey(0, source.n_rows, 8), pieces, reading, Progress("none"))
        assert survey.weight == FILES
        assert executor.asked - before <= 2
    _, rows = feed.leave_each(lambda blocks: len(blocks[0].X), "each", Progress("none"), lambda _: (), sum)
    assert sum(rows) == FILES
    feed.close()


@pytest.mark.slow
@pytest.mark.cluster
def test_two_thousand_files_take_two_workers_twice_the_threads_seconds(tmp_path):
    """They took twelve times as long: a task and a message for each file, in each round of the polish."""
    rng = np.random.default_rng(0)
    for i in range(2000):
        row = pa.table({"a": rng.standard_normal(1), "b": rng.standard_normal(1), "y": [i % 2]})
        pq.write_table(row, tmp_path / f"{i:04d}.parquet")
    recipe, best = Recipe(solver="psgd", n_components=32, gamma=1.0, kernel="gaussian"), {}
    with connect(workers=2, memory_limit=0) as cluster:
        for _ in range(3):  # in turn, and the best of each: other jobs come and go
            for executor in (ThreadsExecutor(), cluster):
                began = time.monotonic()
                train(open_source(str(tmp_path), label="y"), recipe, executor)
                name, seconds = executor.name, time.monotonic() - began
                best[name] = min(best.get(name, seconds), seconds)
    assert best["cluster"] <= 2 * best["threads"], best


def test_the_sums_of_a_reading_do_not_know_how_it_was_cut(source, monkeypatch):
    def job():
        feed = BlockReader(SerialExecutor(), source, keep=False)
        pieces = cut_pieces([unit.rows for unit in source.units])
        return feed.fold(Survey(0, source.n_rows, 8), pieces, "one", Progress("none")).moments.variance.tobytes()

    whole = job()
    for groups, units in ((1, 1), (1, 7), (3, 5), (2, 16)):
        monkeypatch.setattr(block_reader, "WINDOW_TASKS", groups)
        monkeypatch.setattr(read_groups, "MOST_UNITS", units)
        assert job() == whole
