"""Shapley values: those of the definition over all sets of columns, and sums that give the score of the row."""

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from dkernel import Cells, Grids, KernelClassifier, KernelRegressor, explain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 8))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2]
QUICK = {"n_components": 48, "alpha": 1e-3, "metric": "identity", "local": "none", "random_state": 0}


def by_definition(scores, x, background):
    """φ of every column by all sets: the slow second version. `scores` gives those of rows of a frame."""
    columns = list(x.columns)
    d, worth = len(columns), {}
    for size in range(d + 1):
        for taken in combinations(columns, size):
            mixed = background.copy()
            for name in taken:
                mixed[name] = x[name].iloc[0]
            worth[frozenset(taken)] = scores(mixed).mean(axis=0)
    values = []
    for name in columns:
        others = [each for each in columns if each != name]
        values.append(
            sum(
                factorial(size) * factorial(d - 1 - size) / factorial(d) * (worth[S | {name}] - worth[S])
                for size in range(d)
                for S in map(frozenset, combinations(others, size))
            )
        )
    return np.array(values)


@pytest.mark.parametrize("kernel", ["Gaussian(gamma=0.1)", "Laplacian(gamma=0.1)", "ProductCauchy(length=3)"])
def test_values_of_product_kernels_are_those_of_all_sets(kernel):
    machine = KernelRegressor(kernel, **QUICK).fit(X, Y)
    frame = pd.DataFrame(X)
    found = explain(machine, X[:2], X[100:110])
    assert found.errors is None
    for i in range(2):
        expected = by_definition(lambda rows: machine.predict(rows.to_numpy()), frame[i : i + 1], frame[100:110])
        np.testing.assert_allclose(found.values[i], expected, atol=2e-6)


def test_values_sum_to_the_score_of_every_class():
    labels = np.digitize(Y, [-0.5, 0.5])
    machine = KernelClassifier("gaussian", gamma=0.1, **QUICK).fit(X, labels)
    found = explain(machine, X[:5], X[100:140])
    assert found.values.shape == (5, 8, 3)
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, machine.decision_function(X[:5]), atol=1e-5
    )


def table():
    city = RNG.choice(["Bern", "Rome", "Oslo"], 300)
    frame = pd.DataFrame({"a": X[:, 0], "city": city, "b": X[:, 1]})
    return frame, X[:, 0] * (city == "Rome") + X[:, 1]


def test_a_category_is_one_column():
    frame, y = table()
    machine = KernelRegressor("gaussian", gamma=0.3, **QUICK).fit(frame, y)
    found = explain(machine, frame[:2], frame[50:60])
    assert found.feature_names == ["a", "city", "b"]
    for i in range(2):
        expected = by_definition(machine.predict, frame[i : i + 1], frame[50:60])
        np.testing.assert_allclose(found.values[i], expected, atol=2e-6)


@pytest.mark.parametrize(
    "settings", [{"local": Grids(n_grids=16)}, {"local": Cells(rows=100)}, {"kernel": "matern"}, {"metric": "full"}]
)
def test_other_models_are_explained_with_errors(settings):
    machine = KernelRegressor(
        **{"kernel": "gaussian", "gamma": "median" if "kernel" not in settings else "auto"} | QUICK | settings
    )
    machine.fit(X[:, :4], Y)
    found = explain(machine, X[:3, :4], X[100:130, :4])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, machine.predict(X[:3, :4]), atol=1e-5)
    frame = pd.DataFrame(X[:, :4])
    for i in range(3):
        expected = by_definition(lambda rows: machine.predict(rows.to_numpy()), frame[i : i + 1], frame[100:130])
        assert (np.abs(found.values[i] - expected) <= 5 * found.errors[i] + 1e-6).all()


def test_the_same_seed_gives_the_same_values():
    machine = KernelRegressor("matern", **QUICK).fit(X, Y)
    first, second, other = (explain(machine, X[:2], X[:10], random_state=seed).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_sparse_rows_of_a_dense_model_are_its_rows():
    machine = KernelRegressor("gaussian", gamma=0.1, **QUICK).fit(X, Y)
    found = explain(machine, csr_matrix(X[:2]), csr_matrix(X[50:60]))
    np.testing.assert_array_equal(found.values, explain(machine, X[:2], X[50:60]).values)
    np.testing.assert_array_equal(found.data, X[:2])


@pytest.mark.parametrize("local", ["none", Grids(n_grids=16)])
def test_a_notebook_shows_the_columns_that_move_the_score_most(local):
    table = pd.DataFrame(X, columns=[f"<{j}>" for j in range(8)])
    machine = KernelRegressor("gaussian", **{**QUICK, "local": local}).fit(table, 9 * X[:, 3] + Y)
    found = explain(machine, table[:4], table[:20])
    shown = found._repr_html_()
    first, *others = shown.split("</tr><tr>")[1:]
    assert first.startswith("<td>&lt;3&gt;</td>")
    assert (
        f"<td>{found.values[0, 3]:+.3g}{'' if found.errors is None else f' ± {found.errors[0, 3]:.1g}'}</td>" in first
    )
    assert len(others) == 7
