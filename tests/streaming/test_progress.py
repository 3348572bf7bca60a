"""What is shown: the figures are right, and only a terminal gets control characters."""

import io
import json
import os
import threading

import pytest

from dkernel.errors import RecipeError
from dkernel.streaming.progress import PROGRESS_KINDS, Progress


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def told(kind, stream=None):
    stream, clock = stream or io.StringIO(), Clock()
    with Progress(kind, stream, clock=clock) as progress:
        progress.phase("survey", 1000)
        clock.now += 4
        progress.advance(1000)
        progress.message("gamma is 0.05")
        progress.phase("train", 4000)
        for i in range(4):
            clock.now += 6
            progress.advance(600, round=f"{i + 1}/8", loss=1 / (i + 1), accuracy=0.5 + i / 10)
    return stream.getvalue()


def test_log_says_where_it_is_after_ten_seconds_and_then_once_a_minute():
    stream, clock = io.StringIO(), Clock()
    with Progress("log", stream, clock=clock) as progress:
        progress.plan(200.0)
        progress.phase("survey", 1000)
        clock.now += 4
        progress.advance(1000)
        progress.message("gamma is 0.05")
        progress.phase("train", 4000)
        for i in range(6):
            clock.now += 6
            progress.advance(600, round=f"{i + 1}/8", loss=1 / (i + 1), accuracy=0.5 + i / 20)
        for name in ("choose", "prepare"):
            progress.phase(name)
            for _ in range(100):
                clock.now += 1
                progress.advance(candidates=1)
    assert stream.getvalue().splitlines() == [
        "gamma is 0.05",
        "train: 600 of 4,000 rows (15 %), 100 rows/s, round 1/8, loss 1, accuracy 50.00 %, 34 s left",
        "choose: 30 s so far, candidates 1, 2 min 10 s left of about 3 min 20 s planned in all",
        "choose: 90 s so far, candidates 1, 70 s left of about 3 min 20 s planned in all",
        "choose: done in 100 s, candidates 1",
        "prepare: 50 s so far, candidates 1, 10 s left of about 3 min 20 s planned in all",
        "prepare: done in 100 s, candidates 1",
    ]


def test_a_phase_that_takes_longer_than_planned_says_so():
    stream, clock = io.StringIO(), Clock()
    with Progress("log", stream, clock=clock) as progress:
        progress.plan(5.0)
        progress.phase("prepare")
        clock.now += 12
        progress.advance()
    assert stream.getvalue() == "prepare: 12 s so far, longer than the 5.0 s planned in all\n"


def test_json_is_one_object_a_line():
    events = [json.loads(line) for line in told("json").splitlines()]
    assert [event["event"] for event in events] == ["phase", "message", "end", "phase", "progress", "progress", "end"]
    assert events[5] == {
        "event": "progress",
        "phase": "train",
        "rows": 2400,
        "total_rows": 4000,
        "seconds": 24.0,
        "rows_per_second": 100.0,
        "seconds_left": 16.0,
        "round": "4/8",
        "loss": 0.25,
        "accuracy": 0.8,
    }


def test_none_says_nothing():
    assert told("none") == ""


@pytest.mark.parametrize("kind", PROGRESS_KINDS)
def test_without_a_terminal_there_are_no_control_characters(kind):
    stream, clock = io.StringIO(), Clock()
    with Progress(kind, stream, clock=clock) as progress:
        progress.phase("train", 10)
        clock.now += 20
        progress.advance(5, loss=0.5)
        progress.message("reading \x1b[31mred\r.csv")
    assert all(c.isprintable() or c == "\n" for c in stream.getvalue())
    assert kind == "none" or "red" in stream.getvalue()


@pytest.mark.parametrize("kind", ["auto", "bar"])
def test_on_a_terminal_a_bar_overwrites_itself_and_ends_with_a_line(kind):
    text = told(kind, Terminal())
    assert "\r[###.................] train: 600 of 4,000" in text
    assert text.endswith(
        "\rtrain: 2,400 of at most 4,000 rows in 24 s, 100 rows/s, round 4/8, loss 0.25, accuracy 80.00 %\n"
    )
    assert text.count("\n") == 3


def test_rows_of_many_threads_add_up():
    stream = io.StringIO()
    with Progress("json", stream) as progress:
        progress.phase("train")
        threads = [threading.Thread(target=lambda: [progress.advance(1) for _ in range(500)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert json.loads(stream.getvalue().splitlines()[-1])["rows"] == 2000


def test_a_reader_that_went_away_does_not_end_the_run():
    read, write = os.pipe()
    os.close(read)
    stream = open(write, "w")  # noqa: SIM115 - closing it raises once more, on purpose below
    with Progress("log", stream) as progress:
        progress.phase("train", 10)
        progress.message("first")
        progress.message("second")
    assert progress.kind == "none"
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_an_unknown_kind_is_refused():
    with pytest.raises(RecipeError, match="bar, log, json, none"):
        Progress("fancy")
