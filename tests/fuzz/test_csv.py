"""Random CSV files through `score --max-bad-rows`: rows in = rows out + rejects, as another reader sees them."""

import csv
import gzip
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dkernel
from dkernel import KernelRegressor
from dkernel.errors import DKernelError
from dkernel.model.model import Model
from tests.combinations import examples
from tests.data import brute_csv
from tests.fuzz import spellings
from tests.fuzz.commands import command

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the commands

GOOD = st.sampled_from(brute_csv.GOOD)
MORE = (GOOD | st.sampled_from(["3e38", "-3e38", "1e30", "1e19"]), GOOD | spellings.SPELLED)
FILE = st.permutations(brute_csv.NAMES).flatmap(lambda names: brute_csv.contents(names, MORE, (1, 1, 1, 100)))
KERNELS = ("linear", "Gaussian(gamma=0.01)", "Polynomial(degree=3)")


class Row(NamedTuple):
    """A row of a file as the other reader sees it; `bad` is "" of one that can be scored."""

    file: str
    line: int
    offset: int
    raw: str
    values: dict[str, str]
    bad: str

    @property
    def numbers(self) -> list[float]:
        return [float(self.values["b"]), float(self.values["a"])]


@cache
def make_model(kernel: str) -> Model:
    """A model of b and a, in this order, that answers every row with a number of its own."""
    X = np.random.default_rng(0).standard_normal((200, 2))
    machine = KernelRegressor(kernel, n_components=16, scale="none", metric="identity", alpha=1e-6, solver="psgd")
    return machine.fit(pd.DataFrame(X, columns=["b", "a"]), X @ [1.0, -2.0] + X[:, 0] ** 2).model_


@pytest.mark.usefixtures("batches")
@examples(15)
@given(
    files=st.lists(st.tuples(FILE, st.booleans()), min_size=1, max_size=3),
    kernel=st.sampled_from(KERNELS),
    room=st.sampled_from([0, 1, 1000, -1]),
    out=st.sampled_from(["out.csv", "out.parquet", "out"]),
    by_glob=st.booleans(),
)
def test_rows_in_are_rows_out_and_rejects(files, kernel, room, out, by_glob):
    model = make_model(kernel)
    with TemporaryDirectory() as name:
        folder = Path(name)
        dkernel.save(model, folder / "m")
        paths = [folder / (f"in-{i}.csv.gz" if packed else f"in-{i}.csv") for i, (_, packed) in enumerate(files)]
        for path, (data, packed) in zip(paths, files, strict=True):
            path.write_bytes(gzip.compress(data) if packed else data)
        rows = [row for path, (data, _) in zip(paths, files, strict=True) for row in read_rows(str(path), data, model)]
        good, bad = [row for row in rows if not row.bad], [row for row in rows if row.bad]
        allowed = max(0, len(bad) + room)
        found = command("score", folder / "m", *([folder / "in-*"] if by_glob else paths), "--out", folder / out,
                        "--keep", "id,text", "--write", "score", "--max-bad-rows", allowed, "--scratch", folder,
                        "--json", "--progress", "none")  # fmt: skip
        if not good or allowed < len(bad):
            assert found.code == 65, f"{len(good)} good rows, {len(bad)} bad, {allowed} allowed, and exit {found.code}"
            assert not (folder / out).exists(), "an output beside an error"
            return
        assert found.code == 0, f"{len(good)} good rows and refused: {found.message}"
        counts = {name: found.printed[name] for name in ("rows_in", "rows", "rejected")}
        assert counts == {"rows_in": len(rows), "rows": len(good), "rejected": len(bad)}
        _check_out(folder / out, good, model)
        _check_rejects(found.printed.get("rejects"), bad)


def read_rows(path: str, data: bytes, model: Model) -> list[Row]:
    names = data.removeprefix(b"\xef\xbb\xbf").decode().splitlines()[0].split(",")
    found = []
    for line, offset, raw, _, values in brute_csv.rows_of(data):
        row = Row(path, line, offset, raw, dict(zip(names, values, strict=False)), "")
        found.append(row._replace(bad=f"{len(values)} values" if len(values) != len(names) else _refuse(row, model)))
    return found


def _refuse(row: Row, model: Model) -> str:
    """Why a row cannot be scored, "" if it can."""
    if None in (spellings.value_of(row.values["a"]), spellings.value_of(row.values["b"])):
        return "no number"
    with np.errstate(all="ignore"), suppress(DKernelError):
        return "" if np.isfinite(model.scores(np.array([row.numbers]))).all() else "too large"
    return "too large"


def _check_out(out: Path, good: list[Row], model: Model) -> None:
    """The rows of a file or folder are the good ones, with the bits of their scores."""
    if out.suffix == ".csv":
        with open(out, newline="", encoding="utf-8") as stream:
            read = list(csv.DictReader(stream))
        found: dict[str, list[Any]] = {name: [line[name] for line in read] for name in ("id", "text", "score")}
    else:
        found = pq.read_table(out).to_pydict()
    assert found["id"] == [row.values["id"] for row in good]
    if all(isinstance(text, str | None) for text in found["text"]):
        assert [text or "" for text in found["text"]] == [row.values["text"] for row in good]
    expected = model.scores(np.array([row.numbers for row in good]))[:, 0]
    np.testing.assert_array_equal(np.array(found["score"], expected.dtype), expected)


def _check_rejects(listed: str | None, bad: list[Row]) -> None:
    assert (listed is None) == (not bad)
    if listed is None:
        return
    with open(listed, newline="", encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    places = [(line["file"], int(line["line"]), int(line["offset"]), line["raw"]) for line in found]
    assert places == [(row.file, row.line, row.offset, row.raw) for row in bad]
    for line, row in zip(found, bad, strict=True):
        assert line["reason"], f"no reason for {row}"
        assert row.bad != "no number" or line["column"] in ("a", "b"), f"listed {line}, expected {row}"


def test_no_odd_spelling_is_read_as_another_number(tmp_path):
    """Each beside rows that are right: what is no number is listed, what is one has the score of this number."""
    model = make_model("linear")
    dkernel.save(model, tmp_path / "m")
    texts = [*spellings.ODD, *spellings.NUMBERS]
    quoted = ['"{}"'.format(text.replace('"', '""')) for text in texts]
    lines = [f"{text},{i},1" for i, text in enumerate(quoted)] + [f"{i % 9},{len(texts) + i},1" for i in range(200)]
    (tmp_path / "in.csv").write_text("\n".join(["a,id,b", *lines]) + "\n", encoding="utf-8")
    found = command("score", tmp_path / "m", tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--keep", "id",
                    "--write", "score", "--max-bad-rows", len(texts), "--json", "--progress", "none")  # fmt: skip
    assert found.code == 0, found.message
    written = dict(line.split(",") for line in (tmp_path / "out.csv").read_text().split()[1:])
    read = {text: float(written[str(i)]) for i, text in enumerate(texts) if str(i) in written}
    assert sorted(read) == sorted(spellings.NUMBERS)
    for text, number in spellings.NUMBERS.items():
        expected = model.scores(np.array([[1.0, number]]))[0, 0]
        assert expected == expected.dtype.type(read[text]), text
