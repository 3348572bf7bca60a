"""Files under names that are no text: every command takes them, in any locale."""

import json
import os

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.cli.conftest import FEATURES
from tests.processes import environment

ODD = os.fsdecode(b"\xff\xc3")


@pytest.fixture
def place(data, here):
    rows = pq.read_table(data / "test.parquet")
    with open(f"{ODD}.parquet", "wb") as stream:
        pq.write_table(rows, stream)
    with open(f"{ODD}.csv", "wb") as stream:
        csv.write_csv(rows, stream)
    return here


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_from_data_to_scores(run_to, ending):
    pytest.importorskip("matplotlib")
    model, rows = f"{ODD}.safetensors", f"{ODD}{ending}"
    more = ["--checkpoint", f"{ODD}.ck", "--baselines", "off"]
    if ending == ".parquet":
        more += ["--report", f"{ODD}.html"]
    run_to("train", rows, "--label", "y", *FEATURES, "--out", model, *more)
    assert os.path.exists(f"{ODD}.html") == (ending == ".parquet")
    run_to("show", model)
    run_to("evaluate", model, rows, "--exclude", "price,id,note")
    assert json.loads(run_to("watch", f"{ODD}.safetensors", "--json").stdout)["model"] == model
    for out in ("", ".parquet", ".csv", ".zarr"):
        run_to("score", model, rows, "--exclude", "y,price,note", "--keep", "id", "--out", f"{ODD}.s{out}")


def test_rejected_rows(run_to, model, place):
    with open(f"{ODD}.bad.csv", "w") as stream:
        stream.write("a,b,c\n1,2,3\n4,??,6\n")
    run_to("score", model, f"{ODD}.bad.csv", "--out", "s.csv", "--max-bad-rows", "1")
    (listed,) = place.glob("s.csv.rejects-*.csv")
    assert r"\udcff\udcc3.bad.csv,3," in listed.read_text()
    run_to("score", model, f"{ODD}.bad.csv", "--out", "t.csv", code=65)


@pytest.mark.usefixtures("place")
def test_stores(run_to):
    X = np.random.default_rng(0).normal(size=(200, 3))
    with h5py.File(f"{ODD}.h5", "w") as file:
        file["X"] = X
        file["y"] = (X[:, 0] > 0).astype(int)
    run_to("train", f"{ODD}.h5", "--label", "y", "--out", "m", "--n-components", "16", "--baselines", "off")
    run_to("score", "m", f"{ODD}.h5", "--exclude", "y", "--out", "s")


@pytest.mark.slow
def test_a_locale_without_letters(place, model, shell):
    os.rename(f"{ODD}.parquet", "é.parquet")
    command = ["score", model, "é.parquet", "--exclude", "y,price,id,note", "--out", "é"]
    done = shell(*command, cwd=place, env=environment(LC_ALL="C", PYTHONUTF8="0"), text=False)
    assert done.returncode == 0, done.stderr
    assert (place / "é" / "_SUCCESS").exists()
