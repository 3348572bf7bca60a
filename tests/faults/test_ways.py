"""Every way to run gives the bytes of the plain loop: 3 learners x threads, 1, 2, 4 processes, a hand-started one."""

import pytest

from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import ThreadsExecutor
from tests.faults import harness
from tests.faults.processes import PATIENCE, Hand

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,  # one learner of each way runs always: tests/training/test_same_bytes.py
    pytest.mark.parametrize("learner", list(harness.LEARNERS)),
]


@pytest.mark.score("workers")
@pytest.mark.parametrize("threads", [1, 3])
def test_threads(learner, threads, data, serial, tmp_path):
    assert harness.digest(learner, data, ThreadsExecutor(threads), tmp_path) == serial[learner]


@pytest.mark.score("workers")
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_processes(learner, workers, data, serial, tmp_path):
    with connect(workers=workers, memory_limit=0, patience=PATIENCE) as executor:
        assert len(executor.processes()) == workers
        assert harness.digest(learner, data, executor, tmp_path) == serial[learner]


@pytest.mark.score("workers")
def test_a_cluster_started_by_hand(learner, data, serial, tmp_path):
    (tmp_path / "plan").mkdir()
    with (
        Hand(tmp_path, harness.Plan(tmp_path / "plan")) as hand,
        connect(scheduler_file=str(hand.file), patience=PATIENCE) as executor,
    ):
        assert harness.digest(learner, data, executor, tmp_path) == serial[learner]
