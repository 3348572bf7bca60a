"""The lines that `train` and `tune` print in the end: the result, what to check, and on request the choices."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record

FEW_HELD_OUT = 2000  # a smaller holdout is shown with a standard error: that of an error of 10 % is 0.7 % here
CHOICES = (
    "way",
    "kernel",
    "metric",
    "scale",
    "gamma",
    "loss",
    "features",
    "n_components",
    "passes",
    "polish",
    "alpha",
    "local",
    "order",
)
"""Lines of a fit that say what it chose. Its other lines are about the data, or say that it ended early."""


def lines_of(record: "Record", verbose: bool = False) -> Iterator[str]:
    """Lines of the summary of a fit.

    Parameters
    ----------
    verbose : with the choices, which `dkernel show` prints too
    """
    facts, seconds = record.facts, record.seconds
    rate = facts["rows"] / max(seconds["train"], 1e-9)
    yield f"{facts['model']}: {facts['rows']:,} rows in {seconds['train']:.1f} s ({rate:,.0f} rows/s)"
    yield from _indent(dict(_result(facts)))
    lines = {**facts["chosen"], **_early_end(facts)}
    checks = {name: text for name, text in lines.items() if name not in CHOICES}
    if checks:
        yield "Check:"
        yield from _indent(checks)
    if verbose and len(checks) < len(lines):
        yield "Choices:"
        yield from _indent({name: text for name, text in lines.items() if name in CHOICES})


def form_of(model: Any) -> dict[str, Any]:
    """Kernel, solver and local stage of a model, for a run record: what the recipe of the options may leave open."""
    local = None if model.local is None else model.local.kind
    return {"kernel": model.recipe.kernel, "solver": model.recipe.solver, "local": local}


def _result(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    fit = facts["facts"]
    parts = {"components": fit["columns"]}
    if facts["local"] is not None:
        parts[facts["local"]] = fit["local"][facts["local"]]
    yield "kernel", ", ".join([facts["kernel"], *(f"{number:,} {name}" for name, number in parts.items() if number)])
    holdout = dict(fit.get("holdout") or {})
    if holdout:
        rows = holdout.pop("rows", 0)
        figures = ", ".join(f"{name} {value:.4f}{uncertainty(name, value, rows)}" for name, value in holdout.items())
        yield "holdout", f"{figures} on {rows:,.0f} rows"
    if facts.get("baselines"):
        from dkernel.inference.baselines import format_baselines

        yield "baselines", format_baselines(facts["baselines"])
    peak, worker = (facts.get(f"{whose}peak_memory_bytes", 0) / 2**20 for whose in ("", "worker_"))
    of_cluster = f"client {peak:,.0f} MiB, workers up to {worker:,.0f} MiB"
    yield "peak memory", of_cluster if worker else f"{peak:,.0f} MiB, all processes"


def _early_end(facts: Mapping[str, Any]) -> dict[str, str]:
    from dkernel.model.solver_table import SOLVERS, early_end

    ended, solver = early_end(facts["facts"]), facts["facts"].get("solver") or {}
    if "passes" not in solver:
        return ended
    option = SOLVERS[facts["solver"]].continued_by
    return {name: f"{text}; more: --{option} {2 * solver['passes']}" for name, text in ended.items()}


def _indent(lines: Mapping[str, str]) -> Iterator[str]:
    for name, text in lines.items():
        yield f"  {name:<12} {text}"


def uncertainty(name: str, value: float, rows: float) -> str:
    """The standard error of a figure that few rows gave, in words; "" of many, and of a loss, whose spread is unknown.

    Examples
    --------
    >>> uncertainty("accuracy", 0.7, 20), uncertainty("accuracy", 0.7, 5000)
    (' (standard error 0.1)', '')
    """
    if rows >= FEW_HELD_OUT or name not in ("accuracy", "rmse"):
        return ""
    if name == "rmse":  # the formula holds for normal errors
        return f" (standard error {value / math.sqrt(2 * rows):.1g})"
    share = (value * rows + 2) / (rows + 4)  # by Agresti and Coull, so 20 right answers of 20 have an error above 0
    return f" (standard error {math.sqrt(share * (1 - share) / (rows + 4)):.1g})"
