"""Random CSV files through `score --max-bad-rows`, against a reader that follows every character."""

import csv
import glob
import gzip
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import dkernel
from dkernel import KernelRegressor
from dkernel.errors import DKernelError
from dkernel.model.model import Model
from tests.data import brute_csv
from tests.fuzz import spellings
from tests.fuzz.commands import command
from tests.fuzz.sessions import Case

NAMES = ("a", "b", "id", "text")
HUGE = ("3e38", "-3e38", "1e30", "1e19")
KERNELS = ("linear", "Gaussian(gamma=0.01)", "Polynomial(degree=3)")


@dataclass(frozen=True)
class Row:
    """A row of a file as the naive reader sees it; `bad` is "" of one that can be scored."""

    file: str
    line: int
    offset: int
    raw: str
    values: dict[str, str]
    bad: str
    column: str = ""


@cache
def model_of(kernel: str) -> Model:
    """A model of b and a, in this order, that answers every row with a number of its own."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    machine = KernelRegressor(kernel, n_components=16, scale="none", metric="identity", alpha=1e-6, solver="psgd")
    return machine.fit(pd.DataFrame(X, columns=["b", "a"]), X @ [1.0, -2.0] + X[:, 0] ** 2).model_


def run(case: Case, folder: Path) -> str:
    """Write files of good, bad and odd rows, score them, and compare what is written and what is listed."""
    rng = case.rng
    kernel = rng.choice(KERNELS)
    model = model_of(kernel)
    dkernel.save(model, folder / "m")
    spelled = rng.random() < 0.3
    files = _write(rng, folder, spelled)
    expected = [row for file in files for row in _rows(file, model)]
    good, bad = [r for r in expected if not r.bad], [r for r in expected if r.bad]
    allowed = len(bad) - 1 if bad and rng.random() < 0.1 else len(bad) + rng.choice((0, 1, 1000))
    form = rng.choice(("csv", "parquet", "parts"))
    out = folder / ("out" if form == "parts" else f"out.{form}")
    case.say(f"{len(files)} files{' of odd spellings' if spelled else ''}, {len(good)} good and {len(bad)} bad rows")
    case.say(f"{allowed} allowed, kernel {kernel}, {form}")
    data = [str(folder / "in-*")] if rng.random() < 0.3 else [str(f) for f in files]
    found = command("score", folder / "m", *data, "--out", out, "--keep", "id,text", "--write", "score", "--json",
                    "--max-bad-rows", allowed, "--scratch", folder, "--progress", "none")  # fmt: skip
    if not good or allowed < len(bad):
        assert found.code == 65, f"{len(good)} good rows, {len(bad)} bad, {allowed} allowed, and exit {found.code}"
        assert not out.exists(), "an output beside an error"
        return f"refused: {'too many bad rows' if good else 'no good row'}"
    assert found.code == 0, f"{len(good)} good rows and refused: {found.message}"
    printed = found.printed
    counts = {name: printed[name] for name in ("rows_in", "rows", "rejected")}
    assert counts == {"rows_in": len(expected), "rows": len(good), "rejected": len(bad)}, counts
    _check_out(out, form, good, model)
    _check_rejects(printed.get("rejects"), bad)
    return f"scored{', spellings' if spelled else ''}{', with rejects' if bad else ''}"


def _write(rng: random.Random, folder: Path, spelled: bool) -> list[Path]:
    files = []
    for i in range(rng.choice((1, 1, 2, 3))):
        path = folder / f"in-{i}.csv"
        data = _content(rng, i, spelled)
        if rng.random() < 0.15:
            path = folder / f"in-{i}.csv.gz"
            path.write_bytes(gzip.compress(data))
        else:
            path.write_bytes(data)
        files.append(path)
    return files


def _content(rng: random.Random, number: int, spelled: bool) -> bytes:
    order = rng.sample(NAMES, len(NAMES))
    newline = rng.choice(("\n", "\r\n", "\n"))
    share = rng.choice((0.0, 0.05, 0.1, 0.5, 0.9, 1.0))
    good = (*brute_csv.GOOD, *(HUGE if rng.random() < 0.15 else ()))
    lines = [",".join(order)]
    for i in range(rng.choice((1, 2, 5, 12, 60, 400, 1500))):
        values = {"id": f"{number}-{i:04d}", "text": rng.choice(brute_csv.TEXTS)}
        for name in ("a", "b"):
            if spelled and rng.random() < 0.5:
                text = rng.choice(spellings.ODD) if rng.random() < 0.3 else spellings.a_spelling(rng)
                values[name] = f'"{text}"' if "," in text or rng.random() < 0.1 else text
            else:
                values[name] = rng.choice(brute_csv.BAD if rng.random() < share else good)
        fields = [values[name] for name in order]
        if rng.random() < share / 5:
            fields = fields[: rng.randint(1, 3)] if rng.random() < 0.5 else [*fields, "more"]
        lines.append(",".join(fields))
        lines += [""] * (rng.random() < 0.03)
    text = newline.join(lines) + newline * (rng.random() < 0.8)
    return b"\xef\xbb\xbf" * (rng.random() < 0.2) + text.encode()


def _rows(path: Path, model: Model) -> list[Row]:
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    order = data.removeprefix(b"\xef\xbb\xbf").decode().splitlines()[0].split(",")
    return [
        _judged(
            model, Row(str(path), line, offset, raw, dict(zip(order, values, strict=False)), ""), len(values), order
        )
        for line, offset, raw, _, values in brute_csv.rows_of(data)
    ]


def _judged(model: Model, row: Row, width: int, order: list[str]) -> Row:
    """The row with the reason for which it cannot be scored, if there is one."""
    fields = row.__dict__
    if width != len(order):
        return Row(**{**fields, "bad": f"{width} values"})
    for name in sorted(("a", "b"), key=order.index):
        if spellings.value_of(row.values[name]) is None:
            return Row(**{**fields, "bad": "no number", "column": name})
    with np.errstate(all="ignore"):
        try:
            finite = np.isfinite(model.scores(_matrix([row]))).all()
        except DKernelError:
            finite = False
    return row if finite else Row(**{**fields, "bad": "too large"})


def _matrix(rows: list[Row]) -> np.ndarray:
    return np.array([[float(row.values["b"]), float(row.values["a"])] for row in rows])


def _check_out(out: Path, form: str, good: list[Row], model: Model) -> None:
    if form == "csv":
        with open(out, newline="", encoding="utf-8") as stream:
            read = list(csv.DictReader(stream))
        found: dict[str, list[Any]] = {name: [line[name] for line in read] for name in ("id", "text", "score")}
    else:
        parts = [out] if form == "parquet" else sorted(map(Path, glob.glob(f"{out}/part-*")))
        table = [pq.read_table(part).to_pydict() for part in parts]
        found = {name: [v for part in table for v in part[name]] for name in ("id", "text", "score")}
    assert found["id"] == [row.values["id"] for row in good], "kept ids are not those of the good rows"
    texts = ["" if text is None else str(text) for text in found["text"]]
    if all(isinstance(text, str | None) for text in found["text"]):
        assert texts == [row.values["text"] for row in good], "kept texts are not those of the good rows"
    expected = model.scores(_matrix(good))[:, 0]
    scores = np.array(found["score"], expected.dtype)
    assert np.isfinite(scores).all(), "a score is not finite"
    bad = np.flatnonzero(scores != expected)
    assert not len(bad), f"{good[bad[0]]} has the score {scores[bad[0]]!r}, not {expected[bad[0]]!r}"


def _check_rejects(listed: str | None, bad: list[Row]) -> None:
    if not bad:
        assert listed is None, f"no bad row and a list of them: {listed}"
        return
    assert listed is not None, "bad rows and no list of them"
    with open(listed, newline="", encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    assert len(found) == len(bad), f"{len(found)} rows are listed of {len(bad)}"
    for line, row in zip(found, bad, strict=True):
        place = (line["file"], int(line["line"]), int(line["offset"]), line["raw"])
        assert place == (row.file, row.line, row.offset, row.raw), f"listed {place}, expected {row}"
        assert line["reason"], f"no reason for {row}"
        if row.column:
            assert line["column"] in ("a", "b"), f"listed {line}, expected {row}"
