"""How long a command waits for a cluster."""

import json

import pytest

pytestmark = pytest.mark.cluster


def test_a_command_waits_for_workers_as_long_as_it_is_told(run_to, data, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster:
        args = ["--label", "y", "--exclude", "price,id,note", "--out", tmp_path / "m", "--json"]
        place = ["--scheduler", cluster.scheduler_address, "--cluster-timeout", "2"]
        result = run_to("train", data / "train.parquet", *args, *place, code=75)
    assert "has no workers; waited for 2 seconds" in json.loads(result.stdout)["error"]["message"]
    assert not (tmp_path / "m").exists()
