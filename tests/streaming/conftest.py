"""What the tests of readings have in common."""

import pytest

from dkernel.streaming import block_reader


@pytest.fixture
def each_alone(monkeypatch):
    """Every unit is read by a task of its own."""
    monkeypatch.setattr(block_reader, "group_units", lambda units, _: [range(i, i + 1) for i in range(len(units))])
