"""After new rows of another noise intervals, sets and probabilities are those of the new rows, by every door."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import Cells, Grids, KernelClassifier, KernelRegressor
from dkernel.errors import UnsupportedError
from dkernel.model.conformal import Conformal
from tests.combinations import every_two
from tests.estimators.data import chunked

SETTINGS = {"kernel": "gaussian", "gamma": 0.5, "n_components": 64, "metric": "identity"}
LOCAL = {"none": "none", "grids": Grids(n_grids=64), "cells": Cells(rows=600)}
NAMES = list("abc")
N, AS_ASKED = 3000, 0.03  # rows of each noise; the law of the coverage


def regression(n, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3)).astype(np.float32)
    return X, np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)


def classes(n, noise, seed):
    """Labels of which a share `noise` is wrong."""
    X, y = regression(n, 0.0, seed)
    return X, (y > 0) ^ (np.random.default_rng(seed + 1000).random(n) < noise)


KINDS = {
    "numbers": (KernelRegressor, lambda noise, seed, n=N: regression(n, noise, seed), (0.1, 0.5)),
    "classes": (KernelClassifier, lambda noise, seed, n=N: classes(n, noise, seed), (0.02, 0.3)),
}


def covered(machine, X, y, coverage=0.9):
    if isinstance(machine, KernelRegressor):
        low, high = machine.predict_interval(X, coverage=coverage).T
        return np.mean((low <= y) & (y <= high))
    return machine.predict_set(X, coverage=coverage)[np.arange(len(y)), y.astype(int)].mean()


def after_a_fit(machine, old, new, container, _):
    return machine.fit(*old).partial_fit(*map(container, new), **older(machine, old))


def after_load(machine, old, new, container, tmp_path):
    dkernel.save(machine.fit(*old), tmp_path / "m")
    return dkernel.load(tmp_path / "m").partial_fit(*map(container, new), **older(machine, old))


def in_a_stream(machine, old, new, container, _):
    labels = {} if isinstance(machine, KernelRegressor) else {"classes": [False, True]}
    for X, y in (old, new):
        for first in range(0, N, 1000):
            machine.partial_fit(container(X[first : first + 1000]), container(y[first : first + 1000]), **labels)
    return machine


def older(machine, old):
    return {} if machine.local == "none" else {"old": old[0]}


DOORS = {"after a fit": after_a_fit, "after load": after_load, "in a stream": in_a_stream}


@pytest.mark.parametrize(
    ("case", "kind", "turned"),
    every_two(
        [
            *itertools.product(["after a fit", "after load"], LOCAL, [np.asarray]),
            ("after a fit", "none", chunked),
            ("after a fit", "cells", chunked),
            ("in a stream", "none", np.asarray),
            ("in a stream", "none", chunked),
        ],
        [*KINDS],
        [False, True],
    ),
)
def test_the_coverage_is_that_of_the_new_rows(case, kind, turned, tmp_path):
    (door, local, container), (make, rows, noises) = case, KINDS[kind]
    before, after = noises[::-1] if turned else noises
    machine = make(**SETTINGS, local=LOCAL[local])
    machine = DOORS[door](machine, rows(before, 1), rows(after, 2), container, tmp_path)
    X, y = rows(after, 3, 20_000)
    assert covered(machine, X, y) == pytest.approx(0.9, abs=AS_ASKED)
    if kind == "classes":
        assert machine.predict_proba(X).max(axis=1).mean() == pytest.approx(machine.score(X, y), abs=2 * AS_ASKED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("local", LOCAL)
def test_and_of_the_command(kind, local, run_to, tmp_path):
    _, rows, noises = KINDS[kind]
    for name, noise, seed in (("old", noises[0], 1), ("new", noises[1], 2)):
        X, y = rows(noise, seed)
        pd.DataFrame(X, columns=NAMES).assign(y=y).to_parquet(tmp_path / f"{name}.parquet")
    words = ["--kernel", "gaussian", "--metric", "identity", "--n-components", 64, "--gamma", 0.5, "--quiet"]
    old, new, model, later = (tmp_path / name for name in ("old.parquet", "new.parquet", "m", "n"))
    stage = {"none": "none", "grids": "grids(n_grids=64)", "cells": "cells(rows=600)"}[local]
    run_to("train", old, "--label", "y", "--out", model, "--local", stage, *words)
    run_to("update", model, new, "--old", old, "--out", later, "--quiet")
    X, y = rows(noises[1], 3, 20_000)
    assert covered(dkernel.load(later), pd.DataFrame(X, columns=NAMES), y) == pytest.approx(0.9, abs=AS_ASKED)


@pytest.mark.parametrize(("components", "n", "size"), [(64, N, N), (512, 4500, 500)])
def test_sets_are_of_margins_as_large_as_those_of_the_model_that_answers(components, n, size):
    """Of 512 components 4,096 rows wait, so the model of before has scored them all."""
    machine = KernelClassifier(**SETTINGS | {"n_components": components}, local="none").fit(*classes(N, 0.02, 11))
    X, y = classes(n, 0.3, 12)
    for first in range(0, n, size):
        machine.partial_fit(X[first : first + size], y[first : first + size])
    assert covered(machine, *classes(20_000, 0.3, 13)) == pytest.approx(0.9, abs=AS_ASKED)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_wait_to_be_learned_say_it_already(kind):
    make, rows, (before, after) = KINDS[kind]
    machine, at_once = (make(**SETTINGS, local="none").fit(*rows(before, 1)) for _ in range(2))
    old, (X, y) = machine.component_coef_, rows(after, 2, 400)  # 512 make a preconditioner
    for row in range(len(X)):
        machine.partial_fit(X[row : row + 1], y[row : row + 1])
    np.testing.assert_array_equal(machine.component_coef_, old)
    table, other = (each.model_.conformal for each in (machine, at_once.partial_fit(X, y)))
    np.testing.assert_array_equal(table.scores, other.scores)
    assert covered(machine, *rows(after, 3, 20_000)) == pytest.approx(0.9, abs=AS_ASKED)


def test_few_rows_of_the_same_law_leave_the_older_ones():
    machine = KernelRegressor(**SETTINGS, local="none").fit(*regression(N, 0.1, 1))
    machine.partial_fit(*regression(20, 0.1, 2))
    assert machine.model_.facts["conformal"]["rows"] == 1020
    assert covered(machine, *regression(20_000, 0.1, 3)) == pytest.approx(0.9, abs=AS_ASKED)
    machine.predict_interval(regression(5, 0.1, 4)[0], coverage=0.99)


@pytest.mark.parametrize("local", ["none", "cells"])
def test_groups_of_older_rows_are_refused(local):
    (X, y), new = regression(N, 0.1, 1), regression(N, 0.5, 2)
    groups = np.where(X[:, 1] > 0, "up", "down")
    machine = KernelRegressor(**SETTINGS, local=LOCAL[local]).fit(X, y)
    machine.conformalize(X, y, groups=groups).partial_fit(*new)
    with pytest.raises(UnsupportedError, match="have no groups"):
        machine.predict_interval(X, groups=groups)
    assert covered(machine, *regression(20_000, 0.5, 3)) == pytest.approx(0.9, abs=AS_ASKED)


def test_rows_that_are_given_between_blocks_are_kept():
    machine = KernelRegressor(**SETTINGS, local="none").fit(*regression(N, 0.1, 1))
    machine.partial_fit(*regression(600, 0.1, 2))
    X, y = regression(N, 0.5, 3)
    machine.conformalize(X, y, groups=X[:, 1] > 0).conformalize(X, y)
    machine.partial_fit(*regression(100, 0.5, 4))
    assert covered(machine, *regression(20_000, 0.5, 5)) == pytest.approx(0.9, abs=AS_ASKED)


def test_deviations_of_before_are_refused():
    machine = KernelRegressor(**SETTINGS, local="none", solver="normal").fit(*regression(N, 0.1, 1))
    machine.predict(regression(5, 0.1, 2)[0], return_std=True)
    machine.partial_fit(*regression(N, 0.5, 2))
    with pytest.raises(UnsupportedError, match="learned rows after its fit"):
        machine.predict(regression(5, 0.1, 2)[0], return_std=True)


def test_other_scores_are_told_from_the_same():
    rng = np.random.default_rng(0)

    def table(n, noise):
        return Conformal.of(np.abs(noise * rng.normal(size=n)), np.ones(n), np.zeros(n))

    same = [table(1000, 1.0).differs(table(100, 1.0), [0]) for _ in range(200)]
    assert sum(same) <= 2
    assert all(table(1000, 1.0).differs(table(100, 2.0), [0]) for _ in range(20))
    assert not table(1000, 1.0).differs(table(1, 9.0), [0])
