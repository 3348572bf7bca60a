"""The table of bad inputs: a name, a group, what comes of it in words, and a function that shows it through every door.

Read by test_bad_input.py, which tries every entry, and by dkernel/data/BAD_INPUT.md (`python -m tests.bad_input` prints
it, test_table.py compares).
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.bad_input.doors import Doors

GROUPS = {"values": 16, "labels": 9, "shape": 13, "files": 14, "tables": 24, "left out": 9, "in service": 14}
REFUSED, HANDLED, BOTH = "refused", "handled", "refused or handled"


@dataclass(frozen=True)
class Bad:
    """One entry: `outcome` is one of the three words above, `said` tells what that means here.

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
    """The lists of that page: of each group the names of what is refused, and what becomes of the others."""
    parts = []
    for group in GROUPS:
        rows = [(entry.name + " (rejects)" * entry.rejects, entry) for entry in TABLE.values() if entry.group == group]
        parts.append(f"## {group.capitalize()}")
        refused = [name for name, entry in rows if entry.outcome == REFUSED]
        if refused:
            parts.append(f"Refused: {'; '.join(refused)}.")
        handled = [f"- {name}: {entry.said}." for name, entry in rows if entry.outcome != REFUSED]
        if handled:
            parts.append("\n".join(handled))
    return "\n\n".join(parts) + "\n"
