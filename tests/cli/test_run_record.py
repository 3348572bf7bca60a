"""The run record: there for every run, true while it goes and after it, however it ends."""

import hashlib
import json
import threading

import numpy as np
import pytest

from dkernel.cli.run_record import Record, default_record
from dkernel.errors import DataError
from dkernel.model.recipe import Recipe
from dkernel.streaming.progress import Progress
from tests.cli.conftest import FEATURES

ALWAYS = {
    "command", "config_sha256", "versions", "status", "exit_code", "started", "updated", "host", "pid", "faults",
    "peak_memory_bytes", "seconds",
}  # fmt: skip


def read(path):
    return json.loads(path.read_text())


def test_of_a_training(run, run_to, data, tmp_path):
    job = [
        "train",
        data / "train.parquet",
        "--label",
        "y",
        "--out",
        tmp_path / "m",
        "--overwrite",
        *FEATURES,
        "--quiet",
    ]
    run_to(*job)
    found = read(tmp_path / "m.run.json")
    assert found.keys() >= ALWAYS | {"input_fingerprint", "recipe_sha256", "model_sha256", "rows_in", "rows_rejected"}
    assert (found["status"], found["exit_code"], found["rows_in"], found["rows_rejected"]) == ("done", 0, 3000, 0)
    assert found["faults"] == []
    assert found["model_sha256"] == hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest()
    assert found["recipe"]["n_components"] == 64
    assert found["recipe_sha256"] == Recipe.from_dict(found["recipe"]).digest
    assert found["versions"]["numpy"] == np.__version__
    assert list(found["phases"]) == ["survey", "choose scale and gamma", "prepare", "pass 1/1", "polish", "finish"]
    rounded = 0.001 * len(found["phases"])  # each is one of milliseconds
    assert 0 < sum(found["phases"].values()) <= found["seconds"]["train"] + rounded
    assert "progress" not in found
    run(*job, "--seed", "1")
    other = read(tmp_path / "m.run.json")
    assert other["config_sha256"] != found["config_sha256"]
    assert "before" not in other


def test_of_a_scoring_and_of_an_evaluation(run_to, model, data, tmp_path):
    job = ["score", model, data / "new.parquet", "--out", tmp_path / "scores", "--exclude", "id", "--quiet"]
    run_to(*job)
    first = read(tmp_path / "scores.run.json")
    assert first.keys() >= ALWAYS | {"input_fingerprint", "model_sha256"}
    assert (first["rows_in"], first["rows_out"], first["rows_rejected"]) == (500, 500, 0)
    run_to(*job)
    second = read(tmp_path / "scores.run.json")
    assert second["skipped"]
    assert second["before"]["started"] == first["started"]  # that of the run that made the output stays
    named = tmp_path / "judged.json"
    job = ["evaluate", model, data / "test.parquet", "--allow-extra", "--quiet", "--record", named]
    shown = run_to(*job)
    assert ("accuracy" in shown.stdout, shown.stderr) == (True, "")
    found = read(named)
    assert (found["status"], found["rows_in"], found["model_sha256"]) == ("done", 500, first["model_sha256"])
    assert 0.8 < found["figures"]["accuracy"] <= 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--label", "nothing"], 65, "no column 'nothing'"),
        (["--label", "price", "--loss", "hinge", "--exclude", "y,id,note"], 2, "RecipeError: "),
        (["--label", "y", "--memory-limit", "1MiB", *FEATURES], 1, "MiB"),
        (["--label", "y", "--scheduler", "tcp://127.0.0.1:1"], 75, "No Dask scheduler"),
    ],
    ids=["data", "options", "memory", "cluster"],
)
def test_of_a_run_that_failed_with_the_record_of_the_older_output_inside(
    run_to, data, tmp_path, options, code, words, monkeypatch
):
    monkeypatch.setattr("dkernel.streaming.execution.connect.CONNECT_TIMEOUT", 0.2)
    out = tmp_path / "m"
    out.write_bytes(b"old")
    older = {"status": "done", "exit_code": 0, "rows": 7}
    (tmp_path / "m.run.json").write_text(json.dumps(older))
    for _ in range(2):
        run_to("train", data / "train.parquet", "--out", out, "--overwrite", *options, code=code)
        found = read(tmp_path / "m.run.json")
        assert found.keys() >= ALWAYS
        assert (found["status"], found["exit_code"]) == ("failed", code)
        assert words in found["error"]
        assert found["before"] == older
        assert out.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.run.json"]


@pytest.mark.parametrize(("error", "status", "code"), [(KeyboardInterrupt, "stopped", 130), (ValueError, "failed", 1)])
def test_of_a_run_that_was_ended(tmp_path, error, status, code):
    with pytest.raises(error), Record().write_to(tmp_path / "r"):
        raise error
    found = read(tmp_path / "r")
    assert (found["status"], found["exit_code"], found["error"]) == (status, code, error.__name__)


def test_while_the_run_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("dkernel.cli.run_record.HEARTBEAT", 0.05)
    record = Record({"seed": 1})
    with record.write_to(tmp_path / "r"), Progress("none") as progress:
        record.progress = progress
        first = read(tmp_path / "r")
        assert (first["status"], first["exit_code"]) == ("running", None)
        progress.phase("pass 1/1", 100, **{"pass": "1/1"})
        progress.advance(40, round="2/5", loss=0.5)
        for _ in range(6000):
            found = read(tmp_path / "r")  # never half written
            if found.get("progress", {}).get("rows") == 40:
                break
            threading.Event().wait(0.01)
        assert found["updated"] > first["updated"]
        state = found["progress"]
        assert {name: state[name] for name in ("phase", "pass", "round", "loss", "total_rows")} == {
            "phase": "pass 1/1", "pass": "1/1", "round": "2/5", "loss": 0.5, "total_rows": 100,
        }  # fmt: skip
    assert read(tmp_path / "r")["status"] == "done"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_what_cannot_be_written_ends_no_run(tmp_path, capsys):
    with Record().write_to(tmp_path / "none" / "r") as record:
        record.note(rows=1)
    with pytest.raises(DataError), Record().write_to(tmp_path / "none" / "r"):
        raise DataError("the run's own error counts")
    assert capsys.readouterr().err.count("r is not written: ") == 2


def test_the_record_of_an_output_at_a_url_is_beside_it():
    assert default_record("memory://runs/scores/") == "memory://runs/scores.run.json"
