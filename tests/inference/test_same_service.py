"""Intervals, updates and explanations have the same bytes in a plain loop, on threads, in processes, on a cluster."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dkernel import KernelRegressor, explain, open_source
from dkernel.data.block import Block
from dkernel.execution.connect import connect
from dkernel.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.inference.conformity import conformalized
from dkernel.local_settings import Cells, Grids
from dkernel.persistence import model_file
from dkernel.training.update import update_model

STAGES = {"none": "none", "grids": Grids(n_grids=32), "cells": Cells(rows=500)}
SETTINGS = {"kernel": "gaussian", "gamma": 0.3, "n_components": 48, "alpha": 1e-4, "metric": "identity"}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + X[:, 2] + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return {name: KernelRegressor(**SETTINGS, local=local).fit(*rows(3000, 0)) for name, local in STAGES.items()}


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A file of several row groups, whose rows have groups."""
    X, y = rows(4000, 1)
    frame = pd.DataFrame(X, columns=["0", "1", "2"]).assign(y=y, site=np.arange(len(y)) % 3)
    frame.to_parquet(path := tmp_path_factory.mktemp("known") / "known.parquet", row_group_size=700, index=False)
    assert pq.ParquetFile(path).num_row_groups == 6
    return path


def models(fitted, known, executor):
    """The hash of the file of each model, after other rows say how sure it is, and after new rows."""
    source = open_source(known, label="y", keep="site", columns=["0", "1", "2"])
    new, old = Block(*rows(600, 2), None), Block(rows(3000, 0)[0], None, None)
    made = [conformalized(fitted["none"].model_, source, executor, group) for group in (None, "site")]
    made += [update_model(machine.model_, new, executor, old) for machine in fitted.values()]
    return [model_file.digest_of(model) for model in made]


def explanations(fitted):
    """Exact values, and those of permutations."""
    X = rows(60, 3)[0]
    return [explain(machine, X[:4], X[10:]).values.tobytes() for machine in fitted.values()]


def test_threads(fitted, known):
    assert models(fitted, known, ThreadsExecutor(3)) == models(fitted, known, SerialExecutor())


@pytest.mark.cluster
def test_processes(fitted, known):
    with connect(workers=2, memory_limit=0) as executor:
        assert models(fitted, known, executor) == models(fitted, known, SerialExecutor())


@pytest.mark.cluster
def test_explanations_of_a_worker_are_those_of_this_process(fitted):
    from dask.distributed import Client

    with Client(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as client:
        assert client.submit(explanations, fitted).result() == explanations(fitted)
