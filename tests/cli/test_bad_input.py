"""Every bad input of the first issue through the commands: exit 65, file, row and column named, nothing left behind."""

import gzip
import itertools
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel import KernelClassifier
from dkernel.data import from_arrays
from dkernel.errors import DataError

ROWS = 300
QUICK = ["--label", "label", "--n-components", "32", "--gamma", "0.3", "--alpha", "1e-4", "--scale", "standard"]
SMALL = {"n_components": 32, "gamma": 0.3, "alpha": 1e-4, "scale": "standard"}


def frame(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Three features, and whether a row is in a ball, as text."""
    X = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.where((X**2).sum(axis=1) < 2.4, "in", "out"))


def write(data: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        # Arrays keep NaN apart from missing values, which pandas does not.
        pq.write_table(
            pa.table({name: pa.array(data[name].to_numpy(), from_pandas=name == "label") for name in data}), path
        )
    elif path.suffix == ".npy":
        np.save(path, data.assign(label=data["label"] == "in").to_numpy(np.float32))
    else:
        data.to_csv(path, index=False)
    return path


def parts(folder: Path, suffix: str, spoil: Callable[[list[pd.DataFrame]], object]) -> list[str]:
    """Three files, so three chunks, of which `spoil` has changed some."""
    frames = [frame(seed) for seed in range(3)]
    spoil(frames)
    for i, data in enumerate(frames):
        write(data, folder / f"part-{i}{suffix}")
    return [str(folder), *(["--task", "classify", "--label", "-1"] if suffix == ".npy" else [])]


def one(data: pd.DataFrame, folder: Path, suffix: str = ".parquet") -> list[str]:
    return [str(write(data, folder / f"x{suffix}"))]


def wrong_value(value: float, part: int, row: int, column: str = "b") -> Callable[[list[pd.DataFrame]], None]:
    def spoil(frames: list[pd.DataFrame]) -> None:
        frames[part].loc[row, column] = value

    return spoil


def cut(name: str, least: int) -> Callable[[Path], list[str]]:
    """A file without its last `least` bytes."""

    def make(folder: Path) -> list[str]:
        path = folder / name
        whole = path.with_suffix("") if name.endswith(".gz") else path
        write(frame(), whole)
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(whole.read_bytes()))
            whole.unlink()
        path.write_bytes(path.read_bytes()[:-least])
        return [str(path), *(["--task", "classify", "--label", "3"] if name.endswith(".npy") else [])]

    return make


def empty(name: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / name).touch()
        return [str(folder / name)]

    return make


@dataclass(frozen=True)
class Case:
    """How to make the data, what the message must hold."""

    name: str
    make: Callable[[Path], list[str]]
    words: tuple[str, ...]


CASES = [
    *(
        Case(
            f"{value} in the {where} chunk of {suffix}",
            lambda folder, s=suffix, v=value, p=part, r=row: parts(folder, s, wrong_value(v, p, r)),
            (f"part-{part}{suffix}, row {row + 1}, column '{1 if suffix == '.npy' else 'b'}': the value",),
        )
        for suffix in (".parquet", ".csv", ".npy")
        for value in (np.nan, np.inf, -np.inf)
        for where, part, row in (("first", 0, 0), ("last", 2, ROWS - 1))
    ),
    Case(
        "a row without a label",
        lambda folder: parts(folder, ".parquet", lambda f: f[2].loc.__setitem__((7, "label"), None)),
        ("part-2.parquet, row 8, column 'label': the value is missing",),
    ),
    Case(
        "a label column that is not there",
        lambda folder: one(frame().drop(columns="label"), folder),
        ("x.parquet has no column 'label'", "There are: 'a', 'b', 'c'"),
    ),
    Case(
        "a misspelled label column",
        lambda folder: [*one(frame(), folder), "--label", "lable"],
        ("x.parquet has no column 'lable'", "Did you mean 'label'?"),
    ),
    Case(
        "a misspelled column to exclude",
        lambda folder: [*one(frame(), folder), "--exclude", "bb"],
        ("x.parquet has no column 'bb'",),
    ),
    Case(
        "a misspelled weight", lambda folder: [*one(frame(), folder), "--weight", "w"], ("x.parquet has no column 'w'",)
    ),
    Case(
        "a negative weight",
        lambda folder: [*one(frame().assign(w=-1.0), folder), "--weight", "w"],
        ("x.parquet, row 1, column 'w'", "-1.0"),
    ),
    Case(
        "one class only",
        lambda folder: one(frame().assign(label="in"), folder),
        ("'label'", "the one value 'in' in all 300 rows", "two classes"),
    ),
    Case(
        "a positive class that no row has",
        lambda folder: [*one(frame(), folder), "--positive", "on"],
        ("No row has the label 'on'", "in, out"),
    ),
    Case(
        "one number only to regress on",
        lambda folder: one(frame().assign(label=1.5), folder),
        ("'label'", "one value in all rows"),
    ),
    Case(
        "text as a regression's label",
        lambda folder: [*one(frame(), folder), "--task", "regress"],
        ("label holds text",),
    ),
    *(
        Case(f"an empty {name}", empty(name), (f"{name}: the file is empty",))
        for name in ("a.parquet", "a.csv", "a.csv.gz", "a.npy", "a.npz", "a.h5", "a.svm")
    ),
    *(
        Case(f"no rows in {suffix}", lambda folder, s=suffix: one(frame(rows=0), folder, s), (f"x{suffix}", "no rows"))
        for suffix in (".parquet", ".csv")
    ),
    Case(
        "a column of text among the features",
        lambda folder: one(frame().assign(name="n"), folder),
        ("x.parquet: column 'name' holds text", "--exclude name"),
    ),
    Case(
        "text in one number of a CSV",
        lambda folder: one(
            frame().astype({"b": object}).assign(b=lambda f: f["b"].where(f.index != 9, "?")), folder, ".csv"
        ),
        ("x.csv, row 10, column 'b': '?'",),
    ),
    *(
        Case(f"{name} without its last {n} bytes", cut(name, n), (name,))
        for name in ("x.parquet", "x.npy", "x.csv.gz")
        for n in (1, 9, 500)
    ),
    Case(
        "a file with other columns than the first",
        lambda folder: parts(folder, ".parquet", lambda f: f.__setitem__(1, f[1].rename(columns={"b": "bb"}))),
        ("part-1.parquet lacks 'b' and has 'bb' besides", "part-0.parquet"),
    ),
    Case("a file that is not there", lambda folder: [str(folder / "none.csv")], ("none.csv",)),
    Case("a folder with nothing in it", lambda folder: [str(folder)], ("in",)),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Folders for the input, for the output (where the command runs) and for scratch."""
    for name in ("in", "out", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "out")
    return tmp_path


def refused(result, words):
    """It ended as bad data do."""
    assert result.exit_code == 65, result.output
    assert "Traceback" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("dkernel ")
    for word in words:
        assert word in last
    assert result.stdout == ""


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_training_refuses_and_leaves_nothing(case, place, run):
    arguments = case.make(place / "in")
    before = left(place / "in")
    result = run("train", *QUICK, *arguments, "--out", "m", "--scratch", place / "scratch", "--progress", "none")
    refused(result, case.words)
    assert left(place / "out") == []
    assert left(place / "in") == before
    assert not [name for name in left(place / "scratch") if not name.endswith(".csv")]


def test_bad_data_leave_the_older_model_and_its_record(place, run):
    (path,) = one(frame(), place / "in")
    run("train", path, *QUICK, "--out", "m", "--quiet")
    old = {path.name: path.read_bytes() for path in (place / "out").iterdir()}
    assert sorted(old) == ["m", "m.run.json"]
    one(frame().assign(label="in"), place / "in")
    refused(run("train", path, *QUICK, "--out", "m", "--quiet"), ["one value 'in'"])
    assert {path.name: path.read_bytes() for path in (place / "out").iterdir()} == old


def trained(run, *arguments) -> dkernel.model.Model:
    result = run("train", *QUICK, *arguments, "--out", "m", "--quiet")
    assert result.exit_code == 0, result.output
    return dkernel.load("m")


def test_fewer_rows_than_landmarks_uses_all_that_nothing_is_judged_by(place, run):
    path = write(frame(rows=60), place / "in" / "x.csv")
    result = run("train", path, *QUICK, "--n-components", "1500", "--out", "m")
    assert result.exit_code == 0, result.output
    model = dkernel.load("m")
    assert 48 <= model.map.n_columns < 60
    for text in (result.stdout, result.stderr):
        assert f"{model.map.n_columns}: all rows but those kept to judge by; 1,500 were asked for" in text


def test_chunks_without_rows_anywhere(place, run):
    frames = [frame(rows=0), frame(0), frame(rows=0), frame(1), frame(rows=0)]
    for i, data in enumerate(frames):
        write(data, place / "in" / f"{i}.parquet")
    with_empty = trained(run, place / "in")
    for i in (0, 2, 4):
        (place / "in" / f"{i}.parquet").unlink()
    without = trained(run, place / "in")
    assert with_empty.facts["rows"] == 600
    np.testing.assert_array_equal(with_empty.coef, without.coef)


def test_row_groups_without_rows(place, run):
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    with pq.ParquetWriter(place / "in" / "x.parquet", table.schema) as writer:
        for part in (table[:0], table[:100], table[:0], table[100:], table[:0]):
            writer.write_table(part)
    assert trained(run, place / "in").facts["rows"] == ROWS


@pytest.mark.parametrize("scale", ["auto", "standard", "minmax", "global", "none"])
def test_constant_columns_do_no_harm(place, run, scale):
    (path,) = one(frame().assign(zero=0.0, high=1e6 if scale == "standard" else 3.0), place / "in")
    assert len(trained(run, path, "--scale", scale, "--n-components", "100").columns) == 5
    result = run("evaluate", "m", path, "--json", "--progress", "none")
    assert json.loads(result.stdout)["accuracy"] > 0.85


def test_columns_in_another_order_score_the_same(place, run):
    (path,) = one(frame(), place / "in")
    trained(run, path)
    other = write(frame()[["c", "label", "a", "b"]], place / "in" / "other.csv")
    for name, data in (("one", path), ("two", other)):
        assert run("score", "m", data, "--out", f"{name}.parquet", "--quiet").exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet("one.parquet"), pd.read_parquet("two.parquet"))


