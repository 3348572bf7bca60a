"""Hosts that share the data and the checkpoint and no other folder: each has temporary files and a home of its own."""

import shutil
import subprocess

import pytest

from tests.deploy.processes import Group, bin_folder, environment

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
# Settings that leave nothing to be chosen by a search, so that the test is short.
JOB = ["--label", "y", "--gamma", "1.0", "--kernel", "gaussian", "--metric", "identity", "--n-components", "32"]
JOB += ["--alpha", "1e-4", "--cell-rows", "200", "--local", "cells", "--baselines", "off", "--progress", "none"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """What runs a command on a host of its own, whose temporary folder and home lie at the same path as the others'."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    own = tmp_path_factory.mktemp("own")

    def host(command):
        script = f'mount -t tmpfs none {own} && cd {own} && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "host", *command]

    return own, host


@pytest.fixture(scope="module")
def separate(hosts, tmp_path_factory):
    """Three workers on hosts of their own, and what runs dkernel on a fourth."""
    (own, host), folder = hosts, tmp_path_factory.mktemp("logs")
    paths = {"TMPDIR": str(own), "HOME": str(own)}
    with Group(folder, environment(bin_folder(folder / "bin")) | paths) as group:
        file = folder / "scheduler.json"
        group.start("scheduler", host(["dask", "scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", file]))
        for i in range(3):
            options = ["--nthreads", 1, "--no-dashboard", "--memory-limit", "1GiB", "--scheduler-file", file]
            group.start(f"worker-{i}", host(list(map(str, ["dask", "worker", *options]))))

        def run(name, *arguments, expect=0):
            command = ["dkernel", *map(str, arguments), "--scheduler-file", str(file)]
            group.run(name, host(command), expect=expect)
            return group.log(name)

        yield run, group


def test_cells_are_fitted_to_the_same_bytes(separate, stripes, run_to, tmp_path):
    run, _ = separate
    run("cells", "train", stripes, "--out", tmp_path / "there", "--checkpoint", tmp_path / "kept", *JOB)
    run_to("train", stripes, "--out", tmp_path / "here", *JOB)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
    assert "cells of" in run_to("show", tmp_path / "there").stdout
