"""User, password and signature of a URL are in no file that a command writes and in no word that it says."""

import json
import shutil
from pathlib import Path

import fsspec
import pytest

from dkernel.cli import main
from dkernel.data.paths import expand
from dkernel.errors import DataError, mask_urls
from dkernel.leaves.jobs.driver import ClusterJob
from tests.cli.conftest import FEATURES
from tests.web import serve

SECRETS = ("hunter2", "alice", "5ec4e7")
SIGNED = "?X-Amz-Signature=5ec4e7&X-Amz-Expires=900&name=.{}"
IN_MEMORY = "memory://alice:hunter2@bucket"


@pytest.fixture
def site(here, data, model):
    """A site of a working folder, which asks nobody who he is: its address with user and password."""
    for name in ("train", "test", "new"):
        shutil.copy(data / f"{name}.parquet", here)
    shutil.copy(model, "m")
    Path("empty.parquet").touch()

    with serve(here) as place:
        yield f"http://alice:hunter2@{place}"


FIT = " ".join(["--label y", *FEATURES, "--baselines off"])
AWAY = "--label y --exclude price,id,note --n-components 16"
COMMANDS = {  # the exit code and the words of a command
    "train": (0, f"train {{site}}/train.parquet{SIGNED.format('parquet')} {FIT} --report r.html --out n"),
    "verbose": (0, f"train {{site}}/train.parquet {FIT} -v --checkpoint c --out n --debug"),
    "json": (0, f"train {{site}}/train.parquet {FIT} --json --progress json --out n"),
    "plan": (0, f"train {{site}}/train.parquet {FIT} --dry-run"),
    "away": (0, f"train train.parquet {FIT} --out {{memory}}/n --checkpoint {{memory}}/c --resume"),
    "tune": (0, f"tune {{site}}/train.parquet {AWAY} --budget 0.5passes --out n"),
    "judges": (65, f"train {{site}}/train.parquet {FIT} --eval-set {{site}}/train.parquet?Signature=5ec4e7 --out n"),
    "twice": (0, f"train {{site}}/train.parquet {{site}}/train.parquet {FIT} --out n"),
    "none": (65, f"train {{site}}/none.parquet {FIT} --out n --debug"),
    "glob": (65, f"train {{memory}}/*.parquet {FIT} --out n"),
    "column": (65, "train {site}/train.parquet --label z --out n --json"),
    "no host": (75, f"train http://alice:hunter2@127.0.0.1:1/x.csv?t=5ec4e7 {FIT} --out n"),
    "no system": (2, f"train train.parquet {FIT} --out nonsense://alice:hunter2@b/m?t=5ec4e7"),
    "no place": (75, f"train train.parquet {FIT} --out http://alice:hunter2@127.0.0.1:1/m --debug"),
    "no path": (2, f"train train.parquet {FIT} --scratch s3://alice:hunter2@b/s --out n"),
    "no option": (2, "show m {site}/m"),
    "no command": (2, "{site}/m"),
    "score": (0, "score m {site}/new.parquet {site}/empty.parquet --max-bad-files 1 --done done.json --out s"),
    "score away": (0, "score {memory}/m {site}/new.parquet --done {memory}/done.json --out {memory}/s.csv --json"),
    "score bad": (65, "score m {site}/empty.parquet {site}/m.parquet --max-bad-files 1 --out s"),
    "evaluate": (0, "evaluate {memory}/m {site}/test.parquet --report r.html --record r.json --exclude price,id,note"),
    "no page": (0, "evaluate m {site}/test.parquet --report {memory}/r.html --allow-extra"),
    "update": (65, "update {memory}/m {site}/new.parquet --label y --out n"),
    "conformalize": (0, "conformalize {memory}/m {site}/test.parquet --out {memory}/n --allow-extra"),
    "export": (0, "export {memory}/m --out {memory}/m.onnx"),
    "show": (0, "show {memory}/m"),
    "card": (0, "show {memory}/m --markdown --out card.md"),
    "watch of a folder": (0, "watch {memory}"),
    "watch": (65, "watch {memory}/none"),
    "cancel": (65, "cancel {memory}/none"),
    "doctor": (0, f"doctor {{site}}/none.parquet {FIT} --out {{memory}}/m --checkpoint {{memory}}/c --json"),
}


def written(folder):
    """The bytes of all files of a folder, and of those in memory."""
    system = fsspec.filesystem("memory")
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return found | {path: system.cat_file(path) for path in system.find("/")}


@pytest.mark.filterwarnings("default::dkernel.errors.DKernelWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_secret_of_a_url_is_written_or_said(name, site, run_to, tmp_path, monkeypatch):
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pipe_file(f"{IN_MEMORY}/m", Path("m").read_bytes())
    system.pipe_file(f"{IN_MEMORY}/m.run.json", b'{"status": "done"}')
    code, words = COMMANDS[name]
    words = words.format(site=site, memory=IN_MEMORY).split()
    monkeypatch.setattr("sys.argv", ["dkernel", *words])
    monkeypatch.setattr("dkernel.leaves.jobs.follow.DEAD_AFTER", 0.0)
    done = run_to(*words, code=code)
    texts = written(tmp_path) | {"what it says": done.output.encode()}
    assert [(where, secret) for where, text in texts.items() for secret in SECRETS if secret.encode() in text] == []


def test_every_command_is_among_them():
    assert {words.split()[0] for _, words in COMMANDS.values()} >= set(main.list_commands(None))


def test_a_file_is_done_whoever_reads_it_and_by_whatever_signature(site, run_to):
    read = ["score", "m", "--done", "done.json", "--out", "s", "--overwrite"]
    for night, query in enumerate(("", "?X-Amz-Signature=1", "?X-Amz-Signature=2&X-Amz-Date=3")):
        address = (
            site if night % 2 else site.replace("alice:hunter2", "bob:pw")
        ) + f"/new.parquet{query and query + '&x=.parquet'}"
        said = run_to(*read, address).stdout
        assert ("No file is new" in said) == (night == 2), said
    assert len(json.loads(Path("done.json").read_text())["files"]) == 2


def test_a_log_of_dask_that_shows_a_task_shows_no_secret(site):
    assert "hunter2" not in repr(expand(f"{site}/new.parquet")) + repr(ClusterJob("r", f"data = '{site}'", ""))


KEPT = ["https://host:80/a@b/c.csv", "abfs://box@account.dfs.core.windows.net/x", "github://org:repo@main/x", "x.csv"]
KEPT += ["s3://b/part?.parquet", "s3://b/x?/day=1", "tcp://host:8786 by a@b", "hf://datasets/a/b@main/x.parquet"]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text):
    assert mask_urls(text) == text


TEXTS = {
    "see http://alice:hunter2@h/x: gone": "see http://***@h/x: gone",
    "zip://a.csv::https://al@h/x.zip?sig=1&se=2": "zip://a.csv::https://***@h/x.zip?***",
    "sftp://alice@h/x": "sftp://***@h/x",
    "http://alice:hun/ter@2@h/x": "http://***@h/x",
    "('https://h/x?Signature=1&Expires=2')": "('https://h/x?***')",
}


@pytest.mark.parametrize("text", TEXTS)
def test_secrets_go_wherever_a_url_stands(text):
    assert mask_urls(text) == TEXTS[text] == mask_urls(TEXTS[text]) == str(DataError(text))


def test_other_queries_are_other_files():
    names = {mask_urls(f"https://h/get?{query}") for query in ("id=1", "id=2", "id=1&sig=3&se=4", "id=1&sig=5")}
    assert len(names) == 2