SCORED = [
    Case(
        "columns that are missing",
        lambda folder: one(frame()[["b", "label"]], folder),
        ("x.parquet lacks the columns 'a', 'c' that the model needs",),
    ),
    Case(
        "columns that are unknown",
        lambda folder: one(frame().assign(d=1.0, e=2.0), folder),
        ("x.parquet has the columns 'd', 'e' that the model does not know",),
    ),
    Case(
        "a column of another name",
        lambda folder: one(frame().rename(columns={"b": "B"}), folder),
        ("x.parquet lacks the columns 'b'",),
    ),
    Case("a feature that is text", lambda folder: one(frame().assign(b="1"), folder), ("x.parquet: column 'b'",)),
    *(
        Case(
            f"{value} in the {where} chunk",
            lambda folder, v=value, p=part, r=row: parts(folder, ".parquet", wrong_value(v, p, r)),
            (f"part-{part}.parquet, row {row + 1}, column 'b'",),
        )
        for value in (np.nan, np.inf)
        for where, part, row in (("first", 0, 0), ("last", 2, ROWS - 1))
    ),
    *(Case(f"{name} without its last bytes", cut(name, 9), (name,)) for name in ("x.parquet", "x.csv.gz")),
    *(Case(f"an empty {name}", empty(name), (f"{name}: the file is empty",)) for name in ("a.parquet", "a.csv")),
    Case("no rows", lambda folder: one(frame(rows=0), folder, ".csv"), ("x.csv", "no rows")),
]


