"""Refusals of a plan before anything is read: of too much memory, too many seconds and too large a model file."""

from collections.abc import Callable
from math import ceil

from dkernel.errors import MemoryBudgetError, RecipeError
from dkernel.numerics.resource_limits import memory_limit
from dkernel.planning.memory_plan import Plan
from dkernel.planning.plan_format import in_mib
from dkernel.problem.budget import CORES

FEWEST_ADVISED = 64  # components; a refusal advises no map of less

WithComponents = Callable[[int], Plan]
"""The plan of the same fit with so many components."""


def check_memory(plan: Plan, with_components: WithComponents) -> None:
    """Refuse a fit that needs more memory than there is, with both numbers and ones that fit."""
    if not plan.fits_workers:
        assert plan.memory_limit is not None
        raise MemoryBudgetError(
            f"Each worker needs about {in_mib(plan.worker_bytes)} and has a limit of {in_mib(plan.memory_limit)}. "
            f"Raise --memory-limit to {_whole_mib(plan.worker_bytes)}{_fewer(plan, with_components)}, or give a source "
            "in smaller chunks."
        )
    here, limit, most = plan.here_bytes, plan.client_memory_limit, memory_limit()
    if limit is not None and here > limit:
        raise MemoryBudgetError(
            f"This process needs about {in_mib(here)} and has a limit of {in_mib(limit)}. "
            f"Raise --client-memory-limit to {_whole_mib(here)}{_fewer(plan, with_components)}."
        )
    if here > most:
        raise MemoryBudgetError(
            f"This process needs about {in_mib(here)}, most of it for n_components={plan.columns}, and the machine or "
            f"its container has {in_mib(most)}. Use a larger one{_fewer(plan, with_components)}."
        )


def check_seconds(plan: Plan, limit: float | None) -> None:
    """Refuse a fit that is predicted to take longer than it may."""
    if limit is not None and plan.most_seconds > limit:
        raise RecipeError(
            f"The fit is predicted to take {plan.most_seconds:,.1f} s on {CORES} usual cores and max_seconds "
            f"is {limit:g}. Raise it to {ceil(plan.most_seconds)}, or leave n_components, solver, passes and local "
            "to choose."
        )


def check_model(plan: Plan, limit: int | None) -> None:
    """Refuse a model file that may be larger than it is to be."""
    if limit is not None and plan.model_bytes > limit:
        fewer = "grids or components, or local='none'," if plan.local else "components"
        raise MemoryBudgetError(
            f"The model file may have {plan.model_bytes:,} bytes and max_model_size={limit}. Use fewer {fewer} "
            "or raise max_model_size."
        )


def _fewer(plan: Plan, with_components: WithComponents) -> str:
    """Advice of a number of components that fits; empty where none does."""
    columns = plan.columns
    while (columns := columns // 4 * 2) >= FEWEST_ADVISED:  # even: sine and cosine come in pairs
        if _fits(with_components(columns)):
            return f", or use n_components={columns}"
    return ""


def _fits(plan: Plan) -> bool:
    limits = memory_limit(), plan.client_memory_limit
    return plan.fits_workers and all(limit is None or plan.here_bytes <= limit for limit in limits)


def _whole_mib(n: int) -> str:
    """Bytes as an option takes them."""
    return f"{-(-n // 2**20)}MiB"
