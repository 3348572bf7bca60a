"""How near one pass comes to the converged optimum of the same objective.

The same recipe twice: one pass, with the alpha that its holdout chose; then the same alpha to the optimum, by the batch
solver that follows (`polish`: conjugate gradients or L-BFGS with the same preconditioner); hinge has a kink, so there
the optimum is --many passes, whose steps decay. `lag` is the test error of the pass less that of the optimum (points);
`left` says by how much the optimum's scores would still move, and `converged` whether its solver had come to its end.
Covtype is class 2 against the rest; --made adds rows of a quadratic form (quadratic.py), D landmarks, gamma 0.02.

    python scripts/bench/optimum.py                                     covtype: 60,000 and all rows, 2000 and 5000
    python scripts/bench/optimum.py --rows 60000 --components 2000      a few minutes
    python scripts/bench/optimum.py --made 10000000 --components 2000 --losses squared_hinge
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from quadratic import write_rows
from report import error_of, finish, forest, parser

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.data.source import Source
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.training.fit import train

LOSSES = ("squared_hinge", "hinge", "logistic")
COVTYPE_GAMMA, MADE_GAMMA = 0.05, 0.02
TESTED = 200_000

Case = tuple[str, Source, Any, Any, float]


def cases(args: argparse.Namespace, scratch: Path) -> Iterator[Case]:
    """Name, source, test rows and labels, gamma."""
    for n in args.made:
        place = args.place or scratch
        data, [test] = write_rows(place, n), list(write_rows(place, TESTED, seed=1).glob("*.npy"))
        rows = np.load(test)
        yield f"quadratic {n:,}", open_source(data, label="28"), rows[:, :28], rows[:, 28], MADE_GAMMA
    if args.made and not args.rows:
        return
    X, y, X_test, y_test = forest(args.data)
    for n in args.rows or [60_000, len(X)]:
        n = min(n, len(X))
        picked = np.sort(np.random.default_rng(0).permutation(len(X))[:n])
        source = from_arrays(X[picked], y[picked].astype(np.int64))
        yield f"covtype {n:,}", source, X_test, y_test.astype(np.int64), COVTYPE_GAMMA


def line(executor: Executor, case: Case, D: int, loss: str, args: argparse.Namespace) -> dict[str, Any]:
    """One pass and its optimum."""
    name, source, X, y, gamma = case
    recipe = Recipe(kernel=f"Gaussian(gamma={gamma})", features="nystrom", n_components=D, scale="standard",
                    metric="identity", task="classify", loss=loss, alpha=args.alpha, seed=args.seed,
                    rounds=args.rounds, passes=1, polish=0)  # fmt: skip
    start = time.perf_counter()
    one = train(source, recipe, executor)
    seconds = time.perf_counter() - start
    chosen = [told for told in one.history if told.get("holdout", "").startswith("pass")][-1]
    more = {"passes": args.many} if loss == "hinge" else {"polish": args.many}
    start = time.perf_counter()
    best = train(source, recipe.replace(alpha=chosen["alpha"], **more), executor)
    found = {"data": name, "D": D, "loss": loss, "alpha": chosen["alpha"], "iterate": chosen["iterate"]}
    found |= {"one pass_%": error_of(one.model.predict(X), y), "optimum_%": error_of(best.model.predict(X), y)}
    found["lag"] = found["one pass_%"] - found["optimum_%"]
    solver = best.model.facts.get("solver", {})
    found |= {"readings": solver.get("passes"), "left": solver.get("decrement"), "converged": solver.get("converged")}
    print(found, file=sys.stderr)
    return {**found, "pass_fit_s": seconds, "optimum_fit_s": time.perf_counter() - start}


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__, data=True)
    ask.add_argument("--rows", type=int, nargs="*", default=[], help="of covtype; default: 60,000 and all")
    ask.add_argument("--made", type=int, nargs="*", default=[], help="rows of the quadratic form")
    ask.add_argument("--components", type=int, nargs="+", default=[2000, 5000])
    ask.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    ask.add_argument("--many", type=int, default=30, help="readings, at most, to the optimum")
    ask.add_argument(
        "--rounds", type=lambda text: text if text == "auto" else int(text), default="auto", help="of the pass"
    )
    ask.add_argument("--alpha", type=lambda text: text if text == "auto" else float(text), default="auto")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--place", type=Path, help="folder for made rows; a temporary one when it is not given")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, ThreadsExecutor() as executor:
        found = [
            line(executor, case, D, loss, args)
            for case in cases(args, Path(scratch))
            for D in args.components
            for loss in args.losses
        ]
    finish("one pass and the optimum of the same objective", found, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
