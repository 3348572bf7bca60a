"""Cells of objects: what goes through the gate, and that they come back from their bytes as they were."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.errors import DataError
from dkernel.numerics.object_values import as_cells, cell_bytes, decode_cells, encode_cells, number_columns, to_numbers
from tests.combinations import examples

ATOMS = st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
CELLS = st.text() | st.recursive(ATOMS, lambda parts: st.lists(parts, max_size=4), max_leaves=8).filter(
    lambda value: isinstance(value, list)
)


def column(values):
    X = np.empty((len(values), 1), object)
    for i, value in enumerate(values):
        X[i, 0] = value
    return X


def place(row):
    return f"row {row}"


@given(st.lists(CELLS, min_size=1, max_size=6))
@examples(150)
def test_cells_come_back_from_their_bytes(values):
    X = as_cells(column(values), ["s"], ["s"], place)
    data, ends = encode_cells(X)
    again = decode_cells(data, ends)
    assert again.tolist() == X.tolist()
    assert [list(map(type, row)) for row in again] == [list(map(type, row)) for row in X]
    assert data.dtype == np.uint8
    assert ends.shape == X.shape


def test_equal_sets_are_equal_cells():
    found = as_cells(column([{3, 1, 2}, frozenset({2, 3, 1}), {"b", "a", 1}, []]), ["s"], ["s"], place)
    assert found[:, 0].tolist() == [(1, 2, 3), (1, 2, 3), (1, "a", "b"), ()]


def test_types_of_numpy_and_pandas_become_plain():
    values = [np.str_("a"), b"b\xc3\xa9", np.array(["c", "d"]), np.array([[1.0, 2.0]]), (np.int8(1), np.float32(0.5))]
    found = as_cells(column(values), ["s"], ["s"], place)[:, 0].tolist()
    assert found == ["a", "b\u00e9", ("c", "d"), ((1.0, 2.0),), (1, 0.5)]
    assert type(found[0]) is str
    assert type(found[4][0]) is int


def test_zeros_at_the_end_of_a_text_stay():
    X = as_cells(column(["a\0", "a"]), ["s"], ["s"], place)
    assert decode_cells(*encode_cells(X)).tolist() == [["a\0"], ["a"]]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "missing"),
        (float("nan"), "missing"),
        (pd.NA, "missing"),
        (pd.NaT, "missing"),
        (3, "holds objects"),
        ({"a": 1}, "type dict"),
        (object(), "type object"),
        ([1.0, float("inf")], "finite"),
        ([None], "NoneType"),
        (b"\xff", "decode"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(value, says):
    with pytest.raises(DataError, match=says) as caught:
        as_cells(column(["a", value]), ["s"], ["s"], place)
    assert str(caught.value).startswith("row 1, column 's': ")


@pytest.mark.parametrize(("value", "says"), [("x", "not a number"), (None, "missing"), (np.inf, "not finite")])
def test_columns_of_numbers_beside_them_hold_numbers(value, says):
    table = np.array([["a", 1], ["b", value]], object)
    with pytest.raises(DataError, match=says):
        as_cells(table, ["s", "x"], ["s"], place)


def test_the_numbers_of_a_table():
    X = as_cells(np.array([["a", 1, 2.5], ["b", True, -1]], object), ["s", "x", "y"], ["s"], place)
    assert number_columns(X) == [1, 2]
    np.testing.assert_array_equal(to_numbers(X), [[0.0, 1.0, 2.5], [0.0, 1.0, -1.0]])
    assert number_columns(X[:0]) == []
    numbers = np.ones((2, 2), np.float32)
    assert to_numbers(numbers) is numbers


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(DataError, match="table of 2 columns"):
        as_cells(column(["a"]), ["s", "t"], ["s"], place)
    with pytest.raises(DataError, match="1 dimension"):
        as_cells(np.array(["a"], object), ["s"], ["s"], place)


def test_sizes_grow_with_the_text():
    assert cell_bytes(column(["a" * 10_000] * 50)) > 40 * cell_bytes(column(["a"] * 50))
    assert cell_bytes(column([])) == 0


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (b'"a"', [[2]]),
        (b'"a"', [[3], [3]]),
        (b'"a" ', [[4]]),
        (b"[1, 2]", [[6]]),
        (b"null", [[4]]),
        (b'{"a":1}', [[7]]),
        (b"NaN", [[3]]),
        (b"1e999", [[5]]),
        (b'"a""b"', [[3], [2]]),
        (b'"a"', [3]),
        (b'"\xc3\xa9"', [[4]]),
        (b"[" * 50 + b"]" * 50, [[100]]),
        (b"[" * 100_000 + b"]" * 100_000, [[200_000]]),
        (b"", np.empty((0, 1))),
    ],
)
def test_bytes_that_are_no_cells_are_refused(text, ends):
    with pytest.raises(ValueError, match=r"cell|Expecting|Extra|delimiter"):
        decode_cells(np.frombuffer(text, np.uint8), np.asarray(ends, np.int64))
