"""The regret of the plain command beside kept errors, and the made sets of its benchmark."""

import json

import made_sets
import numpy as np
import pytest
import regret

RNG = np.random.default_rng(0)
WRONG = (RNG.random(4000) < 0.1).astype(float)
MORE = np.maximum(WRONG, RNG.random(4000) < 0.02)


def write_fits(folder, errors):
    """A folder of fits: (set, way) -> parts of the error of its rows."""
    folder.mkdir()
    for (name, way), rows in errors.items():
        path = folder / f"{name}-{way}-0.npy"
        np.save(path, rows)
        path.with_suffix(".json").write_text(json.dumps({"set": name, "way": way, "regress": False, "commit": "abc"}))
    return folder


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The fits that are kept, and the table that was written from them."""
    monkeypatch.setattr(regret, "TABLE", tmp_path / "regret.json")
    ways = {"command": MORE, "cells": WRONG, "grids": MORE, regret.TREES[1]: WRONG}
    folder = write_fits(tmp_path / "kept", {(name, way): rows for name in ("m", "n") for way, rows in ways.items()})
    assert regret.main([str(folder)]) == 0
    written = json.loads(regret.TABLE.read_text())
    assert written["commit"] == "abc"
    return folder, written["sets"]


def test_regret_is_the_error_over_that_of_the_best_kept_way(kept, tmp_path):
    folder, table = kept
    now = write_fits(tmp_path / "now", {("m", "command"): MORE, ("n", "command"): WRONG})
    first, second = regret.compare(now, folder, table)
    assert first["best"] == "cells"
    assert first["regret"] == pytest.approx((MORE.mean() + 0.5 / 4000) / (WRONG.mean() + 0.5 / 4000), rel=1e-4)
    assert second["regret"] == pytest.approx(1, rel=1e-4)
    assert regret.compare(now, None, table)[0]["se"] > 2 * first["se"]  # not paired


def test_halves_count_the_sets_that_are_clearly_worse(kept, tmp_path):
    folder, table = kept
    now = write_fits(tmp_path / "now", {("m", "command"): MORE, ("n", "command"): WRONG})
    lines = regret.summarize(regret.compare(now, folder, table))
    counts = {line["set"]: (line["sets"], line["beyond 1.05"], line["behind LightGBM 500 x 255"]) for line in lines}
    assert counts == {"a to m": (1, 1, 1), "n to z": (1, 0, 0), "all": (2, 1, 1)}


def test_a_set_that_was_not_kept_is_compared_with_ways_of_the_folder(kept, tmp_path):
    _, table = kept
    ways = {"command": MORE, "cells": WRONG, "grids": MORE}
    now = write_fits(tmp_path / "now", {("2d", way): rows for way, rows in ways.items()})
    [row] = regret.compare(now, None, table)
    assert (row["best"], row["own best"]) == ("cells", "cells")
    assert row["regret"] == row["own regret"] > 1.05
    assert [line["set"] for line in regret.summarize([row])] == ["others", "all"]


@pytest.mark.parametrize("name", ["made 2,000", "events", "noisy"])
def test_made_rows_are_the_same_at_each_call(name):
    (train, test), (again, _) = (made_sets.make_rows(name, 500) for _ in range(2))
    assert (len(train), len(test), train.columns[-1]) == (500, made_sets.TEST_ROWS, "label")
    assert train.equals(again)
    assert 0.01 < test["label"].mean() < 0.6


def test_hands_have_ten_classes():
    train, _ = made_sets.make_rows("hands", 5000)
    assert sorted(train["label"].unique()) == list(range(10))
