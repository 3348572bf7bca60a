"""The speed of the machine is measured once, kept whole, and looked at by no choice."""

import numpy as np
import pytest

from dkernel.cost import SPEEDS, STAGE_OVERHEAD, TIMED
from dkernel.data import from_arrays
from dkernel.execution.local import SerialExecutor
from dkernel.numerics import calibration
from dkernel.planning.memory_plan import Plan
from dkernel.recipe import Recipe


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "loop_folder", lambda: str(tmp_path))
    calibration.machine_speeds.cache_clear()
    yield tmp_path
    calibration.machine_speeds.cache_clear()


def test_it_is_measured_once_for_a_machine(folder, monkeypatch):
    half = {kind: 2 * seconds for kind, seconds in calibration.REFERENCE.items()}
    monkeypatch.setattr(calibration, "measure", lambda: half)
    first = calibration.machine_speeds()
    assert first == dict.fromkeys(calibration.WORK_KINDS, pytest.approx(0.5))
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(calibration, "measure", lambda: pytest.fail("measured again"))
    calibration.machine_speeds.cache_clear()
    assert calibration.machine_speeds() == first


@pytest.mark.usefixtures("folder")
def test_without_a_folder_it_is_that_of_the_table(monkeypatch):
    monkeypatch.setattr(calibration, "loop_folder", lambda: "")
    assert set(calibration.machine_speeds().values()) == {1.0}


def test_every_part_of_the_table_has_a_speed():
    assert set(SPEEDS) == set(TIMED) == set(STAGE_OVERHEAD) == set(calibration.WORK_KINDS) - {"start"}
    assert {kind for kinds in calibration.WORK_KINDS.values() for kind in kinds} == set(calibration.REFERENCE)


def test_the_machine_changes_the_stated_seconds_and_nothing_else(monkeypatch):
    source = from_arrays(np.zeros((20_000, 10), np.float32), np.arange(20_000) % 2)
    plans = []
    for speed in (1.0, 4.0):
        each = dict.fromkeys(calibration.WORK_KINDS, speed)
        monkeypatch.setattr("dkernel.planning.memory_plan.machine_speeds", lambda each=each: each)
        plans.append(Plan.of(source, Recipe(), SerialExecutor()).as_dict())
    slow, fast = ({name: plan.pop(name) for name in ("seconds", "least_seconds")} for plan in plans)
    assert plans[0] == plans[1]
    assert all(fast[name] < slow[name] for name in slow)
