"""Every script of scripts/bench is imported and asked for its help; among the slow tests its smallest size is run."""

import runpy
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import ROOT, environment

BENCH = ROOT / "scripts" / "bench"
SMALLEST = {  # of those that need no data set and no other package; mainjob, plain and study have tests of their own
    "billion": "--rows 300000 --sklearn-rows 16384 --killed 4",
    "costs": "--only '2,000 rows'",
    "explain": "--rows 50 --columns 4 --landmarks 32 --background 10 --shap-rows 0",
    "linear": "--rows 300",
    "many_workers": "--components 64",
    "optimum": "--made 40000 --components 256 --losses squared_hinge",
    "plans": "--only '2,000 rows'",
    "roofline": "--features 8 --components 256 --repeats 1",
    "rounds": "--rows 20000 --workers 0 --components 64 --repeats 1",
    "scaling": "--rows 20000 --components 64 --repeats 1 --rounds 2",
    "scoring": "--rows 20000 --sklearn-rows 2000 --components 64 --workers 1 --repeats 1",
    "size": "--rows 20000 --small-rows 10000 --csv-rows 10000 --components 64 --workers 1",
    "text": "--rows 1000 --components 64",
    "tune": "--made 3000 --components 64",
    "twins": "--limit 0.01 --only SpectralClustering",
    "update": "--rows 2000 --seeds 1",
    "workers": "--workers 2 --rows 10000 --chunk 1000 --components 64 --repeats 1",
}
CASES = [(path.stem, "--help") for path in sorted(BENCH.glob("*.py"))]
CASES += [pytest.param(name, words, marks=pytest.mark.slow) for name, words in SMALLEST.items()]


@pytest.mark.parametrize(("name", "words"), CASES)
def test_a_script_runs(name, words, tmp_path, monkeypatch, capsys):
    script = str(BENCH / f"{name}.py")
    if words == "--help":
        monkeypatch.setattr("sys.argv", [script, words])
        with suppress(SystemExit):
            runpy.run_path(script, run_name="__main__")  # in this process, which has their imports
            assert "\ndef main(" not in Path(script).read_text(), "it has no help"
        assert capsys.readouterr().err == ""
        return
    more = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True, "timeout": 1200}
    done = subprocess.run([sys.executable, script, *shlex.split(words)], check=False, **more)
    assert done.returncode == 0, done.stderr
