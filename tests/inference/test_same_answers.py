"""Conformity scores and explanations have the same bytes in a plain loop, on threads and in processes."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dkernel import KernelRegressor, explain, open_source
from dkernel.leaves.cells.parameters import Cells
from dkernel.leaves.conformalize.conformity import conformalize_model
from dkernel.model import model_file
from dkernel.model.local_settings import Grids
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor

STAGES = {"none": "none", "grids": Grids(n_grids=32), "cells": Cells(rows=300)}
SETTINGS = {"kernel": "gaussian", "gamma": 0.3, "n_components": 48, "alpha": 1e-4, "metric": "identity"}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + X[:, 2] + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    machines = {name: KernelRegressor(**SETTINGS, local=local).fit(*rows(1200, 0)) for name, local in STAGES.items()}
    assert all((machine.model_.local is None) == (name == "none") for name, machine in machines.items())
    return machines


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A file of several row groups, whose rows have groups."""
    X, y = rows(2000, 1)
    frame = pd.DataFrame(X, columns=["0", "1", "2"]).assign(y=y, site=np.arange(len(y)) % 3)
    frame.to_parquet(path := tmp_path_factory.mktemp("known") / "known.parquet", row_group_size=400, index=False)
    assert pq.ParquetFile(path).num_row_groups == 5
    return path


def digests(fitted, known, executor):
    """Those of the files of the models with the conformity scores of other rows, of all and by group."""
    source = open_source(known, label="y", keep="site", columns=["0", "1", "2"])
    made = [
        conformalize_model(machine.model_, source, executor, group)
        for machine in fitted.values()
        for group in (None, "site")
    ]
    return [model_file.compute_digest(model) for model in made]


def explanations(fitted):
    """Exact values, and those of permutations."""
    X = rows(60, 3)[0]
    return [explain(machine, X[:4], X[10:]).values.tobytes() for machine in fitted.values()]


def test_conformity_scores_on_threads(fitted, known):
    assert digests(fitted, known, ThreadsExecutor(3)) == digests(fitted, known, SerialExecutor())


@pytest.mark.cluster
def test_conformity_scores_in_processes(fitted, known, two_workers):
    assert digests(fitted, known, two_workers) == digests(fitted, known, SerialExecutor())


@pytest.mark.cluster
def test_explanations_in_a_worker(fitted, shared_cluster):
    from dask.distributed import Client

    with Client(shared_cluster) as client:
        assert client.submit(explanations, fitted).result() == explanations(fitted)
