"""What belongs to a process: its BLAS threads, its memory, its versions, and the Dask tools that it never uses."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import dkernel
from dkernel.cli.memory_usage import PeakMemory, process_tree_rss
from dkernel.errors import ClusterError
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.execution.versions import require_equal, versions

BLAS = """
from threadpoolctl import threadpool_info
def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
"""


def in_fresh_process(code):
    env = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONPATH": str(Path(dkernel.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", BLAS + code], capture_output=True, text=True, timeout=300, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_one_blas_thread_holds_for_later_libraries_and_only_inside():
    lines = in_fresh_process(
        "from dkernel.numerics.threads import one_blas_thread\n"
        "with one_blas_thread():\n"
        "    with one_blas_thread():\n"
        "        import scipy.linalg\n"
        "        print(threads())\n"
        "    print(threads())\n"
        "print(threads())\n"
    )
    assert lines == ["{1}", "{1}", "{2}"]


def test_overlapping_runs_do_not_undo_each_other():
    inner_open, outer_closed = threading.Event(), threading.Event()
    seen = []

    def inner():
        from threadpoolctl import threadpool_info

        with one_blas_thread():
            inner_open.set()
            outer_closed.wait(60)
            seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    thread = threading.Thread(target=inner)
    with one_blas_thread():
        thread.start()
        inner_open.wait(60)
    outer_closed.set()
    thread.join()
    assert set(seen) == {1}


def a_child(size):
    """A process that holds `size` bytes, once it has said so, until its input is closed."""
    code = f"import sys; block = bytearray({size}); print(flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    return child


def test_peak_memory_sees_what_came_and_went():
    """Of a process that ends: what one that goes on gives back is its allocator's affair."""
    with PeakMemory(interval=0.01) as memory, a_child(200_000_000) as child:
        while memory.peak - memory.start < 150_000_000:
            time.sleep(0.01)
        child.communicate(timeout=60)
    assert process_tree_rss() < memory.peak - 100_000_000


def test_memory_of_a_child_counts_and_of_a_dead_process_is_none():
    before = process_tree_rss()
    with a_child(200_000_000) as child:
        assert process_tree_rss() > before + 150_000_000
        child.communicate(timeout=60)
    assert process_tree_rss(child.pid) == 0


def test_equal_versions_pass_and_others_are_listed():
    here = versions()
    require_equal(here, "tcp://a:1", dict(here))
    with pytest.raises(ClusterError, match="tcp://b:2") as refusal:
        require_equal(here, "tcp://b:2", here | {"numpy": "1.0"})
    lines = str(refusal.value).splitlines()
    assert lines[1].split() == ["worker", "package", "here", "there"]
    assert lines[2].split() == ["tcp://b:2", "numpy", here["numpy"], "1.0"]
    assert len(lines) == 4
