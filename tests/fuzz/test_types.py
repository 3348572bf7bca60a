"""Every Arrow type as feature, label, weight and kept column: trained, scored twice, evaluated; or refused by name."""

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dkernel
from tests.combinations import examples
from tests.fuzz.commands import Answer, command
from tests.fuzz.types import NUMBERS, TYPES, column_of_type

ROWS = 60
NAMES = ("column", "a column", "é", "x,y", 'quoted "name"', "lines\nlines", "Column", "0", "__index__")
ROLES = ("feature", "label", "weight", "kept")
PAIRS = [
    pytest.param(kind, role, marks=[pytest.mark.slow] * (i % 25 > 0))
    for i, (kind, role) in enumerate(product(TYPES, ROLES))
]
FIT = ("--kernel", "gaussian", "--gamma", "0.3", "--metric", "identity", "--n-components", "16", "--alpha", "1e-4",
       "--scale", "standard", "--baselines", "off", "--progress", "none", "--json")  # fmt: skip
NUMBERED = st.permutations(range(100)).map(lambda numbers: [*numbers[:45], *numbers[:15]])


class Column(NamedTuple):
    """A column of a table: what it is for, its type, its name, and the numbers of its values."""

    role: str
    kind: str
    name: str
    numbers: list[int]
    missing: bool = False

    def write(self, path: Path, group: int) -> None:
        """The table, which has two features and a label besides."""
        columns: dict[str, Any] = {
            "f": pa.array([number / 10 - 5 for number in self.numbers]),
            "g": pa.array([(number * number) % 97 / 20 for number in self.numbers]),
            self.name: column_of_type(self.kind, self.numbers, self.missing),
        }
        if self.role != "label":
            columns["label"] = pa.array([number % 10 > 4 for number in self.numbers])
        pq.write_table(pa.table(columns), path, row_group_size=group)


@pytest.mark.filterwarnings("ignore")  # as in the commands
@pytest.mark.parametrize(("kind", "role"), PAIRS)
@examples(2)
@given(st.sampled_from(NAMES), NUMBERED, st.booleans(), st.sampled_from([1000, 7, 30]))
def test_a_type_is_learned_scored_and_kept_or_refused_by_name(kind, role, name, numbers, missing, group):
    # --keep takes a list of names.
    column = Column(role, kind, name.replace(",", " ") if role == "kept" else name, numbers, missing)
    with TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        for path in ("train.parquet", "test.parquet"):
            column.write(folder / path, group)
        refused = fit_and_score(column, folder)
        assert not refused or missing or kind not in NUMBERS, f"numbers were refused: {refused}"
        if not refused and role == "feature" and kind in NUMBERS and not missing:
            check_twin(column, folder, group)


def fit_and_score(column: Column, folder: Path) -> str:
    """ "" for done, or the message of the first command that refused the column, which names it."""
    role, name = column.role, column.name
    label = ["--label", name if role == "label" else "label"]
    more = {"weight": ["--weight", name], "kept": ["--exclude", name]}.get(role, [])
    found = command("train", folder / "train.parquet", *label, *more, *FIT, "--out", folder / "m")
    keep, test, quiet = ["--keep", name] if role == "kept" else [], folder / "test.parquet", FIT[-3:]
    outs = [folder / "1.parquet", folder / "2.parquet", folder / "3.csv"]
    for out in outs:
        if not found.code:
            found = command("score", folder / "m", test, *keep, "--allow-extra", "--out", out, *quiet)
    if not found.code:
        check_scores(outs[0], column if keep else None, test)
        assert outs[0].read_bytes() == outs[1].read_bytes(), "two scorings of one file differ"
        weight = ["--weight", name] if role == "weight" else ["--allow-extra"]
        found = command("evaluate", folder / "m", test, *label, *weight, *quiet)
    return refuse_by_name(found, name) if found.code else ""


def check_scores(path: Path, kept: Column | None, test: Path) -> None:
    table = pq.read_table(path)
    assert table.num_rows == ROWS
    scores = [column for column in table.column_names if column.startswith(("score", "probability"))]
    assert all(np.isfinite(table[column].to_numpy()).all() for column in scores), "a score is not finite"
    if kept:
        assert table[kept.name].to_pylist() == pq.read_table(test)[kept.name].to_pylist()


def refuse_by_name(found: Answer, name: str) -> str:
    assert found.code in (65, 2), f"exit {found.code}: {found.message}"
    assert name in found.message or repr(name) in found.message, f"refused without its name: {found.message}"
    return found.message


def check_twin(column: Column, folder: Path, group: int) -> None:
    """The same numbers as float64 make the same model."""
    column._replace(kind="float64").write(folder / "twin.parquet", group)
    found = command("train", folder / "twin.parquet", "--label", "label", *FIT, "--out", folder / "t")
    assert found.code == 0, found.message
    first, second = dkernel.load(folder / "m").model_, dkernel.load(folder / "t").model_
    X = np.column_stack([np.linspace(-5, 5, 9), np.linspace(0, 4, 9), np.linspace(0, 99, 9)])
    np.testing.assert_array_equal(first.scores(X), second.scores(X), err_msg="float64 of the same values")
