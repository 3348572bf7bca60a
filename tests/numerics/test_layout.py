"""The layout of a block: the gate makes what it says, and what takes numbers alone refuses the rest."""

import numpy as np
import pytest
import scipy.sparse as sp

from dkernel.errors import UnsupportedError
from dkernel.numerics.layout import Layout
from dkernel.numerics.sparse_rows import RangeNames, SparseRows

NUMBERS = Layout(("a", "b"), "float64")
SPARSE = Layout(RangeNames(0, 2))
OBJECTS = Layout(("a", "b"), "float32", ("b",))
ROWS = {
    "numbers": (NUMBERS, np.array([[1, 2], [3, 4]])),
    "a list": (NUMBERS, [[1, 2], [3, 4]]),
    "scipy, dense": (NUMBERS, sp.csr_array(np.array([[1, 2], [3, 4]]))),
    "sparse": (SPARSE, sp.csr_array(np.array([[1, 2], [3, 4]]))),
    "sparse of a table": (SPARSE, np.array([[1, 2], [3, 4]])),
    "objects": (OBJECTS, np.array([[1, "x"], [3, "y"]], object)),
}


@pytest.mark.parametrize(("layout", "X"), ROWS.values(), ids=ROWS)
def test_the_layout_of_a_block_is_that_of_its_gate(layout, X):
    block = layout.block(X, str)
    assert block.shape == (2, 2)
    assert block.dtype == layout.array_dtype
    again = Layout.of(block)
    assert (again.sparse, again.numeric, len(again.objects)) == (layout.sparse, layout.numeric, len(layout.objects))
    assert isinstance(block, SparseRows) == layout.sparse


@pytest.mark.parametrize(
    ("layout", "stored"), [(SPARSE, "sparse rows of 2 columns"), (OBJECTS, "texts, lists or sets")]
)
def test_what_takes_numbers_refuses_other_rows(layout, stored):
    with pytest.raises(UnsupportedError, match=f"local='grids' takes columns of numbers.*{stored}.*Leave it out"):
        layout.require_numbers("local='grids'", "Leave it out.")
    NUMBERS.require_numbers("local='grids'", "Leave it out.")
