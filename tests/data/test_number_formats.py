"""Numbers in the notation of a country: read by an example, the same by every door; in doubt they are refused."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dkernel
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.encoding.text_values import read_example, suggest_examples
from dkernel.data.opening import open_source
from dkernel.errors import DataError, RecipeError
from tests.combinations import examples

FORMS = [
    "1,234.5",
    "1.234,5",
    "1 234,5",
    "1'234.5",
    "1_234.5",
    "1234,5",
    "$1,234.5",
    "1.234,5 €",
    "12.5 %",
    "CHF 1'234.5",
]
VALUES = np.array([950, 1200, -0.125, 1234567.25, 7, 0.5, -33333] * 6)
DELIMITERS = [",", ";", "\t", "|"]


def write_number(value: float, form: str) -> str:
    """The number as the example shows."""
    known = read_example(form)
    whole, _, fraction = f"{abs(value):{',' if known.thousands else ''}}".partition(".")
    number = whole.replace(",", known.thousands) + (known.decimal + fraction if fraction.strip("0") else "")
    before, after = re.fullmatch(r"(\D*)[\d.,' _]*\d(\D*)", form).groups()
    return f"{'-' * int(value < 0)}{before}{number}{after}"


def table(form: str) -> pd.DataFrame:
    columns = {"x": VALUES, "z": VALUES / 8, "w": abs(VALUES), "y": VALUES}
    return pd.DataFrame({n: v if n == "z" else [write_number(each, form) for each in v] for n, v in columns.items()})


def read(path, **options):
    source = open_source(path, label="y", weight="w", label_as="numbers", dtype="float64", **options)
    blocks = [unit.task.compute(scheduler="sync")[0] for unit in source.units]
    return [np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "y", "weight")]


@pytest.mark.parametrize("form", FORMS)
def test_every_door_reads_the_numbers_of_an_example(form, tmp_path):
    rows, expected = table(form), [np.c_[VALUES, VALUES / 8], VALUES, abs(VALUES)]
    for number, delimiter in enumerate(DELIMITERS):
        rows.to_csv(tmp_path / f"{number}.csv", sep=delimiter, index=False)
    rows.to_parquet(tmp_path / "t.parquet", index=False)
    formats = dict.fromkeys("xwy", form)
    for path in sorted(tmp_path.iterdir()):
        for one, other in zip(read(path, formats=formats), expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(path))
    source = from_arrays(rows[["x", "z"]], VALUES, categorical="auto", formats={"x": form}, dtype="float64")
    np.testing.assert_array_equal(source.X.compute(scheduler="sync"), expected[0])


@pytest.mark.parametrize("form", ["1,234", "kg", "12,34,5", "1.234", "%", ""])
def test_an_example_in_doubt_is_refused(form):
    with pytest.raises(RecipeError, match="formats of 'x'"):
        dkernel.KernelRegressor(formats={"x": form}).fit(pd.DataFrame({"x": [1.0, 2.0]}), [0.0, 1.0])


@examples(200)
@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=1, max_size=5), st.sampled_from(FORMS))
def test_what_is_suggested_reads_the_numbers(values, form):
    texts = [write_number(round(value, 4), form) for value in values]
    meant = read_example(form).to_plain(pa.array(texts))
    assert meant.cast(pa.float64()).to_pylist() == [round(value, 4) for value in values]
    assert any(read_example(each).to_plain(pa.array(texts)).equals(meant) for each in suggest_examples(texts))


@pytest.mark.parametrize("place", ["x", "w", "y"])
@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("late", [False, True])
def test_thousands_or_fractions_are_refused(place, delimiter, late, tmp_path):
    texts = (["950"] * 200 + ["1,200"]) if late else ["950", "1,200"] * 9
    rows = pd.DataFrame({name: ["1", "2", *["3"] * (len(texts) - 2)] for name in "xwy"}).assign(**{place: texts})
    rows.to_csv(tmp_path / "t.csv", sep=delimiter, index=False)
    with pytest.raises(DataError, match=f"'{place}': .*1,200"):
        read(tmp_path / "t.csv", scan_bytes=64)
    read_as = {form: read(tmp_path / "t.csv", formats={place: form}) for form in ("1,234.5", "1234,5")}
    at = {"x": lambda arrays: arrays[0][:, 0], "y": lambda arrays: arrays[1], "w": lambda arrays: arrays[2]}[place]
    assert {form: at(arrays).max() if form == "1,234.5" else at(arrays).min() for form, arrays in read_as.items()} == {
        "1,234.5": 1200,
        "1234,5": 1.2,
    }


@pytest.mark.parametrize("more", ["0,125", "1,5", "1234,567"])
def test_one_number_settles_it_wherever_it_stands(more, tmp_path):
    lines = [*["950", "1,200"] * 99, more]
    (tmp_path / "1.csv").write_text("x;z;w;y\n" + "".join(f"{text};1,5;1;{i}\n" for i, text in enumerate(lines)))
    (tmp_path / "2.csv").write_text("x;z;w;y\n1,250;2;1;5\n")
    X = read(tmp_path, scan_bytes=64)[0]
    assert (X[1, 0], X[-1, 0]) == (1.2, 1.25)


def test_points_are_in_doubt_where_other_numbers_have_commas(tmp_path):
    (tmp_path / "t.csv").write_text("x;z;w;y\n" + "950;0,5;1;1\n1.200;1,5;1;2\n" * 9)
    with pytest.raises(DataError, match=r"'x': numbers such as '1\.200'"):
        read(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv", formats={"x": "1.234,5"})[0][1].tolist() == [1200, 1.5]
    (tmp_path / "t.csv").write_text("x;z;w;y\n" + "950;0.5;1;1\n1.200;1.5;1;2\n" * 9)
    assert read(tmp_path / "t.csv")[0][1].tolist() == [1.2, 1.5]


def test_a_model_knows_the_format_of_its_columns(run_to, tmp_path):
    rows = table("$1,234.5").assign(y=VALUES / 7, w="$1.00")
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows.assign(x=VALUES).to_parquet(tmp_path / "plain.parquet", index=False)
    job = ["train", tmp_path / "t.csv", "--label=y", "--weight=w", "--out", tmp_path / "m", "--kernel=gaussian"]
    job += ["--gamma=1", "--n-components=16", "--local=none", "--quiet"]
    refused = run_to(*job, code=65).stderr
    assert "'x': numbers such as '$1,234,567.25'. Add --formats 'x=$1,234.5'. (Or --exclude x.)" in refused
    assert "'w': numbers such as '$1.00'. Add --formats 'w=$1234.5'." in refused
    run_to(*job, "--formats", "x=$1,234.5;w=$1,234.5")
    found = []
    for name in ("t.csv", "plain.parquet"):
        run_to("score", tmp_path / "m", tmp_path / name, "--out", tmp_path / f"{name}.out.parquet")
        found.append(pd.read_parquet(tmp_path / f"{name}.out.parquet").score.tolist())
    assert found[0] == found[1]
    assert dkernel.load(tmp_path / "m").predict(rows[["x", "z"]]).tolist() == found[0]
    (tmp_path / "doubt.csv").write_text("x;z\n$5;1,200\n")
    said = run_to("score", tmp_path / "m", tmp_path / "doubt.csv", "--out", tmp_path / "o.csv", code=65).stderr
    assert "'z': numbers such as '1,200'. Write all as 1234.5, or train with formats={'z': '1234,5'} or" in said


def test_signs_of_labels_decide_nothing(tmp_path):
    for name, labels in {"plus": ["+1", "-1"], "zeros": ["0", "-0", "1"], "usual": ["1", "-1"]}.items():
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
        source = open_source(tmp_path / f"{name}.csv", label="y")
        assert source.label_kind == "int"
        assert source.y.compute(scheduler="sync").tolist() == [int(label) for label in labels]
    assert open_source([tmp_path / "plus.csv", tmp_path / "usual.csv"], label="y").label_kind == "int"


def test_all_columns_are_refused_in_one_error(tmp_path):
    rows = pd.DataFrame(
        {"day": ["26.05.2023"] * 9, "pay": ["48,984.60"] * 9, "text": list("abcabcabc"), "y": [0, 1, 2] * 3}
    )
    rows["n"] = ["1", "2", "x", *"345678"]
    rows.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError) as error:
        open_source(tmp_path / "t.csv", label="y")
    lines = str(error.value).splitlines()
    assert lines[0].endswith("(9 rows were looked at): 3 columns cannot be read as they are.")
    assert "  'day': dates such as '26.05.2023'. Add formats={'day': '%d.%m.%Y'}. (Or exclude='day'.)" in lines
    assert "  'pay': numbers such as '48,984.60'. Add formats={'pay': '1,234.5'}. (Or exclude='pay'.)" in lines
    assert "row 3: 'x' is not a number." in str(error.value)
