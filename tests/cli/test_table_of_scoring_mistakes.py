"""What users get wrong in a nightly job and with jobs of a cluster, a line each: a command and its answer."""

import json

import numpy as np
import pandas as pd
import pytest

FIXED = ["--kernel", "gaussian", "--gamma", "0.5", "--n-components", "32", "--alpha", "1e-4", "--metric", "identity"]
FIXED += ["--solver", "psgd", "--baselines", "off", "--quiet"]
REFUSED, USAGE, AGAIN = 65, 2, 75

# line -> the words of the command, its exit code, words of the answer
LINES = {
    "a list in a folder that is not there": (
        "score m new -o o --done no/done.json",
        REFUSED,
        "the folder is not there",
    ),
    "a list that is an input": ("score m new -o o --done new", REFUSED, "--done names a folder that holds an input"),
    "a list that is an input file": ("score m new -o o --done new/0.parquet", REFUSED, "names what is also an input"),
    "a list that is the output": ("score m new -o o --done o", REFUSED, "--done"),
    "a list that is the model": ("score m new -o o --done m", REFUSED, "--done names what is also an input (MODEL)"),
    "a list of others": ("score m new -o o --done t.parquet", REFUSED, "this is not a list of scored files"),
    "a list at no address": ("score m new -o o --done xyz://b/done.json", USAGE, "Protocol not known: xyz"),
    "nothing new": ("score m new -o o --keep all --done all.json", 0, "No file is new since the last run"),
    "a missing file is no bad one": (
        "score m new no.parquet -o o --keep all --max-bad-files 1",
        REFUSED,
        "no.parquet: there is no such file",
    ),
    "a bad file where none is allowed": (
        "score m bad/1.parquet new -o o --keep all",
        REFUSED,
        "To leave it out: --max-bad-files 1.",
    ),
    "more bad files than are allowed": (
        "score m bad new -o o --keep all --max-bad-files 1",
        REFUSED,
        "2 of 5 files cannot be read, and --max-bad-files 1 allows no more",
    ),
    "a column more in a file": ("score m more -o o", REFUSED, "more/1.parquet has 'extra' besides"),
    "a column more that is passed over": ("score m more -o o --allow-extra", 0, ": 600 rows"),
    "all columns where files differ": ("score m more -o o --keep all", REFUSED, "more/1.parquet has 'extra' besides"),
    "all columns of the first file": ("score m more -o o --keep all --allow-extra", 0, ": 600 rows"),
    "all and a name": ("score m new -o o --keep all,id", REFUSED, "no column 'all', named by keep"),
    "a complete output of another job": ("score m new -o first --keep id", REFUSED, "--overwrite"),
    "an answer that is none": (
        "score m new -o o --write lable",
        USAGE,
        "label, score, std, interval, probability, set",
    ),
    "a format that is not written": (
        "score m new -o o.tsv",
        USAGE,
        "files are not written. Choose a name",
    ),
    "a kept column in capitals": ("score m new -o o --keep ID", REFUSED, "Did you mean 'id'?"),
    "all columns, of which one is called as the score": (
        "score m clash -o o --write score --keep all",
        REFUSED,
        "rename it in the",
    ),
    "a drifted column": ("score m drifted -o o", 0, "warning: a column has other values than in training: a: mean"),
    "a model at an address without one": ("score memory://none/m new -o o", REFUSED, "does not exist"),
    "a model that is none": ("score t.parquet new -o o", REFUSED, "t.parquet is not a dkernel model"),
    "data at no address": ("score m xyz://b/new -o o", REFUSED, "Protocol not known: xyz"),
    "data at an address without any": ("score m memory://none/new -o o", REFUSED, "there is no such file, folder or"),
    "an output at no address": ("score m new -o xyz://b/o --keep all", USAGE, "Protocol not known: xyz"),
    "a Zarr group in a store": ("score m new -o memory://b/o.zarr", USAGE, "Choose .parquet, .csv or .npy"),
    "scoring that is left alone": ("score m new -o o --detach", USAGE, "There is no option --detach"),
    "a job without a cluster": (
        "train t.parquet --label y -o n --detach",
        USAGE,
        "give --scheduler or --scheduler-file",
    ),
    "a job without a checkpoint": (
        "train t.parquet --label y -o n --detach --scheduler tcp://127.0.0.1:9",
        USAGE,
        "give --checkpoint DIR too",
    ),
    "a job for a scheduler that is not there": (
        "train t.parquet --label y -o n --detach --scheduler tcp://127.0.0.1:9 --checkpoint c --cluster-timeout 1",
        AGAIN,
        "tcp://127.0.0.1:9",
    ),
    "the command of the release before": ("jobs new", USAGE, "dkernel watch FOLDER lists the runs of a folder"),
    "runs of an empty store": ("watch memory://none/", 0, "No runs in memory://none"),
    "runs of a store that is none": ("watch xyz://b", USAGE, "Protocol not known: xyz"),
    "a run that nobody knows": ("watch no", REFUSED, "no.run.json: there is no run record"),
    "a run in a store that nobody knows": ("watch memory://none/m", REFUSED, "there is no run record"),
    "a record that is none": ("watch other", REFUSED, "other.run.json: there is no run record"),
    "a folder without records": ("watch new", 0, "No runs in new"),
    "the end of the jobs of a folder": ("cancel new", REFUSED, "new.run.json: there is no run record"),
    "the end of a job that nobody knows": ("cancel no", REFUSED, "Name the job as dkernel train --detach printed it"),
    "the end of a job in a store that nobody knows": ("cancel memory://none/m", REFUSED, "there is no run record"),
    "the end of a run of a client": ("cancel m", REFUSED, "this run was not given to a cluster"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, folders of good and of odd files, a list of what was scored, and records that are none."""
    place = tmp_path_factory.mktemp("scoring")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    tables = {
        "new": [frame.assign(id=i) for i in range(3)],
        "clash": [frame.assign(score=1.0)],
        "more": [frame, frame.assign(extra=1)],
        "drifted": [frame.assign(a=frame["a"] + 2.0)],
    }
    for name, frames in tables.items():
        (place / name).mkdir()
        for i, each in enumerate(frames):
            each.to_parquet(place / name / f"{i}.parquet", index=False)
    (place / "bad").mkdir()
    (place / "bad" / "0.parquet").touch()
    (place / "bad" / "1.parquet").write_bytes(b"x" * 100)
    frame.assign(y=np.where(frame["a"] * frame["b"] > 0, "yes", "no")).to_parquet(place / "t.parquet", index=False)
    (place / "other.run.json").write_text("[1]")
    return place


@pytest.fixture(scope="module")
def begun(folder, run_to):
    """The folder with the model and the list."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        run_to("train", "t.parquet", "--label", "y", "-o", "m", *FIXED)
        run_to("score", "m", "new", "-o", "first", "--keep", "all", "--done", "all.json", "--quiet")
    return folder


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("line", LINES)
def test_a_mistake_is_answered(run_to, begun, monkeypatch, line):
    monkeypatch.chdir(begun)
    monkeypatch.setattr("dkernel.streaming.execution.connect.CONNECT_TIMEOUT", 0.3)
    monkeypatch.setattr("dkernel.leaves.jobs.follow.DEAD_AFTER", 0.0)
    words, code, answer = LINES[line]
    out = f"out {line}".replace(" ", "-")
    words = [out if word == "o" else word for word in words.split()]
    said = run_to(*words, code=code)
    assert answer in said.output
    assert "Traceback" not in said.output
    assert (begun / out).exists() == (code == 0 and words[0] == "score" and "nothing new" not in line)


def test_an_error_of_many_lines_is_one_of_a_list(run_to, tmp_path):
    (tmp_path / "m.run.json").write_text(json.dumps({"status": "failed", "exit_code": 65, "error": "DataError: a\n b"}))
    listed = run_to("watch", tmp_path).stdout.splitlines()
    assert len(listed) == 2
    assert listed[1].endswith("DataError: a")
