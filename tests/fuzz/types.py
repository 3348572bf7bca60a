"""Every Arrow type as feature, label, weight and kept column: trained, scored twice, evaluated; or refused by name."""

import datetime
import decimal
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dkernel
from tests.fuzz.commands import Answer, command
from tests.fuzz.sessions import Case

ROWS = 60
DAY = datetime.date(2020, 1, 1)
MOMENT = datetime.datetime(2020, 1, 1, 12)
SPAN = datetime.timedelta(seconds=1)

# Type -> its value for a whole number from 0 to 99.
NUMBERS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    **{f"{sign}int{bits}": (getattr(pa, f"{sign}int{bits}")(), int) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": (pa.float16(), np.float16),
    "float32": (pa.float32(), float),
    "float64": (pa.float64(), float),
    "decimal128": (pa.decimal128(12, 2), decimal.Decimal),
    "decimal256": (pa.decimal256(40, 3), decimal.Decimal),
    "dictionary of int64": (pa.dictionary(pa.int8(), pa.int64()), int),
    "dictionary of float64": (pa.dictionary(pa.int32(), pa.float64()), float),
}
OTHERS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "bool": (pa.bool_(), lambda k: k % 2 == 1),
    "string": (pa.string(), str),
    "large_string": (pa.large_string(), lambda k: f"é{k % 3}"),
    "string_view": (pa.string_view(), lambda k: f"a view of more than twelve {k % 3}"),
    "binary_view": (pa.binary_view(), lambda k: f"{k % 3}".encode()),
    "dictionary of string": (pa.dictionary(pa.int8(), pa.string()), lambda k: f"level {k % 3}"),
    "binary": (pa.binary(), lambda k: f"{k % 3}".encode()),
    "binary not UTF-8": (pa.binary(), lambda k: b"\xff" + bytes([k % 3])),
    "fixed binary": (pa.binary(2), lambda k: bytes([k % 3, 255])),
    "date32": (pa.date32(), lambda k: DAY + datetime.timedelta(days=k)),
    "date64": (pa.date64(), lambda k: DAY + datetime.timedelta(days=k)),
    "time32": (pa.time32("s"), lambda k: datetime.time(k % 24)),
    "time64": (pa.time64("ns"), lambda k: datetime.time(k % 24)),
    "timestamp": (pa.timestamp("us"), lambda k: MOMENT + k * SPAN),
    "timestamp with zone": (pa.timestamp("ns", "Europe/Rome"), lambda k: MOMENT + k * SPAN),
    "duration": (pa.duration("ms"), lambda k: k * SPAN),
    "list": (pa.list_(pa.float64()), lambda k: [float(k), 1.0]),
    "fixed list": (pa.list_(pa.float32(), 2), lambda k: [float(k), 1.0]),
    "large list of text": (pa.large_list(pa.string()), lambda k: [str(k)]),
    "struct": (pa.struct([("x", pa.int32())]), lambda k: {"x": k}),
    "map": (pa.map_(pa.string(), pa.int32()), lambda k: [("x", k)]),
    "null": (pa.null(), lambda k: None),  # noqa: ARG005
}
TYPES = {**NUMBERS, **OTHERS}
NAMES = ("column", "a column", "é", "x,y", 'quoted "name"', "lines\nlines", "Column", "0", "__index__")
ROLES = ("feature", "label", "weight", "kept")
FIT = ("--kernel", "gaussian", "--gamma", "0.3", "--metric", "identity", "--n-components", "16", "--alpha", "1e-4",
       "--scale", "standard", "--baselines", "off", "--progress", "none", "--json")  # fmt: skip


