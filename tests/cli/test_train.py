import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import FEATURES


def test_json_is_one_object_and_quiet_is_quiet(run, run_to, data, tmp_path):
    args = ["train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", *FEATURES]
    found = json.loads(run_to(*args, "--json").stdout)
    assert found["rows"] == 3000
    assert found["model_sha256"] == hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest()
    assert set(found["seconds"]) >= {"open", "train", "save", "total"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.run.json"]
    quiet = run(*args, "--quiet", "--overwrite")
    assert (quiet.stdout, quiet.stderr) == ("", "")


@pytest.mark.parametrize("out", ["none/m", ".", "train.parquet/m"])
def test_an_output_that_cannot_be_written_is_found_out_first(run_to, data, here, out):
    (here / "train.parquet").symlink_to(data / "train.parquet")
    result = run_to("train", here / "train.parquet", "--label", "no such label", "--out", out, "--overwrite", code=65)
    assert "no such label" not in result.stderr
    assert [path.name for path in here.iterdir()] == ["train.parquet"]


def test_a_label_of_bytes_that_are_no_text_names_its_place(run_to, tmp_path):
    labels = pa.array([b"ok", b"no"] * 30 + [b"\xff"], pa.binary())
    pq.write_table(pa.table({"x": np.arange(61.0), "y": labels}), tmp_path / "x.parquet", row_group_size=20)
    result = run_to("train", tmp_path / "x.parquet", "--label", "y", "--out", tmp_path / "m", code=65)
    assert "x.parquet, row 61, column 'y'" in result.stderr


@pytest.mark.parametrize(
    "kernel", ["Gaussian(gamma=1e-6)", "Gaussian(gamma='median')", "linear", "Linear() + Matern(1.5, 2)"]
)
def test_a_gamma_that_the_kernel_has_no_place_for_is_refused(run_to, data, tmp_path, kernel):
    args = ["--label", "y", "--exclude", "price,id,note", "--kernel", kernel, "--out", tmp_path / "m"]
    for command in (["train"], ["tune"], ["tune", "--grid", "gamma=1|10"]):
        gamma = [] if "--grid" in command else ["--gamma", "10"]
        result = run_to(*command, data / "train.parquet", *args, *gamma, code=2)
        assert "leave --gamma out" in result.stderr


FLOATING = ["--exclude", "y,id,note", "--n-components", "64", "--gamma", "0.05", "--alpha", "1e-6"]


@pytest.mark.parametrize("more", [[], ["--task", "regress"], ["--solver", "normal"]])
def test_loss_auto_is_a_loss_that_is_not_given(run_to, data, more):
    args = ("train", data / "train.parquet", "--label", "price", *FLOATING, *more)
    for asked in (["--dry-run", "--json"], ["--print-config"]):
        assert run_to(*args, *asked).stdout == run_to(*args, *asked, "--loss", "auto").stdout


def test_streams_of_a_real_process(shell, data, tmp_path):
    args = ["--label", "y", "--out", tmp_path / "m", *FEATURES, "--json", "--progress", "bar"]
    done = shell("train", data / "train.parquet", *args)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 3000
    assert "Traceback" not in done.stderr
    assert not {c for c in done.stderr if ord(c) < 32} - {"\n"}


@pytest.mark.cluster
def test_worker_processes_give_the_same_bytes(shell, model, data, tmp_path):
    args = ["--label", "y", "--out", tmp_path / "m", *FEATURES, "--workers", "2", "--memory-limit", "2GiB", "--quiet"]
    done = shell("train", data / "train.parquet", *args)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
