"""scripts/one_row.py times the doors of one row, beside LightGBM."""

import re

import numpy as np
import one_row
import pandas as pd
import pytest

import dkernel


@pytest.mark.parametrize("words", [False, True])
def test_every_way_of_one_row_is_timed(words, tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)).astype(np.float32), columns=list("abc"))
    label = np.where(frame.a * frame.b > 0, "up", "down")
    if words:
        frame["word"] = rng.choice(["x", "y"], 400)
    dkernel.save(dkernel.KernelClassifier(n_components=32, gamma=0.5).fit(frame, label), tmp_path / "m.safetensors")
    frame.assign(label=label).to_parquet(tmp_path / "rows.parquet")
    one_row.main(str(tmp_path / "m.safetensors"), str(tmp_path / "rows.parquet"))
    first, *timed = capsys.readouterr().out.splitlines()
    assert "off by" in first
    ways = ["one row, graph", "Python, of a frame", "Python, of an array", "LightGBM, of an array", "its booster"]
    assert [line.split(":")[0] for line in timed] == [
        way for way in ways if not (words and way == "Python, of an array")
    ]
    assert all(re.search(r": \d+\.\d{3} ms \(median \d+\.\d{3} of 300\)$", line) for line in timed)
