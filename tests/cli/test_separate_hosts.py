"""Hosts that share the data, the checkpoint and the output, and no other folder: what works, and what is refused."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.deploy.processes import Group, bin_folder, environment, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
# Settings that leave nothing to be chosen by a search, so that the tests are short.
JOB = ["--label", "y", "--gamma", "1.0", "--kernel", "gaussian", "--metric", "identity", "--n-components", "32"]
JOB += ["--alpha", "1e-4", "--local", "none", "--baselines", "off", "--progress", "none"]
# A fit of sorted rows that are not kept in memory, whatever room there is.
SORTED = """
import sys
from dataclasses import replace
from dkernel.cli import main
from dkernel.training.planning.memory_plan import Plan

plan = Plan.of
Plan.of = lambda *args, **more: replace(plan(*args, **more), keeps_rows=False)
main()
"""


@dataclass(frozen=True)
class Hosts:
    """Three workers on hosts of their own, and what runs a command on a fourth, that of the client.

    Parameters
    ----------
    run : (words, expected exit code) -> what the command printed
    of_client, of_workers : folders that are empty on the other hosts
    own : the folder of temporary files and the home, another one on each host
    workers : their processes
    """

    run: Callable[..., str]
    of_client: Path
    of_workers: Path
    own: Path
    scheduler_file: Path
    workers: list[subprocess.Popen]

    def inside(self, worker, *words):
        """Run a program on the host of a worker."""
        subprocess.run(["nsenter", "-m", "-t", str(worker.pid), *map(str, words)], check=True)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-mu", "true"], check=False).returncode:
        pytest.skip("no namespaces of mounts and host names here")
    own, of_client, of_workers, folder = map(tmp_path_factory.mktemp, ("own", "of_client", "of_workers", "logs"))

    def host(name, command, *hidden):
        mounts = " && ".join(f"mount -t tmpfs none {place}" for place in (own, *hidden))
        script = f'hostname {name} && {mounts} && cd {own} && exec "$@"'
        return ["unshare", "--mount", "--uts", "sh", "-c", script, "host", *map(str, command)]

    with Group(folder, environment(bin_folder(folder / "bin")) | {"TMPDIR": str(own), "HOME": str(own)}) as group:
        file, seen, workers = folder / "scheduler.json", [], []
        scheduler = ["dask", "scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", file]
        group.start("scheduler", host("scheduler", scheduler))
        for i in range(3):
            options = ["--nthreads", 1, "--no-dashboard", "--memory-limit", "1GiB", "--scheduler-file", file]
            workers.append(group.start(f"worker-{i}", host(f"worker-{i}", ["dask", "worker", *options], of_client)))
        for i in range(3):
            wait_until(lambda i=i: "established connection" in group.log(f"worker-{i}"), f"worker-{i}")

        def run(*words, expect=0):
            seen.append(words)
            name = f"client-{len(seen)}"
            group.run(name, host("client", words, of_workers), expect=expect)
            return group.log(name)

        yield Hosts(run, of_client, of_workers, own, file, workers)


def run_for_words(hosts, *words, expect):
    """What a command says, in one line: names that are long break lines elsewhere."""
    return " ".join(hosts.run(*words, expect=expect).split())


def test_cells_are_fitted_to_the_same_bytes(hosts, stripes, run_to, tmp_path):
    job = [*JOB, "--local", "cells(rows=200)"]
    there = ["--out", tmp_path / "there", "--checkpoint", tmp_path / "kept", "--scheduler-file", hosts.scheduler_file]
    told = hosts.run("dkernel", "train", stripes, *there, *job)
    assert "peak memory client " in told
    assert "MiB, workers up to " in told
    run_to("train", stripes, "--out", tmp_path / "here", *job)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
    assert "local machines (cells)" in " ".join(run_to("show", tmp_path / "there").stdout.split())


def test_the_doctor_finds_no_fault_where_train_works(hosts, stripes):
    places = ["--out", hosts.of_client / "m", "--checkpoint", hosts.own / "kept"]
    job = [stripes, *places, *JOB, "--scheduler-file", hosts.scheduler_file]
    told = hosts.run("dkernel", "doctor", *job, expect=None)
    assert not [line for line in told.splitlines() if " shared, " in line or " write, " in line], told
    hosts.run("dkernel", "train", *job)
    assert (hosts.of_client / "m").exists()
    told = hosts.run("dkernel", "doctor", *job, "--scratch", hosts.of_client, expect=None)
    assert not [line for line in told.splitlines() if " shared, " in line], told
    (hosts.of_client / "rows.csv.gz").write_bytes(b"not read before the folder is asked for")
    packed = [hosts.of_client / "rows.csv.gz", *job[1:], "--scratch", hosts.of_client]
    told = run_for_words(hosts, "dkernel", "doctor", *packed, expect=1)
    assert f"{hosts.of_client} is another folder there than on the client" in told


def test_data_that_only_the_client_sees_are_named_with_the_worker(hosts, stripes, tmp_path):
    shutil.copy(stripes, hosts.of_client / "rows.parquet")
    job = [hosts.of_client / "rows.parquet", "--out", tmp_path / "m", *JOB, "--scheduler-file", hosts.scheduler_file]
    told = run_for_words(hosts, "dkernel", "train", *job, expect=65)
    assert f"{hosts.of_client}/rows.parquet: the worker on worker-" in told
    assert "does not see this file, which client does" in told
    assert "`dkernel doctor` checks this" in told
    assert "data, tcp://" in hosts.run("dkernel", "doctor", *job, expect=1)


def test_data_that_only_the_workers_see_are_opened_by_one(hosts, stripes, run_to, tmp_path):
    shutil.copy(stripes, hosts.of_workers / "rows.parquet")
    job = ["--out", tmp_path / "m", *JOB]
    there = ["--scheduler-file", hosts.scheduler_file]
    hosts.run("dkernel", "train", hosts.of_workers / "rows.parquet", *job, *there)
    run_to("train", stripes, "--out", tmp_path / "here", *JOB)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "here").read_bytes()
    told = hosts.run("dkernel", "train", hosts.of_workers / "*.parquet", *job, *there, "--dry-run")
    assert "1,500" in told
    told = hosts.run("dkernel", "evaluate", tmp_path / "m", hosts.of_workers, "--label", "y", *there)
    assert "1,500" in told
    told = hosts.run("dkernel", "doctor", hosts.of_workers / "rows.parquet", *job, *there, expect=None)
    assert "no such file" not in told, told
    scores = tmp_path / "scores.parquet"
    hosts.run("dkernel", "score", tmp_path / "m", hosts.of_workers, "--out", scores, "--exclude", "y", *there)
    assert len(pd.read_parquet(scores)) == 1500


def test_missing_values_of_data_that_only_the_workers_see(hosts, stripes, run_to, tmp_path):
    frame = pd.read_parquet(stripes)
    frame.loc[1400:1410, "a"] = None
    frame.to_parquet(hosts.of_workers / "holes.parquet", row_group_size=300)
    job = [*JOB, "--scheduler-file", hosts.scheduler_file]
    told = hosts.run("dkernel", "train", hosts.of_workers / "holes.parquet", "--out", tmp_path / "m", *job)
    assert "1,500 rows" in told
    run_to("train", hosts.of_workers / "holes.parquet", "--out", tmp_path / "here", *JOB)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "here").read_bytes()


def test_a_submitter_needs_no_data(hosts, stripes, tmp_path):
    shutil.copy(stripes, hosts.of_workers / "rows.parquet")
    job = [hosts.of_workers / "rows.parquet", "--out", tmp_path / "m", "--checkpoint", tmp_path / "c", *JOB]
    hosts.run("dkernel", "train", *job, "--scheduler-file", hosts.scheduler_file, "--detach")
    assert "done after" in hosts.run("dkernel", "watch", tmp_path / "m")
    assert (tmp_path / "m").exists()


@pytest.fixture
def copies(hosts, stripes):
    """A path under which the first and the last worker have a copy of the data each, and nobody else."""
    path = hosts.own / "rows.parquet"
    for worker in (hosts.workers[0], hosts.workers[2]):
        hosts.inside(worker, "cp", "-p", stripes, path)
    yield path
    for worker in hosts.workers:
        hosts.inside(worker, "rm", "-f", path)


def test_a_worker_without_a_copy_of_the_data_is_named(hosts, copies, tmp_path):
    job = [copies, "--out", tmp_path / "m", *JOB, "--scheduler-file", hosts.scheduler_file]
    told = run_for_words(hosts, "dkernel", "train", *job, expect=65)
    assert f"{copies}: the worker on worker-1 does not see this file, which worker-" in told


def test_a_worker_with_another_copy_of_the_data_is_named(hosts, copies, tmp_path):
    hosts.inside(hosts.workers[1], "sh", "-c", f"printf x > {copies}")
    job = [copies, "--out", tmp_path / "m", *JOB, "--scheduler-file", hosts.scheduler_file]
    told = run_for_words(hosts, "dkernel", "train", *job, expect=65)
    assert f"{copies}: the worker on worker-" in told
    # Either of the two may be the first that reads.
    assert "worker-1 has another file of this name (1 bytes of 20" in told or ") than worker-1 (1 bytes of 20" in told


def test_stale_copies_of_the_clients_data_are_named(hosts, copies, stripes, tmp_path):
    for worker in hosts.workers:
        hosts.inside(worker, "cp", stripes, copies)  # with the same bytes of another date: nobody can tell
    job = ["dkernel", "train", copies, "--out", tmp_path / "m", *JOB, "--scheduler-file", hosts.scheduler_file]
    command = f"cp -p {stripes} {copies} && exec {' '.join(map(str, job))}"
    told = run_for_words(hosts, "sh", "-c", command, expect=65)
    assert f"{copies}: the worker on worker-" in told
    assert "has another file of this name (" in told
    assert ") than client (" in told


def test_unpacked_copies_are_beside_the_output_or_refused(hosts, stripes, tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(pd.read_parquet(stripes).to_csv(index=False).encode()))
    job = ["dkernel", "train", tmp_path / "rows.csv.gz", *JOB, "--scheduler-file", hosts.scheduler_file]
    (tmp_path / "models").mkdir()
    hosts.run(*job, "--out", tmp_path / "models" / "m")
    assert {path.name for path in (tmp_path / "models").iterdir()} == {"m", "m.run.json"}
    assert "Give --scratch a folder" in hosts.run(*job, "--out", hosts.own / "m", expect=2)


def test_sorted_rows_that_are_not_kept_are_stored_by_each_host(hosts, stripes, run_to, tmp_path):
    frame, folder = pd.read_parquet(stripes).sort_values("y"), tmp_path / "sorted"
    folder.mkdir()
    for first in range(0, 1500, 300):
        frame[first : first + 300].to_parquet(folder / f"{first:04d}.parquet")
    job = ["train", folder, *JOB, "--solver", "psgd"]
    hosts.run("python", "-c", SORTED, *job, "--out", tmp_path / "there", "--scheduler-file", hosts.scheduler_file)
    assert "store interleaved" in json.loads((tmp_path / "there.run.json").read_text())["phases"]
    run_to(*job, "--out", tmp_path / "here")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
