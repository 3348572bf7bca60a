"""Heavy modules that a process loads: each costs a tenth of a second and more, so each is loaded where it is needed."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

HEAVY = [
    *("dask.array", "dask.dataframe", "dask_ml", "distributed", "lightgbm", "matplotlib", "numba", "onnx", "pandas"),
    *("pyarrow.dataset", "scipy.linalg", "scipy.optimize", "scipy.spatial", "scipy.special", "scipy.stats", "sklearn"),
]
GIVEN = "--kernel gaussian --gamma 0.5 --scale standard --alpha 1e-4 --n-components 32 --local none --baselines off"
COMMAND = "import sys\nfrom dkernel.cli import main\nmain(sys.argv[1:], standalone_mode=False)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with rows, a file of their features and a model, made by another process."""
    place = tmp_path_factory.mktemp("loaded")
    X = np.random.default_rng(0).standard_normal((400, 2)).round(3)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=(X[:, 0] > 0).astype(int))
    table.to_parquet(place / "d.parquet", index=False)
    table.to_csv(place / "d.csv", index=False)
    table[["a", "b"]].to_parquet(place / "x.parquet", index=False)
    loaded(place, COMMAND, f"train d.parquet --label y --out m.st {GIVEN} --quiet")
    return place


def loaded(folder, code, arguments=""):
    """The heavy modules that a process has at its end."""
    told = f"\nprint('loaded', *(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}{told}", *arguments.split()],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_an_import_of_dkernel_and_its_help_load_nothing_heavy(folder):
    assert loaded(folder, "import dkernel") == set()
    assert loaded(folder, COMMAND, "--help") == set()
    assert loaded(folder, COMMAND, "train --help") == set()


def test_a_score_loads_the_loops_and_what_their_threads_are_set_in(folder):
    found = loaded(folder, COMMAND, "score m.st x.parquet --out s.parquet --overwrite --quiet")
    assert found <= {"numba", "scipy.linalg"}


def test_a_fit_loads_no_other_engine_and_no_table_library(folder):
    found = loaded(folder, COMMAND, f"train d.parquet --label y --out n.st --overwrite {GIVEN} --quiet")
    assert found <= {"numba", "scipy.linalg", "scipy.special"}


def test_a_fit_of_text_files_loads_pandas_only_since_arrow_does(folder):
    found = loaded(folder, COMMAND, f"train d.csv --label y --out n.st --overwrite {GIVEN} --quiet")
    assert found <= {"numba", "scipy.linalg", "scipy.special", "pandas"}
