"""The table of bad inputs: a name, a group, what comes of it in words, and a function that shows it through every door.

Read by test_bad_input.py, which tries every entry, and by the section "Bad input" of dkernel/data/README.md (`python -m
tests.bad_input` prints it, tests/bad_input/test_table.py compares).
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.bad_input.doors import Doors

GROUPS = {"values": 16, "labels": 9, "shape": 13, "files": 14, "tables": 24, "left out": 9, "in service": 14}
REFUSED, HANDLED, BOTH = "refused", "handled", "refused or handled"


@dataclass(frozen=True)
class Bad:
    """One entry: `outcome` is one of the three words above, `said` tells the user what that means here.

    `rejects` says that `score --max-bad-rows` can leave such a row out and list it.
    """

    name: str
    group: str
    outcome: str
    said: str
    show: Callable[[Doors], None]
    rejects: bool = False


TABLE: dict[str, Bad] = {}


def entries_of(group: str) -> Callable[..., Callable]:
    """Make the decorator that enters a function as what shows a bad input of this group."""

    def bad(name: str, outcome: str, said: str, rejects: bool = False) -> Callable:
        def enter(show: Callable[[Doors], None]) -> Callable[[Doors], None]:
            assert name not in TABLE, name
            TABLE[name] = Bad(name, group, outcome, said, show, rejects)
            return show

        return enter

    return bad


def markdown() -> str:
    """The table as that page shows it: one table a group."""
    parts = []
    for group in GROUPS:
        rows = [entry for entry in TABLE.values() if entry.group == group]
        lines = [f"| {group} ({len(rows)}) | outcome | |", "|---|---|---|"]
        lines += [f"| {e.name} | {e.outcome}{', rejects' if e.rejects else ''} | {e.said} |" for e in rows]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
