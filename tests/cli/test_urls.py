"""Every command with its model, checkpoint, record and report at a URL, here in a store in memory."""

import json

import pyarrow.parquet as pq
import pytest

from dkernel.data.store import open_store
from tests.cli.conftest import FEATURES

ROWS = ["--exclude", "price,id,note"]


@pytest.fixture
def bucket(here):
    """The URL of an empty folder; the working folder is empty too."""
    return f"memory://{here.name}"


def content(url, name):
    with open_store(url).reading(name) as file:
        return file.read()


def test_a_model_at_a_url_serves_every_command(run_to, data, model, bucket, tmp_path):
    out = f"{bucket}/m.safetensors"
    kept = ["--checkpoint", f"{bucket}/c", "--resume", "--report", f"{bucket}/r.html", "--record", f"{bucket}/run.json"]
    fit = ["train", data / "train.parquet", "--label", "y", *FEATURES, "--out", out, "--quiet"]
    run_to(*fit, *kept)
    assert content(bucket, "m.safetensors") == model.read_bytes()
    assert content(bucket, "r.html").startswith(b"<!DOCTYPE html>")
    assert json.loads(content(bucket, "run.json"))["status"] == "done"
    assert open_store(f"{bucket}/c").names() == ["checkpoint-result.safetensors"]
    assert "done after" in run_to("watch", f"{bucket}/run.json").stdout

    run_to(*fit, *kept)  # its model may be there: the checkpoint holds this run
    assert json.loads(content(bucket, "run.json"))["resumed_from"] == "its result"
    assert "Add --overwrite to replace it" in run_to(*fit, code=65).stderr
    assert "Add --resume to continue it" in run_to(*fit, "--checkpoint", f"{bucket}/c", code=2).stderr

    assert f"{out}: classifier of 2 classes" in run_to("show", out).stdout
    assert json.loads(run_to("evaluate", out, data / "test.parquet", "--json", *ROWS).stdout)["n"] == 500
    for name in (out, model):
        run_to("score", name, data / "new.parquet", "--exclude", "id", "--out", f"{name}.parquet", "--quiet")
    (tmp_path / "scores.parquet").write_bytes(content(bucket, "m.safetensors.parquet"))
    assert pq.read_table("scores.parquet").equals(pq.read_table(f"{model}.parquet"))
    run_to("update", out, data / "train.parquet", *ROWS, "--out", f"{bucket}/m-2.safetensors", "--quiet")
    assert "6,000" in run_to("show", f"{bucket}/m-2.safetensors").stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.parquet"]


def test_a_search_keeps_its_rungs_at_a_url(run_to, data, bucket):
    search = ["tune", data / "test.parquet", "--label", "y", *FEATURES[:4], "--n-components", "8", "--quiet"]
    search += ["--budget", "0.5passes", "--out", f"{bucket}/m", "--checkpoint", f"{bucket}/c", "--resume"]
    run_to(*search)
    for part in ("search", "fit"):
        assert open_store(f"{bucket}/c/{part}").names() == ["checkpoint-result.safetensors"]
    first = content(bucket, "m")
    run_to(*search[:-1], code=2)  # without --resume
    run_to(*search, "--overwrite")
    assert content(bucket, "m") == first


def test_a_place_that_cannot_be_is_said_before_the_work(run_to, data, bucket):
    said = run_to("show", f"{bucket}/none", code=65).stderr
    assert f"The model '{bucket}/none' does not exist" in said
    fit = ["train", data / "train.parquet", "--label", "y", *FEATURES]
    assert "cannot be used" in run_to(*fit, "--out", "nonsense://a/b", code=2).stderr
    assert "cannot be used" in run_to(*fit, "--out", "m", "--checkpoint", "nonsense://a/b", code=2).stderr
