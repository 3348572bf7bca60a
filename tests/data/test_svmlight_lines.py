"""svmlight: rows, comments, blanks, orders and line ends of any kind, cut anywhere, are what line by line gives."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dkernel.data import open_source

numbers = st.floats(-1e6, 1e6, width=32)
pairs = st.dictionaries(st.integers(0, 6), numbers, max_size=5)
blanks = st.sampled_from([" ", "  ", "\t"])
tails = st.sampled_from(["", " ", " # note 9:9", "\t#"])
rows = st.tuples(st.integers(-3, 3), pairs, blanks, tails, st.sampled_from(["", "# a line of its own\n", "\n", " \n"]))


def line_by_line(text: str, p: int) -> tuple[list[list[float]], list[float]]:
    """The rows as the format defines them."""
    X, y = [], []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            row = [0.0] * p
            for word in words[1:]:
                index, value = word.split(":")
                row[int(index)] = float(np.float32(float(value)))
            X.append(row)
            y.append(float(words[0]))
    return X, y


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    st.lists(rows, min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.integers(1, 80),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_equals_reading_line_by_line(drawn, newline, end, scan_bytes, random) -> None:
    text = ""
    for label, values, blank, tail, before in drawn:
        items = list(values.items())
        random.shuffle(items)
        text += before + blank.join([str(label), *(f"{j}:{v!r}" for j, v in items)]) + tail + "\n"
    text = text.replace("\n", newline) if end else text.replace("\n", newline).removesuffix(newline)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.svm"
        path.write_bytes(text.encode())
        source = open_source(path, label="label", scan_bytes=scan_bytes, n_features=7, zero_based=True)
        blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    X, y = line_by_line(text, 7)
    assert np.concatenate([block.X for block in blocks]).tolist() == X
    assert np.concatenate([block.y for block in blocks]).tolist() == y
