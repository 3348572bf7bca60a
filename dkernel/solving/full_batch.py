"""`solver="pcg"` and `"lbfgs"`: a reading of all rows an iteration, until nothing is left to gain. Also the polish.

Each reading is kept in the journal as what came back of it, mean loss and gradient; a run that is stopped goes through
the same states again without reading.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.linear.solvers.full_batch import BATCH, Batch, BatchState
from dkernel.linear.solvers.psgd import PSGD
from dkernel.problem.objective import ExactGradient, Gradient, GradientSum
from dkernel.solving.full_batch_context import FullBatchContext
from dkernel.solving.sgd import SolverResult, merit
from dkernel.solving.sgd_setup import mean_gradient

__all__ = ["MOST_PASSES", "solve_full_batch"]

Array = NDArray[np.float64]

MOST_PASSES = 100
"""Readings where the recipe sets no limit of its own: its `passes` is 1."""

# Of the decrement, in standard deviations of targets or in margins: what float32 columns still tell, and float64 ones.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


def solve_full_batch(
    whole: FullBatchContext, problem: PSGD, start: Array, *, solver: str, limit: int, dtype: str, stage: str
) -> SolverResult:
    """The minimizer for each alpha, and of these the one with the smallest loss on the holdout.

    Parameters
    ----------
    problem : preconditioners and alphas, each alpha once
    start : v to begin at, (n + 1, heads)
    limit : readings at most
    dtype : of the columns that gradients are made of
    stage : name of the result in the journal
    """
    made = BATCH[solver](problem, TOLERANCE[dtype])
    found = whole.journal.stage(stage, lambda: _run(whole, made, start, limit, dtype, stage))
    v, outputs = found["v"], problem.outputs
    heads = {alpha: v[:, j * outputs : (j + 1) * outputs] for j, alpha in enumerate(problem.alphas)}
    figures, lines = whole.judged(heads, solver)
    alpha = lines[0]["alpha"] if lines else problem.alphas[0]
    facts = {"solver": {name: found[name] for name in ("passes", "decrement", "converged")}}
    chosen = np.ascontiguousarray(heads[alpha])
    return SolverResult(chosen, alpha, 1.0, solver, [*found["history"], *lines], figures, facts)


def _run(whole: FullBatchContext, solver: Batch, start: Array, limit: int, dtype: str, stage: str) -> dict[str, Any]:
    made = ExactGradient if dtype == "float64" else Gradient
    statistic = made(whole.bench.problem)
    held = whole.bench.executor.keep(statistic, f"{whole.bench.key}-batch-{made.__name__}")
    state, history = solver.start(start), []
    polish, rows = stage == "polish", sum(piece.n for piece in whole.pieces)
    if polish:  # its passes are short: one phase for all
        whole.progress.phase("polish", limit * rows)
    kept = whole.journal.parts(stage)
    while not solver.is_over(state) and state.passes < limit:
        if state.passes < len(kept):
            reading = kept[state.passes]
        else:
            if not polish:
                turn = f"{state.passes + 1}/{limit}"
                whole.progress.phase(f"pass {turn}", rows, **{"pass": turn})
            reading = _read(whole, statistic, held, solver, state, dtype)
            whole.journal.part(stage, reading)
        state = solver.advance(state, reading["loss"], reading["gradient"])
        history.append({"pass": state.passes, "round": 1, **reading["told"], "decrement": float(state.decrement.max())})
    whole.bench.executor.release([held])
    over = solver.is_over(state)
    if not over and not polish:
        whole.progress.message(
            f"after {state.passes} passes the scores would still move by about {state.decrement.max():.1g}: more "
            "passes come nearer to the optimum"
        )
    decrement = float(state.decrement.max())
    return {"v": state.v, "history": history, "passes": state.passes, "decrement": decrement, "converged": over}


def _read(
    whole: FullBatchContext, statistic: Gradient, held: Any, solver: Batch, state: BatchState, dtype: str
) -> dict[str, Any]:
    """Mean loss and gradient at the candidates, and the figures of the first of them."""
    bench, points = whole.bench, solver.candidates(state)
    wanted: Any = bench.coefficients(points)
    if dtype == "float64":
        wanted = bench.coordinates.expand(points[:-1]), points[-1]
    key = f"{bench.key}-batch-{state.passes}"
    broadcast = bench.executor.keep(wanted, key)
    total: GradientSum = whole.feed.fold(statistic, whole.pieces, key, whole.progress, held=held, broadcast=broadcast)
    bench.executor.release([broadcast])
    loss = total.loss / max(total.weight, 1e-300)
    figures = {"rows": total.n, "loss": float(loss[0])}
    figures |= merit(bench.problem.targets, float(total.right[0]), total.n)
    return {"loss": loss, "gradient": mean_gradient(bench.coordinates, total), "told": figures}
