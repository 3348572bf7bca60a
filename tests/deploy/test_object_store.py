"""Data, models, checkpoints, records and scores in an object store: s3fs against a moto server on loopback."""

import json
import os
import re
import signal
import socket
import sys

import pandas as pd
import pytest

from tests.deploy.processes import RECIPE, Group, bin_folder, cluster, environment, free_port, wait_until, write_data

pytestmark = [pytest.mark.slow, pytest.mark.cluster]  # tests/data/test_destination.py is quick
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
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def train(group, data, out, *options):
    group.run(out, ["dkernel", "train", data, "--label", "label", "--out", out, *RECIPE, *options])
    return (group.folder / out).read_bytes()


def score(group, name, data, out, *options, expect=0):
    command = ["dkernel", "score", "model", data, "--out", out, "--keep", "a", "--exclude", "label", *options]
    group.run(name, command, expect)


@pytest.fixture(scope="module")
def model(store):
    return train(store[0], "train", "model")


def test_a_job_of_a_cluster_lives_in_the_store(store, model):
    group, system = store
    out, kept = f"{BUCKET}/jobs/m", f"{BUCKET}/kept"
    command = ["dkernel", "train", f"{BUCKET}/train", "--label", "label", "--out", out, *RECIPE, "--checkpoint", kept]
    with cluster(group) as file:
        group.run("submitted", [*command, "--scheduler-file", file, "--detach"])
        assert group.log("submitted").splitlines()[0] == out
        group.run("watched", ["dkernel", "watch", out])
        wait_until(lambda: b"rows in" in system.cat_file("bucket/jobs/m.log"), "the end of the log")
    assert system.cat_file("bucket/jobs/m") == model
    group.run("listed", ["dkernel", "watch", f"{BUCKET}/jobs"])
    assert f"{out}  done" in group.log("listed")
    system.invalidate_cache()
    assert sorted(system.ls("bucket/jobs", detail=False)) == [f"bucket/jobs/{n}" for n in ("m", "m.log", "m.run.json")]


def test_the_object_that_stands_for_a_folder_is_no_data(store, model):
    group, system = store
    assert model
    system.put(str(group.folder / "new"), "bucket/marked", recursive=True)
    for name in ("new", "marked"):
        score(group, f"of-{name}", f"{BUCKET}/{name}", f"of-{name}.parquet")
        system.pipe_file("bucket/marked/", b"")  # as the console of S3 makes it
    assert (group.folder / "of-new.parquet").read_bytes() == (group.folder / "of-marked.parquet").read_bytes()


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


def found_in(system, folder):
    system.invalidate_cache()
    return [path.rsplit("/", 1)[1] for path in system.find(f"bucket/{folder}")]


@pytest.mark.parametrize("stop", ["checkpoint-survey", "checkpoint-prepare", "checkpoint-rounds"])
def test_a_killed_job_of_urls_goes_on_to_the_same_bytes(store, stop):
    """SIGKILL once a stage is stored; the command again ends with the model of a fit that nobody killed."""
    group, system = store
    options = ["--solver", "psgd", "--passes", "4", "--local", "none"]
    expected = train(group, "train", f"whole-{stop}", *options)
    run = f"{BUCKET}/{stop}"
    command = ["dkernel", "train", f"{BUCKET}/train", "--label", "label", "--out", f"{run}/model", *RECIPE, *options]
    command += ["--checkpoint", f"{run}/progress", "--resume", "--record", f"{run}/run.json"]
    job = group.start(f"killed-{stop}", command)
    wait_until(lambda: any(name.startswith(stop) for name in found_in(system, f"{stop}/progress")), stop, alive=[job])
    os.killpg(job.pid, signal.SIGKILL)
    job.wait(timeout=60)
    assert "model" not in found_in(system, stop)
    left = found_in(system, f"{stop}/progress")
    assert left
    assert all(name.startswith("checkpoint-") for name in left), "nothing half written is seen"
    group.run(f"again-{stop}", command)
    assert system.cat_file(f"bucket/{stop}/model") == expected
    record = json.loads(system.cat_file(f"bucket/{stop}/run.json"))
    assert record["status"] == "done"
    assert record["resumed_from"]
    assert found_in(system, f"{stop}/progress") == ["checkpoint-result.safetensors"]
    group.run(f"watch-{stop}", ["dkernel", "watch", f"{run}/run.json"])
    scored = ["--exclude", "label", "--out", f"{run}/scores.parquet"]
    group.run(f"score-{stop}", ["dkernel", "score", f"{run}/model", f"{BUCKET}/new", *scored])
    assert list(group.folder.glob("s3*")) == []


NOBODY = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "") | {"AWS_EC2_METADATA_DISABLED": "true"}


@pytest.mark.parametrize(
    ("data", "options", "env", "said"),
    [
        ("train", f"--out {BUCKET}/m --checkpoint s3://nowhere/progress", {}, "s3://nowhere.*there is no such bucket"),
        ("train", f"--out {BUCKET}/m --record s3://nowhere/run.json", {}, "s3://nowhere.*there is no such bucket"),
        ("none", f"--out {BUCKET}/m", {}, f"{BUCKET}/none"),
        ("train", f"--out {BUCKET}/m", NOBODY, "credentials"),
    ],
    ids=["no bucket of progress", "no bucket of a record", "no data", "no credentials"],
)
def test_what_cannot_be_had_is_said_before_the_work(store, data, options, env, said, request):
    group, name = store[0], f"refused-{request.node.callspec.id}"
    command = ["dkernel", "train", f"{BUCKET}/{data}", "--label", "label", *RECIPE, *options.split()]
    group.run(name, command, expect=65, env=env | {"HOME": str(group.folder)})
    assert re.search(said, group.log(name))
    assert "Traceback" not in group.log(name)
