"""A row of weight 0 is none: fits with such rows have the sizes, roles and law of those without them."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.errors import DataError
from dkernel.model.recipe import Recipe
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.exchangeability import explain_order
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import cut_pieces
from dkernel.streaming.survey import Survey
from dkernel.training.fit import train
from tests.streaming.sources import rings

N = 10_000
RECIPE = Recipe(solver="psgd", kernel="gaussian", gamma=0.15)


def rows(share):
    X, y = rings(N)
    weight = (np.random.default_rng(1).random(N) < share).astype(float)
    return X, y, weight


@pytest.mark.parametrize(
    ("share", "holdout", "kind"),
    [
        (0.06, 0.05, "files"),
        (0.04, 0.05, "arrays"),
        (0.01, 0.05, "dask"),
        pytest.param(0.25, 0.3, "files", marks=pytest.mark.slow),
    ],
)
def test_sizes_and_roles_are_those_of_the_rows_that_count(share, holdout, kind, tmp_path):
    X, y, weight = rows(share)
    inside = weight > 0
    if kind == "files":
        table = pd.DataFrame({f"f{j}": X[:, j] for j in range(X.shape[1])} | {"label": y, "weight": weight})
        table.to_parquet(tmp_path / "rows.parquet", row_group_size=3000)
        source = open_source([str(tmp_path / "rows.parquet")], label="label", weight="weight")
    else:
        several = (X, y, weight)
        if kind == "dask":
            several = [da.from_array(a, chunks=(3000, *a.shape[1:])) for a in several]
        source = from_arrays(*several)
    recipe = RECIPE.replace(holdout=holdout)
    found = train(source, recipe, SerialExecutor())
    alone = train(from_arrays(X[inside], y[inside]), recipe, SerialExecutor())
    assert len(found.holdout.X) == len(alone.holdout.X) == round(holdout * inside.sum())
    assert len(found.sample.X) == len(alone.sample.X)
    assert found.model.map.n_components == alone.model.map.n_components
    for name in ("rows", "counts"):
        assert found.model.facts[name] == alone.model.facts[name]
    assert (found.holdout.weight > 0).all()
    test, labels = rings(2000, seed=5)
    right = [np.mean((r.model.scores(test)[:, 0] > 0) == labels) for r in (found, alone)]
    assert abs(right[0] - right[1]) < (0.12 if share == 0.01 else 0.06)


def test_few_rows_that_count_are_few(tmp_path):
    X, y, weight = rows(0.05)
    inside = weight > 0
    several = [da.from_array(a, chunks=(1500, *a.shape[1:])) for a in (X, y, weight)]
    models = []
    for i, given in enumerate([(X, y, weight), several, (X[inside], y[inside])]):
        dkernel.save(KernelClassifier().fit(*given), tmp_path / f"{i}.safetensors")
        models.append((tmp_path / f"{i}.safetensors").read_bytes())
    assert dkernel.load(tmp_path / "0.safetensors").model_.recipe.solver == "exact"
    assert models[0] == models[1] == models[2]


def test_one_row_that_counts_is_refused():
    X, y, weight = rows(0.0)
    weight[7] = 1
    with pytest.raises(DataError, match=r"1 row\(s\) that count"):
        train(from_arrays(X, y, weight), RECIPE, SerialExecutor())


def test_rows_of_no_weight_do_not_make_chunks_different():
    X, y, weight = rows(0.5)
    X[weight == 0] += np.linspace(0, 5, N)[weight == 0, None].astype(np.float32)
    y[weight == 0] = (np.arange(N) > N // 2)[weight == 0]
    source = from_arrays(*[da.from_array(a, chunks=(1000, *a.shape[1:])) for a in (X, y, weight)])
    feed = BlockReader(SerialExecutor(), source, keep=False)
    pieces = cut_pieces([unit.rows for unit in source.units])
    assert not explain_order(feed.fold(Survey(0, N, 100), pieces, "test", Progress("none")))
    feed.close()
