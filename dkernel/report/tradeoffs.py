"""Error against cost: the figure of merit over the seconds of a fit, and over the number of its components."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.features import NystromMap
from dkernel.model import Model
from dkernel.numerics.array_types import F64
from dkernel.numerics.rows import wide
from dkernel.numerics.threads import one_blas_thread
from dkernel.report.numbers import Quality, judge, learning_curve

SMALLEST = 16  # components of the smallest part of a model
SOLVER_PHASES = ("pass", "polish", "normal equations", "solve")
"""First words of the phases in which a solver reads rows."""


@dataclass(frozen=True, eq=False)
class ErrorByCost:
    """Error or RMSE beside a cost.

    Parameters
    ----------
    rounds : (n, 2) of cost and figure on the rows of each round, before they are learned from
    holdout : (n, 2) of cost and figure on the holdout
    name : "error" or "RMSE"
    """

    rounds: F64
    holdout: F64
    name: str


def error_by_seconds(
    history: Sequence[Mapping[str, Any]], trail: Sequence[tuple[str, float, int]], quality: Quality | None
) -> ErrorByCost | None:
    """Error or RMSE over the seconds of the fit; None of a fit that has no rounds.

    The history counts rows and the trail has rows and seconds, so a line has the time at which its share of the rows
    of the solver, or of the grids, was done. The last point is the model that was kept.

    Examples
    --------
    >>> history = [{"pass": 1, "rows": 10, "loss": 1.0, "rmse": 3.0}, {"pass": 1, "rows": 10, "loss": 1.0, "rmse": 2.0},
    ...            {"holdout": "pass-0", "loss": 1.0, "rmse": 1.5, "rows": 5}]
    >>> cost = error_by_seconds(history, [("pass 1/1", 2.0, 0), ("pass 1/1", 3.0, 10), ("pass 1/1", 5.0, 20)], None)
    >>> cost.rounds.tolist(), cost.holdout.tolist()
    ([[3.0, 3.0], [5.0, 2.0]], [[5.0, 1.5]])
    """
    curve, grids = learning_curve(history), [line for line in history if "grids" in line]
    if not len(curve.rounds) or not trail:
        return None
    clock = _clock(trail, SOLVER_PHASES)
    rounds = [(clock(seen / curve.rounds[-1, 0]), merit) for seen, _, merit in curve.rounds]
    holdout = [(clock(seen / curve.rounds[-1, 0]), merit) for seen, _, merit in curve.holdout]
    clock, key = _clock(trail, ("grids",)), f"holdout_{curve.name}"
    holdout += [(clock((i + 1) / len(grids)), line[key]) for i, line in enumerate(grids) if key in line]
    ended = [seconds for name, seconds, _ in trail if name == "finish"]
    if curve.name == "accuracy":
        rounds, holdout = ([(at, 1 - merit) for at, merit in points] for points in (rounds, holdout))
    if quality is not None and ended:
        holdout.append((ended[0], _error(quality)))
    return ErrorByCost(_points(rounds), _points(holdout), "error" if curve.name == "accuracy" else "RMSE")


def error_by_components(model: Model, holdout: Block | None, quality: Quality | None) -> ErrorByCost | None:
    """Error or RMSE on the holdout of the model restricted to its first 16, 32, ... components; None without landmarks.

    The restriction to m landmarks is the projection of f onto the span of k(., z_1), ..., k(., z_m).
    """
    map = model.map
    # The matrix of more components takes longer than some seconds to decompose.
    if holdout is None or quality is None or map.landmarks is None or map.n_components > 4096:
        return None
    Z = wide(map.landmarks)
    points = []
    with one_blas_thread():
        K = np.asarray(map.kernel(Z, Z), np.float64)
        values = K @ model.coef
        for m in _sizes(map.n_components):
            coef = model.coef
            if m < map.n_components:
                coef = np.asarray(np.linalg.lstsq(K[:m, :m], values[:m], rcond=1e-7)[0], np.float64)
            part = replace(model, map=NystromMap(map.kernel, map.landmarks[:m]), coef=coef, variance=None)
            judged = judge(part, holdout)
            assert judged is not None
            points.append((m, _error(judged)))
    return ErrorByCost(_points([]), _points(points), "RMSE" if quality.classes is None else "error")


def _sizes(n: int) -> list[int]:
    sizes = [SMALLEST << i for i in range(32) if SMALLEST << i < n]
    return [*sizes, n]


def _clock(trail: Sequence[tuple[str, float, int]], phases: tuple[str, ...]) -> Any:
    """The seconds at which a share of the rows of these phases was done."""
    rows, times, seen = [0], list[float](), 0
    for (name, begin, before), (following, end, after) in pairwise(trail):
        if name == following and name.startswith(phases) and after > before:
            times = times or [begin]
            seen += after - before
            rows.append(seen)
            times.append(end)
    return lambda share: float(np.interp(share * seen, rows, times)) if seen else 0.0


def _error(quality: Quality) -> float:
    return quality.merits["RMSE"] if quality.classes is None else 1 - quality.merits["accuracy"]


def _points(points: Sequence[tuple[float, float]]) -> F64:
    return np.array(points, float).reshape(-1, 2)
