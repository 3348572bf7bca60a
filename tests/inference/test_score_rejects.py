"""Bad rows of a scoring run: how many are allowed, where they are listed, and that their list comes with the output."""

import csv
import json
from dataclasses import replace

import pandas as pd
import pytest

from dkernel.data.opening import open_source
from dkernel.data.writers import atomic
from dkernel.errors import DataError
from dkernel.inference.score import write_scores
from dkernel.streaming.execution.local import SerialExecutor
from tests.inference.tables import LinearModel, a_rejecting_source, a_source, rejecting
from tests.inference.test_score import Watched

NAMES = ["out", "out.csv", "out.parquet", "out.zarr"]


def lists(folder):
    return sorted(p.name for p in folder.rglob("*rejects*"))


@pytest.mark.parametrize("name", NAMES)
def test_the_list_comes_with_the_output_and_both_are_counted(tmp_path, name):
    result = write_scores(LinearModel([0, 1]), a_rejecting_source(), tmp_path / name, SerialExecutor(), max_bad_rows=7)
    assert (result.rows, result.rejected, result.rows_in) == (14, 7, 21)
    folder = tmp_path / name / "_manifest.json" if name == "out" else tmp_path / f".{name}.manifest.json"
    document = json.loads(folder.read_text())
    assert (document["rows"], document["rejected"], document["rejects"]["rows"]) == (14, 7, 7)
    with open(result.rejects, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["line"] for row in rows] == ["10", "11", "30", "31", "32", "33", "40"]
    assert {row["raw"] for row in rows} == {'?,"x\n"'}
    digest = atomic.file_digest(tmp_path / name)[1][:8]
    assert lists(tmp_path) == ["_rejects.csv" if name == "out" else f"{name}.rejects-{digest}.csv"]
    if name == "out":
        assert len(pd.read_parquet(tmp_path / name)) == 14
        assert sorted(p.name for p in (tmp_path / name).glob("part-*"))[-1] == "part-00003.parquet"


@pytest.mark.usefixtures("one_a_task")
def test_too_many_end_the_run_with_the_first_ten(tmp_path):
    source = rejecting(a_source(rows=((2,),) * 6)[0], {0: 1, 1: 9, 4: 9})
    with pytest.raises(DataError) as refused:
        write_scores(LinearModel([0, 1]), source, tmp_path / "out", SerialExecutor(), max_bad_rows=9)
    lines = str(refused.value).splitlines()
    assert lines[0] == "10 bad rows so far, and max_bad_rows=9 allows no more:"
    assert (len(lines), lines[11].split()[0]) == (12, "Correct")
    assert lines[1] == "  in.csv, line 0, column 'a': '?' is not a number"
    with pytest.raises(DataError, match=r"^in.csv, line 0, column 'a'.*; and max_bad_rows=0 allows no more"):
        write_scores(LinearModel([0, 1]), source, tmp_path / "out", SerialExecutor())
    every = rejecting(a_source(rows=((1,),) * 4)[0], {3: 2})
    only = replace(every, units=every.units[3:])
    with pytest.raises(DataError, match="every row of the input is bad"):
        write_scores(LinearModel([0, 1]), only, tmp_path / "out", SerialExecutor(), max_bad_rows=9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("one_a_task")
@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_keeps_its_reject_lists_and_a_new_one_has_its_own(tmp_path, name):
    source, model = a_rejecting_source(), LinearModel([0, 1])
    (tmp_path / "ref").mkdir()
    write_scores(model, source, tmp_path / "ref" / name, Watched(), max_bad_rows=7)
    with pytest.raises(KeyboardInterrupt):
        write_scores(model, source, tmp_path / name, Watched(fail_at=4), max_bad_rows=7)
    second = Watched()
    result = write_scores(model, source, tmp_path / name, second, max_bad_rows=7)
    assert (second.scored, result.reused, result.rejected) == ([4], 4, 7)
    assert atomic.file_digest(tmp_path / name) == atomic.file_digest(tmp_path / "ref" / name)
    again = write_scores(model, source, tmp_path / name, Watched(), max_bad_rows=100)
    assert (again.skipped, again.rejected, again.rejects) == (True, 7, result.rejects)
    with pytest.raises(DataError, match="without the 7 bad rows"):
        write_scores(model, source, tmp_path / name, Watched(), max_bad_rows=6)
    plain = a_source()[0]
    assert write_scores(model, plain, tmp_path / name, Watched(), overwrite=True).rejects is None
    assert [n for n in lists(tmp_path) if not (tmp_path / "ref" / n).exists() and n != "_rejects.csv"] == []


def test_a_file_that_changed_is_refused_before_the_output_is_touched(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,2,3\n")
    model = LinearModel([0, 1])
    source = open_source(path, columns=["a", "b", "c"], quarantine=True)
    write_scores(model, source, tmp_path / "out.csv", SerialExecutor())
    before = atomic.file_digest(tmp_path / "out.csv")
    path.write_text("a,b,c\n1,2,3\n4,5,6\n")
    stale = replace(source, fingerprint="other")
    with pytest.raises(DataError, match="the file changed since it was opened"):
        write_scores(model, stale, tmp_path / "out.csv", SerialExecutor(), overwrite=True, max_bad_rows=9)
    assert atomic.file_digest(tmp_path / "out.csv") == before
    assert not list(tmp_path.glob(".out.csv.staging*"))
