import json
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.processes import DKERNEL, environment


def table(rows, seed):
    """Two classes by a circle, a linear target with little noise, a row number and an idle column of text."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)).astype(np.float32)
    inside = (X**2).sum(1) < 2.4
    price = X @ [1.0, -2.0, 0.5] + 0.01 * rng.normal(size=rows)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    columns |= {"y": np.where(inside, "in", "out"), "price": price, "id": np.arange(rows), "note": ["x"] * rows}
    return pa.table(columns)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Folder with train.parquet, test.parquet (all columns) and new.parquet (features and id)."""
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(table(3000, 0), folder / "train.parquet")
    test = table(500, 1)
    pq.write_table(test, folder / "test.parquet")
    pq.write_table(test.select(["id", "c", "b", "a"]), folder / "new.parquet")
    return folder


@pytest.fixture(scope="session")
def stripes(tmp_path_factory):
    """A file of rows whose class changes along fine stripes."""
    X = np.random.default_rng(0).uniform(-1, 1, (1500, 2)).astype(np.float32)
    path = tmp_path_factory.mktemp("stripes") / "rows.parquet"
    pd.DataFrame(X, columns=["a", "b"]).assign(y=np.sin(14 * X[:, 0]) > 0).to_parquet(path, row_group_size=300)
    return path


FEATURES = ["--exclude", "price,id,note", "--kernel", "gaussian", "--metric", "identity"]
FEATURES += ["--n-components", "64", "--gamma", "0.3", "--alpha", "1e-6", "--solver", "psgd"]  # not exact: in rounds


@pytest.fixture(scope="session")
def model(data, run_to, tmp_path_factory):
    """A trained classifier of y by a, b, c."""
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    run_to("train", data / "train.parquet", "--label", "y", "--out", path, *FEATURES)
    return path


def begin(command, folder):
    """A job as a process, once it is at work; its stdout and stderr are pipes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [*DKERNEL, *map(str, command), "--progress", "json"]
    process = subprocess.Popen(words, cwd=folder, env=environment(), **pipes)
    for line in process.stderr:
        if json.loads(line).get("phase") == "survey":
            return process
    raise AssertionError("it ended before it was at work")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which the commands of the test run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shell():
    """A command in a process of its own, without a terminal; `more` is as in subprocess.run."""

    def call(*args, **more):
        given = {"env": environment(), "capture_output": True, "text": True, "timeout": 300, "check": False}
        return subprocess.run([*DKERNEL, *map(str, args)], **(given | more))

    return call
