"""Pages that are freed stay with the process, where the C library can be told so."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # what it counts is the allocator's, and that of the other processes of the machine

# Page faults of many arrays one after the other, each larger than what Dask lets an allocator keep.
COUNT = """
import resource, sys
import numpy as np
from dkernel.numerics.allocator import keep_pages
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


# Of arrays that one thread each has made and freed again, those between the first and the last: with a heap each, each
# keeps its own.
HEAPS = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from dkernel.numerics.allocator import use_one_arena
told = use_one_arena() if sys.argv[1] == "one" else True
def held():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
before = held()
def some(wait=Barrier(8)):
    wait.wait()
    several = [b"x" * (50_000 + i) for i in range(200)]
    kept = b"x" * 50_000
    del several
    return kept
with ThreadPoolExecutor(8) as pool:
    turns = [pool.submit(some) for _ in range(8)]
    kept = [turn.result() for turn in turns]
    again = [b"x" * (50_000 + i % 200) for i in range(1600)]
    print(told, held() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is told")
def test_what_threads_have_freed_is_there_for_the_others():
    def held(how):
        found = subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, text=True, check=True)
        told, kilobytes = found.stdout.split()
        return told == "True", int(kilobytes)

    told, one = held("one")
    if not told:
        pytest.skip("not glibc")
    assert one < 0.75 * held("several")[1]
