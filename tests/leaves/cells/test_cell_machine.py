"""The machine of all cells: each row is answered by its own cell, and what is stored is checked."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dkernel import KernelClassifier
from dkernel.errors import ModelFileError
from dkernel.leaves.cells.cell_machine import CellInputs, CellMachine
from dkernel.leaves.cells.cells import CellSettings, fit_cell
from dkernel.leaves.cells.partition import grow
from dkernel.losses.losses import parse_loss
from dkernel.model import tensor_file
from dkernel.model.model_file import load_model, save


@pytest.fixture(scope="module", params=[0, 1])
def made(request):
    """Rows, and a machine of their cells, which share a metric or have one each."""
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, (500, 3))
    inputs = CellInputs(X.mean(axis=0), 1 / X.std(axis=0))
    Z, one = inputs(X), np.eye(3, dtype=np.float32)
    R = np.sin(3 * Z[:, :2])
    tree, visits, _ = grow(Z, one, 120, 1, 0.5, 0)
    settings = CellSettings(1.0, 0.1, 1.5, request.param)
    squared, zero = parse_loss("squared"), np.zeros_like(R)
    cells = [fit_cell(Z[i], one, squared, R[i], zero[i], np.ones(len(i)), settings) for i in (v.rows for v in visits)]
    return X, CellMachine.of(inputs, tree, cells, 1.5, np.array([2.0, 5.0]))


def test_a_row_is_answered_by_its_own_cell_and_near_a_cut_by_both(made):
    X, machine = made
    Z = machine.inputs(X)
    of, whole = machine.tree.cells(Z), machine.scores(X)
    assert len(np.unique(of)) == 5
    visited = np.zeros(len(Z), int)
    for _, visit in machine.tree.visits(Z):
        visited[visit.rows] += 1
    for number, cell in enumerate(machine.cells):
        alone = (of == number) & (visited == 1)
        assert alone.any()
        np.testing.assert_array_equal(whole[alone], cell.scores(machine.inputs.scale(X[alone])) * [2.0, 5.0])
    np.testing.assert_array_equal(machine.scores(X[33:34])[0], whole[33])
    np.testing.assert_array_equal(machine.scores(X[::-1])[::-1], whole)
    assert machine.scores(X[:0]).shape == (0, 2)


def test_scores_do_not_jump_at_a_cut(made):
    X, machine = made
    way = np.linspace(X.min(axis=0), X.max(axis=0), 4001)
    of = machine.tree.cells(machine.inputs(way))
    steps = np.abs(np.diff(machine.scores(way), axis=0)).max(axis=1)
    jumps = of[1:] != of[:-1]
    assert jumps.any()
    assert steps[jumps].max() < 2 * steps[~jumps].max()
    hard = np.stack([machine.cells[c].scores(machine.inputs(x[None]))[0] for c, x in zip(of, way, strict=True)])
    assert np.abs(np.diff(hard * machine.unit, axis=0)).max(axis=1)[jumps].max() > 5 * steps[jumps].max()


def test_the_same_from_what_is_stored(made):
    X, machine = made
    again = CellMachine.build(machine.spec(), machine.arrays())
    assert again.fits(3, 2)
    np.testing.assert_array_equal(again.scores(X), machine.scores(X))


def test_arrays_that_do_not_agree_are_told(made):
    machine = made[1]
    assert not machine.fits(4, 2)
    assert not machine.fits(3, 1)
    wrong = [
        {"nu": 2.0},
        {"coef": machine.coef[:-1]},
        {"Z": machine.Z[:, :2]},
        {"ends": machine.ends[::-1]},
        {"ends": machine.ends - 1},
        {"ends": machine.ends[:-1]},
        {"lengths": -machine.lengths},
        {"roots": machine.roots[:0]},
    ]
    assert [replace(machine, **change).fits(3, 2) for change in wrong] == [False] * len(wrong)


def test_a_large_model_stays_in_its_file(made, tmp_path, monkeypatch):
    """Rows of cells are read where they are: all that is held of them is what the cell of a row needs."""
    X, machine = made
    labels = X[:, 0] > 3
    model = KernelClassifier("gaussian", gamma=0.1, n_components=8, alpha=1.0, local="none").fit(X, labels).model_
    model = replace(model, local=replace(machine, coef=machine.coef[:, :1], unit=machine.unit[:1]))
    save(model, tmp_path / "m")
    held = load_model(tmp_path / "m")
    monkeypatch.setattr(tensor_file, "LARGE_TENSOR", 1)
    large = load_model(tmp_path / "m")
    for name in ("Z", "coef"):
        assert getattr(held.local, name).flags.writeable
        assert not getattr(large.local, name).flags.writeable  # mapped
    np.testing.assert_array_equal(large.scores(X), held.scores(X))
    save(pickle.loads(pickle.dumps(large)), tmp_path / "m")  # the file that it is read from
    np.testing.assert_array_equal(large.scores(X), held.scores(X))
    with (tmp_path / "m").open("r+b") as file:
        file.seek(-9, 2)
        file.write(b"\1")
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(tmp_path / "m")
