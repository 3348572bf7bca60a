"""A model of a table says the same of its rows however they come, by the command, and exported.

Within 2e-5 of the largest score: coefficients that cancel each other leave rounding, and float32 is too coarse for it.
"""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import UnsupportedError
from tests.combinations import examples
from tests.fuzz.commands import command
from tests.fuzz.tables import KINDS, NAMES, PLAIN, make_table, tables
from tests.leaves.export.feeds import answers, feeds

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the commands
TOLERANCE = 2e-5
SETTINGS = [
    {},
    {"n_components": 32, "solver": "exact", "alpha": 1e-8},
    {"n_components": 64, "solver": "psgd"},
    {"n_components": 48, "solver": "lbfgs", "alpha": 1e-8},
]
ODD, SEVEN = tables(KINDS, NAMES, st.booleans()), tables(PLAIN, list("abcdefg"), st.just(False))
FAR = make_table({"a": ("tails", 4)}, 1085, 0, 2)


def fit(table, settings):
    make = KernelRegressor if table.y.dtype.kind == "f" else KernelClassifier
    machine = make("gaussian", local="none", random_state=0, **settings).fit(table.X, table.y, table.weight)
    return machine, machine.decision_function if hasattr(machine, "decision_function") else machine.predict


def check(expected, ways):
    """Each way has the scores of the whole frame, also one that has only every so manieth row."""
    expected = np.asarray(expected, np.float64)
    for way, found in ways.items():
        rows = expected[:: len(expected) // 5] if way == "alone" else expected
        off = np.abs(np.reshape(found, rows.shape).astype(np.float64) - rows).max() / np.abs(expected).max()
        assert off <= TOLERANCE, f"{way} differs by {off} of the largest score"


def run(*words):
    answer = command(*words, "--progress", "none", "--json")
    assert answer.code == 0, answer.message


@pytest.fixture(autouse=True, scope="module")
def in_turn():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.usefixtures("batches")
@examples(5)
@given(ODD)
def test_every_way_to_give_rows_says_the_same(table):
    machine, ask = fit(table, {"n_components": 32})
    X, rows = table.X, pa.Table.from_pandas(table.X, preserve_index=False)
    ways = {
        "rows backwards": ask(X.iloc[::-1])[::-1],
        "alone": np.concatenate([ask(X.iloc[[i]]) for i in range(0, len(X), len(X) // 5)]),
        "parts": np.concatenate([ask(X.iloc[:7]), ask(X.iloc[7:])]),
        "Arrow": ask(rows),
    }
    if np.dtype(object) not in list(X.dtypes):  # of which Dask makes text
        ways["Dask"] = ask(dd.from_pandas(X, npartitions=3, sort=False)).compute()
    with TemporaryDirectory() as folder:
        dkernel.save(machine, f"{folder}/m")
        pq.write_table(rows, f"{folder}/rows.parquet")
        run("score", f"{folder}/m", f"{folder}/rows.parquet", "--out", f"{folder}/out.parquet", "--write", "score")
        ways["file"] = read_scores(f"{folder}/out.parquet")
    check(ask(X), ways)


@pytest.mark.usefixtures("batches")
@examples(5)
@given(SEVEN, st.sampled_from(SETTINGS))
@example(FAR, {})  # A few far rows tell how much is rounded.
def test_every_way_to_fit_and_predict_says_the_same(table, settings):
    machine, ask = fit(table, settings)
    with TemporaryDirectory() as folder:
        ways = {"command": by_command(table, settings, Path(folder))}
    with suppress(UnsupportedError):  # a hash of many categories has no counterpart
        ways["graph"] = by_graph(machine, table.X)
    check(ask(table.X), ways)


def by_command(table, settings, folder):
    """The scores that the command writes with the model that it has trained."""
    rows, model, out = folder / "rows.parquet", folder / "m", folder / "scores.parquet"
    table.X.assign(target=table.y).to_parquet(rows)
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    fit = ["--label", "target", "--kernel", "gaussian", "--local", "none", "--seed", 0, "--baselines", "off"]
    run("train", rows, "--out", model, *fit, *options)
    run("score", model, rows, "--out", out, "--allow-extra", "--write", "score")
    return read_scores(out)


def read_scores(path):
    """The columns of scores; of a regression its predictions."""
    found = pq.read_table(path)
    names = [column for column in found.column_names if column.startswith("score")] or ["label"]
    return np.column_stack([found[column].to_numpy() for column in names])


def by_graph(machine, frame):
    """The scores of the ONNX graph."""
    graph = dkernel.to_onnx(machine, "float64")
    alone = [value.name for value in graph.graph.input] == ["X"]
    return answers(graph, {"X": frame.to_numpy(np.float64)} if alone else feeds(machine, frame, graph))["score"]
