"""CSV: any cut into byte ranges gives the rows that Python's csv module gives; drift and damage are named."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.data.file_schema import FilePart, ReadColumns, ReadOptions
from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.data.readers.csv import read_part
from dkernel.data.readers.csv_fields import Header
from dkernel.data.readers.csv_schema import _header, scan
from dkernel.data.readers.text_rows import row_ends
from dkernel.errors import DataError
from tests.combinations import examples
from tests.data.blocks import read_blocks, read_kept

NAMES = ("a", "b", "text")

cells = st.text(alphabet="ab ,\"\n\r'x;é", max_size=6)
numbers = st.floats(-1e6, 1e6, width=32).map(repr)
tables = st.lists(st.tuples(numbers, numbers, cells), min_size=1, max_size=12)


def in_ranges(path: Path, scan_bytes: int, step_rows: int) -> tuple[list[list[float]], list[str]]:
    """The rows as units of one step each would read them."""
    file = expand(path)[0]
    header = _header(file, ReadOptions())
    found = scan(file, header, None, ("text",), scan_bytes, step_rows)
    assert sum(found.steps) == found.rows
    columns = ReadColumns(("a", "b"), None, None, ("text",), "float64", {"a": "float", "b": "float", "text": "text"})
    X: list[list[float]] = []
    kept: list[str] = []
    for i, rows in enumerate(found.steps):
        part = FilePart(i, i + 1, len(X), rows, (found.marks[i], found.marks[i + 1]), header)
        raw = read_part(file, part, columns, str)
        assert len(raw.X) == rows
        X += raw.X.tolist()
        kept += raw.kept.column("text").to_pylist()
    return X, kept


@examples(200)
@given(
    rows=tables,
    scan_bytes=st.integers(1, 64),
    step_rows=st.integers(1, 4),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    newline=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    end=st.booleans(),
)
def test_equals_the_csv_module(
    rows: list[tuple[str, str, str]], scan_bytes: int, step_rows: int, quoting: int, newline: str, bom: bool, end: bool
) -> None:
    out = io.StringIO(newline="")
    # A writer quotes what its own line ending is made of, not a lone carriage return.
    rows = [(a, b, t if newline == "\r\n" or quoting != csv.QUOTE_MINIMAL else t.replace("\r", "")) for a, b, t in rows]
    csv.writer(out, quoting=quoting, lineterminator=newline).writerows([NAMES, *rows])
    text = out.getvalue() if end else out.getvalue().removesuffix(newline)
    expected = list(csv.reader(io.StringIO(text, newline="")))[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))
        X, kept = in_ranges(path, scan_bytes, step_rows)
    assert [[float(a), float(b)] for a, b, _ in expected] == X
    assert kept == [t for _, _, t in expected]


@pytest.mark.parametrize("scan_bytes", [1, 7, 4096])
def test_a_quote_inside_a_field_is_a_letter(tmp_path: Path, scan_bytes: int) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b,text\n1,2,5" pipe\n3,4,"6"" pipe\nlong"\n5,6,7" pipe\n')
    X, kept = in_ranges(path, scan_bytes, 1)
    assert X == [[1, 2], [3, 4], [5, 6]]
    assert kept == ['5" pipe', '6" pipe\nlong', '7" pipe']


@examples(100)
@given(text=st.text(alphabet='a,"\n\r', max_size=40))
def test_row_ends_agree_with_following_the_quotes_one_by_one(text: str) -> None:
    expected, inside, field_start, line, previous = [], False, True, "", ""
    for i, c in enumerate(text):
        if inside:
            if c == '"':
                inside = text[i + 1 : i + 2] == '"' or (previous == "skip")
                previous = "skip" if inside and previous != "skip" else ""
            line += c
            continue
        if c == '"' and field_start:
            inside = True
        if c == "\n" or (c == "\r" and text[i + 1 : i + 2] != "\n"):
            if line.strip("\r") or len(line) > 1:
                expected.append(i + 1)
            line, field_start = "", True
            continue
        field_start = c == ","
        line += c
    if not inside:
        if line and line != "\r":
            expected.append(len(text))
        ends, _, unclosed = row_ends(text.encode(), b",", True)
        assert not unclosed
        assert ends.tolist() == expected


def written(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(path: Path, **options: object) -> list[np.ndarray]:
    return [block.X for block in read_blocks(open_source(path, **options))]


@pytest.mark.parametrize(("row", "column"), [("oops,1", "x"), ("5,oops", "y")])
def test_late_text_names_file_row_and_column(tmp_path: Path, row: str, column: str) -> None:
    rows = "".join(f"{i},1\n" for i in range(100))
    path = written(tmp_path, f"x,y\n{rows}{row}\n")
    with pytest.raises(DataError, match=rf"t\.csv, row 101, column '{column}': 'oops'"):
        (read if column == "x" else open_source)(path, label="y", scan_bytes=64)  # a label is read while counting


def test_a_label_that_shows_fractions_late_is_floating_everywhere(tmp_path: Path) -> None:
    path = written(tmp_path, "x,y\n" + "1,2\n" * 50 + "1,2.5\n")
    source = open_source(path, label="y", scan_bytes=32)
    assert source.label_kind == "float"
    assert source.y.compute(scheduler="sync")[-1] == 2.5


def test_label_kinds_of_several_files_are_decided_together(tmp_path: Path) -> None:
    written(tmp_path, "x,y\n1,1\n", "1.csv")
    written(tmp_path, "x,y\n1,1.5\n", "2.csv")
    assert open_source(tmp_path, label="y").label_kind == "float"
    written(tmp_path, "x,y\n1,a\n", "3.csv")
    with pytest.raises(DataError, match=r"'y'.*text in .*3\.csv|'y'.*3\.csv"):
        open_source(tmp_path, label="y")


def test_kept_columns_lose_no_character(tmp_path: Path) -> None:
    path = written(tmp_path, "x,id,zip,price\n1,12,007,1.5\n2,13,8,2\n")
    source = open_source(path, keep=["id", "zip", "price"])
    assert read_kept(source).to_pydict() == {"id": [12, 13], "zip": ["007", "8"], "price": [1.5, 2.0]}


def test_booleans_are_numbers_as_features(tmp_path: Path) -> None:
    assert read(written(tmp_path, "x,b\n1,true\n2,false\n"))[0].tolist() == [[1, 1], [2, 0]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("x,y\n1,2\n3\n", r"row 2: 1 values where the header has 2"),
        ("x,y\n1,2\n3,4,5\n", r"row 2: 3 values where the header has 2"),
        ("x,y\n1,2\n,4\n", r"row 2, column 'x': the value is missing"),
        ("x,y\n1,2\n3,\n", r"row 2, column 'y': the value is missing"),
        ('x,y\n1,2\n3,"4\n', r"row 2: a quote that opens here is never closed"),
        ("x,y\n1,a\n2,\n", r"row 2, column 'y': the label is missing"),
        ("x,x\n1,2\n", r"'x' occurs twice"),
        ("0.5,1.5\n1,2\n", r"first row holds numbers"),
        ("\n\n", r"no header"),
        ("x,y\n", r"no rows"),
        ("x,y\n1,2\n".encode("utf-16"), r"UTF-16"),
        (b"x,\xff\n1,2\n", r"not UTF-8"),
        (b"x,y\n1,a\n2,\xff\n", r"not UTF-8"),
    ],
)
def test_bad_text_is_refused_with_its_place(tmp_path: Path, text: str | bytes, match: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)t\.csv.*{match}"):
        read(written(tmp_path, text), label="y")


def test_header_with_quotes_and_tabs(tmp_path: Path) -> None:
    path = written(tmp_path, '"a\nb"\tc\n1\t2\n', "t.tsv")
    assert _header(expand(path)[0], ReadOptions()) == Header(("a\nb", "c"), 8, "\t", 2)
    assert read(path)[0].tolist() == [[1, 2]]


VALUES = {
    "text": (["a", "b"], "category"),
    "truth values": (["true", "false"], "number"),
    "integers": (["1", "2"], "number"),
    "fractions": (["0.5", "2"], "number"),
    "dates": (["2024-01-01", "2024-01-02"], "date"),
    "times": (["2024-01-01T00:00:00.123456789Z", "2024-01-02T00:00:00.5Z"], "date"),
}


@pytest.mark.parametrize("missing", ["", "NA"])
@pytest.mark.parametrize("name", VALUES)
def test_a_column_that_is_empty_at_first_is_what_its_values_are(tmp_path: Path, name: str, missing: str) -> None:
    values, kind = VALUES[name]
    late = [missing] * 60 + values * 4
    encodings = []
    for texts in (late, late[::-1]):
        path = written(tmp_path, "x,z,never\n" + "".join(f"{i},{text},\n" for i, text in enumerate(texts)))
        source = open_source(path, scan_bytes=64, holes=True)
        encodings.append(source.encoding)
        assert source.encoding.kinds == {"x": "number", "z": kind, "never": "number"}
        assert np.isfinite(source.X.compute(scheduler="sync")).all()
        assert len(open_source(path, scan_bytes=64, max_bad_rows=1, holes=True).rejected) == 0
    assert encodings[0].to_json() == encodings[1].to_json()


@pytest.mark.filterwarnings("ignore:3 bad rows")
@pytest.mark.parametrize("label", ["0.25", "1.50", "3", "word"])
@pytest.mark.parametrize("missing", ["", ".", "n.a."])
def test_fractions_with_a_comma_are_those_with_a_point(tmp_path: Path, label: str, missing: str) -> None:
    """Also beside words for what is missing and beside a bad row, in features and labels."""
    rows = [(f"{i}.5", label if i % 20 == 7 else f"{i // 3}.25") for i in range(60)] + [(missing, "0.25")]
    found = []
    for sign, delimiter in (".", ","), (",", ";"):
        texts = ([each.replace(".", sign) if each[:1].isdigit() else each for each in row] for row in rows)
        text = "a,y\n".replace(",", delimiter) + "".join(delimiter.join(row) + "\n" for row in texts)
        source = open_source(written(tmp_path, text), label="y", max_bad_rows=3, holes=True, missing="mean")
        found.append((source.label_kind, source.X.compute(scheduler="sync"), source.y.compute(scheduler="sync")))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
