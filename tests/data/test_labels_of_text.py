"""Labels of text: one label for each text, in a file, in several, and in the names of folders."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.errors import DataError, RecipeError

LABELS = {
    "codes": (["007", "7", "12"], {"auto": "text", "classes": "text", "numbers": "int"}),
    "codes of one width": (["01", "02", "12"], {"auto": "text", "classes": "text", "numbers": "int"}),
    "whole": (["7", "12", "-3"], {"auto": "int", "classes": "int", "numbers": "int"}),
    "beyond 53 bits": (["9007199254740993", "9007199254740992", "1"], dict.fromkeys(("auto", "classes"), "int")),
    "beyond 64 bits": (["18446744073709551616", "18446744073709551617"], {"classes": "text"}),
    "fractions": (["0.5", "1.5", "-2.25"], dict.fromkeys(("auto", "classes", "numbers"), "float")),
    "two spellings of a fraction": (["1.50", "1.5", "2.25"], {"auto": "float", "classes": "text", "numbers": "float"}),
    "exponents": (["1e1", "10", "3"], {"auto": "float", "classes": "text", "numbers": "float"}),
    "hexadecimal": (["0x10", "16"], {"auto": "text", "classes": "text"}),
    "text": (["a", "a ", "A"], dict.fromkeys(("auto", "classes", "numbers"), "text")),
}
CASES = [(name, label_as) for name, (_, kinds) in LABELS.items() for label_as in (*kinds, "text")]


def write_file(folder, texts):
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)))


def write_files(folder, texts):
    for i, text in enumerate(texts):
        (folder / f"{i}.csv").write_text(f"x,y\n{i},{text}\n")


def write_folders(folder, texts):
    for i, text in enumerate(texts):
        (folder / f"y={text}").mkdir()
        pq.write_table(pa.table({"x": [float(i)]}), folder / f"y={text}" / "a.parquet")


def labels_in(source):
    return source.y.compute(scheduler="sync")


@pytest.mark.parametrize("write", [write_file, write_files, write_folders])
@pytest.mark.parametrize(("name", "label_as"), CASES)
def test_labels_of_different_texts_are_different_classes(name, label_as, write, tmp_path):
    texts, kinds = LABELS[name]
    write(tmp_path, texts)
    for scan_bytes in (4, 1 << 20):
        source = open_source(tmp_path, label="y", label_as=label_as, scan_bytes=scan_bytes)
        assert source.label_kind == {**kinds, "text": "text"}[label_as]
        found = labels_in(source)
        if source.label_kind == "text":
            assert sorted(found.tolist()) == sorted(texts)
        else:
            assert sorted(found.tolist()) == sorted({"int": int, "float": float}[source.label_kind](t) for t in texts)
        assert label_as == "numbers" or source.label_kind == "float" or len(set(found.tolist())) == len(texts)


def test_blanks_around_numbers_decide_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1, 7\n2,12 \n")
    assert labels_in(open_source(tmp_path, label="y")).tolist() == [7, 12]


def test_missing_labels_and_words_among_them_decide_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,7\n2,12\n3,\n4,NA\n5,x\n6,12\n")
    with pytest.warns(UserWarning, match="3 bad rows"):
        source = open_source(tmp_path, label="y", max_bad_rows=3)
    assert (source.label_kind, labels_in(source).tolist()) == ("int", [7, 12, 12])


def test_an_unknown_form_of_the_label_is_refused(tmp_path):
    with pytest.raises(RecipeError, match="label_as='number' is none of 'auto'"):
        open_source(tmp_path, label="y", label_as="number")


def test_a_weight_of_folders_may_be_a_fraction(tmp_path):
    for weight in ("0.50", "2"):
        (tmp_path / f"w={weight}").mkdir()
        pq.write_table(pa.table({"x": [1.0], "y": [0]}), tmp_path / f"w={weight}" / "a.parquet")
    blocks = [u.task.compute(scheduler="sync")[0] for u in open_source(tmp_path, label="y", weight="w").units]
    assert [block.weight.tolist() for block in blocks] == [[0.5], [2.0]]


def test_a_kept_key_keeps_its_zeros(tmp_path):
    write_folders(tmp_path, ["01", "12"])
    for kept_as, expected in (("types", ["01", "12"]), ("text", ["01", "12"]), ("numbers", [1, 12])):
        source = open_source(tmp_path, columns=["x"], keep="y", kept_as=kept_as)
        kept = [unit.task.compute(scheduler="sync")[0].kept["y"][0].as_py() for unit in source.units]
        assert kept == expected


TYPED = {
    "integers and whole floats": ([[1, 2], [1.0, 3.0]], [1, 2, 1, 3]),
    "one missing": ([[1, 2], [1.0, None]], [1, 2, 1]),
    "integers and truth values": ([[0, 1], [True, False]], [0, 1, 1, 0]),
    "all three": ([[0, 1], [True, False], [1.0, 0.0]], [0, 1, 1, 0, 1, 0]),
    "a fraction": ([[1, 2], [1.0, 2.5]], [1, 2, 1]),
}


def write_parquet(path, labels):
    frame = pd.DataFrame({"x": np.arange(len(labels)) / 4, "y": labels})
    frame.to_parquet(path.with_suffix(".parquet"))


def write_csv(path, labels):
    pd.DataFrame({"x": np.arange(len(labels)) / 4, "y": labels}).to_csv(path.with_suffix(".csv"), index=False)


@pytest.mark.filterwarnings("ignore:1 bad row")
@pytest.mark.parametrize("write", [write_parquet, write_csv])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", TYPED)
def test_whole_floats_beside_integers_are_whole_numbers(name, order, write, tmp_path):
    files, expected = TYPED[name]
    for i, labels in enumerate(files[::order]):
        write(tmp_path / str(i), labels)
    if write is write_csv and any(isinstance(labels[0], bool) for labels in files):
        with pytest.raises(DataError, match="one type of label is needed in all files"):
            open_source(tmp_path, label="y")
        return
    source = open_source(tmp_path, label="y", max_bad_rows=1)
    if write is write_csv and name == "a fraction":  # the numbers of a text file have points by accident
        assert source.label_kind == "float"
        return
    assert (source.label_kind, sorted(labels_in(source).tolist())) == ("int", sorted(expected))
    source = open_source(tmp_path, label="y", label_as="numbers", max_bad_rows=1)
    assert source.label_kind == "float"


def test_a_fraction_among_integers_names_its_row_and_the_remedy(tmp_path):
    write_parquet(tmp_path / "0", [1, 2])
    write_parquet(tmp_path / "1", [1.0, 2.5])
    with pytest.raises(DataError, match=r"1\.parquet, row 2, column 'y': the label is 2\.5, .*--task regress"):
        labels_in(open_source(tmp_path, label="y"))


def write_text(path, labels):
    path.with_suffix(".csv").write_text("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))


@pytest.mark.parametrize("write", [None, write_parquet, write_text])
def test_labels_that_numpy_would_make_one_are_refused(write, tmp_path):
    labels = ["p", "p\0", "q"]

    def read():
        if write is None:
            return from_arrays(np.eye(3), pd.Series(labels, dtype=object, name="y"))
        write(tmp_path / "t", labels)
        return labels_in(open_source(tmp_path, label="y"))

    with pytest.raises(DataError, match=r"The label 'y' holds 'p\\x00', which ends with NUL"):
        read()


def test_labels_that_no_file_could_hold_are_refused():
    with pytest.raises(DataError, match="lone surrogate"):
        from_arrays(np.eye(2), pd.Series(["a\udcff", "b"], dtype=object))
