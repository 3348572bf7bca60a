"""Every promise of tests/promises.toml has tests, and they are there."""

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import dask
import pytest

TESTS = Path(__file__).parent
PROMISES = tomllib.loads((TESTS / "promises.toml").read_text(encoding="utf-8"))

sys.path.insert(0, str(TESTS.parent / "scripts"))

import scorecard  # noqa: E402  (a script is no package: it is found by path)


@cache
def collected_from(path):
    """The tests of a file, and the decorators of each as text."""
    if not path.is_file():
        return {}
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = " ".join(map(ast.unparse, node.decorator_list))
        elif isinstance(node, ast.Assign):  # one law, as several tests
            names = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found |= {name: ast.unparse(node.value) for name in names if name.startswith("test_")}
    return found


def marks(test):
    """The decorators of a test as text, of a whole file those of all its tests; None where there is none."""
    file, _, name = test.partition("::")
    found = collected_from(TESTS / file)
    return found.get(name) if name else " ".join(found.values()) if found else None


@pytest.mark.parametrize("name", PROMISES)
def test_a_promise_has_its_tests(name):
    promise = PROMISES[name]
    assert set(promise) <= {"promise", "tests", "open", "measures"}
    assert promise["promise"].endswith(".")
    assert promise["tests"] or promise["open"].endswith(".")
    missing = [test for test in promise["tests"] if marks(test) is None]
    assert not missing, f"{name} ({promise['promise']}) has lost {missing}: name the tests that took their place."
    assert len(set(promise["tests"])) == len(promise["tests"])


def test_names_are_in_their_order():
    keys = [re.fullmatch(r"([A-G])([1-9][0-9]?)", name).groups() for name in PROMISES]
    assert keys == sorted(keys, key=lambda key: (key[0], int(key[1])))


def test_every_measure_of_the_score_card_is_of_a_promise():
    measures = {measure: promise for promise in PROMISES.values() for measure in promise.get("measures", [])}
    assert set(measures) == set(scorecard.MEASURES)
    for measure, promise in measures.items():
        marked = [test for test in promise["tests"] if re.search(rf"score\(['\"]{measure}['\"]\)", marks(test))]
        assert marked, f"no test of {promise['promise']!r} makes the measure {measure!r}"


def test_no_worker_may_die_unnoticed():
    """As tests/conftest.py has it for this process and for all that tests start."""
    assert dask.config.get("distributed.scheduler.allowed-failures") == 0
    assert dask.config.get("distributed.worker.memory.spill") is False