@pytest.mark.parametrize("out", ["scores.parquet", "scores.csv", "scores"])
@pytest.mark.parametrize("case", SCORED, ids=lambda case: case.name)
def test_scoring_refuses_and_leaves_nothing(case, out, place, run, quick_model):
    arguments = case.make(place / "in")
    scratch = ["--scratch", place / "scratch", "--progress", "none"]
    refused(run("score", quick_model, *arguments, "--out", out, *scratch), case.words)
    assert left(place / "out") == []
    if out == "scores":
        refused(run("evaluate", quick_model, *arguments, *scratch), case.words)
    assert left(place / "out") == []


@pytest.fixture(scope="session")
def quick_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("quick") / "m"
    data = frame()
    dkernel.save(KernelClassifier(**SMALL).fit(data[["a", "b", "c"]], data["label"]), path)
    return path


def test_a_label_never_seen_is_named_when_it_is_measured_and_passed_over_when_it_is_not(place, run, quick_model):
    data = frame(9)
    data.loc[41, "label"] = "inn"
    (path,) = one(data, place / "in")
    measured = run("evaluate", quick_model, path, "--progress", "none")
    refused(measured, ["x.parquet, row 42", "label 'inn'", "in, out", "Did you mean 'in'?"])
    assert run("score", quick_model, path, "--out", "s.csv", "--quiet").exit_code == 0
    assert set(pd.read_csv("s.csv")["label"]) == {"in", "out"}
    numbers = write(data.assign(label=1), place / "in" / "numbers.parquet")
    refused(run("evaluate", quick_model, numbers, "--progress", "none"), ["numbers.parquet, row 1", "text: in, out"])


