"""A model of a table predicts the same of a row alone, in a block and in other chunks, by the command, and exported.

Within 2e-5 of the largest score: coefficients that cancel each other leave rounding, and float32 is too coarse for it.
"""

import warnings
import zlib
from contextlib import suppress

import dask
import dask.dataframe as dd
import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import UnsupportedError
from tests.combinations import every_two
from tests.fuzz.commands import command
from tests.fuzz.mixed_tables import table
from tests.model.export.feeds import feed

TOLERANCE = 2e-5
SETTINGS = (
    {},
    {"n_components": 32, "solver": "exact", "alpha": 1e-8},
    {"n_components": 64, "solver": "psgd"},
    {"n_components": 48, "solver": "lbfgs", "alpha": 1e-8},
)
TABLES, BATCHES = 1000, 20


def differences(seed, settings, folder):
    """The largest difference from the scores of the whole table, a share of the largest score, of each other way."""
    frame, y = table(seed)
    make = KernelRegressor if y.dtype.kind == "f" else KernelClassifier
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        machine = make("gaussian", local="none", random_state=0, **settings).fit(frame, y)
        name = "predict" if y.dtype.kind == "f" else "decision_function"
        ask = getattr(machine, name)
        whole = np.asarray(ask(frame), np.float64)
        ways = {
            "alone": np.concatenate([ask(frame.iloc[[i]]) for i in range(0, len(frame), len(frame) // 5)]),
            "chunks": np.asarray(ask(dd.from_pandas(frame, npartitions=3, sort=False)).compute()),
            "command": by_command(frame, y, settings, folder / str(seed)),
        }
        with suppress(UnsupportedError):  # a hash of many categories has no counterpart
            ways["graph"] = by_graph(machine, frame)
    rows = {"alone": slice(0, None, len(frame) // 5)}
    largest = np.abs(whole).max()
    return {
        way: np.abs(
            np.reshape(found, whole[rows.get(way, slice(None))].shape) - whole[rows.get(way, slice(None))]
        ).max()
        / largest
        for way, found in ways.items()
    }


def by_command(frame, y, settings, folder):
    """The scores that the command writes with the model that it has trained."""
    folder.mkdir()
    rows, model, out = folder / "rows.parquet", folder / "m", folder / "scores.parquet"
    frame.assign(target=y).to_parquet(rows)
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    fit = ["--label", "target", "--kernel", "gaussian", "--local", "none", "--seed", 0, "--baselines", "off", *options]
    for words in (["train", rows, "--out", model, *fit], ["score", model, rows, "--out", out, "--allow-extra"]):
        answer = command(*words, "--progress", "none", "--json")
        assert answer.code == 0, answer.message
    found = pq.read_table(out)
    names = [column for column in found.column_names if column.startswith("score")] or ["label"]
    return np.column_stack([found[column].to_numpy() for column in names])


def by_graph(machine, frame):
    """The scores of the ONNX graph."""
    graph = dkernel.to_onnx(machine, "float64")
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    columns = {value.name: value.doc_string for value in graph.graph.input}
    if list(columns) == ["X"]:
        return session.run(["score"], {"X": frame.to_numpy(np.float64)})[0]
    given = {name: feed(machine, frame, column) for name, column in columns.items() if not name.endswith("#crc32")}
    for name in columns.keys() - given.keys():
        texts = given[name.removesuffix("#crc32")][:, 0]
        given[name] = np.array([[zlib.crc32(text.encode())] for text in texts], np.int64)
    return session.run(["score"], given)[0]


@pytest.mark.parametrize(("seed", "settings"), every_two([2, 9], list(SETTINGS)), ids=str)
def test_every_way_to_predict_says_the_same(seed, settings, tmp_path):
    assert max(differences(seed, settings, tmp_path).values()) <= TOLERANCE


def test_a_few_far_rows_tell_how_much_is_rounded(tmp_path):
    assert max(differences(85, {}, tmp_path).values()) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_way_to_predict_says_the_same_of_many_tables(batch, tmp_path):
    wrong = {}
    for seed in range(batch, TABLES, BATCHES):
        found = differences(seed, SETTINGS[seed // BATCHES % len(SETTINGS)], tmp_path)
        if not max(found.values()) <= TOLERANCE:
            wrong[seed] = found
    assert not wrong
