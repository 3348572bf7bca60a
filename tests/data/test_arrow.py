"""Numbers go to Arrow and back as they are, and pandas is not imported for them."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from dkernel.data.arrow import as_column, column_array, pick_rows
from tests.fuzz.types import TYPES, column_of_type

KINDS = ["int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64", "bool", "<U3", "datetime64[s]"]


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind):
    values = np.arange(7).astype(kind) if kind != "bool" else np.arange(7) % 2 == 0
    column = as_column(values[::2])
    column.validate(full=True)
    assert column.equals(pa.array(values[::2].copy()))
    if values.dtype.kind in "iufb":
        np.testing.assert_array_equal(column_array(column), values[::2], strict=True)


def test_slices_chunks_and_missing_values():
    whole = pa.chunked_array([pa.array([1.0, 2.0, 3.0]).slice(1), pa.array([4.0])])
    np.testing.assert_array_equal(column_array(whole), [2.0, 3.0, 4.0])
    np.testing.assert_array_equal(column_array(whole.slice(1, 1)), [3.0])
    np.testing.assert_array_equal(column_array(pa.array([1, None])), [1.0, np.nan])
    assert len(column_array(pa.chunked_array([], pa.float32()))) == 0
    assert len(column_array(pa.array([], pa.int64()))) == 0


@pytest.mark.parametrize("kind", TYPES)
def test_rows_of_every_type(kind):
    """Of views Arrow selects none: a file with such a column was scored only if it was one block."""
    table = pa.table({"a": column_of_type(kind, range(6))})
    for rows in (np.array([4, 1]), np.arange(6) % 2 == 0):
        found = pick_rows(table, rows)
        assert found.schema == table.schema
        assert found["a"].to_pylist() == [table["a"][int(i)].as_py() for i in np.arange(6)[rows]]


def test_pandas_stays_out():
    code = (
        "import sys, numpy as np\nfrom dkernel.data.arrow import as_column, column_array\n"
        "column_array(as_column(np.arange(3.0)))\nprint('pandas' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
