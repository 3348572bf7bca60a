"""Bad rows of data with a label are left out and listed; what is left are the rows of a file without them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.opening import open_source
from dkernel.errors import DataError, DKernelWarning, MissingValueError

GOOD = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "s": list("abab"), "w": [1.0, 2.0, 1.0, 1.0], "y": [0, 1, 1, 0]})

CSV = """x,s,w,y
1.0,a,1.0,0
oops,a,1.0,0
2.0,b,2.0,1
5.0,b,1.0,
inf,b,1.0,1
3.0,a,1.0,1
4.0,b,-1.0,0
4.0,b,1.0
4.0,b,1.0,none
4.0,b,1.0,0
"""

LISTED = [
    (3, "x", "'oops' is not a number"),
    (5, "y", "the value is missing"),
    (6, "x", "inf is not finite"),
    (8, "w", "the weight is -1.0"),
    (9, "", "3 values where the header has 4"),
    (10, "y", "the value is missing"),
]


def parts_of(source):
    blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    assert tuple(block.rows for block in blocks) == source.chunk_rows
    parts = [part for part in ("X", "y", "weight") if getattr(blocks[0], part) is not None]
    return [np.concatenate([getattr(b, part) for b in blocks]) for part in parts]


def test_rows_that_are_left_are_those_of_a_clean_file(tmp_path):
    (tmp_path / "bad.csv").write_text(CSV)
    GOOD.to_csv(tmp_path / "good.csv", index=False)
    with pytest.warns(DKernelWarning, match=r"6 bad rows, left out:\n .*bad.csv, line 3, column 'x': 'oops' is not"):
        source = open_source(tmp_path / "bad.csv", label="y", weight="w", max_bad_rows=6)
    clean = open_source(tmp_path / "good.csv", label="y", weight="w")
    assert source.label_kind == clean.label_kind == "int"
    assert source.encoding == clean.encoding
    for found, expected in zip(parts_of(source), parts_of(clean), strict=True):
        np.testing.assert_array_equal(found, expected)
    listed = source.rejected.select(["line", "column", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in listed] == LISTED


def test_more_bad_rows_than_are_allowed_are_refused_and_listed(tmp_path):
    (tmp_path / "bad.csv").write_text(CSV)
    with pytest.raises(DataError, match=r"(?s)6 bad rows so far, and max_bad_rows=5 allows no more.*line 10"):
        open_source(tmp_path / "bad.csv", label="y", weight="w", max_bad_rows=5)
    (tmp_path / "bad.csv").write_text("x,y\n1,\n2,\n")
    with pytest.raises(DataError, match="every row is bad"):
        open_source(tmp_path / "bad.csv", label="y", max_bad_rows=9)


@pytest.mark.parametrize("form", ["parquet", "npz", "h5"])
def test_files_of_numbers_lose_their_bad_rows_too(tmp_path, form):
    X = np.arange(40.0).reshape(20, 2)
    y = np.arange(20.0)
    X[3, 1], y[5], X[7, 0] = np.inf, np.nan, np.nan
    path = tmp_path / f"t.{form}"
    if form == "parquet":
        pd.DataFrame({"0": X[:, 0], "1": X[:, 1], "y": y}).to_parquet(path, row_group_size=6)
    elif form == "npz":
        np.savez(path, X=X, y=y)
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["X"], file["y"] = X, y
    with pytest.warns(DKernelWarning, match="2 bad rows"):
        source = open_source(path, label="y", max_bad_rows=5, holes=True)
    assert source.rejected.column("line").to_pylist() == [4, 6]  # a missing feature is filled
    with pytest.warns(DKernelWarning, match="3 bad rows"):
        source = open_source(path, label="y", max_bad_rows=5, missing="error")
    assert source.rejected.column("line").to_pylist() == [4, 6, 8]
    blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), np.delete(np.arange(20.0), [3, 5, 7]))


def test_a_file_without_bad_rows_is_the_same_source(tmp_path):
    GOOD.to_parquet(tmp_path / "a.parquet")
    source, plain = (open_source(tmp_path / "a.parquet", label="y", max_bad_rows=n) for n in (3, 0))
    assert source.token == plain.token
    assert len(source.rejected) == 0


ODD = pd.DataFrame(
    {
        "x": [1.0, np.inf, 3.0, 1e300, 5.0, 6.0, np.nan, 8.0, 9.0, 10.0],
        "s": [*"ababab", None, "a", None, "a"],
        "day": ["2024-01-01", "no day", *["2024-01-02"] * 2, "-", *["2024-01-02"] * 2, "8 o'clock", "2024-01-02", None],
        "y": [0, 1] * 5,
    }
)
FORMS = {
    "text.csv": lambda path: path.write_bytes(
        ODD.to_csv(index=False).encode() + b"oops,b,no day,1\n4.0,b,1\n7,\xff,,0\n7,a,\xff,0\n"
    ),
    "numbers.csv": lambda path: ODD[["x", "y"]].to_csv(path, index=False),
    "table.parquet": lambda path: ODD.to_parquet(path, row_group_size=3),
    "numbers.parquet": lambda path: ODD[["x", "y"]].to_parquet(path, row_group_size=3),
    "rows.npz": lambda path: np.savez(path, X=ODD[["x", "y"]].to_numpy(), y=ODD.y),
}


@pytest.mark.filterwarnings("ignore:.* bad row")
@pytest.mark.parametrize("reading", [{"holes": True}, {"missing": "error"}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_a_fit_and_scores_leave_out_the_same_rows(tmp_path, form, reading):
    FORMS[form](tmp_path / form)
    dates = {"day": "ISO8601"} if form.startswith("t") else {}
    source = open_source(tmp_path / form, label="y", max_bad_rows=99, formats=dates, **reading)
    model = {"encoding": source.encoding} if source.encoding else {"categorical": "none", "missing": "error"}
    scored = open_source(tmp_path / form, columns=source.table_columns, known=["y"], quarantine=True, **model)
    blocks = [block for unit in scored.units for block in unit.task.compute(scheduler="sync")]
    refused = [row for block in blocks if block.refused is not None for row in block.refused.to_pylist()]
    assert refused == source.rejected.to_pylist()
    assert any("1e+300 is too large for float32" in row["reason"] for row in refused)
    assert sum(block.rows for block in blocks) == source.n_rows == len(parts_of(source)[0])


@pytest.mark.filterwarnings("ignore:.* bad row")
@pytest.mark.parametrize("form", [form for form in FORMS if "numbers" in form or "rows" in form])
def test_a_missing_value_beside_bad_rows_starts_again(tmp_path, form):
    FORMS[form](tmp_path / form)
    source = open_source(tmp_path / form, label="y", max_bad_rows=9)
    with pytest.raises(MissingValueError, match="row 7, column"):
        parts_of(source)
    assert parts_of(source.filled())[0].shape[1] > source.n_in


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_bad_rows_of_views(kind, tmp_path):
    pq.write_table(
        pa.table({"x": GOOD.x, "s": pa.array([*"aba", None]).cast(kind), "w": GOOD.w}), tmp_path / "d.parquet"
    )
    with pytest.warns(DKernelWarning, match="1 bad row"):
        source = open_source(tmp_path / "d.parquet", label="s", weight="w", max_bad_rows=1)
    assert parts_of(source)[1].tolist() == ["a", "b", "a"]
