"""What every test runs under: a worker that dies where no test killed it is a failure, and nobody spills.

No test that runs by default may depend on a clock, on free memory or on what an allocator keeps: beside other jobs such
a test fails and says nothing. So hypothesis has no deadline and always draws the same examples, a bound of time by
default only ends what hangs (a minute and more), and what asserts seconds or bytes of a process is marked slow.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from hypothesis import HealthCheck, settings

import dkernel
from dkernel.leaf_table import LEAF_OF_NAME, LEAVES, has_leaf, load_leaf
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.connect import connect

# Of the clusters of this process, and of those of the commands that tests start. Tests of faults say otherwise.
_CALM = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
}

# Tests compare messages whole. What a command prints has shorter lines: tests/cli/test_lines.py.
dkernel.errors.LINE_LENGTH = 10**6

ABSENT = [leaf for leaf in LEAVES if not has_leaf(leaf)]


def stand_in(name: str) -> type:
    """What a test file imports in the place of a name of an absent leaf: refused where it is called or derived from."""

    def refuse(*_: Any, **__: Any) -> Any:
        return load_leaf(*LEAF_OF_NAME[name], f"dkernel.{name}")

    return type(name, (), {"__new__": refuse, "__init_subclass__": refuse})


for _name in LEAF_OF_NAME:
    if LEAF_OF_NAME[_name][0] in ABSENT:
        setattr(dkernel, _name, stand_in(_name))


def pytest_configure() -> None:
    for name, value in _CALM.items():
        os.environ["DASK_" + name.upper().replace("-", "_").replace(".", "__")] = str(value)
    dask.config.set(_CALM)
    calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("dkernel", derandomize=True, **calm)
    settings.load_profile("dkernel")
    # By --hypothesis-profile=long: hours, of other examples each time.
    settings.register_profile("long", settings.get_profile("default"), max_examples=10_000, **calm)


def skip_absent(report: Any) -> Any:
    """Skip what needs a leaf that this tree is without, so that the tests of the rest can be run there."""
    said = re.sub(r"\s+(E\s+)?", " ", str(report.longrepr)) if report.failed else ""  # of a message in several lines
    for leaf in ABSENT:
        if (
            re.search(rf"without its folder leaves/{leaf}\b", said)
            or f".leaves.{leaf}'" in said
            or f"leaves.{leaf}." in said
        ):
            report.outcome, report.longrepr = "skipped", (report.nodeid, 0, f"there is no leaf {leaf}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[Any]:
    return skip_absent((yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    return skip_absent((yield))


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Any]:
    """Two worker processes for all tests that neither end nor configure one, since starting them takes seconds."""
    from distributed import LocalCluster

    asked = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**asked) as cluster:
        yield cluster


@pytest.fixture
def two_workers(shared_cluster: Any) -> Iterator[Executor]:
    """An executor on the two processes that tests share; its client is gone after the test."""
    with connect(scheduler=shared_cluster.scheduler_address, patience=60) as executor:
        yield executor


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """A command in this process: its exit code, stdout and stderr; what is named is a variable of its environment."""
    from click.testing import CliRunner

    from dkernel.cli import main

    def call(*args: Any, **env: Any) -> Any:
        return CliRunner().invoke(main, [str(a) for a in args], env={n: str(v) for n, v in env.items()})

    return call


@pytest.fixture(scope="session")
def run_to(run: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose exit code is `code`, 0 if nothing is said."""

    def call(*args: Any, code: int = 0, **env: Any) -> Any:
        done = run(*args, **env)
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture(params=["Python", "Command"])
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Python and the command, asked for a fit in the same words."""
    from tests import faces

    return getattr(faces, request.param)(tmp_path)


@pytest.fixture(scope="session", params=[0, *(pytest.param(batch, marks=pytest.mark.slow) for batch in range(1, 10))])
def batches() -> None:
    """A law with this fixture is tried on nine batches more, of other examples, among the slow tests."""
