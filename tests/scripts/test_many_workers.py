"""The scripts about faults of others and about many workers: their words, their laws, and a fit that is counted."""

from types import SimpleNamespace

import many_workers
import numpy as np
import promised_fits
import promises
import pytest
from many_workers import Prices, round_seconds

USUAL = {"accuracy": 0.9, "sha256": "ab"}


@pytest.mark.parametrize(
    ("ended", "found", "word"),
    [
        ("finished", USUAL, "same bytes"),
        ("finished", {"accuracy": 0.895, "sha256": "cd"}, "other bytes"),
        ("finished", {"accuracy": 0.85, "sha256": "cd"}, "wrong"),
        ("refused", None, "refused"),
        ("hung", USUAL, "hung"),
    ],
)
def test_the_word_for_the_end_of_a_fit(ended, found, word):
    assert promises.word_of(ended, found, USUAL) == word


def test_a_fault_comes_at_a_step_that_every_system_has():
    for system, last in promises.LAST.items():
        for case in promises.CASES.values():
            step = case.step(system)
            assert step == "read-*" or 1 <= int(step.removeprefix("step-")) <= last
    assert promises.CASES["a worker killed, at the end"].step("dkernel") == "step-30"


def test_parts_without_rows_leave_the_rows_of_the_others(tmp_path):
    (tmp_path / "notes").mkdir()
    usual, empty = (promised_fits.data(str(tmp_path), name) for name in ("usual", "empty"))
    assert 0 in empty[0].chunks[0]
    assert np.array_equal(usual[0].compute(scheduler="sync"), empty[0].compute(scheduler="sync"))
    (missing, _) = promised_fits.data(str(tmp_path), "missing")
    assert np.isnan(missing.compute(scheduler="sync")).sum() == promised_fits.ROWS * promised_fits.COLUMNS


def test_dkernel_fits_the_rows_that_the_cases_have(tmp_path):
    (tmp_path / "notes").mkdir()
    X, y = promised_fits.data(str(tmp_path), "usual")
    predict, model = promised_fits.dkernel(str(tmp_path), X, y, SimpleNamespace())
    other = promised_fits.rows(10_000, 2000)
    assert np.mean(predict(other[:, :-1]) == other[:, -1]) > 0.9
    assert len(model) > 1000
    steps = {file.name.split(".")[0] for file in (tmp_path / "notes").glob("step-*")}
    assert len(steps) == promises.LAST["dkernel"]


def test_a_simulated_round_has_a_best_number_of_calls():
    prices = Prices(0.001, 0.002, 0.0)
    seconds = {calls: round_seconds([0.3 / calls] * calls, prices) for calls in (1, 2, 4, 8, 16, 64, 512)}
    best = min(seconds, key=seconds.get)
    assert best in (8, 16)  # near the root of 0.3 / 0.003
    assert seconds[512] > 512 * 0.002
    assert seconds[1] == pytest.approx(0.303)
    line = many_workers.line(10**6, 64, many_workers.Recipe(n_components=512, local="none"), Prices())
    assert line["seconds"] <= line["seconds, all"]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("workers", [1, 3, 8, 40])
def test_simulated_rounds_have_the_rows_of_a_round(workers, kept):
    source = many_workers.rows_of(4 * 10**6)
    survey, *turns = many_workers.rounds_of(source, 32, workers, kept)
    assert sum(sum(window.rows) for window in survey.windows) == source.n_rows
    for turn in turns:
        assert sum(sum(window.rows) for window in turn.windows) == pytest.approx(source.n_rows / 32, rel=0.02)
        for window in turn.windows:
            assert len(window.rows) == len(window.copied) <= workers
            assert len(window.rows) <= window.sums
            assert workers > 1 or not any(window.copied)
