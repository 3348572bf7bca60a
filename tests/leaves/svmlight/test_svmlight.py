"""svmlight: width and first index are decided once for all files; lines of every shape, or an error with the row."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.data.file_schema import FilePart, ReadColumns
from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.errors import DataError
from dkernel.leaves.svmlight.svmlight import count, parse_lines, read_part
from dkernel.numerics.sparse_rows import RangeNames
from tests.combinations import examples

P = 7


def written(tmp_path: Path, text: str, name: str = "t.svmlight") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def dense(path: Path, **options: object) -> tuple[list, list, tuple[str, ...]]:
    source = open_source(path, label="label", **options)
    X, y = source.X.compute(scheduler="sync"), source.y.compute(scheduler="sync")
    return X.tolist(), y.tolist(), source.columns


def test_one_based_and_zero_based_are_told_apart_by_all_files_together(tmp_path: Path) -> None:
    written(tmp_path, "+1 1:1 3:3\n", "1.svm")
    assert dense(tmp_path) == ([[1, 0, 3]], [1], ("1", "2", "3"))
    written(tmp_path, "-1 0:5 2:2\n", "2.svm")
    assert dense(tmp_path) == ([[0, 1, 0, 3], [5, 0, 2, 0]], [1, -1], ("0", "1", "2", "3"))
    assert dense(tmp_path / "1.svm", n_features=5)[0] == [[1, 0, 3, 0, 0]]
    with pytest.raises(DataError, match=r"1\.svm, row 1: index 3, where 3 features \(0 to 2\)"):
        open_source(tmp_path, n_features=3)


def test_a_model_knows_its_indices(tmp_path: Path) -> None:
    path = written(tmp_path, "1 1:1\n")
    assert dense(path, columns=("0", "1", "2"))[0] == [[0, 1, 0]]
    assert dense(path, columns=("1", "2", "3"))[0] == [[1, 0, 0]]
    written(tmp_path, "1 1:1 9:1\n")
    with pytest.raises(DataError, match="'9' that the model does not know"):
        open_source(path, columns=[str(j) for j in range(1, 9)], label="label")
    assert dense(path, columns=("1", "2"), allow_extra=True)[0] == [[1, 0]]


def test_the_label_is_no_feature_even_when_it_is_not_asked_for(tmp_path: Path) -> None:
    assert open_source(written(tmp_path, "1 1:1\n")).columns == ("1",)


@pytest.mark.parametrize("label", [1.5, 1e300])
def test_a_label_that_is_no_integer_makes_all_floating(tmp_path: Path, label: float) -> None:
    path = written(tmp_path, f"1 1:1\n{label} 1:2\n")
    assert open_source(path, label="label").label_kind == "float"
    assert dense(path)[1] == [1, label]


@st.composite
def texts(draw: Any) -> str:
    """Lines of any order, comments, blanks and line ends."""
    numbers = st.floats(-1e6, 1e6, width=32).map(repr)
    pairs = st.dictionaries(st.integers(0, P - 1), numbers).flatmap(lambda row: st.permutations([*row.items()]))
    before = st.sampled_from(["", "# a line of its own\n", "\n", " \n"])
    qid, blank, tail = (st.sampled_from(many) for many in (["", "qid:3"], [" ", "\t"], ["", " ", " # note 9:9", "\t#"]))
    text = ""
    for _ in range(draw(st.integers(1, 8))):
        words = [str(draw(st.integers(-3, 3))), draw(qid), *(f"{j}:{v}" for j, v in draw(pairs))]
        text += draw(before) + draw(blank).join(words) + draw(tail) + "\n"
    text = draw(st.sampled_from([text, text.removesuffix("\n")]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def line_by_line(text: str) -> tuple[list[list[float]], list[float]]:
    """The rows as the format defines them."""
    X, y = [], []
    for line in text.splitlines():
        words = [word for word in line.split("#")[0].split() if not word.startswith("qid:")]
        if words:
            row = [0.0] * P
            for word in words[1:]:
                index, value = word.split(":")
                row[int(index)] = float(np.float32(float(value)))
            X.append(row)
            y.append(float(words[0]))
    return X, y


@examples(200)
@given(texts(), st.integers(1, 80), st.integers(1, 4))
def test_any_cut_gives_the_same_rows(text: str, scan_bytes: int, step_rows: int) -> None:
    X, y = line_by_line(text)
    with tempfile.TemporaryDirectory() as folder:
        file = expand(written(Path(folder), text))[0]
        found = count(file, scan_bytes, step_rows)
        firsts, read = np.cumsum([0, *found.steps]).tolist(), []
        columns = ReadColumns(tuple(map(str, range(P))), "label", None, (), "float32", {"label": "int"})
        for i, rows in enumerate(found.steps):
            part = FilePart(i, i + 1, firsts[i], rows, found.marks[i : i + 2], (0, P))
            read.append(read_part(file, part, columns, str))
    assert [len(part.X) for part in read] == list(found.steps)
    assert max(found.steps) <= step_rows
    assert np.concatenate([part.X for part in read]).tolist() == X
    assert np.concatenate([part.label for part in read]).tolist() == y


@pytest.mark.parametrize(
    "line", ["one 1:1", "1 1:1 2", "1 1:1:1", "1 a:1", "1 1:", "1 :1", "1,2 1:1", "1 1.5:1", "1 -1:1", "1:1", "1 1:x"]
)
def test_odd_lines_name_their_row(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"t\.svmlight, row 3: '.*' is not a line of svmlight"):
        open_source(written(tmp_path, f"1 1:1\n\n# c\n1 2:1\n{line}\n1 1:1\n"))


def test_an_index_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 2: .* is not a line of svmlight: the index 1 occurs twice"):
        dense(written(tmp_path, "1 1:1\n1 1:1 2:1 1:3\n"))


def test_nothing() -> None:
    assert len(parse_lines(b"\n \n").label) == 0


def test_an_index_far_above_what_is_stored_makes_no_name_and_no_cell(tmp_path: Path, monkeypatch) -> None:
    """Rows that stay sparse were read as dense ones, and each column up to the largest index got a name."""
    monkeypatch.setattr("dkernel.leaves.svmlight.svmlight._dense", None)
    monkeypatch.setattr(RangeNames, "__iter__", None)
    (tmp_path / "a.svmlight").write_text("1 1:1.5 30000000:2\n0 2:3\n")
    source = open_source(tmp_path / "a.svmlight", label="label")
    scored = open_source(tmp_path / "a.svmlight", columns=source.columns)
    for each in (source, scored):
        (block,) = each.units[0].task.compute(scheduler="sync")
        assert block.X.shape == (2, 30_000_000)
        assert block.X.indices.tolist() == [0, 29_999_999, 1]


@pytest.mark.parametrize(
    ("index", "said"), [(2**31, "row 1: index 2147483648, and at most 134,217,728 columns"), (10**30, "not a label")]
)
def test_an_index_beyond_all_columns_is_refused_with_its_row(tmp_path: Path, index: int, said: str) -> None:
    (tmp_path / "a.svmlight").write_text(f"1 1:1.5 {index}:2\n0 2:3\n")
    with pytest.raises(DataError, match=said):
        open_source(tmp_path / "a.svmlight", label="label")
