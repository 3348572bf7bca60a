"""Packed rows give the inputs that they were made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.numerics.packed_rows import PackedRows, packed_bytes


@st.composite
def one_hot_rows(draw):
    """Rows with groups of columns, of which a row has at most one that is not 0."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows, widths = draw(st.integers(1, 30)), draw(st.lists(st.integers(1, 300), min_size=1, max_size=4))
    order = rng.permutation(sum(widths) + draw(st.integers(0, 3)))
    X = rng.standard_normal((rows, len(order))).astype(draw(st.sampled_from(["float32", "float64"])))
    groups, first = [], 0
    for width in widths:
        group, values = np.sort(order[first : first + width]), rng.choice([0.5**0.5, 1.0], width)
        chosen = rng.integers(-1, width, rows)
        X[:, group] = np.where(chosen[:, None] == np.arange(width), values, 0.0)
        groups.append(tuple(group.tolist()))
        first += width
    return X, groups


@given(one_hot_rows(), st.data())
def test_any_rows_are_those_that_were_packed(made, data):
    X, groups = made
    packed = PackedRows.pack(X, groups)
    assert (packed.shape, packed.dtype, len(packed)) == (X.shape, X.dtype, len(X))
    assert packed.nbytes == len(X) * packed_bytes(X.shape[1], X.itemsize, groups)
    some = np.array(data.draw(st.lists(st.integers(0, len(X) - 1), max_size=10)), np.intp)
    for rows in (slice(None), slice(1, None, 2), some, np.arange(len(X)) % 3 == 0):
        assert packed[rows].tobytes() == np.ascontiguousarray(X[rows]).tobytes()
    assert packed.take(some, axis=0).tobytes() == X[some].tobytes()


@pytest.mark.parametrize("X", [[[1.0, 1.0]], [[1.0, 0.0], [2.0, 0.0]], [[-1.0, 0.0]]])
def test_other_rows_do_not_pack(X):
    assert PackedRows.pack(np.array(X), [(0, 1)]) is None
