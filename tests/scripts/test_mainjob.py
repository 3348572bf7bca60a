"""The main job: the first page has what its lines say, pictures keep to their rules, and every contender learns."""

import json

import contenders
import mainjob
import pandas as pd
import picture
import pytest
from matplotlib import image


@pytest.mark.parametrize("page", mainjob.PAGES, ids=lambda page: page.parent.name)
def test_the_pages_are_those_of_the_lines(page):
    made = mainjob.fill(page, mainjob.read(mainjob.LINES))
    assert made == page.read_text(), "python scripts/bench/mainjob.py --ways --page"


def test_a_line_takes_the_place_of_one_of_its_rows():
    old = [{"table": "made", "way": "dkernel", "rows": rows} for rows in (1, 2)]
    new = {**old[1], "seconds": 3}
    assert mainjob.joined(old, new) == [old[0], new]


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("low", "high"), [(4, 260), (9.5, 13.2), (0.06, 0.9), (1, 1.1), (5, 21), (90, 4e5)])
def test_an_axis_has_two_or_three_round_ticks(low, high, log):
    ticks = picture.few_ticks(low, high, log)
    assert 2 <= len(ticks) <= 3
    assert all(low <= tick <= high and len(f"{tick:g}") <= 6 for tick in ticks)


def test_names_of_marks_do_not_cover_each_other(tmp_path):
    marks = {f"name {i}": ([10.0 + 3 * i], [12.0 + 0.05 * i]) for i in range(6)}
    picture.draw(picture.Picture("x", "", "x", "y", marks, {"best": 10.0}, ours=["name 1"]), tmp_path / "x.png")
    pixels = image.imread(tmp_path / "x.png")
    assert pixels.shape == (880, 1400, 4)
    assert pixels[0, 0, 3] == 0  # the page shows through


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """A table with a number, a text and a date; texts and dates of the answer."""
    folder = tmp_path_factory.mktemp("flights")
    time = pd.Series(pd.date_range("2024-01-01", periods=6000, freq="37min"))
    frame = pd.DataFrame({"time": time, "carrier": pd.Series(["a", "b", "c"] * 2000), "far": range(6000)})
    frame = frame.assign(label=((time.dt.hour > 12) ^ (frame.carrier == "a")).map({True: "late", False: "no"}))
    for part, rows in (("train", frame[:4000]), ("test", frame[4000:])):
        rows.to_parquet(folder / f"{part}.parquet", index=False)
    return folder


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("way", contenders.FITS)
def test_a_contender_learns(way, flights, capsys, monkeypatch):
    if way == "XGBoost":
        pytest.importorskip("xgboost")
    monkeypatch.setattr(contenders, "TREES", 20)
    words = [way, str(flights / "train.parquet"), "label", str(flights / "model")]
    assert contenders.main(words) == contenders.main([*words, str(flights / "test.parquet")]) == 0
    assert json.loads(capsys.readouterr().out)["error"] < (0.45 if way in ("scikit-learn", "dask-ml") else 0.05)
