"""The entries of a plan in words, as commands and reports show them."""

from collections.abc import Mapping
from typing import Any

# People read these words for a plan's entries.
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
    "survey_flops": "work of the survey",
    "choice_flops": "work of the choice",
    "setup_flops": "work of the setup",
    "pass_flops": "work of each pass",
    "checkpoint_bytes": "disk, with --checkpoint",
    "scratch_bytes": "disk, scratch",
    "core_seconds": "seconds of a usual core",
    "local": "local stage",
    "local_flops": "work of the local stage",
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
    # The memory of the worker says where it works, and the readings which of them are the local stage's.
    hidden = {"in_process", "local_readings", "most_seconds"} | (
        {"client_memory_limit"} if not plan.get("client_memory_limit") else set()
    )
    shown = {name: _in_words(name, value) for name, value in plan.items() if name not in hidden}
    if "readings" in shown:
        shown["readings"] = _readings(plan)
    return [(_PLAN_WORDS.get(name, name), value) for name, value in shown.items()]


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
    if name.endswith("_flops"):
        return f"{value / 1e9:,.1f} Gflop"
    if name.endswith("seconds"):
        return f"{max(1, round(value)):,}"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def in_mib(n: float) -> str:
    """Bytes in words."""
    return f"{n / 2**20:,.0f} MiB"
