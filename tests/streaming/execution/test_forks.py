"""A process that was forked after any use of threads can do what its parent did: it waits for no thread of that."""

import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing, sys, warnings
import dask.array as da, numpy as np
from dkernel import KernelRegressor, open_source

warnings.simplefilter("ignore")  # of forks beside threads
X = np.random.default_rng(0).normal(size=(300, 2))
machine = KernelRegressor("gaussian", gamma=0.5, n_components=16, alpha=1e-3, local="none")
lazy = da.from_array(X, chunks=(100, 2))
ACTIONS = {
    "compute": lambda: da.ones(9, chunks=3).sum().compute(),
    "fit": lambda: machine.fit(X, X[:, 0]).predict(X),
    "fit of Dask": lambda: machine.fit(lazy, lazy[:, 0]).model_,
    "partial_fit": lambda: KernelRegressor("gaussian", gamma=0.5, n_components=8).partial_fit(X, X[:, 0]).model_,
    "open a CSV": lambda: open_source("x.csv", label="y").n_rows,
    "fit of files": lambda: machine.fit(open_source("x.csv", label="y")).model_,
}
before, *after = sys.argv[1:]
ACTIONS[before]()
for name in after:
    child = multiprocessing.get_context("fork").Process(target=ACTIONS[name])
    child.start()
    child.join()
    print(name, child.exitcode, flush=True)
"""
AFTER = ["fit", "fit of Dask", "partial_fit", "open a CSV", "fit of files"]


@pytest.mark.parametrize("before", ["compute", pytest.param("fit", marks=pytest.mark.slow), "fit of files"])
def test_a_forked_process_works(before, tmp_path):
    (tmp_path / "x.csv").write_text("a,b,y\n" + "".join(f"{i % 7},{i % 11},{i % 5}.5\n" for i in range(300)))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, before, *AFTER], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.splitlines() == [f"{name} 0" for name in AFTER], done.stderr
