"""Limits of containers, from made files of control groups of both versions and from a limit of addresses."""

import os
import subprocess
import sys

import psutil
import pytest

from dkernel.numerics import resource_limits as limits

GIB = 2**30
POD = "kubepods/pod-1/job"


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """write(lines of /proc/self/cgroup, file -> text below /sys/fs/cgroup)."""
    monkeypatch.setattr(limits, "PROCESS", tmp_path / "cgroup")
    monkeypatch.setattr(limits, "CGROUPS", tmp_path / "fs")
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)

    def write(lines, files):
        (tmp_path / "cgroup").write_text(lines)
        for name, text in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.mark.parametrize("folder", ["", "a/", "a/b/"])
def test_version_2_in_a_group_or_above_it(groups, folder):
    """At the root as a container sees it; in a group of Slurm or systemd its own limit, or one above it."""
    groups("0::/a/b\n", {
        f"{folder}memory.max": f"{GIB // 2}\n", "a/b/memory.high": "max\n", f"{folder}memory.current": f"{GIB // 4}\n",
        f"{folder}memory.stat": f"anon 1\ninactive_file {GIB // 8}\n", f"{folder}cpu.max": "150000 100000\n",
    })  # fmt: skip
    assert limits.memory_limit() == GIB // 2
    assert limits.available_memory() == GIB // 2 - GIB // 8
    assert limits.cpu_limit() == 2


@pytest.mark.parametrize("folder", ["", f"{POD}/"])
@pytest.mark.parametrize("controller", ["cpu,cpuacct", "cpuacct,cpu"])
def test_version_1_with_its_controllers(groups, folder, controller):
    groups(f"0::/\n3:memory:/{POD}\n2:{controller}:/{POD}\n", {
        f"memory/{folder}memory.limit_in_bytes": f"{GIB // 2}\n",
        f"memory/{folder}memory.usage_in_bytes": f"{GIB // 4}\n",
        f"memory/{folder}memory.stat": f"cache 1\ninactive_file 1\ntotal_inactive_file {GIB // 8}\n",
        f"{controller}/{folder}cpu.cfs_quota_us": "50000\n", f"{controller}/{folder}cpu.cfs_period_us": "100000\n",
    })  # fmt: skip
    assert limits.memory_limit() == GIB // 2
    assert limits.available_memory() == GIB // 2 - GIB // 8
    assert limits.cpu_limit() == 1


def test_no_limit_is_that_of_the_machine(groups):
    groups(f"0::/\n3:memory:/{POD}\n2:cpu:/{POD}\n", {
        "memory.max": "max\n", "cpu.max": "max 100000\n", f"memory/{POD}/memory.limit_in_bytes": "9223372036854771712",
        "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n",
    })  # fmt: skip
    assert limits.memory_limit() == psutil.virtual_memory().total
    assert limits.cpu_limit() == 64


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_limit_of_addresses():
    code = (
        "import resource; from dkernel.numerics.resource_limits import memory_limit, available_memory\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({GIB}, {GIB}))\n"
        "print(memory_limit(), available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    limit, free = map(int, done.stdout.split())
    assert 0 < free < limit < GIB