def run(case: Case, folder: Path) -> str:
    """One type in one role, all pairs of them in turn; values, row groups, missing values and names at random."""
    rng = case.rng
    role, kind = ROLES[case.number % len(ROLES)], list(TYPES)[case.number // len(ROLES) % len(TYPES)]
    missing = rng.random() < 0.2
    name = rng.choice(NAMES)
    name = name.replace(",", " ") if role == "kept" else name  # --keep takes a list of names
    case.say(f"{kind} as {role}, named {name!r}{', one value missing' if missing else ''}")
    values = [rng.randrange(100) for _ in range(ROWS)]
    train, test = folder / "train.parquet", folder / "test.parquet"
    group = rng.choice((7, 30, 1000))
    for path in (train, test):
        _write(rng, path, _table(role, kind, name, values, missing), group)
    outcome = _fit_and_score(role, name, train, test, folder)
    if outcome == "done" and role == "feature" and kind in NUMBERS and not missing:
        _check_twin(rng, name, values, folder, group)
    assert outcome == "done" or missing or kind not in NUMBERS, f"numbers were refused: {outcome}"
    return f"{role}: {outcome if outcome == 'done' else 'refused'}"


def _table(role: str, kind: str, name: str, values: list[int], missing: bool) -> pa.Table:
    first = pa.array([value / 10 - 5 for value in values])
    second = pa.array([(value * value) % 97 / 20 for value in values])
    columns: dict[str, Any] = {"f": first, "g": second}
    columns[name] = column_of_type(kind, values, missing)
    if role != "label":
        columns["label"] = pa.array([(value % 10 > 4) for value in values])
    return pa.table(columns)


def column_of_type(kind: str, values: Iterable[int], missing: bool = False) -> pa.Array:
    """The values of a type for these numbers; with `missing` the middle one is missing."""
    arrow, make = TYPES[kind]
    made = [make(value) for value in values]
    if missing:
        made[len(made) // 2] = None
    if pa.types.is_dictionary(arrow):
        return pa.array(made, arrow.value_type).dictionary_encode().cast(arrow)
    return pa.array(made, arrow)


def _write(rng: random.Random, path: Path, table: pa.Table, group: int) -> None:
    pq.write_table(table, path, row_group_size=group, compression=rng.choice(("zstd", "none")))


def _fit_and_score(role: str, name: str, train: Path, test: Path, folder: Path) -> str:
    """The word done, or the message of the first command that refused the column, which names it."""
    label = ["--label", name if role == "label" else "label"]
    more = {"weight": ["--weight", name], "kept": ["--exclude", name]}.get(role, [])
    found = command("train", train, *label, *more, *FIT, "--out", folder / "m")
    if found.code:
        return _by_name(found, name)
    keep = ["--keep", name] if role == "kept" else []
    outs = [folder / "1.parquet", folder / "2.parquet", folder / "3.csv"]
    for out in outs:
        found = command(
            "score", folder / "m", test, *keep, "--allow-extra", "--out", out, "--json", "--progress", "none"
        )
        if found.code:
            return _by_name(found, name)
    assert outs[0].read_bytes() == outs[1].read_bytes(), "two scorings of one file differ"
    table = pq.read_table(outs[0])
    assert table.num_rows == ROWS
    scores = [column for column in table.column_names if column.startswith("score")]
    assert all(np.isfinite(table[column].to_numpy()).all() for column in scores), "a score is not finite"
    if keep:
        _check_kept(table[name], pq.read_table(test)[name])
    weight = ["--weight", name] if role == "weight" else ["--allow-extra"]
    found = command("evaluate", folder / "m", test, *label, *weight, "--json", "--progress", "none")
    return _by_name(found, name) if found.code else "done"


def _by_name(found: Answer, name: str) -> str:
    assert found.code in (65, 2), f"exit {found.code}: {found.message}"
    assert name in found.message or repr(name) in found.message, f"refused without its name: {found.message}"
    return found.message


def _check_kept(found: pa.ChunkedArray, given: pa.ChunkedArray) -> None:
    assert found.to_pylist() == given.to_pylist(), f"kept {found.type} is not what was given, {given.type}"


def _check_twin(rng: random.Random, name: str, values: list[int], folder: Path, group: int) -> None:
    """The same numbers as float64 make the same model."""
    twin = folder / "twin.parquet"
    _write(rng, twin, _table("feature", "float64", name, values, False), group)
    found = command("train", twin, "--label", "label", *FIT, "--out", folder / "t")
    assert found.code == 0, found.message
    first, second = dkernel.load(folder / "m").model_, dkernel.load(folder / "t").model_
    X = np.column_stack([np.linspace(-5, 5, 9), np.linspace(0, 4, 9), np.linspace(0, 99, 9)])
    np.testing.assert_array_equal(first.scores(X), second.scores(X), err_msg="float64 of the same values")
