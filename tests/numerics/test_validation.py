"""The gate for a block lets numbers through, as they are, and names the place of what is none."""

import numpy as np
import pytest

from dkernel.errors import DataError
from dkernel.numerics.validation import as_features, nearest_name


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("wanted", ["float32", "float64"])
def test_numbers_of_every_kind_pass(dtype, wanted):
    X = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    block = as_features(X, "01", wanted)
    assert block.dtype == wanted
    assert block.flags.c_contiguous
    np.testing.assert_array_equal(block, X)


def test_a_block_that_is_right_already_is_not_copied():
    X = np.ones((3, 2), np.float32)
    assert as_features(X, ("a", "b")) is X


def test_columns_of_a_fortran_block_stay_in_place():
    X = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    block = as_features(X, "01")
    assert block.flags.c_contiguous
    np.testing.assert_array_equal(block, X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 41])
def test_the_first_number_that_is_not_finite_is_named(value, row):
    X = np.ones((42, 3), np.float32)
    X[row, 1] = value
    with pytest.raises(DataError, match=rf"file\.csv line {row}, column 'b': the value {value} is not finite\. Every"):
        as_features(X, ["a", "b", "c"], describe="file.csv line {}".format)


def test_more_of_them_are_counted():
    X = np.full((2, 2), np.nan)
    with pytest.raises(DataError, match=r"row 0, column '0'.*\(and 3 more in this block\)"):
        as_features(X, "01")


def test_a_number_too_large_for_float32_is_called_so():
    with pytest.raises(DataError, match=r"the value 1e\+39 is too large for float32"):
        as_features(np.array([[1.0, 1e39]]), "01")
    assert as_features(np.array([[1.0, 1e39]]), "01", "float64")[0, 1] == 1e39


def test_numbers_whose_sum_overflows_are_finite_all_the_same():
    X = np.full((4, 2), 1.5e308)
    np.testing.assert_array_equal(as_features(X, "01", "float64"), X)


@pytest.mark.parametrize(
    "X", [np.array([["a"]]), np.array([[1 + 2j]]), np.array([["2020"]], "M8[Y]"), np.array([[{}]])]
)
def test_what_is_no_number_is_refused(X):
    with pytest.raises(DataError, match="numbers are needed"):
        as_features(X, "0")


@pytest.mark.parametrize("shape", [(3,), (), (2, 2, 2)])
def test_a_table_has_two_dimensions(shape):
    with pytest.raises(DataError, match=rf"has {len(shape)} dimension.*a table of 2 is needed"):
        as_features(np.zeros(shape), "01")


def test_the_width_is_checked():
    with pytest.raises(DataError, match="has 3 columns at row 0; 2 are needed"):
        as_features(np.zeros((5, 3)), ["a", "b"])


def test_an_empty_block_passes():
    assert as_features(np.zeros((0, 3)), "012").shape == (0, 3)


def test_names_that_are_near_are_offered():
    assert nearest_name("colour", ["color", "size"]) == " Did you mean 'color'?"
    assert nearest_name("zzz", ["color", "size"]) == " There are: 'color', 'size'."
    assert nearest_name("zzz", []) == ""
    assert nearest_name("zzz", [f"column{i}" for i in range(20)]).endswith(", 'column11', ....")
