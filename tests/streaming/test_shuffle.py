"""Sorted data: interleaved in memory or stored on disk, the model is the same and good."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.base import resolve
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import interleave_order
from dkernel.streaming.shuffle import store_shuffled
from dkernel.streaming.stored_rows import DiskFolder, load_piece
from dkernel.training.fit import train
from tests.streaming.sources import rings, source_of
from tests.training.test_same_bytes import CASES, UNITS, N, digest, reread, source  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("executor", "rows"),
    [(SerialExecutor(), "sorted"), (ThreadsExecutor(3), "sorted"), (ThreadsExecutor(2), "sparse")],
    ids=["serial", "threads", "sparse"],
)
def test_stored_on_disk_has_the_bytes_of_interleaved_in_memory(executor, rows, tmp_path, request):
    in_memory = digest(rows, SerialExecutor(), tmp_path)
    request.getfixturevalue("reread")()
    scratch = tmp_path / "not yet there"
    assert digest(rows, executor, tmp_path, scratch=str(scratch)) == in_memory
    assert list(scratch.iterdir()) == []


def test_either_way_is_said(tmp_path, request):
    recipe = CASES["sorted"][3]
    said = train(source("sorted"), recipe, SerialExecutor()).chosen["order"]
    assert said.startswith("interleaved: the labels of the 7 chunks differ")
    request.getfixturevalue("reread")()
    said = train(source("sorted"), recipe, SerialExecutor(), scratch=str(tmp_path)).chosen["order"]
    assert said.startswith("stored once on disk, interleaved: the labels")


def test_sorted_data_are_learned_as_well_as_others():
    X, y = rings(N)
    X_new, y_new = rings(3000, seed=1)
    order, recipe = np.argsort(y, kind="stable"), CASES["sorted"][3]
    errors = []
    for rows in (np.arange(N), order):
        model = train(source_of(X[rows], y[rows], UNITS), recipe, SerialExecutor()).model
        errors.append(float(np.mean(model.predict(X_new) != y_new)))
    assert errors[1] <= errors[0] + 0.02


@pytest.mark.parametrize("units", [UNITS, [(N,)], [(0, 5), (N - 6, 1)]])
def test_each_piece_finds_its_rows_again(units, tmp_path):
    X, y, weight, _ = CASES["sorted"]
    before, schedule = source_of(X, y, units, weight), interleave_order(units, 8)
    feed = BlockReader(SerialExecutor(), before, keep=False)
    feed, moved = store_shuffled(feed, schedule, DiskFolder(str(tmp_path), "test"), Progress("none"))
    for old, new in zip(chain(*schedule), chain(*moved), strict=True):
        assert replace(new, range=old.range) == old
        block, piece = load_piece(resolve(feed.block(new.range), lambda held: held.value), new)
        rows = old.first + old.step * np.arange(old.n)
        np.testing.assert_array_equal(block.X[piece.range.rows], X[rows])
        np.testing.assert_array_equal(block.y, y[rows])
        np.testing.assert_array_equal(block.weight, weight[rows])
    assert [[p.number for p in turn] for turn in moved] == [[p.number for p in turn] for turn in schedule]


def test_text_labels_and_no_weights_survive(tmp_path):
    X, names = np.arange(40.0, dtype=np.float32)[:, None], np.array(["a", "long name"])[np.arange(40) // 20]
    feed = BlockReader(SerialExecutor(), source_of(X, names, [(20,), (20,)]), keep=True)
    schedule = interleave_order([(20,), (20,)], 4)
    feed, moved = store_shuffled(feed, schedule, DiskFolder(str(tmp_path), "test"), Progress("none"))
    for piece in chain(*moved):
        block, _ = load_piece(resolve(feed.block(piece.range), lambda held: held.value), piece)
        assert block.weight is None
        assert block.y.tolist() == [names[int(x)] for x in block.X[:, 0]]
