"""Kernels of strings and sets, alone and beside kernels of numbers in one table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

import dkernel
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import FunctionKernel, Gaussian, Normalized, parse
from dkernel.leaves.analysis.psd_check import is_psd
from dkernel.leaves.objects import strings_and_sets
from dkernel.leaves.objects.strings_and_sets import SetKernel, SpectrumKernel
from tests import reference
from tests.combinations import examples
from tests.kernels.catalogue import BAGS, SETS, WORDS

RNG = np.random.default_rng(0)
# Few letters, so that texts have parts in common; some of them of two bytes and more, and the empty text.
ODD = st.text(alphabet="ab\u00e9\u4e2d\U0001f600\0 ", max_size=12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_substrings(k):
    expected = reference.gram(lambda s, t: reference.shared_substrings(s, t, k), np.array(WORDS), np.array(WORDS[:3]))
    kernel = SpectrumKernel(k)
    for rows in (WORDS, np.array(WORDS), np.array(WORDS, dtype=object)[:, None], pd.Series(WORDS), tuple(WORDS)):
        np.testing.assert_array_equal(kernel(rows, WORDS[:3]), expected)
        np.testing.assert_array_equal(kernel.diag(rows), np.diag(kernel(rows)))
    assert kernel("banana", "bandana") == expected[0][1]


@given(st.lists(ODD, max_size=6), st.lists(ODD, min_size=1, max_size=6), st.integers(1, 4))
@examples(100)
def test_substrings_of_any_text(rows, landmarks, k):
    kernel = SpectrumKernel(k)
    expected = [[reference.shared_substrings(s, t, k) for t in landmarks] for s in rows]
    np.testing.assert_array_equal(kernel(rows, landmarks), np.reshape(expected, (len(rows), len(landmarks))))
    np.testing.assert_array_equal(kernel.diag(rows), [reference.shared_substrings(s, s, k) for s in rows])
    assert is_psd(kernel, landmarks)


@given(st.lists(ODD, min_size=1, max_size=300), st.integers(1, 4))
@examples(20)
def test_tiles_of_any_text(rows, k):
    block = np.array([*rows, ""], dtype=object)
    columns = SpectrumKernel(k).columns(rows)
    out = np.empty((len(block), len(rows)), np.float32)
    columns.fill(columns.rows(block), 0, out)
    np.testing.assert_array_equal(out, SpectrumKernel(k)(block, rows))


def test_landmarks_of_more_parts_than_a_full_matrix_may_have(monkeypatch):
    rng = np.random.default_rng(3)
    rows = ["".join(rng.choice(list("abcde"), n)) for n in rng.integers(0, 30, 700)]
    expected = SpectrumKernel(4)(rows, rows)
    for most in (0, 10**6):
        monkeypatch.setattr(strings_and_sets, "MOST_DENSE_PARTS", most)
        columns = SpectrumKernel(4).columns(rows)
        tile = columns.rows(np.array(rows[:256], dtype=object))
        for first in (0, 512):
            out = np.empty((256, min(512, 700 - first)), np.float32)
            columns.fill(tile, first, out)
            np.testing.assert_array_equal(out, expected[:256, first : first + 512])


def test_words_of_a_text_are_a_set():
    np.testing.assert_array_equal(SetKernel()(["a b  c", "c a", ""], [{"a", "c"}]), [[2], [2], [0]])


def test_what_the_columns_are_taken_as():
    k = SpectrumKernel(3).on("s") + Gaussian().on(["a", "b"]) * SetKernel().on([3])
    assert k.wants(("s", "a", "b", "t", "u")) == {"s": "objects", "a": "numbers", "b": "numbers", "t": "objects"}
    assert Gaussian().wants(("a",)) == {"a": "numbers"}
    assert FunctionKernel(np.minimum).wants(("a",)) == {"a": "any"}
    assert (FunctionKernel(np.minimum) + SpectrumKernel(2)).wants(("a",)) == {"a": "objects"}
    with pytest.raises(DataError, match="one column, and there are 2"):
        SpectrumKernel(3).wants(("a", "b"))
    with pytest.raises(DataError, match="as objects and as numbers"):
        (SpectrumKernel(3).on(["a"]) + Gaussian().on(["a"])).wants(("a", "b"))


def test_shared_elements():
    np.testing.assert_array_equal(SetKernel()(SETS), [[len(a & b) for b in SETS] for a in SETS])
    np.testing.assert_array_equal(SetKernel().diag(SETS), [3, 2, 1, 0, 2, 3])
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
    table = np.empty((9, 3), dtype=object)
    table[:, 0], table[:, 1:] = WORDS, RNG.standard_normal((9, 2))
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
    assert SpectrumKernel()([], WORDS).shape == (0, 9)


def test_a_support_vector_machine_of_strings():
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list(letters), 12)) for letters in ("aab", "abb") for _ in range(40)]
    labels = np.repeat([0, 1], 40)
    machine = SVC(kernel=Normalized(SpectrumKernel(2))).fit(words[::2], labels[::2])
    assert (machine.predict(words[1::2]) == labels[1::2]).mean() > 0.8
