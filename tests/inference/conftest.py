"""What the tests of scores share: the sum of a model that is none, and units that are scored one by one."""

import pytest

from dkernel.inference import score as scoring
from dkernel.model.model import Model
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor


@pytest.fixture(autouse=True)
def _sum_of_any_model(monkeypatch):
    compute = scoring.compute_digest
    monkeypatch.setattr(
        scoring, "compute_digest", lambda model: compute(model) if isinstance(model, Model) else model.sum()
    )


@pytest.fixture
def one_a_task(monkeypatch):
    """Units are scored each by a task of its own, however small they are."""
    monkeypatch.setattr(scoring, "group_units", lambda units, _: [range(i, i + 1) for i in range(len(units))])


@pytest.fixture(params=["serial", "threads", pytest.param("cluster", marks=pytest.mark.cluster)])
def executor(request):
    """What runs the tasks: a law with this fixture holds for each."""
    if request.param == "cluster":
        return request.getfixturevalue("two_workers")
    return SerialExecutor() if request.param == "serial" else ThreadsExecutor(2)
