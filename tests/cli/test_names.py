"""Files under names that are no text: every command takes them, in any locale."""

import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.cli.conftest import FEATURES, ROOT

ODD = os.fsdecode(b"\xff\xc3")


@pytest.fixture
def place(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pq.read_table(data / "test.parquet")
    with open(f"{ODD}.parquet", "wb") as stream:
        pq.write_table(rows, stream)
    with open(f"{ODD}.csv", "wb") as stream:
        csv.write_csv(rows, stream)
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_from_data_to_scores(run, ending):
    pytest.importorskip("matplotlib")
    model, rows = f"{ODD}.safetensors", f"{ODD}{ending}"
    more = ["--checkpoint", f"{ODD}.ck", "--baselines", "off"]
    if ending == ".parquet":
        more += ["--report", f"{ODD}.html"]
    trained = run("train", rows, "--label", "y", *FEATURES, "--out", model, *more)
    assert trained.exit_code == 0, trained.output
    assert os.path.exists(f"{ODD}.html") == (ending == ".parquet")
    assert run("show", model).exit_code == 0
    assert run("evaluate", model, rows, "--exclude", "price,id,note").exit_code == 0
    assert json.loads(run("watch", f"{ODD}.safetensors", "--json").stdout)["model"] == model
    for out in ("", ".parquet", ".csv", ".zarr"):
        done = run("score", model, rows, "--exclude", "y,price,note", "--keep", "id", "--out", f"{ODD}.s{out}")
        assert done.exit_code == 0, done.output


def test_rejected_rows(run, model, place):
    with open(f"{ODD}.bad.csv", "w") as stream:
        stream.write("a,b,c\n1,2,3\n4,??,6\n")
    done = run("score", model, f"{ODD}.bad.csv", "--out", "s.csv", "--max-bad-rows", "1")
    assert done.exit_code == 0, done.output
    (listed,) = place.glob("s.csv.rejects-*.csv")
    assert r"\udcff\udcc3.bad.csv,3," in listed.read_text()
    refused = run("score", model, f"{ODD}.bad.csv", "--out", "t.csv")
    assert refused.exit_code == 65, refused.output


@pytest.mark.usefixtures("place")
def test_stores(run):
    X = np.random.default_rng(0).normal(size=(200, 3))
    with h5py.File(f"{ODD}.h5", "w") as file:
        file["X"] = X
        file["y"] = (X[:, 0] > 0).astype(int)
    done = run("train", f"{ODD}.h5", "--label", "y", "--out", "m", "--n-components", "16", "--baselines", "off")
    assert done.exit_code == 0, done.output
    assert run("score", "m", f"{ODD}.h5", "--exclude", "y", "--out", "s").exit_code == 0


@pytest.mark.slow
def test_a_locale_without_letters(place, model):
    os.rename(f"{ODD}.parquet", "é.parquet")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "LC_ALL": "C"}
    environment["PYTHONUTF8"] = "0"
    command = [sys.executable, "-m", "dkernel", "score", str(model), "é.parquet", "--exclude", "y,price,id,note"]
    done = subprocess.run(
        [*command, "--out", "é"], cwd=place, env=environment, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (place / "é" / "_SUCCESS").exists()
