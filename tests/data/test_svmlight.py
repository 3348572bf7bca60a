"""svmlight: width and first index are decided once for all files; lines of every shape, or an error with the row."""

from pathlib import Path

import numpy as np
import pytest

from dkernel.data import open_source
from dkernel.data.file_schema import FilePart, ReadColumns
from dkernel.data.paths import expand
from dkernel.data.readers.svmlight import count, parse_lines, read_part
from dkernel.errors import DataError


def written(tmp_path: Path, text: str, name: str = "t.svmlight") -> Path:
    path = tmp_path / name
    path.write_text(text)
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
    assert dense(tmp_path / "1.svm", zero_based=True, n_features=5)[0] == [[0, 1, 0, 3, 0]]
    with pytest.raises(DataError, match=r"2\.svm: there is an index 0"):
        open_source(tmp_path, zero_based=False)
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


def test_comments_blank_lines_qid_unsorted_and_empty_rows(tmp_path: Path) -> None:
    text = "# head\n\n1 qid:3 2:2 1:1 # note 7:7\r\n-1\n   \n2.0\t3:3e-1"
    X, y, _ = dense(written(tmp_path, text))
    assert [[1, 2, 0], [0, 0, 0], [0, 0, np.float32(0.3)]] == X
    assert y == [1, -1, 2]


def test_fractions_make_the_label_floating(tmp_path: Path) -> None:
    assert open_source(written(tmp_path, "1 1:1\n1.5 1:2\n"), label="label").label_kind == "float"


@pytest.mark.parametrize("scan_bytes", [1, 10, 1000])
@pytest.mark.parametrize("step_rows", [1, 3])
def test_any_cut_gives_the_same_rows(tmp_path: Path, scan_bytes: int, step_rows: int) -> None:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (20, 4)).astype(float)
    lines = [f"{i} " + " ".join(f"{j}:{v}" for j, v in enumerate(row) if v) for i, row in enumerate(X)]
    file = expand(written(tmp_path, "# c\n" + "\n# c\n".join(lines)))[0]
    found = count(file, scan_bytes, step_rows)
    assert (found.least, found.largest, sum(found.steps)) == (0, 3, 20)
    columns = ReadColumns(("0", "1", "2", "3"), "label", None, (), "float32", {"label": "int"})
    first = 0
    for i, rows in enumerate(found.steps):
        part = FilePart(i, i + 1, first, rows, (found.marks[i], found.marks[i + 1]), (0, 4))
        raw = read_part(file, part, columns, str)
        np.testing.assert_array_equal(raw.X, X[first : first + rows])
        assert raw.label.tolist() == list(range(first, first + rows))
        first += rows


@pytest.mark.parametrize(
    "line", ["one 1:1", "1 1:1 2", "1 1:1:1", "1 a:1", "1 1:", "1 :1", "1,2 1:1", "1 1.5:1", "1 -1:1", "1:1", "1 1:x"]
)
def test_odd_lines_name_their_row(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"t\.svmlight, row 3: '.*' is not a line of svmlight"):
        open_source(written(tmp_path, f"1 1:1\n\n# c\n1 2:1\n{line}\n1 1:1\n"))


def test_an_index_twice_and_numbers_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 2: .* is not a line of svmlight: the index 1 occurs twice"):
        dense(written(tmp_path, "1 1:1\n1 1:1 2:1 1:3\n"))
    with pytest.raises(DataError, match=r"row 2, column '2': the value nan"):
        dense(written(tmp_path, "1 1:1\n1 2:nan\n"))
    with pytest.raises(DataError, match=r"row 2, column '2': the value 1e\+300 is too large"):
        dense(written(tmp_path, "1 1:1\n1 2:1e300\n"))
    with pytest.raises(DataError, match=r"row 2, column 'label': the label is nan"):
        dense(written(tmp_path, "1 1:1\nnan 2:1\n"))


def test_nothing() -> None:
    assert len(parse_lines(b"\n \n").label) == 0
