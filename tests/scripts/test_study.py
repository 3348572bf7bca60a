"""The study of maps, grids and cells: what it would run, how it goes on after a kill, and the page from its lines."""

import json
import re

import pytest
import study
import study_page
import study_points
import study_verdicts
from study_lines import Lines, components_for
from study_points import METHODS, SETS, SIZES, Point, choice, full_rows

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
    assert study.main(["--dry-run", "--lines", str(lines), "--only", "rough/1000000/(grids|cells)/1024"]) == 0
    assert sum(" s  rough/1000000/" in line for line in capsys.readouterr().out.splitlines()) == 2


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
    assert study.main(["--only", "^smooth/60000/grids/(256|1024)/0/1$", "--lines", str(lines)]) == 1
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
    assert "python scripts/bench/data.py --data" in capsys.readouterr().err


def test_points_without_data_and_without_a_line_end_with_1(tmp_path):
    words = ["--data", str(tmp_path), "--only", "^magic.*grids/256"]
    assert study.main([*words, "--lines", str(tmp_path / "study.jsonl")]) == 1
    assert study.main(words) == 0  # the repository has their lines


def made_lines(errors):
    """Lines of (method, size) -> error, on every set, and the choices."""
    points = {
        Point(name, full_rows(name), method, size): error for name in SETS for (method, size), error in errors.items()
    }
    lines = [
        line_of(choice(name, kernel), gamma=0.1, alpha=1e-6) for name in SETS for kernel in ("gaussian", "polynomial")
    ]
    return Lines(
        {line["point"]: line for line in (*lines, *(line_of(p, error=e, kernel_error=e) for p, e in points.items()))}
    )


def test_the_page_is_made_of_a_few_lines(tmp_path):
    lines = tmp_path / "study.jsonl"
    few = made_lines({("grids", 1024): 0.25}).by_key
    lines.write_text("".join(json.dumps(line) + "\n" for line in few.values()))
    assert study_page.main(["--lines", str(lines), "--out", str(tmp_path)]) == 0
    page = (tmp_path / "STUDY.md").read_text()
    assert f"{len(few)} of " in page
    assert "0 of 6 hypotheses have a verdict" in page
    assert "| grids | 0.25 | 0.25 | 0.25 | 0.250 |" in page
    assert "2. **Open.**" in page
    assert "Failed" not in page


def test_the_page_of_the_repository_is_that_of_its_lines():
    text = study_page.PAGE.read_text()
    assert study_page.fill(text, Lines(study.read(study.LINES))) == text, "python scripts/bench/study_page.py makes it"
    assert sorted(study_page.PARTS) == sorted(re.findall(r"<!-- made: ([\w-]+) -->", text))


def test_verdicts_follow_their_rules():
    curve = {("metric off", size): error for size, error in zip(SIZES, (0.4, 0.2, 0.1), strict=True)}
    assert study_verdicts.metrics(made_lines({**curve, ("metric on", 1024): 0.1}))[0] == "holds"
    assert study_verdicts.metrics(made_lines({**curve, ("metric on", 1024): 0.2}))[0] == "refuted"
    assert study_verdicts.metrics(made_lines({("metric on", 1024): 0.2}))[0] == "open"
    rules = {(rule, 4096): 0.2 for rule in study_points.MAPS if rule.startswith("Nystrom")}
    assert study_verdicts.landmarks(made_lines(rules))[0] == "holds"
    assert study_verdicts.landmarks(made_lines({**rules, ("Nystrom, k-means", 4096): 0.15}))[0] == "refuted"
    equal = {(map, 1024): 0.2 for map in study_points.MAPS}
    assert study_verdicts.narrowing(made_lines(equal))[0] == "refuted"
    assert study_verdicts.frequencies(made_lines(equal))[0] == "refuted"  # neither is quicker
    ranked = {(map, 1024): 0.2 + 0.01 * i for i, map in enumerate(study_points.MAPS)}
    assert study_verdicts.kernel_errors(made_lines(ranked))[0] == "refuted"
    assert study_verdicts.rows_grow(made_lines(equal))[0] == "open"


def test_components_are_read_between_the_points_of_a_curve():
    assert components_for(0.2, [(256, 0.4), (1024, 0.2), (4096, 0.1)]) == pytest.approx(1024)
    assert components_for(0.1 * 2**0.5, [(1024, 0.2), (4096, 0.1)]) == pytest.approx(2048)
    assert components_for(0.01, [(1024, 0.2), (4096, 0.1)]) == pytest.approx(4096)


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
