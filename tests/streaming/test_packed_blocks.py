"""Blocks of a table with many levels are held packed between readings; a fit on them has the same bytes of model."""

import numpy as np
import pandas as pd
import pytest

from dkernel.data.opening import open_source
from dkernel.model.model_file import save
from dkernel.model.recipe import Recipe
from dkernel.numerics.packed_rows import PackedRows
from dkernel.streaming import block_reader
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.row_memory import RowMemory, packed_groups
from dkernel.training.fit import train

GRIDS = {"local": "grids(n_grids=32)"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of a number, and of categories of 90 and of 9 levels, some of which are missing."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("rows") / "t.parquet"
    rows = pd.DataFrame({"x": rng.standard_normal(9000), "a": rng.integers(10, 100, 9000).astype(str)})
    rows["b"] = np.where(rng.random(9000) < 0.1, None, rng.integers(0, 9, 9000).astype(str))
    rows["y"] = np.where(rows["x"] + (rows["a"] < "55") + rng.standard_normal(9000) > 0.5, "yes", "no")
    rows.astype({"a": "category", "b": "category"}).to_parquet(path, row_group_size=4000)
    return str(path)


def digest(table, path, **recipe):
    recipe = {"kernel": "Gaussian(gamma=0.1)", "n_components": 100, **recipe}
    save(train(open_source(table, label="y"), Recipe(**recipe), ThreadsExecutor(2)).model, str(path))
    return path.read_bytes()


@pytest.mark.parametrize("recipe", [GRIDS, {"solver": "pcg", "loss": "squared"}])
def test_a_fit_has_the_same_bytes(table, recipe, tmp_path, monkeypatch):
    packed, pack = [], PackedRows.pack
    monkeypatch.setattr(PackedRows, "pack", lambda *args: packed.append(found := pack(*args)) or found)
    model = digest(table, tmp_path / "packed", **recipe)
    assert sum(map(len, packed)) == 9000
    monkeypatch.setattr(block_reader, "packed_groups", lambda _: ())
    assert digest(table, tmp_path / "whole", **recipe) == model
    assert sum(map(len, packed)) == 9000


def test_the_plan_counts_what_is_held(table):
    source = open_source(table, label="y")
    [block] = source.units[0].task.compute(scheduler="sync")[:1]
    held = PackedRows.pack(block.X, packed_groups(source))
    assert held.nbytes < block.X.nbytes / 2
    assert RowMemory.of(source).whole == source.n_rows * (held.nbytes // len(held) + 16)
