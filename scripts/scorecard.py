#!/usr/bin/env python3
"""The score card of reliability: runs the tests that make it and prints what they found, as a table and as JSON.

    python scripts/scorecard.py                      everything, slow tests included
    python scripts/scorecard.py faults poller        these measures alone
    python scripts/scorecard.py --tests tests/faults --json card.json

A test that makes a figure carries the mark `score("<measure>")`. Each of its cases counts as one, good if it passed; a
test that counts several things in itself records them with record_property("score", "<good>/<of>"), and what it
records when it then fails is not believed: it counts as none good. A case is a hang when it outlasts the seconds that
it recorded as its "limit", or when it fails with a time-out. Nothing here knows a result: a measure without tests has
a dash.
"""

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# measure -> what it says, and how many of it the project promises (None: as many as there are)
MEASURES: dict[str, tuple[str, int | None]] = {
    "faults": (
        "training faults survived with the same bytes of model (12 x 3 points x 3 learners, less 3 without a reading)",
        105,
    ),
    "resume": ("client killed at every step and resumed: the same bytes", 20),
    "workers": ("ways to run with the bytes of the loop (threads, 1, 2, 4 processes, by hand; 3 learners)", 18),
    "clients": ("fits of two clients at one time on one cluster: the same bytes", 1),
    "threads": ("fits in several threads of one client, also when all workers are lost: the same bytes", 2),
    "asyncio": ("asyncio clients refused by a sentence", 1),
    "logs": ("log levels of workers as they were, during and after a run", 1),
    "modules": ("modules of --import gone after a run, modules of others with that name untouched", 2),
    "committed": ("kills after which everything committed was whole", None),
    "poller": ("kills during which a poller saw nothing partial", 100),
    "rows": ("pairs of formats with rows in = rows out + rejected", 28),
    "bad-input": ("bad inputs of the table with the right outcome", None),
    "hostile": ("hostile model files refused, none executed", 20),
    "mutations": ("mutated model files refused by type, no crash", 10_000),
    "deploy": ("files of deploy/ executed or checked", None),
}
TIME_OUTS = ("TimeoutError", "TimeoutExpired")


@dataclass
class Row:
    """One measure: good of `of`, from `cases` test cases; `hangs` and `failed` name those that were not good."""

    good: int = 0
    of: int = 0
    cases: int = 0
    limited: int = 0
    hangs: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Collector:
    """A pytest plugin: keeps the tests with a wanted mark, and what their reports say."""

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted
        self.rows: dict[str, Row] = {}
        self.broken: list[str] = []
        self._measure: dict[str, str] = {}
        self._seen: dict[str, list[pytest.TestReport]] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Others are left out; a word that is no measure is a mistake."""
        kept, left = [], []
        for item in items:
            mark = item.get_closest_marker("score")
            measure = str(mark.args[0]) if mark else ""
            if mark and measure not in MEASURES:
                raise pytest.UsageError(f"{item.nodeid}: the score card has no measure {measure!r}.")
            (kept if measure in self.wanted else left).append(item)
            self._measure[item.nodeid] = measure
        config.hook.pytest_deselected(items=left)
        items[:] = kept

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported may hold figures: the card is not complete without it."""
        if report.failed:
            self.broken.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Set-up, call and tear-down of one case; the last one counts it."""
        self._seen.setdefault(report.nodeid, []).append(report)
        if report.when == "teardown":
            self._count(report.nodeid, self._seen.pop(report.nodeid))

    def _count(self, case: str, reports: list[pytest.TestReport]) -> None:
        row = self.rows.setdefault(self._measure[case], Row())
        said = dict(reports[-1].user_properties)
        passed = all(report.passed for report in reports) and any(report.when == "call" for report in reports)
        good, of = map(int, str(said.get("score", "1/1")).split("/"))
        row.cases += 1
        row.of += of
        row.good += good if passed else 0
        row.limited += "limit" in said
        if not passed or good < of:
            row.failed.append(case)
        took = sum(report.duration for report in reports if report.when == "call")
        crashes = [str(getattr(report.longrepr, "reprcrash", "")) for report in reports if report.failed]
        if took > float(said.get("limit", "inf")) or any(word in text for text in crashes for word in TIME_OUTS):
            row.hangs.append(case)


def card(collector: Collector, command: str) -> list[dict[str, object]]:
    """The table's rows: measure, what it says, target, result, whether it is met, and the command that makes it."""
    lines: list[dict[str, object]] = []
    for measure in MEASURES:
        if measure not in collector.wanted:
            continue
        says, target = MEASURES[measure]
        row = collector.rows.get(measure, Row())
        met = row.of > 0 and row.good == row.of and row.of >= (target or 1)
        result = f"{row.good:,}/{row.of:,}" if row.cases else "-"
        goal = f"{target:,}" + ("" if measure == "faults" else " or more") if target else "all"
        lines.append(
            {"measure": measure, "says": says, "target": goal, "here": result, "met": met, "failed": row.failed}
            | {"command": f"{command} {measure}"}
        )
    hangs = [case for row in collector.rows.values() for case in row.hangs]
    cases = sum(row.cases for row in collector.rows.values())
    lines.append(
        {"measure": "hangs", "says": "cases of all these that outlasted their limit", "target": "0"}
        | {"here": f"{len(hangs)} in {cases:,}" if cases else "-", "met": cases > 0 and not hangs, "failed": hangs}
        | {"command": command}
    )
    return lines


def markdown(lines: list[dict[str, object]]) -> str:
    """The card as a table."""
    rows = ["| measure | target | here | command |", "|---|---|---|---|"]
    rows += [f"| {line['says']} | {line['target']} | {line['here']} | `{line['command']}` |" for line in lines]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    """Run and print; 0 when every measure that was asked for is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", nargs="*", help=f"of {', '.join(MEASURES)}; all without any")
    parser.add_argument("--tests", action="append", help="where to look for them; the project's tests if not given")
    parser.add_argument("--fast", action="store_true", help="without the slow tests: a look at the card, not the card")
    parser.add_argument("--json", metavar="FILE", help="write the card there too")
    given = parser.parse_args(arguments)
    unknown = set(given.measure) - set(MEASURES)
    if unknown:
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    collector = Collector(set(given.measure or MEASURES))
    # Warnings that a test does not expect fail it, as everywhere; doctests make no figures.
    options = ["-q", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-p", "no:doctest", "-o", "addopts="]
    selection = ["-m", "score and not slow" if given.fast else "score"]
    status = pytest.main([*options, *selection, *(given.tests or [str(ROOT / "tests")])], plugins=[collector])
    lines = card(collector, "python scripts/scorecard.py")
    print("\n" + markdown(lines))
    for line in lines:
        for case in line["failed"]:  # type: ignore[attr-defined]
            print(f"not met by {line['measure']}: {case}")
    for name in collector.broken:
        print(f"not read: {name}")
    if given.json:
        Path(given.json).write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    fine = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not collector.broken
    return 0 if fine and all(line["met"] for line in lines) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
