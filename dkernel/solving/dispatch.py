"""Which of the solvers that read all rows at once a recipe asks for, and what they begin with."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dkernel.data.block import Block
from dkernel.linear.solvers.full_batch import batch_solver
from dkernel.recipe import Recipe
from dkernel.solving.exact import solve_exact
from dkernel.solving.full_batch import MOST_PASSES, solve_full_batch
from dkernel.solving.full_batch_context import FullBatchContext
from dkernel.solving.normal_equations import ALPHAS, solve_normal_equations
from dkernel.solving.sgd import SolverResult
from dkernel.solving.sgd_setup import Prepared

__all__ = ["format_alpha", "solve_on_all_rows"]

SOME = 8  # alphas that are named one by one


def solve_on_all_rows(
    whole: FullBatchContext, recipe: Recipe, prepared: Prepared, sample: Block, before: SolverResult | None = None
) -> SolverResult:
    """The optimum of the recipe's objective, by the solver it names.

    Parameters
    ----------
    sample : rows of the training
    before : what P-SGD has found, to be polished; None for nothing
    """
    if recipe.solver == "normal":
        return solve_normal_equations(whole, ALPHAS if recipe.alpha == "auto" else [float(recipe.alpha)], sample)
    if recipe.solver == "exact":
        return solve_exact(whole, recipe, sample)
    solver = prepared.solver
    if before is not None:
        only = solver.only([(list(solver.alphas).index(before.alpha), 1.0)])
        name = batch_solver(solver.loss)
        found = solve_full_batch(
            whole, only, before.v, solver=name, limit=int(recipe.polish), dtype=recipe.dtype, stage="polish"
        )
        return replace(found, share=before.share, history=[*before.history, *found.history])
    paths = [list(solver.alphas).index(alpha) for alpha in dict.fromkeys(solver.alphas)]
    heads = np.concatenate([np.arange(j * solver.outputs, (j + 1) * solver.outputs) for j in paths])
    start = np.ascontiguousarray(prepared.start[:, heads])
    limit = recipe.passes if isinstance(recipe.passes, int) and recipe.passes > 1 else MOST_PASSES
    only = solver.only([(j, 1.0) for j in paths])
    return solve_full_batch(whole, only, start, solver=recipe.solver, limit=limit, dtype=recipe.dtype, stage="batch")


def format_alpha(alpha: float, tried: Sequence[float]) -> str:
    """The choice of alpha, and what it was chosen from.

    Examples
    --------
    >>> format_alpha(1e-5, [1e-5, 1e-4]), format_alpha(1e-5, [1e-5])
    ('1e-05, of 1e-05, 0.0001', '1e-05, chosen on the sample')
    """
    alphas = sorted(set(tried))
    if len(alphas) == 1:
        return f"{alphas[0]:g}, chosen on the sample"
    if len(alphas) > SOME:
        return f"{alpha:g}, of {len(alphas)} from {alphas[0]:g} to {alphas[-1]:g}"
    return f"{alpha:g}, of " + ", ".join(f"{each:g}" for each in alphas)
