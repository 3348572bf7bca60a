"""Large row groups of Parquet: the same rows in the same parts, from a copy on scratch or without one."""

import os

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.opening import open_source
from dkernel.data.readers import parquet
from dkernel.errors import DataError, DKernelWarning
from dkernel.model.model_file import compute_digest
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import plan, train

ROWS, SHARE = 5000, 250
RECIPE = Recipe(n_components=16, loss="squared")
GOOD = {"label": "y", "keep": ["word"], "missing": "auto", "categorical": ["code"]}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(parquet, "_LARGE_ROWS", 1000)
    monkeypatch.setattr(parquet, "_SHARE_ROWS", 256)
    monkeypatch.setattr("dkernel.data.opening.chunk_limit", lambda *_: 200)  # so that no parts are joined


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS).astype(np.float32)
    words = np.array(["no", "yes", "perhaps"])[rng.integers(0, 3, ROWS)]
    return pa.table(
        {
            "x": pa.array(x, mask=rng.random(ROWS) < 0.1),
            "day": pa.array(np.datetime64("2024-01-01", "us") + rng.integers(0, 10**9, ROWS)),
            "code": pa.array(words).dictionary_encode(),
            "word": words,
            "y": x + (words == "yes"),
        }
    )


@pytest.fixture
def one(table, tmp_path):
    path = tmp_path / "one.parquet"
    pq.write_table(table, path, row_group_size=ROWS)
    return path


def all_of(source):
    blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    kept = pa.concat_tables([block.kept for block in blocks]).to_pydict()
    return np.concatenate([block.X for block in blocks]).tobytes(), np.concatenate([b.y for b in blocks]).tolist(), kept


@pytest.mark.parametrize("place", ["copied", "not copied", "another disk", "of a store"])
def test_a_large_group_is_read_as_small_ones(table, one, place, tmp_path, monkeypatch):
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=SHARE)
    if place == "not copied":
        monkeypatch.setattr("dkernel.data.scratch_copies.store_shares", lambda *_: "")
    if place == "of a store":
        fsspec.filesystem("memory").pipe("/groups/one.parquet", one.read_bytes())
        monkeypatch.setattr("dkernel.data.scratch_copies.store_shares", lambda *_: "")
        one = "memory://groups/one.parquet"
    small, large = (open_source(path, scratch=tmp_path / "s", **GOOD) for path in (tmp_path / "many.parquet", one))
    copies = list((tmp_path / "s").iterdir()) if (tmp_path / "s").exists() else []
    if place == "another disk":
        os.remove(*copies)
    assert len(copies) == (place in ("copied", "another disk"))
    assert [unit.rows for unit in large.units] == [(125, 125)] * 20
    assert all_of(small) == all_of(large)
    made = [compute_digest(train(source, RECIPE, SerialExecutor()).model) for source in (small, large)]
    assert made[0] == made[1]


def test_the_parts_of_other_files_are_their_groups(table, tmp_path):
    pq.write_table(table[:3000], tmp_path / "a.parquet", row_group_size=1000)
    source = open_source(tmp_path / "a.parquet", scratch=tmp_path / "s", **GOOD)
    assert [unit.rows for unit in source.units] == [(200,) * 5] * 3
    assert not (tmp_path / "s").exists()
    assert source.large_groups == ""


def test_the_plan_says_how_large_groups_are_read(one, tmp_path, monkeypatch):
    found = plan(open_source(one, scratch=tmp_path / "s", **GOOD), RECIPE, SerialExecutor())
    assert found["row_groups"] == f"those of {one} are large: it is read from a copy on scratch"
    (copy,) = (tmp_path / "s").iterdir()
    assert found["scratch_bytes"] == copy.stat().st_size
    monkeypatch.setattr("dkernel.data.scratch_copies.store_shares", lambda *_: "")
    found = plan(open_source(one, **GOOD), RECIPE, SerialExecutor())
    assert found["scratch_bytes"] == 0
    assert "decoded from their beginning for each share: write groups of 100,000 rows" in found["row_groups"]


def test_bad_rows_of_a_share_are_found_by_their_number(table, one, tmp_path):
    with pytest.warns(DKernelWarning, match="bad rows, left out"):
        source = open_source(one, label="x", exclude=["word"], scratch=tmp_path / "s", max_bad_rows=ROWS)
    assert len(source.rejected) == table["x"].null_count
    np.testing.assert_array_equal(source.y.compute(), table["x"].drop_null().to_numpy())


def test_nanoseconds_of_int96_are_looked_at_in_each_share(tmp_path):
    times = np.datetime64("2024-01-01", "ns") + np.arange(ROWS) * 1000
    times[-1] += 1
    table = pa.table({"t": times, "x": np.arange(ROWS, dtype=float)})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    source = open_source(tmp_path / "a.parquet", columns=["x"], keep=["t"], scratch=tmp_path / "s")
    assert not list((tmp_path / "s").iterdir())
    read = [unit.task.compute for unit in source.units]
    read[0](scheduler="sync")
    with pytest.raises(DataError, match="'t' has INT96 timestamps with nanoseconds"):
        read[-1](scheduler="sync")


def test_a_footer_is_decoded_once_for_all_parts_of_a_file(table, tmp_path, monkeypatch):
    decoded = []

    class Counted(pq.ParquetFile):
        def __init__(self, source, *, metadata, **how):
            decoded.append(metadata is None)
            super().__init__(source, metadata=metadata, **how)

    monkeypatch.setattr(parquet.pq, "ParquetFile", Counted)
    path = tmp_path / "many.parquet"
    pq.write_table(table, path, row_group_size=SHARE)
    first = all_of(open_source(path, **GOOD))
    assert len(decoded) > 20
    assert sum(decoded) == 1
    pq.write_table(table[::-1], path, row_group_size=SHARE)  # under the same name
    assert all_of(open_source(path, **GOOD)) != first
    assert sum(decoded) == 2
