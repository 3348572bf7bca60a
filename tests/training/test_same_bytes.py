"""The same model, byte for byte, whoever computes it and whatever is held in memory."""

import hashlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.numerics.sparse_rows import SparseRows
from dkernel.solvers.gram import Gram
from dkernel.solvers.sgd_round import SGD
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import Plan
from tests.estimators import wide
from tests.faults.processes import start_cluster
from tests.streaming.sources import rings, source_of, waves

N = 5000
UNITS = [(800, 400), (1400,), (1, 99, 600), (1700,)]
BASE = Recipe(solver="psgd", n_components=80, kernel="gaussian", metric="identity", gamma=0.15, rounds=8, passes=2)


def _cases():
    rng = np.random.default_rng(5)
    X, y = rings(N)
    X3, y3 = rings(N, classes=3)
    XW, yW = waves(N)
    texts, kinds = wide.texts(N)
    order = np.argsort(kinds, kind="stable")
    names = np.array(["inner", "middle", "outer"])
    return {
        "plain": (X, y, None, Recipe(solver="psgd")),
        "open": (X, y, None, Recipe(solver="psgd", n_components=80, passes=2)),
        "fourier": (X, y.astype(bool), None, BASE.replace(features="fourier", loss="hinge", alpha=1e-5)),
        "three": (X3, names[y3], None, BASE.replace(loss="logistic", class_weight="balanced")),
        "calibrated": (X, y, None, BASE.replace(loss="hinge", calibration="temperature", holdout=0.2)),
        "weights": (X, y, rng.random(N), BASE.replace(holdout=0.0, alpha=1e-6)),
        "regression": (XW, yW, None, BASE.replace(loss="squared", kernel="laplacian")),
        "unfinished": (XW, XW.sum(axis=1), None, BASE.replace(loss="squared", gamma=0.01, passes="auto")),
        "targets": (XW, np.stack([yW, XW[:, 0] ** 2], axis=1), None, BASE.replace(loss="squared", alpha=1e-6)),
        "quantiles": (XW**3, yW, rng.random(N), BASE.replace(loss="squared", scale="quantile", metric="full")),
        "sparse": (SparseRows.of(texts[order]), kinds[order], None, BASE.replace(alpha=1e-6)),
        "grids": (X3, names[y3], None, BASE.replace(local="grids(n_grids=16)", alpha=1e-6)),
        "grids-weights": (
            XW,
            np.stack([yW, XW[:, 0] ** 2], axis=1),
            rng.integers(0, 3, N).astype(float),
            BASE.replace(loss="squared", alpha=1e-6, local="grids(n_grids=16)"),
        ),
        "sorted": (X[np.argsort(y)], np.sort(y), rng.random(N), BASE.replace(alpha=1e-6)),
    }


CASES = _cases()


def source(name):
    X, y, weight, _ = CASES[name]
    return source_of(X, y, UNITS, weight)


def digest(name, executor, folder, scratch=None):
    result = train(source(name), CASES[name][3], executor, scratch=scratch)
    path = folder / "model.safetensors"
    model_file.save(result.model, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """The bytes of the plain loop, which define the others: of each case when they are asked for."""
    folder = tmp_path_factory.mktemp("serial")
    return cache(lambda name: digest(name, SerialExecutor(), folder))


@pytest.fixture
def reread(monkeypatch):
    """From the call on, a source that does not fit in memory: each pass reads it again."""
    plan = Plan.of
    return lambda: monkeypatch.setattr(Plan, "of", lambda *args, **more: replace(plan(*args, **more), keeps_rows=False))


def _points(always, rare):
    """Every case at the first number of threads, and one of them at the others too; the rest is slow.

    The plain one is slow too: tests/cli/test_plain_command.py has its like, of half the rows.
    """
    for threads in (always, *rare):
        for name in CASES:
            marks = () if (threads == always and name != "plain") or name == "open" else pytest.mark.slow
            yield pytest.param(name, threads, marks=marks, id=f"{name}-{threads}")


@pytest.mark.parametrize(("name", "threads"), list(_points(3, (1, 2))))
def test_threads(name, threads, serial, tmp_path):
    assert digest(name, ThreadsExecutor(threads), tmp_path) == serial(name)


READ_AGAIN = ("open", "three", "weights", "sparse", "grids")  # each storage and each kind of part; others are slow
OTHERS = [name for name in CASES if name not in (*READ_AGAIN, "sorted")]


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        *((name, 3) for name in READ_AGAIN),
        ("weights", None),
        *(pytest.param(name, threads, marks=pytest.mark.slow) for name in OTHERS for threads in (3, None)),
    ],
)
def test_reading_again_in_each_pass(name, threads, serial, tmp_path, reread):
    executor, expected = ThreadsExecutor(threads) if threads else SerialExecutor(), serial(name)
    reread()
    assert digest(name, executor, tmp_path) == expected


