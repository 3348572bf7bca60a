"""A model of a table of odd columns predicts the same of every container and file of its rows."""

import warnings

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from tests.fuzz.commands import command
from tests.fuzz.odd_tables import odd_table

TOLERANCE = 2e-5
TABLES = 300


def answers(machine, frame, folder):
    """Way -> the scores of the rows."""
    ask = machine.decision_function if hasattr(machine, "decision_function") else machine.predict
    found = {
        "frame": ask(frame),
        "rows backwards": ask(frame.iloc[::-1])[::-1],
        "parts": np.concatenate([ask(frame.iloc[:7]), ask(frame.iloc[7:])]),
    }
    # Dask makes text of what pandas holds as objects.
    if np.dtype(object) not in list(frame.dtypes):
        found["Dask"] = ask(dd.from_pandas(frame, npartitions=2, sort=False)).compute()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    found["Arrow"] = ask(table)
    model, rows, out = folder / "m", folder / "rows.parquet", folder / "out.parquet"
    dkernel.save(machine, model)
    pq.write_table(table, rows)
    answer = command("score", model, rows, "--out", out, "--write", "score", "--progress", "none", "--json")
    assert answer.code == 0, answer.message
    found["file"] = pq.read_table(out).column(0).to_numpy()
    return found


def check(seed, folder):
    frame, y, weight = odd_table(seed)
    make = KernelRegressor if y.dtype.kind == "f" else KernelClassifier
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        machine = make("gaussian", local="none", n_components=32).fit(frame, y, sample_weight=weight)
        found = {way: np.asarray(scores, np.float64) for way, scores in answers(machine, frame, folder).items()}
    largest = np.abs(found["frame"]).max()
    return {way: error for way, scores in found.items()
            if not (error := np.abs(scores - found["frame"]).max() / largest) <= TOLERANCE}  # fmt: skip


@pytest.mark.parametrize("seed", [3, 4])
def test_every_way_to_give_rows_says_the_same(seed, tmp_path):
    assert check(seed, tmp_path) == {}


@pytest.mark.slow
def test_every_way_to_give_rows_says_the_same_of_many_tables(tmp_path):
    wrong = {}
    for seed in range(TABLES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        if found := check(seed, folder):
            wrong[seed] = found
    assert wrong == {}
