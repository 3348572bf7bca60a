"""The study of maps, grids and cells: what it would run, how it goes on after a kill, and the page from its lines."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "bench"))

import study  # noqa: E402  (a script is no package: it is found by path)
import study_points  # noqa: E402
from study_points import METHODS, Point, choice  # noqa: E402

A, B, C = (Point("smooth", 60_000, "grids", size) for size in study_points.SIZES)


def line_of(point, **more):
    return {"point": point.key, "error": 0.2, "fit_s": 1.0, "predict_s": 2.0, "bytes": 1000, "peak_mib": 300.0,
            "tested": 20_000, "date": "2026-11-22", **more}  # fmt: skip


def test_a_dry_run_prints_the_points_and_their_hours_and_runs_none(capsys, tmp_path):
    lines = tmp_path / "study.jsonl"
    lines.write_text(json.dumps(line_of(A)) + "\n")
    assert study.main(["--dry-run", "--lines", str(lines)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(lines.read_text().splitlines()) == 1
    points = [point for stage in study_points.stages().values() for point in stage]
    assert sum(" s  " in line for line in said) == len(points) == len(set(points))
    assert f"{A.key}  there" in "\n".join(said)
    assert float(said[-1].split(" h")[0]) <= study_points.HOURS


def test_the_hours_are_cut_to_what_is_worth_most():
    stages = study_points.stages()
    first = next(iter(stages))
    hours = sum(point.seconds for point in stages[first]) / 3600
    taken, left = study_points.within(stages, hours)
    assert taken[: len(stages[first])] == stages[first]
    assert stages["1e8"][0] in left
    assert sum(point.seconds for point in taken) <= 3600 * hours + 1e-6


def test_choices_stand_before_the_points_that_need_them():
    for stage in study_points.stages().values():
        [first, *_] = study.batches(stage)
        assert all(point.chooses for point in first) or not any(point.chooses and not point.seed for point in stage)
    assert choice("kin40k", "gaussian").chooses
    assert not Point("kin40k", 36_000, "Nystrom, uniform", 1024).chooses
    assert {METHODS[method].kernel for method in study_points.MAPS} == {"gaussian"}


def test_a_killed_study_goes_on_where_it_was(tmp_path, monkeypatch):
    lines, ran = tmp_path / "study.jsonl", []

    def fit(point, *_):
        if point == B and not ran.count(B):
            ran.append(B)
            raise InterruptedError("killed")
        ran.append(point)
        return line_of(point)

    monkeypatch.setattr(study, "run_one", fit)
    with pytest.raises(InterruptedError):
        study.run([A, B], lines, tmp_path, tmp_path)
    with lines.open("a") as file:  # and the line that was being written is torn
        file.write(json.dumps(line_of(B))[:40])
    assert study.run([A, B, C], lines, tmp_path, tmp_path) == 2
    assert [json.loads(line)["point"] for line in lines.read_text().splitlines()] == [A.key, B.key, C.key]
    assert ran == [A, B, B, C]


def test_a_point_whose_choice_failed_is_left_out_and_the_others_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "run_one", lambda point, *_: line_of(point))
    needs = Point("smooth", 60_000, "Nystrom, uniform", 256)
    assert study.run([needs, A], tmp_path / "study.jsonl", tmp_path, tmp_path) == 1
    assert "left out: smooth/60000/Nystrom, uniform/256/0/1" in capsys.readouterr().err


def test_points_of_sets_that_are_absent_are_left_out(tmp_path, capsys):
    found = study.available([A, Point("magic", 15_216, "grids", 256)], tmp_path)
    assert found == [A]
    assert "skipped" in capsys.readouterr().err


@pytest.mark.slow
def test_a_point_is_fitted_in_a_process_of_its_own(tmp_path):
    first, then = Point("rough", 4000, "metric off", 64), Point("rough", 4000, "Nystrom, uniform", 64)
    lines = [study.run_one(first, {}, tmp_path, tmp_path)]
    lines.append(study.run_one(then, {"gamma": lines[0]["gamma"], "alpha": lines[0]["alpha"]}, tmp_path, tmp_path))
    for line in lines:
        assert 0.2 < line["error"] < 1
        assert line["components"] == 64
        assert min(line["fit_s"], line["predict_s"], line["peak_mib"]) > 0
    assert 0 < lines[1]["kernel_error"] < 1
    failed = study.run_one(Point("rough", 4000, "grids", -1), {}, tmp_path, tmp_path)
    assert "n_grids=-1" in failed["failed"]
