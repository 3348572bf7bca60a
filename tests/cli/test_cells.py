"""`train --local cells`: the plan states its scratch, the rows leave it again, show tells of the cells."""

import json
import resource
import subprocess
import sys
from functools import partial

JOB = ["--label", "y", "--gamma", "1.0", "--kernel", "gaussian", "--metric", "identity", "--n-components", "32"]
JOB += ["--alpha", "1e-4", "--local", "cells(rows=200, overlap=0.25)", "--baselines", "off"]


def test_cells_from_file_to_file(run, stripes, tmp_path):
    model, scratch = tmp_path / "m.safetensors", tmp_path / "scratch"
    done = run("train", stripes, "--out", model, "--scratch", scratch, "--quiet", *JOB)
    assert done.exit_code == 0, done.output
    assert list(scratch.iterdir()) == []
    assert "cells of" in run("show", model).stdout
    found = json.loads(run("evaluate", model, stripes, "--label", "y", "--json", "--quiet").stdout)
    assert found["accuracy"] > 0.95
    assert run("score", model, stripes, "--out", tmp_path / "scores.npy", "--quiet").exit_code == 0
    assert run("export", model, "--out", tmp_path / "m.onnx").exit_code == 0


def test_the_plan_states_the_scratch(run, stripes, tmp_path):
    done = run("train", stripes, "--out", tmp_path / "m", "--dry-run", "--json", *JOB)
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert plan["scratch_bytes"] > 1200 * 1.25 * 4 * 2
    assert plan["local"] == ["cells"]


def test_a_scratch_without_room_is_75_and_leaves_nothing(stripes, tmp_path):
    scratch, limit = tmp_path / "scratch", 2 * 4096
    job = ["train", stripes, "--out", tmp_path / "m", "--scratch", scratch, "--quiet", *JOB]
    done = subprocess.run(
        [sys.executable, "-m", "dkernel", *map(str, job)], capture_output=True, text=True, check=False, timeout=300,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 75, done.stderr
    assert str(scratch) in done.stderr
    assert "no room to write" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m").exists()
    assert list(scratch.iterdir()) == []
