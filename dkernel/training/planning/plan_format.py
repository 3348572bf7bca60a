"""The entries of a plan in words, as commands and reports show them."""

from collections.abc import Mapping
from typing import Any

# The entries that people read, and their words; a record has the others too.
_PLAN_WORDS = {
    "n": "rows",
    "p": "features",
    "columns": "components",
    "rounds": "rounds of a pass",
    "reservoir": "rows of the sample",
    "worker_bytes": "memory, each worker",
    "client_bytes": "memory, client",
    "memory_limit": "limit of each worker",
    "client_memory_limit": "limit of the client",
    "kept": "data kept in memory",
    "checkpoint_bytes": "disk, with --checkpoint",
    "scratch_bytes": "disk, scratch",
    "core_seconds": "seconds of a usual core",
    "local": "local stage",
    "readings": "readings of the data",
    "model_bytes": "model file, at most",
    "slots": "threads that work",
    "enough_slots": "threads that the work is worth",
}


def format_plan(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The entries of a plan as people read them: name and value.

    Examples
    --------
    >>> format_plan({"n": 5000, "worker_bytes": 2**30, "core_seconds": 3.2})
    [('rows', '5,000'), ('memory, each worker', '1,024 MiB'), ('seconds of a usual core', '3')]
    """
    shown = {name: _in_words(name, plan[name]) for name in _PLAN_WORDS if name in plan}
    if not plan.get("client_memory_limit"):
        shown.pop("client_memory_limit", None)
    if "readings" in shown:
        shown["readings"] = _readings(plan)
    return [(_PLAN_WORDS[name], value) for name, value in shown.items()]


def _readings(plan: Mapping[str, Any]) -> str:
    """The readings in words: one of rows that stay in memory, else their number and that of local stages."""
    if plan.get("kept"):
        return "1: the rows stay in memory"
    more = plan.get("local_readings")
    if not more:
        return f"{plan['readings']:,}"
    return f"{plan['readings'] - more:,}, and {more:,} of {' and '.join(plan['local'])}"


def _in_words(name: str, value: Any) -> str:
    if value is None:
        return "none known"
    if isinstance(value, tuple | list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith(("_bytes", "memory_limit")):
        return in_mib(value)
    if name.endswith("seconds"):
        return f"{max(1, round(value)):,}"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def in_mib(n: float) -> str:
    """Bytes in words."""
    return f"{n / 2**20:,.0f} MiB"