def arrays(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    data = frame(rows=rows)
    return data[["a", "b", "c"]].to_numpy(copy=True), (data["label"] == "in").to_numpy()


@pytest.mark.parametrize("wrap", [np.asarray, lambda a: da.from_array(a, chunks=(100, -1)[: a.ndim])])
def test_x_and_y_of_other_lengths(wrap):
    X, y = arrays()
    with pytest.raises(DataError, match="X has 400 rows, but y has 399"):
        KernelClassifier(**SMALL).fit(wrap(X), wrap(y[:-1]))
    with pytest.raises(DataError, match=r"X has 400 rows, but weight has 401|sample_weight\.shape"):
        KernelClassifier(**SMALL).fit(wrap(X), wrap(y), sample_weight=wrap(np.ones(401)))


def regular() -> np.ndarray:
    X, y = arrays()
    return KernelClassifier(**SMALL).fit(da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)).coef_


@pytest.mark.parametrize(
    ("x_chunks", "y_chunks", "said"),
    [((100, 2), 100, "X has 2 blocks of columns: rechunking"), ((100, -1), 130, "y has other chunks than X")],
)
def test_other_chunks_are_rechunked_and_said(x_chunks, y_chunks, said, caplog):
    X, y = arrays()
    with caplog.at_level(logging.INFO, "dkernel"):
        found = KernelClassifier(**SMALL).fit(da.from_array(X, chunks=x_chunks), da.from_array(y, chunks=y_chunks))
    assert said in caplog.text
    np.testing.assert_array_equal(found.coef_, regular())


def test_unknown_chunks_are_computed_once(caplog):
    X, y = arrays()
    mask = da.ones(400, chunks=100, dtype=bool)
    with caplog.at_level(logging.INFO, "dkernel"):
        found = KernelClassifier(**SMALL).fit(
            da.from_array(X, chunks=(100, -1))[mask], da.from_array(y, chunks=100)[mask]
        )
    assert [record.message for record in caplog.records].count("Chunk sizes are unknown: computing them once.") == 1
    np.testing.assert_array_equal(found.coef_, regular())


@pytest.mark.parametrize("row", [0, 399])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_values_in_chunks_of_an_array(row, value):
    X, y = arrays()
    X[row, 2] = value
    with pytest.raises(DataError, match=rf"row {row}, column '2': the value {value} is not finite"):
        KernelClassifier(**SMALL).fit(da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100))


def test_empty_chunks_of_an_array_change_nothing():
    X, y = arrays()
    edges = (0, 0, 100, 200, 200, 300, 400, 400)
    pairs = list(itertools.pairwise(edges))
    lazy = [da.concatenate([da.from_array(v[a:b], chunks=-1) for a, b in pairs]) for v in (X, y)]
    assert from_arrays(*lazy).chunk_rows == (100,) * 4
    np.testing.assert_array_equal(KernelClassifier(**SMALL).fit(*lazy).coef_, regular())
