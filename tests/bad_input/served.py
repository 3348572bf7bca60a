"""Bad inputs: of models that are exported, updated, explained and described, and of rows that come as streams."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import dkernel
from dkernel import Grids, KernelClassifier, KernelRegressor
from tests.bad_input.data import NAMES, ROWS, SMALL, arrays, frame, write
from tests.bad_input.doors import Doors
from tests.bad_input.table import REFUSED, entries_of

bad = entries_of("in service")
GRIDS = {**SMALL, "local": Grids(n_grids=16)}


def _file(at: Doors, data: pd.DataFrame, suffix: str = ".parquet") -> str:
    return str(write(data, at.folder() / f"new{suffix}"))


def _model(at: Doors, machine, name: str = "local") -> str:
    dkernel.save(machine, at.place / name)
    return str(at.place / name)


def _grids(kind: type = KernelClassifier) -> Any:
    """A machine that keeps its grids, since few components do not learn such labels."""
    X = frame(rows=2000)[NAMES]
    y = np.sin(5 * X["a"]) * np.cos(4 * X["b"])
    made = kind(**GRIDS).fit(X, y if kind is KernelRegressor else np.where(y > 0, "in", "out"))
    assert made.model_.local is not None
    return made


@bad("new rows with a label that training had not", REFUSED, "by its name, with those that there are")
def new_class(at: Doors) -> None:
    rows = _file(at, frame(rows=300).assign(label="beside"))
    at.asked_refuses(65, ("'beside'",), "update", at.model, rows, "--out", "u")
    at.asked_refuses(65, ("'beside'",), "conformalize", at.model, rows, "--out", "u")
    X = frame(rows=90)[NAMES]
    at.refuses("'beside'", lambda: _grids().partial_fit(X, ["beside"] * 90, old=X))


@bad("too few new rows for a model without a local stage", REFUSED, "with the number that it needs")
def few_new_rows(at: Doors) -> None:
    at.asked_refuses(65, ("9 new rows", "256 rows"), "update", at.model, _file(at, frame(rows=9)), "--out", "u")


@bad("new rows for grids without old ones", REFUSED, "what old rows are for, and the option")
def no_old_rows(at: Doors) -> None:
    machine = _grids()
    words = ("--old",)
    at.asked_refuses(2, words, "update", _model(at, machine), _file(at, frame(rows=90)), "--out", "u")
    at.refuses("old", lambda: machine.partial_fit(frame(rows=90)[NAMES], frame(rows=90)["label"]))


@bad("new rows that are no numbers, or lack a column", REFUSED, "file, row and column are named")
def bad_new_rows(at: Doors) -> None:
    for command in ("update", "conformalize"):
        infinite = _file(at, frame().assign(b=np.inf), ".csv")
        at.asked_refuses(65, ("new.csv, row 1", "'b'"), command, at.model, infinite, "--out", "u")
        at.asked_refuses(65, ("'b'",), command, at.model, _file(at, frame().drop(columns="b")), "--out", "u")


@bad("no row to explain by, or rows of other columns", REFUSED, "which of the two tables it is")
def no_background(at: Doors) -> None:
    X, y = arrays(400)
    machine = KernelClassifier(**SMALL).fit(X, y)
    at.refuses("background has no rows", lambda: dkernel.explain(machine, X[:1], X[:0]))
    at.refuses("2 features", lambda: dkernel.explain(machine, X[:1, :2], X))
    at.refuses(
        "background, row 3", lambda: dkernel.explain(machine, X[:1], np.where(np.arange(400) == 3, np.inf, X.T).T)
    )


@bad("a model of texts to explain", REFUSED, "what is explained: numbers and tables")
def text_model(at: Doors) -> None:
    X = ["ab", "ba", "abc", "bac"] * 3
    machine = KernelClassifier(dkernel.SpectrumKernel(2), n_components=4).fit(X, [0, 1, 0, 1] * 3)
    at.refuses("columns of numbers", lambda: dkernel.explain(machine, X[:1], X))


@bad("rows without labels to measure columns by", REFUSED, "the label is named")
def no_label_of_importance(at: Doors) -> None:
    rows = _file(at, frame().drop(columns="label"))
    at.asked_refuses(65, ("'label'",), "evaluate", at.model, rows, "--importance")


@bad("a card, or an export, of what is no model", REFUSED, "the file is named; no page is written")
def no_model(at: Doors) -> None:
    rows = _file(at, frame())
    at.asked_refuses(65, ("new.parquet",), "show", rows, "--markdown", "--out", "c.md")
    at.asked_refuses(65, ("new.parquet",), "export", rows, "--out", "m.onnx")
    at.asked_refuses(65, ("nosuch",), "show", "nosuch", "--markdown", "--out", "c.md")


@bad("a kernel that ONNX has no operators for", REFUSED, "with those that it has")
def kernel_of_no_graph(at: Doors) -> None:
    X, y = arrays(300)
    machine = KernelClassifier("Matern(nu=0.9, length=2.0)", n_components=32).fit(X, y)
    model = _model(at, machine, "matern")
    at.asked_refuses(2, ("Matern", "Gaussian"), "export", model, "--out", "m.onnx")


@bad("a stream without the name of its label, or without rows", REFUSED, "what the call needs")
def streams(at: Doors) -> None:
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    at.refuses(
        "must be the name of a column", lambda: KernelClassifier(**SMALL).fit(table.to_reader(), frame()["label"])
    )
    at.refuses("'lable'", lambda: KernelClassifier(**SMALL).fit(table.to_reader(), "lable"))
    at.refuses("has no rows", lambda: KernelClassifier(**SMALL).fit(table[:0].to_reader(), "label"))


@bad("a folder with the log of a table that its package cannot read", REFUSED, "the table is named")
def broken_table(at: Doors) -> None:
    folder = at.folder() / "t"
    for name in ("_delta_log/00000000000000000000.json", "part.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}")
    at.asked_refuses(65, ("/t", "table"), "train", folder, "--label", "label", "--out", "m2")


@bad("groups for a model that knows none, or for no interval", REFUSED, "the command that brings them")
def no_groups(at: Doors) -> None:
    rows = _file(at, frame()[NAMES].assign(site="s1"))
    words = ("conformalize MODEL DATA --group COL",)
    at.asked_refuses(2, words, "score", at.model, rows, "--write", "set", "--group", "site", "--out", "s.csv")
    words = ("group is of intervals and sets",)
    at.asked_refuses(2, words, "score", at.model, rows, "--group", "site", "--out", "s.csv")


@bad("rows of a group, or of none, that the conformity scores lack", REFUSED, "with the groups there are")
def unknown_group(at: Doors) -> None:
    known, grouped = _file(at, frame().assign(site=np.arange(ROWS) % 2)), at.place / "grouped"
    done = at.run("conformalize", at.model, known, "--group", "site", "--out", grouped, "--quiet")
    assert done.exit_code == 0, done.output
    for site, words in (("9", ("'9'", "'0', '1'")), (None, ("'site'", "missing value"))):
        rows = _file(at, frame()[NAMES].assign(site=site), ".csv")
        command = ("score", grouped, rows, "--write", "set", "--group", "site", "--out", "s.csv")
        at.asked_refuses(65, words, *command)
    holes = _file(at, frame().assign(site=pd.Categorical(["a", None] * (ROWS // 2))))
    at.asked_refuses(65, ("'site'",), "conformalize", at.model, holes, "--group", "site", "--out", "u")


@bad("an interval of classes, a set of numbers, a deviation of a local stage", REFUSED, "what to ask for")
def other_uncertainty(at: Doors) -> None:
    rows = _file(at, frame()[NAMES])
    at.asked_refuses(2, ("Write set",), "score", at.model, rows, "--write", "interval", "--out", "s.csv")
    at.asked_refuses(2, ("solver='normal'",), "score", at.model, rows, "--write", "std", "--out", "s.csv")
    model, data = _model(at, _grids(KernelRegressor)), frame()
    at.asked_refuses(2, ("interval",), "score", model, rows, "--write", "set", "--out", "s.csv")
    at.asked_refuses(2, ("interval",), "score", model, rows, "--write", "std", "--out", "s.csv")
    none = KernelRegressor(**SMALL, holdout=0).fit(data[NAMES], data["a"])
    at.refuses("conformalize", lambda: none.predict_interval(data[NAMES]))
