"""No key, password or signature of an address is said, whatever a library of a store repeats of it in its errors.

Neither by a command, on stdout or stderr, nor in Python by a message, a repr, or a traceback with its causes.
"""

import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.errors import DKernelError
from tests.combinations import every_two
from tests.leaky import KINDS, READS, SECRET, WRITES, LeakyFileSystem
from tests.web import serve

USER, QUERY, KEY = f"leaky://alice:{SECRET}@bucket", f"?X-Amz-Signature={SECRET}", f"s3://AKIA:{SECRET}@bucket"
ADDRESSES = {"user": f"{USER}/{{}}", "query": f"leaky://bucket/{{}}{QUERY}", "key": f"{KEY}/{{}}"}
ROWS = pd.DataFrame({"a": np.arange(40) % 7.0, "b": np.arange(40) % 5.0, "y": np.arange(40) % 2})
LITTLE = {"kernel": "gaussian", "gamma": 1.0, "n_components": 8, "local": "none"}
PLACES = {"reads": READS, "writes": WRITES}


@pytest.fixture
def store():
    """The leaky store, empty and without failures, which begin when the test says so."""
    LeakyFileSystem.store.clear()
    LeakyFileSystem.fails = set()
    yield LeakyFileSystem()
    LeakyFileSystem.fails = set()


@pytest.fixture
def machine():
    return dkernel.KernelClassifier(**LITTLE).fit(ROWS[["a", "b"]], ROWS.y)


@pytest.fixture
def filled(store, machine, tmp_path, monkeypatch):
    """Where an address is, by its kind: a table, a model and a run record that can be read before anything fails."""
    monkeypatch.chdir(tmp_path)
    ROWS.to_parquet("x.parquet")
    ROWS.to_csv("x.csv", index=False)
    dkernel.save(machine, "m.st")
    for name in ("x.parquet", "x.csv", "m.st"):
        for place in (ADDRESSES["user"], ADDRESSES["query"]):
            store.pipe_file(place.format(name), Path(name).read_bytes())
    return store


def fit_of_source(address):
    source = dkernel.open_source(address("x.parquet"), label="y")
    LeakyFileSystem.fails = {"open", "_open", "info"}
    dkernel.KernelClassifier(**LITTLE).fit(source)


def fit_with_checkpoint(address):
    big = pd.concat([ROWS] * 10)
    dkernel.KernelClassifier(**LITTLE, solver="psgd", checkpoint=address("c")).fit(big[["a", "b"]], big.y)


CALLS = {
    "load": lambda address: dkernel.load(address("m.st")),
    "save": lambda address: dkernel.save(dkernel.load("m.st"), address("n.st")),
    "score of rows": lambda address: dkernel.score(dkernel.load("m.st"), address("x.parquet"), "s.parquet"),
    "score to a place": lambda address: dkernel.score(dkernel.load("m.st"), "x.parquet", address("s.parquet")),
    "score to a folder": lambda address: dkernel.score(dkernel.load("m.st"), "x.parquet", address("s")),
    "open_source": lambda address: dkernel.open_source(address("x.csv"), label="y"),
    "a glob": lambda address: dkernel.open_source(address("*.csv"), label="y"),
    "a folder": lambda address: dkernel.open_source(address(""), label="y"),
    "fit of a source": fit_of_source,
    "a checkpoint": fit_with_checkpoint,
}


def said(error):
    """All that Python prints of an error, and all that it holds."""
    return f"{''.join(traceback.format_exception(error))} {error!r} {error} {vars(error) if error else None}"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("call", "place", "fails", "kind"), every_two(list(CALLS), list(ADDRESSES), list(PLACES), list(KINDS))
)
def test_no_call_says_a_secret(call, place, fails, kind, monkeypatch):
    monkeypatch.setattr(LeakyFileSystem, "kind", kind)
    LeakyFileSystem.fails = set() if call == "fit of a source" else set(PLACES[fails])
    caught = None
    try:
        CALLS[call](ADDRESSES[place].format)
    except Exception as error:
        caught = error
    assert SECRET not in said(caught)
    assert isinstance(caught, DKernelError if place == "key" else (DKernelError, type(None)))


FIT = "--label y --kernel gaussian --gamma 1 --n-components 8 --local none --baselines off --overwrite"
COMMANDS = {
    "train": f"train {{x.parquet}} {FIT} --out n.st",
    "train to a place": f"train x.parquet {FIT} --out {{n.st}} --checkpoint {{c}} --report {{r.html}} --debug",
    "train by rows of a place": f"train x.parquet {FIT} --eval-set {{x.parquet}} --out n.st --debug",
    "score": "score m.st {x.parquet} --out s.parquet --debug",
    "score with a model of a place": "score {m.st} x.parquet --out s.parquet --json",
    "score to a place": "score m.st x.parquet --out {s} --done {done.json} --record {r.json}",
    "evaluate": "evaluate {m.st} x.parquet --json",
    "evaluate rows": "evaluate m.st {x.parquet} --report {r.html}",
    "show": "show {m.st}",
    "show to a place": "show m.st --markdown --out {card.md}",
    "watch": "watch {m.st}",
    "watch of a folder": "watch {}",
    "cancel": "cancel {m.st}",
    "doctor": "doctor {x.parquet} --scratch {c} --json",
    "update": "update {m.st} x.parquet --label y --out n.st",
    "update to a place": "update m.st {x.parquet} --label y --out {n.st} --debug",
    "conformalize": "conformalize m.st x.parquet --out {n.st}",
    "export": "export {m.st} --out {m.onnx}",
    "export to a place": "export m.st --out {m.onnx} --debug",
    "tune": "tune x.parquet --label y --n-components 8 --budget 0.5passes --out {n.st} --checkpoint {c}",
}


@pytest.mark.filterwarnings("default::dkernel.errors.DKernelWarning")
@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(("command", "place", "fails"), every_two(list(COMMANDS), list(ADDRESSES), list(PLACES)))
def test_no_command_says_a_secret(command, place, fails, run, monkeypatch):
    LeakyFileSystem.fails = set(PLACES[fails])
    words = [
        ADDRESSES[place].format(word[1:-1]) if word.startswith("{") else word for word in COMMANDS[command].split()
    ]
    monkeypatch.setattr("sys.argv", ["dkernel", *words])
    monkeypatch.setattr("dkernel.leaves.jobs.follow.DEAD_AFTER", 0.0)
    done = run(*words)
    assert SECRET not in done.output
    assert "should not happen" not in done.output
    assert place != "key" or done.exit_code != 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("call", ["load", "save", "score of rows", "score to a place", "open_source"])
def test_no_call_says_the_signature_of_a_web_server(call, tmp_path):
    with serve(tmp_path) as site, pytest.raises(DKernelError) as caught:
        CALLS[call](lambda name: f"http://alice:{SECRET}@{site}/none/{name}{QUERY}")
    assert SECRET not in said(caught.value)
