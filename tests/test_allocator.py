"""Pages that are freed stay with the process, where the C library can be told so."""

import subprocess
import sys

import pytest

# Page faults of many arrays one after the other, each larger than what Dask lets an allocator keep.
COUNT = """
import resource, sys
import numpy as np
from dkernel.allocator import keep_pages
told = keep_pages() if sys.argv[1] == "keep" else True
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(2):
    before = faults()
    for _ in range(200):
        np.zeros(300_000, np.uint8)[::4096] = 1
print(told, faults() - before)
"""


def faults(how):
    env = {"MALLOC_TRIM_THRESHOLD_": "65536", "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, "-c", COUNT, how], env=env, capture_output=True, text=True, check=True)
    told, count = found.stdout.split()
    return told == "True", int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is told")
def test_what_was_freed_is_taken_again():
    told, kept = faults("keep")
    if not told:
        pytest.skip("not glibc")
    assert kept < 0.1 * faults("leave")[1]
