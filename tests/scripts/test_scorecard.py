"""The score card says what its tests found, and nothing that no test found."""

import json
import subprocess
import sys

import pytest

from tests.processes import ROOT, environment

TESTS = """
import time
import pytest

@pytest.mark.score("faults")
@pytest.mark.parametrize("i", [0, 1, 2])
def test_one_each(i):
    assert i < 2

@pytest.mark.score("mutations")
def test_many_in_one(record_property):
    record_property("score", f"{sum(True for _ in range(12000))}/12000")

@pytest.mark.score("hostile")
def test_fails_after_it_said_so(record_property):
    record_property("score", "20/20")
    assert False

@pytest.mark.score("rows")
def test_outlasts_its_limit(record_property):
    record_property("limit", 0.01)
    time.sleep(0.1)

@pytest.mark.score("poller")
def test_ends_with_a_time_out():
    raise TimeoutError("a hang")

@pytest.mark.score("bad-input")
def test_is_left_out():
    pytest.skip("no such system")

@pytest.mark.slow
@pytest.mark.score("resume")
def test_takes_long():
    pass

def test_makes_no_figure():
    assert False
"""


def run(place, *arguments):
    """Exit status, what was printed and the card, of a process of its own: pytest does not run inside pytest."""
    command = [sys.executable, str(ROOT / "scripts" / "scorecard.py"), "--tests", str(place)]
    command += ["--json", str(place / "card.json"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(), check=False)
    file = place / "card.json"
    lines = json.loads(file.read_text()) if file.exists() else []
    return done.returncode, done.stdout, {line["measure"]: line for line in lines}


def test_every_figure_is_counted(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    status, printed, card = run(tmp_path)
    assert status == 1
    assert {name: line["here"] for name, line in card.items()} == {
        "faults": "2/3", "resume": "1/1", "workers": "-", "clients": "-", "threads": "-",
        "asyncio": "-", "logs": "-", "modules": "-", "committed": "-", "poller": "0/1",
        "rows": "1/1", "bad-input": "0/1", "hostile": "0/20", "mutations": "12,000/12,000", "deploy": "-",
        "hangs": "2 in 9",
    }  # fmt: skip
    assert [name for name, line in card.items() if line["met"]] == ["mutations"]
    assert f"| {card['mutations']['says']} | 10,000 or more | 12,000/12,000 |" in printed
    assert "not met by faults: " in printed
    assert "test_makes_no_figure" not in printed


def test_one_measure_alone_and_without_what_takes_long(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    status, _, card = run(tmp_path, "mutations", "resume", "--fast")
    assert (status, list(card)) == (1, ["resume", "mutations", "hangs"])
    assert [line["here"] for line in card.values()] == ["-", "12,000/12,000", "0 in 1"]
    assert [line["met"] for line in card.values()] == [False, True, True]


@pytest.mark.parametrize(
    "text", ["import no_such_module", "import pytest\n@pytest.mark.score('x')\ndef test(): pass\n"]
)
def test_what_cannot_be_counted_is_no_success(tmp_path, text):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text(text)
    assert run(tmp_path, "mutations")[0] == 1
