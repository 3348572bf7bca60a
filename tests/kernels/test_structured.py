"""Kernels of strings and sets, alone and beside kernels of numbers in one table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

import dkernel
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import Gaussian, Normalized, SetKernel, SpectrumKernel, parse
from tests import reference

WORDS = ["banana", "bandana", "ananas", "cabana", "an", "", "bananabanana", "xyz"]
SETS = [{1, 2, 3}, {2, 3}, frozenset({9}), set(), {1, 9}]
RNG = np.random.default_rng(0)
BAGS = [RNG.standard_normal((m, 2)) for m in (1, 4, 2, 7)]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_substrings(k):
    expected = reference.gram(lambda s, t: reference.shared_substrings(s, t, k), np.array(WORDS), np.array(WORDS[:3]))
    kernel = SpectrumKernel(k)
    for rows in (WORDS, np.array(WORDS), np.array(WORDS, dtype=object)[:, None], pd.Series(WORDS), tuple(WORDS)):
        np.testing.assert_array_equal(kernel(rows, WORDS[:3]), expected)
        np.testing.assert_array_equal(kernel.diag(rows), np.diag(kernel(rows)))
    assert kernel("banana", "bandana") == expected[0][1]


def test_shared_elements():
    np.testing.assert_array_equal(SetKernel()(SETS), [[len(a & b) for b in SETS] for a in SETS])
    np.testing.assert_array_equal(SetKernel().diag(SETS), [3, 2, 1, 0, 2])
    assert SetKernel()({1, 2}, {2, 3}) == 1


def test_bags_of_points():
    k = SetKernel(Gaussian(gamma=0.3))
    inner = Gaussian(gamma=0.3)
    np.testing.assert_allclose(k(BAGS), [[inner(a, b).sum() for b in BAGS] for a in BAGS], rtol=1e-12)
    np.testing.assert_allclose(k.diag(BAGS), np.diag(k(BAGS)), rtol=1e-12)
    assert parse(repr(k)) == k
    with pytest.raises(DataError, match="a point or more"):
        k([BAGS[0], np.ones((2, 3))])
    with pytest.raises(RecipeError, match="with numbers"):
        SetKernel(Gaussian())


def test_a_table_of_strings_and_numbers():
    table = np.empty((8, 3), dtype=object)
    table[:, 0], table[:, 1:] = WORDS, RNG.standard_normal((8, 2))
    k = Normalized(SpectrumKernel(2)).on([0]) + Gaussian(gamma=0.5).on([1, 2])
    numbers = table[:, 1:].astype(float)
    np.testing.assert_allclose(k(table), Normalized(SpectrumKernel(2))(WORDS) + Gaussian(gamma=0.5)(numbers))
    frame = pd.DataFrame(table, columns=["word", "u", "v"])
    named = Normalized(SpectrumKernel(2)).on("word") + Gaussian(gamma=0.5).on(["u", "v"])
    np.testing.assert_array_equal(dkernel.gram(named, frame), k(table))
    assert parse(repr(k)) == k
    with pytest.raises(DataError, match="needs numbers"):
        Gaussian(gamma=0.5).on([0, 1])(table)
    with pytest.raises(DataError, match="3 columns; one is needed"):
        SpectrumKernel(2)(table)


def test_wrong_objects():
    with pytest.raises(DataError, match="a string in every row"):
        SpectrumKernel()([1, 2])
    with pytest.raises(DataError, match="a set in every row"):
        SetKernel()([{"a"}, 3])
    with pytest.raises(DataError, match="no array of numbers"):
        SetKernel(Gaussian(gamma=1.0))(["a b"])
    with pytest.raises(DataError, match="an array or a list"):
        SpectrumKernel()(3)
    assert SpectrumKernel()([], WORDS).shape == (0, 8)


def test_a_support_vector_machine_of_strings():
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list(letters), 12)) for letters in ("aab", "abb") for _ in range(40)]
    labels = np.repeat([0, 1], 40)
    machine = SVC(kernel=Normalized(SpectrumKernel(2))).fit(words[::2], labels[::2])
    assert (machine.predict(words[1::2]) == labels[1::2]).mean() > 0.8
