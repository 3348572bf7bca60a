"""Kernels made of one kernel: what they refuse, their text, and how names of columns find their places."""

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.features import choose_map
from dkernel.kernels import (
    AdditiveChi2,
    ArcCosine,
    Exp,
    Gaussian,
    Geometric,
    Laplacian,
    Linear,
    Normalized,
    Polynomial,
    PowerSeries,
    Weighted,
    parse,
)

X = np.random.default_rng(0).standard_normal((20, 3))
G = Gaussian(gamma=0.5)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("PowerSeries(Gaussian(gamma=0.5), [0.0, 1.0, 2.0])", PowerSeries(G, [0, 1, 2, 0])),
        ("Exp(Gaussian(gamma=0.5) + Linear())", Exp(G + Linear())),
        ("Geometric(0.5 * Gaussian(gamma=0.5))", Geometric(0.5 * G)),
        ("Normalized(Gaussian(gamma=0.5) * Linear())", Normalized(G * Linear())),
        ("Gaussian(gamma=0.5).on(['a', 'b c'])", G.on(["a", "b c"])),
        ("Gaussian(gamma=0.5).on([2])", G.on(2)),
        ("(Gaussian(gamma=0.5) + Linear()).on([0, 2])", (G + Linear()).on((0, 2))),
        ("(2.0 * Linear()).on(['a'])", (2 * Linear()).on("a")),
        ("Linear(A=((2.0, 0.0), (0.0, 1.0)))", Linear(A=np.diag([2, 1]))),
        ("ArcCosine(order=0)", ArcCosine(0)),
        ("Gaussian(gamma=0.5).on(['b'], at=[1])", G.on("b").bind_columns(["a", "b"])),
        ("Gaussian(gamma=0.5) + Linear() * Polynomial(degree=3, c=1.0)", G + Linear() * Polynomial()),
        ("(Gaussian(gamma=0.5) + Linear()) * Polynomial(degree=3, c=1.0)", (G + Linear()) * Polynomial()),
        ("2.0 * Gaussian(gamma=0.5) * Linear()", 2 * G * Linear()),
        ("2.0 * (Gaussian(gamma=0.5) * Linear())", 2 * (G * Linear())),
        ("Gaussian(gamma=0.5) * (2.0 * Linear())", G * (2 * Linear())),
        ("Gaussian(gamma=0.5) + 0.1 * Linear()", G + 0.1 * Linear()),
        ("1e-20 * (Gaussian(gamma=0.5) + Linear())", 1e-20 * (G + Linear())),
    ],
)
def test_a_text_has_the_parentheses_that_it_needs(text, kernel):
    assert repr(kernel) == text
    assert parse(text) == kernel


def test_words_pass_through():
    k = Exp(Gaussian()) + Normalized(PowerSeries(Laplacian("median"), [0, 1])).on(["a"])
    assert k.placeholders == ("auto", "median")
    bound = k.bind(lambda *_: 0.25).bind_columns(["b", "a"])
    assert bound == Exp(Gaussian(0.25)) + Normalized(PowerSeries(Laplacian(0.25), [0, 1])).on(["a"]).bind_columns("ba")


def test_names_wait_for_their_places():
    k = G.on(["c", "a"]) * Laplacian(gamma=1.0).on(1) + 2 * Linear().on("b")
    assert k.column_names == ("c", "a", "b")
    for use in (lambda: k(X), lambda: k.diag(X), lambda: k.columns(X)):
        with pytest.raises(RecipeError, match=r"'c', 'a'.*bind_columns"):
            use()
    bound = k.bind_columns(["a", "b", "c"])
    assert bound.column_names == ()
    by_place = G.on([2, 0]) * Laplacian(gamma=1.0).on(1) + 2 * Linear().on(1)
    assert np.array_equal(bound(X), by_place(X))
    assert parse(repr(bound)) == bound
    assert bound.bind_columns(["x", "y", "z"]) == bound  # what is found stays where it is
    with pytest.raises(DataError, match="Did you mean 'column a'"):
        G.on("columm a").bind_columns(["column a", "b"])
    with pytest.raises(DataError, match="column 3"):
        G.on([0, 3])(X)


def test_a_selection_of_a_selection():
    k = Linear().on(["b"]).on(["c", "b"])
    assert np.array_equal(k.bind_columns(["a", "b", "c"])(X), X[:, 1:2] @ X[:, 1:2].T)


def test_values_that_mean_nothing():
    with pytest.raises(DataError, match="too large for a float"):
        Exp(Linear())(100 * X)
    with pytest.raises(DataError, match=r"row 1, column 0.*scale='none'"):
        AdditiveChi2()(np.array([[1.0, 2.0], [-3.0, 0.0]]))
    with pytest.raises(DataError, match="one number per row"):
        Weighted(G, lambda rows: rows)(X)
    with pytest.raises(DataError, match="matrix A of 2 columns"):
        Linear(A=[[1, 0], [0, 1]])(X)


def test_normalized_leaves_nothing_where_there_is_nothing():
    rows = np.vstack([X, np.zeros((2, 3))])
    K = Normalized(Linear())(rows)
    assert (K[-2:] == 0).all()
    np.testing.assert_allclose(Normalized(Linear()).diag(rows), [1] * 20 + [0, 0])


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_is_a_mean_over_random_units(order):
    W = np.random.default_rng(1).standard_normal((3, 400_000))
    rows = np.vstack([X[:4], -X[:1], np.zeros((1, 3))])
    units = np.heaviside(rows @ W, 0.5) if order == 0 else np.maximum(rows @ W, 0)
    np.testing.assert_allclose(ArcCosine(order)(rows), 2 * units @ units.T / W.shape[1], atol=0.03)
    assert np.linalg.eigvalsh(ArcCosine(order)(np.vstack([X, -X, 0 * X[:3], X * 1e-8])))[0] > -1e-12


def test_a_degree_and_its_series():
    np.testing.assert_allclose(PowerSeries(Linear(), [1, 3, 3, 1])(X), Polynomial(degree=3)(X), rtol=1e-12, atol=1e-14)
    kinds = parse("SpectrumKernel(k=2)").domain, (G + Linear().on(0)).domain, Linear().on(0).domain
    assert kinds == ("objects", "numbers", "any")


def test_a_geometric_series_equals_its_powers_and_refuses_divergence():
    x = np.linspace(-0.9, 0.9, 7)[:, None]
    powers = PowerSeries(Linear(), [1.0] * 300)
    np.testing.assert_allclose(Geometric(Linear())(x), powers(x), rtol=1e-12)
    np.testing.assert_allclose(Geometric(Linear())(x[:1], x), 1 / (1 - x[:1] * x.T), rtol=1e-14)
    columns = Geometric(Linear()).columns(x)
    out = np.empty((7, 7), np.float32)
    columns.fill(columns.rows(x.astype(np.float32)), 0, out)
    np.testing.assert_allclose(out, powers(x), rtol=1e-5)
    for rows in ([[1.0]], [[0.5], [-2.0]]):
        with pytest.raises(DataError, match="finite for rows with k"):
            Geometric(Linear())(np.array(rows))
        with pytest.raises(DataError, match="finite for rows with k"):
            Geometric(Linear())(x, np.array(rows))  # 1 / (1 - xz) itself would be a number
        with pytest.raises(DataError, match="finite for rows with k"):
            columns.rows(np.array(rows, np.float32)), columns.fill(np.array(rows, np.float32), 0, out[: len(rows)])
    with pytest.raises(UnsupportedError, match="nystrom"):
        choose_map(Geometric(Linear()), 1, 8, "exact")
