"""Settings of a search: its budget, its axes, and the candidates that they make."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dkernel.errors import RecipeError
from dkernel.kernels import Kernel
from dkernel.model.recipe import Recipe
from dkernel.numerics.validation import nearest_name
from dkernel.training.selection.metric_learning import learnable_metric

AXES = ("kernel", "gamma", "metric", "scale", "features", "landmarks", "n_components", "loss", "alpha")
"""Parameters that can be searched, in the order in which a candidate is named."""

OF_HEADS = ("loss", "alpha")
"""Axes whose values are heads that share the components of one map."""

# A large map can use a larger gamma than the choice on the sample, which may be one step too small or too large.
# The choice of a fit without a search comes first, so it wins in a tie.
GAMMAS = ("auto", "0.5*auto", "2*auto", "4*auto")
SEARCHED_ALPHAS = tuple(10.0**k for k in range(-9, -1))
MOST_CANDIDATES = 4096  # most candidates: more of them are a typing error rather than a search

_UNITS = {"passes": 0.0, "pass": 0.0, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
_TIMES = re.compile(r"(?P<factor>[^*]+)\*(?P<word>auto|median|scale)")


@dataclass(frozen=True)
class Budget:
    """Limit of a search, in passes over the data or in seconds; it ends with a rung.

    Examples
    --------
    >>> Budget.of("2.5passes"), Budget.of("10 min")
    (Budget(passes=2.5, seconds=inf), Budget(passes=inf, seconds=600.0))
    """

    passes: float = math.inf
    seconds: float = math.inf

    @classmethod
    def of(cls, text: "str | float | Budget") -> "Budget":
        """Parse a budget; a number without a unit is a number of passes."""
        if isinstance(text, Budget):
            return text
        match = re.fullmatch(r"\s*(?P<number>\d+\.?\d*|\.\d+)\s*(?P<unit>[a-z]*)\s*", str(text))
        unit = (match["unit"] or "passes") if match else ""
        number = float(match["number"]) if match else 0.0
        if unit not in _UNITS or not number > 0 or isinstance(text, bool):
            raise RecipeError(
                f"budget={text!r} is not a budget. Possible: 5passes (over the data; parts of one count), or a "
                "time, which stops the search at the end of a rung: 90s | 10min | 2h."
            )
        return cls(seconds=number * _UNITS[unit]) if _UNITS[unit] else cls(passes=number)


@dataclass(frozen=True, eq=False)
class SearchCandidate:
    """One point of a grid.

    Parameters
    ----------
    asked : searched axis -> its value
    recipe : whole recipe, with the gamma before its multiplication by `factor`
    factor : factor of the gamma
    """

    asked: Mapping[str, Any]
    recipe: Recipe
    factor: float = 1.0
    of_map: tuple[Any, ...] = field(default=())


def make_candidates(
    recipe: Recipe, grid: Mapping[str, Sequence[Any]] | None, p: int, objects: bool, fitted: bool = False
) -> list[SearchCandidate]:
    """Combine all axes: those of the grid, and gamma, metric and alpha if the recipe leaves them open.

    Parameters
    ----------
    p, objects : number of columns of the data, and whether some have objects
    fitted : whether each candidate is fitted as without a search. Then the choice of such a fit is the first of them,
        and each fit chooses its own alpha
    """
    axes = _axes(recipe, dict(grid or {}), p, objects, fitted)
    total = math.prod(len(values) for values in axes.values())
    if total > MOST_CANDIDATES:
        raise RecipeError(
            f"The grid has {total:,} candidates; at most {MOST_CANDIDATES:,} are possible. Leave out some values."
        )
    candidates = []
    for values in itertools.product(*axes.values()):
        asked = dict(zip(axes, values, strict=True))
        gamma, factor = _gamma(asked.get("gamma", recipe.gamma))
        settled = recipe.replace(**{**asked, "gamma": gamma})
        of_map = tuple(value for name, value in asked.items() if name not in OF_HEADS)
        candidates.append(SearchCandidate(asked, settled, factor, of_map))
    return candidates


def _axes(recipe: Recipe, grid: dict[str, Any], p: int, objects: bool, fitted: bool) -> dict[str, tuple[Any, ...]]:
    for name, values in grid.items():
        if name not in AXES:
            raise RecipeError(
                f"grid names {name!r}, which is not a parameter of a search.{nearest_name(str(name), AXES)} Possible: "
                f"{' | '.join(AXES)}."
            )
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise RecipeError(f"grid[{name!r}]={values!r} is not a list of values. Give one, or more, in brackets.")
    axes = {name: tuple(_plain(value) for value in values) for name, values in grid.items()}
    families = [k for text in axes.get("kernel", (recipe.kernel,)) for k in recipe.replace(kernel=text).kernels]
    open_gamma = any("auto" in kernel.placeholders for kernel in families)
    if recipe.gamma == "auto" and open_gamma:
        axes.setdefault("gamma", GAMMAS)
    if recipe.metric == "auto":
        learned = sorted({learnable_metric(k, p) for k in families}) if open_gamma and not objects else []
        # A metric that suits only one of the kernels would be refused for the others.
        best = learned[0] if len(learned) == 1 else ("diagonal" if "diagonal" in learned else "identity")
        best = "identity" if "identity" in learned else best
        axes.setdefault("metric", tuple(dict.fromkeys([*["auto"] * fitted, "identity", best])))
    if recipe.alpha == "auto":
        axes.setdefault("alpha", ("auto",) if fitted else SEARCHED_ALPHAS)
    # Equal values would make equal candidates.
    return {name: tuple(dict.fromkeys(axes[name])) for name in AXES if name in axes}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _gamma(value: Any) -> tuple[Any, float]:
    """Split the text of a gamma into the word or number of the recipe and the factor before it.

    Examples
    --------
    >>> _gamma("4*median"), _gamma(0.5)
    (('median', 4.0), (0.5, 1.0))
    """
    match = _TIMES.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if match is None:
        return value, 1.0
    try:
        factor = float(match["factor"])
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor > 0):
        raise RecipeError(f"gamma={value!r}: what stands before * must be a number above 0, as in '4*median'.")
    return match["word"], factor


def scale_gammas(kernel: Kernel, factor: float) -> Kernel:
    """Multiply every gamma of a kernel by a factor.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian, Linear
    >>> scale_gammas(0.5 * Gaussian(gamma=0.25) + Linear(), 4.0)
    0.5 * Gaussian(gamma=1.0) + Linear()
    """

    def of(name: str, value: Any) -> Any:
        if isinstance(value, Kernel):
            return scale_gammas(value, factor)
        if isinstance(value, tuple) and any(isinstance(item, Kernel) for item in value):
            return tuple(of("", item) for item in value)
        return value * factor if name == "gamma" and isinstance(value, float) else value

    if factor == 1.0:
        return kernel
    made: Any = kernel  # every kernel is a dataclass, which its base class is not
    scaled_kernel: Kernel = replace(made, **{f.name: of(f.name, getattr(made, f.name)) for f in fields(made) if f.init})
    return scaled_kernel
