"""`score` as a nightly job, by the command: what it prints, its record, and the mistakes in its options."""

import json
import shutil

import pytest

from tests.inference.test_score_nightly import spoil


@pytest.fixture
def nightly(run_to, model, data, here):
    """The command on a folder of five files; the fourth may be spoiled."""
    (here / "new").mkdir()
    for i in range(5):
        shutil.copy(data / "new.parquet", here / "new" / f"{i}.parquet")
    command = ["score", model, "new", "--done", "done.json", "--max-bad-files", "1", "--keep", "all"]
    return lambda out, *more, code=0: run_to(*command, "--out", out, *more, code=code)


def test_each_night_scores_what_is_new(nightly, data, tmp_path):
    spoil("truncated")
    first = nightly("monday").stdout
    assert first.startswith("monday: 2,000 rows in")
    assert "  left out: new/3.parquet: the file is truncated" in first
    record = json.loads((tmp_path / "monday.run.json").read_text())
    assert list(record["bad_files"]) == ["new/3.parquet"]
    assert record["rows_out"] == 2000
    shutil.copy(data / "new.parquet", "new/3.parquet")
    assert json.loads(nightly("tuesday", "--json").stdout)["rows"] == 500
    assert nightly("wednesday").stdout == "No file is new since the last run: wednesday was not written.\n"
    assert not (tmp_path / "wednesday").exists()


def test_a_night_of_known_bad_files_alone_is_done(nightly, tmp_path):
    spoil("truncated")
    nightly("monday")
    said = nightly("tuesday").stdout
    assert said == "No file is new since the last run (1 known bad file was left out): tuesday was not written.\n"
    assert list(json.loads((tmp_path / "tuesday.run.json").read_text())["bad_files"]) == ["new/3.parquet"]
    assert list(json.loads(nightly("tuesday", "--json").stdout)["bad_files"]) == ["new/3.parquet"]
