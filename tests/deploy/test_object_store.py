"""Data and scores in an object store: s3fs against a moto server on loopback, by the commands."""

import os
import sys

import pandas as pd
import pytest

from tests.deploy.processes import RECIPE, Group, bin_folder, cluster, environment, free_port, wait_until, write_data

pytestmark = [pytest.mark.slow, pytest.mark.cluster]  # tests/data/test_object_store_outputs.py are quick
BUCKET = "s3://bucket"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A bucket with train/ and new/, a folder with the same files, and the commands' environment."""
    for module in ("s3fs", "moto.server", "flask"):
        pytest.importorskip(module, reason=f"{module} is not installed (the extras s3 and test)")
    import s3fs

    folder, port = tmp_path_factory.mktemp("store"), free_port()
    secrets = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}
    url = f"http://127.0.0.1:{port}"
    env = environment(bin_folder(folder / "bin"), AWS_ENDPOINT_URL=url, **secrets)
    for name, rows in (("train", 4096), ("new", 2048)):
        write_data(folder / name, files=3, rows=rows, seed=len(name))
    with Group(folder, env) as group:
        server = group.start("moto", [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", port])
        system = s3fs.S3FileSystem(
            key="me", secret="secret", endpoint_url=url, client_kwargs={"region_name": "eu-west-1"}
        )
        wait_until(lambda: answers(port), "the store", alive=[server])
        system.mkdir("bucket")
        for name in ("train", "new"):
            system.put(str(folder / name), f"bucket/{name}", recursive=True)
        yield group, system


def answers(port):
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def train(group, data, out, *options):
    group.run(out, ["dkernel", "train", data, "--label", "label", "--out", out, *RECIPE, *options])
    return (group.folder / out).read_bytes()


def score(group, name, data, out, *options, expect=0):
    command = ["dkernel", "score", "model", data, "--out", out, "--keep", "a", "--exclude", "label", *options]
    group.run(name, command, expect)


@pytest.fixture(scope="module")
def model(store):
    return train(store[0], "train", "model")


def test_a_model_of_a_store_s_data_on_workers_is_that_of_the_same_files(store, model):
    group, system = store
    with cluster(group) as file:
        assert train(group, f"{BUCKET}/train", "remote", "--scheduler-file", file) == model
        score(group, "workers", f"{BUCKET}/new", f"{BUCKET}/scores", "--scheduler-file", file)
    score(group, "disk", "new", "scores")
    system.invalidate_cache()
    found = {path.rsplit("/", 1)[1]: path for path in system.find("bucket/scores")}
    on_disk = sorted(os.listdir(group.folder / "scores"))
    assert sorted(found) == on_disk
    for name in on_disk:
        if name.endswith(".parquet"):
            assert system.cat_file(found[name]) == (group.folder / "scores" / name).read_bytes()
    assert [path for path in system.find("bucket") if "staging" in path] == []
    score(group, "again", f"{BUCKET}/new", f"{BUCKET}/scores")
    assert "Nothing was done" in group.log("again")


def test_a_single_object_is_that_of_a_disk(store, model):
    group, system = store
    assert model
    score(group, "object", f"{BUCKET}/new", f"{BUCKET}/one.parquet")
    score(group, "file", "new", "one.parquet")
    system.invalidate_cache()
    assert system.cat_file("bucket/one.parquet") == (group.folder / "one.parquet").read_bytes()
    assert len(pd.read_parquet(group.folder / "one.parquet")) == 3 * 2048
    score(group, "other", f"{BUCKET}/train", f"{BUCKET}/one.parquet", expect=65)
    assert "another job" in group.log("other")


def test_no_bucket_and_no_rights_are_said(store, model):
    group, _ = store
    assert model
    score(group, "nowhere", "new", "s3://nowhere/scores", expect=65)
    assert "Traceback" not in group.log("nowhere")
    score(group, "missing", f"{BUCKET}/none", f"{BUCKET}/x", expect=65)
    assert "Traceback" not in group.log("missing")
