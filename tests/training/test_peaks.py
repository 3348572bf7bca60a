"""Real peaks of memory, of real worker and client processes, stay below what the plan stated before the run."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes import environment

MIB = 2**20

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,  # bytes of processes, as the kernel counts them
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux counts so"),
]


def written(path, n, p, classes):
    """Rows as one NPY file, block by block; the label, the last column, is the ring that the row stands in."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, p + 1))
    for first in range(0, n, 65_536):
        rows = out[first : first + 65_536]
        rows[:, :p] = np.random.default_rng([p, first]).standard_normal((len(rows), p), np.float32)
        radius = (rows[:, : min(p, 5)] ** 2).sum(axis=1)
        rows[:, p] = np.clip(radius * classes / 10, 0, classes - 1).astype(int)
    out.flush()
    return path


def fitted(folder, n, p, columns, classes, **settings):
    """What the plan stated and what the processes took, in a process of their own."""
    data = written(folder / "rows.npy", n, p, classes)
    recipe = {"n_components": columns, "kernel": f"Gaussian(gamma={0.5 / p})", "task": "classify", "alpha": 1e-6}
    recipe |= {"scale": "standard", "metric": "identity", "features": "nystrom", **settings}
    command = [sys.executable, str(Path(__file__).with_name("peaks.py")), str(data), str(p), "2", json.dumps(recipe)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    data.unlink()
    return json.loads(done.stdout)


def below(found):
    """All peaks are below what was stated, in MiB so that a failure can be read."""
    stated, client = (found["stated"][name] / MIB for name in ("worker_bytes", "client_bytes"))
    assert max(found["workers"]) / MIB < stated
    assert found["client"] / MIB < client
    return True


def test_peaks_of_a_small_fit_are_below_the_plan(tmp_path):
    found = fitted(tmp_path, 20_000, 8, 256, 2)
    assert below(found)
    # It is a statement, no phrase: of workers that are forked, which do not map again what they import, some third.
    assert max(found["workers"]) > found["stated"]["worker_bytes"] / 3


@pytest.mark.parametrize(
    ("n", "p", "columns", "classes", "features"),
    [
        (1_000_000, 28, 1024, 2, "nystrom"),
        (200_000, 90, 1024, 2, "nystrom"),
        (200_000, 28, 1024, 10, "nystrom"),
        (200_000, 28, 1024, 2, "fourier"),
        (60_000, 28, 3000, 2, "nystrom"),
        (60_000, 28, 3000, 10, "fourier"),
        (100_000, 8, 2000, 26, "nystrom"),
    ],
)
def test_peaks_are_below_the_plan(tmp_path, n, p, columns, classes, features):
    assert below(fitted(tmp_path, n, p, columns, classes, features=features))


def test_peaks_of_normal_equations_are_below_the_plan(tmp_path):
    """A task sums its pieces in a tree, which holds the matrices of some levels at a time."""
    assert below(fitted(tmp_path, 400_000, 8, 1024, 2, solver="normal", loss="squared"))


def test_the_clients_memory_does_not_grow_with_the_rows(tmp_path):
    small, large = (fitted(tmp_path, n, 28, 512, 2) for n in (400_000, 4_000_000))
    assert below(small)
    assert below(large)
    # A list of ten times as many pieces is what it may grow by; the rows would be 400 MiB.
    assert large["client"] - small["client"] < 24 * MIB
