"""Every bad input of the table through every door: the right outcome, one line of error, nothing left, no hang."""

import signal
from pathlib import Path

import pytest

import dkernel
from dkernel import KernelClassifier
from tests.bad_input.cases import CASES
from tests.bad_input.data import NAMES, SMALL, frame, one
from tests.bad_input.doors import Doors
from tests.bad_input.table import BOTH, GROUPS, HANDLED, REFUSED

# Of a bad input the rest may have drifted too, which is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::dkernel.errors.DriftWarning")

LIMIT = 120


@pytest.fixture(scope="session")
def quick_model(tmp_path_factory):
    """The file of a model fitted on data that are right."""
    path = tmp_path_factory.mktemp("quick") / "m"
    data = frame()
    dkernel.save(KernelClassifier(**SMALL).fit(data[NAMES], data["label"]), path)
    return path


@pytest.fixture
def doors(run, tmp_path, monkeypatch, quick_model, caplog):
    """The doors, each with folders of its own; the commands run in the folder of the output."""
    for name in ("out", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "out")

    return Doors(tmp_path, run, quick_model, caplog=caplog)


@pytest.fixture
def in_time():
    """A hang is an error, not a test without an end."""

    def late(*_):
        raise TimeoutError(f"no end within {LIMIT} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.score("bad-input")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.group}: {case.name}")
@pytest.mark.usefixtures("in_time")
def test_outcome(case, doors, record_property):
    record_property("limit", LIMIT)
    case.show(doors)
    wanted = {REFUSED: (True, case.rejects), HANDLED: (False, True), BOTH: (True, True)}[case.outcome]
    assert (doors.refused > 0, doors.handled > 0) == wanted


def test_every_group_is_whole():
    assert {group: sum(case.group == group for case in CASES) for group in GROUPS} == GROUPS


def test_bad_data_leave_the_older_model(doors):
    doors.trains(one(frame()))
    old = Path("m").read_bytes()
    arguments = one(frame().assign(label="in"))(doors.folder())
    doors._refused(("one value 'in'",), "train", "--label", "label", *arguments, "--out", "m", "--overwrite")
    assert Path("m").read_bytes() == old
