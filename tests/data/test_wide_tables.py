"""The work of a table grows with the number of its columns, not with its square: lines run and names compared."""

import sys
import threading

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import KernelRegressor, open_source
from dkernel.data.column_selection import select_columns
from dkernel.data.encoded_columns import encoded_kinds
from dkernel.data.file_schema import FileSchema, ReadOptions
from dkernel.data.paths import File
from dkernel.data.readers.csv_fields import read_types

ROWS, NARROW, TIMES = 40, 150, 4
MOST = 1.5 * TIMES  # a square is sixteen times the work


def lines_of(action):
    """The lines of dkernel that an action runs, in all threads, rounds of comprehensions too."""
    n = 0

    def trace(frame, event, _):
        nonlocal n
        n += event == "line"
        return trace if "/dkernel/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
        threading.settrace(before)
    return n


def write(folder, p):
    """A file of each kind of p columns with holes and a label, two of them without a name, and a model of them."""
    X = np.random.default_rng(0).normal(size=(ROWS, p))
    X[3] = np.nan
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(p)]).assign(y=np.arange(ROWS) * 1.0)
    frame.to_parquet(folder / "a.parquet")
    frame.to_csv(folder / "a.csv")
    machine = KernelRegressor("gaussian", gamma=1 / p, n_components=8, alpha=1e-3, local="none", solver="psgd")
    return machine, frame.drop(columns="y"), frame["y"]


def actions(folder, p):
    machine, X, y = write(folder, p)
    names = [str(folder / name) for name in ("a.parquet", "a.csv")]
    for name in names:
        yield f"open {name[-3:]}", lambda name=name: open_source(name, label="y")
        yield (
            f"keep all {name[-3:]}",
            lambda name=name: open_source(name, keep="all", columns=list(X), allow_extra=True),
        )
        rows = open_source(name, label="y", holes=True)
        yield f"read {name[-3:]}", lambda rows=rows: [unit.task.compute(scheduler="sync") for unit in rows.units]
        bad = open_source(name, label="y", holes=True, max_bad_rows=3)
        yield f"bad rows {name[-3:]}", lambda bad=bad: [unit.task.compute(scheduler="sync") for unit in bad.units]
        yield f"fit {name[-3:]}", lambda rows=rows: machine.fit(rows)
    yield "categories", lambda: open_source(names[0], label="y", categorical=list(X)[::9])
    yield "fit", lambda: machine.fit(X, y)
    yield "predict", lambda: machine.predict(X)
    yield "save and load", lambda: (dkernel.save(machine, folder / "m"), dkernel.load(folder / "m"))
    for name in names:
        yield (
            f"score {name[-3:]}",
            lambda name=name: dkernel.score(
                machine, name, folder / "o", keep="all", overwrite=True, exclude=["y"], allow_extra=True
            ),
        )


@pytest.mark.filterwarnings("ignore")
def test_lines_grow_with_the_columns(tmp_path):
    counts = []
    for p in (NARROW, TIMES * NARROW):
        (tmp_path / str(p)).mkdir()
        counts.append({name: lines_of(action) for name, action in actions(tmp_path / str(p), p)})
    assert [name for name, n in counts[1].items() if n > MOST * counts[0][name]] == []


class Name(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def comparisons(p, inferred):
    names = [Name(f"c{i}") for i in range(p)]
    kinds = {Name(name): "text" if i % 3 else "int" for i, name in enumerate(names)}
    file = File("a.csv", 1, "", "csv", name="a.csv")
    tables = [FileSchema(file, dict(kinds), 9, inferred=inferred) for _ in range(2)]
    tables[1].kinds[names[0]] = "float"
    half = tuple(map(Name, names[: p // 2]))
    Name.compared = 0
    for request in (
        ReadOptions(label=names[-1], keep=half, categorical="auto"),
        ReadOptions(columns=half, keep=tuple(map(Name, names[p // 2 :])), categorical=half, known=half),
        ReadOptions(columns=half, exclude=tuple(map(Name, names[p // 2 :])), categorical=half),
    ):
        wanted = select_columns(tables, request)
        read_types(wanted)
        encoded_kinds(wanted.features, [kinds], frozenset(), request, "a.csv")
    return Name.compared


@pytest.mark.parametrize("inferred", [True, False])
def test_comparisons_of_names_grow_with_the_columns(inferred):
    assert comparisons(TIMES * NARROW, inferred) <= MOST * comparisons(NARROW, inferred)