def test_cases_differ(serial):
    names = set(CASES) - {"plain"}
    assert len({serial(name) for name in names}) == len(names)


def test_twice(serial, tmp_path):
    assert digest("open", SerialExecutor(), tmp_path) == serial("open")


@pytest.mark.cluster
def test_a_part_of_a_cluster(two_workers, serial, tmp_path, monkeypatch):
    monkeypatch.setattr("dkernel.training.planning.memory_plan.FEW_SLOTS", 1)
    monkeypatch.setattr("dkernel.training.planning.stage_costs.CALL_SECONDS", 1e3)
    expected, used = serial("open"), []
    monkeypatch.setattr(SGD, "round", lambda *args, _round=SGD.round: used.append(two_workers.slots) or _round(*args))
    assert digest("open", two_workers, tmp_path) == expected
    assert set(used) == {1}
    assert two_workers.slots == 2


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["open", pytest.param("targets", marks=pytest.mark.slow)])
def test_two_processes(name, two_workers, serial, tmp_path):
    assert len(two_workers.processes()) == 2
    assert digest(name, two_workers, tmp_path) == serial(name)


@pytest.mark.slow  # two processes run always
@pytest.mark.cluster
@pytest.mark.parametrize(("workers", "names"), [(1, ["three"]), (4, ["fourier"])])
def test_processes(workers, names, serial, tmp_path):
    with connect(workers=workers, memory_limit=0, patience=60) as executor:
        assert len(executor.processes()) == workers
        for name in names:
            assert digest(name, executor, tmp_path) == serial(name), name


@pytest.mark.cluster
def test_processes_that_read_again_in_each_pass(serial, tmp_path, two_workers, reread):
    expected = serial("weights")
    reread()
    assert digest("weights", two_workers, tmp_path) == expected


@pytest.mark.cluster
@pytest.mark.parametrize(("cores", "name"), [(1, "open"), (2, "fourier")])
def test_the_setup_runs_on_workers_or_a_client_with_as_many_cores(
    monkeypatch, cores, name, two_workers, serial, tmp_path
):
    expected, seen = serial(name), []
    monkeypatch.setattr("dkernel.streaming.execution.cluster.usable_cores", lambda: cores)
    monkeypatch.setattr(Gram, "step", lambda *args, step=Gram.step: seen.append(1) or step(*args))
    for large in (False, True):
        assert (two_workers.executor_for_local_rows(False, large) is two_workers) == (cores == 1 or not large)
    assert digest(name, two_workers, tmp_path) == expected
    assert bool(seen) == (cores == 2)


@pytest.mark.cluster
@pytest.mark.parametrize("names", [("sorted", "open"), pytest.param(("plain",), marks=pytest.mark.slow)])
def test_a_scheduler_and_two_workers_started_by_hand(names, serial, tmp_path):
    with start_cluster(tmp_path, 1, 2) as (file, _), connect(scheduler_file=file, patience=60) as executor:
        executor.client.wait_for_workers(2, timeout=120)
        for name in names:
            assert digest(name, executor, tmp_path) == serial(name)


def test_other_layouts_have_equal_landmarks_and_close_predictions():
    (X, y), recipe = rings(9000), CASES["open"][3]
    X_new, y_new = rings(3000, seed=1)
    layouts = [[(1500, 700), (2600,), (1, 199, 1000), (3000,)], [(9000,)], [(450,)] * 20]
    models = [train(source_of(X, y, layout), recipe, SerialExecutor()).model for layout in layouts]
    scores = [model.scores(X_new)[:, 0] for model in models]
    for model, score in zip(models[1:], scores[1:], strict=True):
        np.testing.assert_allclose(model.map.landmarks, models[0].map.landmarks, atol=1e-6)
        assert model.recipe.kernel == models[0].recipe.kernel
        assert np.mean((score > 0) == (scores[0] > 0)) >= 0.95
    errors = [np.mean((score > 0) != y_new) for score in scores]
    assert max(errors) - min(errors) <= 0.03
