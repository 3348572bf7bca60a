"""What the quickstart says at its end: measured commands, the linear model beside, the table."""

import json
import subprocess
import sys

import linear_baseline
import make_data
import measured
import pytest
import quickstart_table

from tests.processes import ROOT, environment


@pytest.mark.parametrize("size", [0, pytest.param(80_000_000, marks=pytest.mark.slow)])
def test_a_note_holds_the_output_seconds_and_memory_of_a_command(size):
    child = f"import time; held = bytearray({size}); time.sleep(0.8)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('{{\"n\": 3}}')"
    note = measured.measure([sys.executable, "-c", parent], interval=0.05)
    assert note["status"] == 0
    assert note["result"] == {"n": 3}
    assert note["seconds"] > 0.7
    assert note["peak_bytes"] > size


def test_a_failed_commands_status_is_passed_on(tmp_path):
    note = tmp_path / "note.json"
    assert measured.main([str(note), sys.executable, "-c", "import sys; print('no'); sys.exit(75)"]) == 75
    assert json.loads(note.read_text())["result"] == {"text": "no\n"}


def test_linear_baseline_is_better_than_chance_and_worse_than_bayes(tmp_path):
    for name, first in (("train", 0), ("test", 60_000)):
        folder = str(tmp_path / name)
        make_data.main(["--rows", "30000", "--first-row", str(first), "--processes", "1", "--out", folder])
    found = linear_baseline.baseline(tmp_path / "train", tmp_path / "test", "label", rows=30_000, seed=0)
    assert found["rows"] == found["n"] == 30_000
    assert 0.55 < found["accuracy"] < 0.7


def test_the_table_says_what_the_notes_say():
    mib = 2**20
    notes = {
        "data": {"result": {"rows": 1_000_000, "features": 28, "bayes_error": 0.1}},
        "test": {"result": {"rows": 50_000}},
        "train": {"seconds": 20.0, "peak_bytes": 700 * mib},
        "score": {"seconds": 5.0, "peak_bytes": 600 * mib},
        "evaluate": {"seconds": 5.0, "peak_bytes": 900 * mib, "result": {"accuracy": 0.8765}},
        "linear": {"result": {"accuracy": 0.63}},
    }
    said = dict(quickstart_table.table(notes))
    assert said["rows x features"].startswith("1,000,000 x 28 (0.11 GB")
    assert said["accuracy, Bayes rate"] == "90.00 %"
    assert said["accuracy, dkernel"] == "87.65 %"
    assert said["accuracy, linear"] == "63.00 %"
    assert said["training"].startswith("50,000 rows/s")
    assert said["scoring"].startswith("10,000 rows/s")
    assert said["peak memory, training"].startswith("700 MiB")
    assert said["peak memory, all commands"].startswith("900 MiB")


@pytest.mark.parametrize("name", ["covtype", pytest.param("local_stages", marks=pytest.mark.slow)])
def test_a_benchmark_without_its_data_says_how_to_fetch_them_and_fails(name, tmp_path):
    script = ROOT / "scripts" / "bench" / f"{name}.py"
    line = [sys.executable, str(script), "--data", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=environment())
    assert done.returncode == 1
    assert "python scripts/bench/data.py --data" in done.stderr
    assert str(tmp_path) in done.stderr
