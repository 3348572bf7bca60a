"""Measure the table of `dkernel.streaming.cost` again: flops a CPU second of each part of a fit.

    python scripts/bench/costs.py [--only NAME ...] [--json]    # of whole fits: minutes
    python scripts/bench/costs.py --numbers [--json]            # of single numbers: some seconds

The fits are those of plans.py. A part's figure is that of one fit, and SPEEDS and SCORE_SPEED are those of the fits
that the budgets were chosen by. `--numbers` measures what has a meaning alone (cost_numbers.py), each beside the
table's value.
"""

import time
from collections import Counter
from typing import Any

from cost_numbers import numbers
from plans import FITS, rows
from report import finish, parser

from dkernel.data.collections.arrays import from_arrays
from dkernel.model.recipe import Recipe
from dkernel.solvers.catalogue import solver_class
from dkernel.solvers.setup_cost import setup_flops
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.progress import Progress
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import Plan

# First word of a phase -> part of the table.
PARTS = {
    "survey": "survey", "choose": "choice", "prepare": "global", "pass": "global", "polish": "global",
    "grids": "grids", "cells": "cells",
}  # fmt: skip


class Phases(Progress):
    """CPU seconds of every phase."""

    def __init__(self) -> None:
        super().__init__("none")
        self.began: list[tuple[str, float]] = []

    def phase(self, name: str, *rest: Any, **more: Any) -> None:
        self.began.append((name, time.process_time()))
        super().phase(name, *rest, **more)


def stage_name(phase: str) -> str:
    """The part that a phase belongs to."""
    local = next((kind for kind in ("grids", "cells") if kind in phase), None)
    return local or PARTS.get(phase.split()[0], "other")


def one(name: str) -> dict[str, Any]:
    """Gflops a second of each part of a fit."""
    n, p, classes, given = FITS[name]
    X, y = rows(n, p, classes)
    recipe = Recipe(loss="squared_hinge" if classes else "squared", **given)
    source, executor, shown = from_arrays(X, y), ThreadsExecutor(2), Phases()
    outputs = classes if classes > 2 else 1
    plan = Plan.of(source, recipe, executor.describe(), outputs)
    fitted = train(source, recipe, executor, progress=shown).model.recipe
    seconds: Counter[str] = Counter()
    ends = [*shown.began[1:], ("", time.process_time())]
    for (phase, began), (_, ended) in zip(shown.began, ends, strict=True):
        seconds[stage_name(phase)] += ended - began
    sizes = Sizes.of(n, p, recipe.replace(n_components=fitted.n_components))
    solve = solver_class(fitted.solver).cost(sizes, outputs, 0)
    flops = {name: plan.costs[name].flops for name in ("survey", "choice")}
    flops |= {"global": setup_flops(sizes, fitted) + solve.flops}
    flops |= {kind: plan.costs[kind].flops for kind in plan.local}
    rates = {part: flops.get(part, 0.0) / 1e9 / seconds[part] if seconds[part] else None for part in PARTS.values()}
    return {"fit": name, **{f"{part}_s": seconds[part] for part in rates}, **rates}


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=list(FITS), default=list(FITS))
    options.add_argument("--numbers", action="store_true", help="Single numbers in place of fits.")
    given = options.parse_args()
    lines = numbers() if given.numbers else [one(name) for name in given.only]
    finish("Costs", lines, given.json)


if __name__ == "__main__":
    main()
