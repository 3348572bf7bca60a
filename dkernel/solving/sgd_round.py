"""A round of P-SGD: on a source, on its sample or on a block, for one problem or for several that share the reading.

    α = B v                         coefficients of the components, which the workers get
    G = Σ φ(x) ℓ'(y, φ(x) · α)      summed by them over the rows of the round
    g = Bᵀ G / Σ weight             the mean gradient, in the coordinates of v
    v ← v - η P (g + λ M v)         the step

B and M are the map's (`dkernel.features.base.Coordinates`), G is `dkernel.problem.objective.Gradient`. The step with
P, η and λ, its bounds and the means of the iterates are `dkernel.linear.solvers.psgd`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dkernel.execution.base import Executor, Handle
from dkernel.features.base import Coordinates
from dkernel.linear.solvers.psgd import PSGD, State
from dkernel.problem.objective import Coefficients, Gradient, GradientSum, Problem
from dkernel.streaming.reduction import R, Statistic, StatisticTuple
from dkernel.streaming.schedule import RowSlice

Array = NDArray[np.float64]


class RowReader(Protocol):
    """A source or a block: what sums a statistic over some of its rows."""

    executor: Executor

    def reduce(
        self,
        statistic: Statistic[Any, R],
        pieces: Sequence[RowSlice],
        key: str,
        *,
        following: Sequence[RowSlice] = (),
        held: Handle | None = None,
        broadcast: Handle | None = None,
    ) -> R: ...


def coefficients_of(coordinates: Coordinates, v: Array) -> Coefficients:
    """The coefficients of the components and the intercepts for v, (n + 1, heads), as the workers get them."""
    return coordinates.expand(v[:-1]).astype(np.float32), v[-1].astype(np.float32)


def mean_gradient(coordinates: Coordinates, total: GradientSum) -> Array:
    """The mean gradient in the coordinates of v, (n + 1, heads)."""
    return np.concatenate([coordinates.reduce(total.components), total.intercept[None]]) / max(total.weight, 1e-300)


@dataclass(frozen=True, eq=False)
class SGDProblem:
    """A problem and the heads that learn it.

    Parameters
    ----------
    problem : its loss is that of all heads, in their order
    coordinates : of its map
    heads : settings of groups of heads that lie side by side
    """

    problem: Problem
    coordinates: Coordinates
    heads: Sequence[PSGD]

    def coefficients(self, states: Sequence[State]) -> Coefficients:
        """The value that the workers get."""
        together = states[0].v if len(states) == 1 else np.concatenate([state.v for state in states], axis=1)
        return coefficients_of(self.coordinates, together)

    def step(
        self, states: Sequence[State], total: GradientSum, pulls: Sequence[Array], rounds: int, factor: float
    ) -> list[State]:
        """The states after a step; see `PSGD.advance`."""
        gradient, made, first = mean_gradient(self.coordinates, total), [], 0
        for settings, state, pull in zip(self.heads, states, pulls, strict=True):
            last = first + state.v.shape[1]
            made.append(settings.advance(state, gradient[:, first:last], total.n, rounds, factor, pull))
            first = last
        return made


class SGD:
    """Rounds of P-SGD over the rows of one reader, for all problems in the same tasks.

    Parameters
    ----------
    key : of the tasks, made of everything that decides their results
    """

    def __init__(self, rows: RowReader, problems: Sequence[SGDProblem], key: str) -> None:
        self.rows, self.problems, self.key = rows, problems, key
        self.statistic = StatisticTuple(tuple(Gradient(each.problem) for each in problems))

    def __enter__(self) -> "SGD":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Let the workers forget the problems."""
        if (held := self.__dict__.pop("_held", None)) is not None:
            self.rows.executor.release([held])

    @cached_property
    def _held(self) -> Handle:
        return self.rows.executor.keep(self.statistic, f"{self.key}-gradient")

    def round(
        self,
        states: Sequence[State],
        pieces: Sequence[RowSlice],
        name: str,
        rounds: int,
        factor: float = 1.0,
        following: Sequence[RowSlice] = (),
    ) -> tuple[list[State], list[GradientSum]]:
        """Make one round: the states after it, and the sums of each problem.

        Parameters
        ----------
        states : of each group of heads of the first problem, then of the next
        pieces : rows of the round
        name : of the round, in the keys of its tasks
        rounds : of a pass
        factor : of the step
        following : pieces that are read ahead
        """
        groups = self._by_problem(states)
        at = [each.coefficients(some) for each, some in zip(self.problems, groups, strict=True)]
        key, executor = f"{self.key}-{name}", self.rows.executor
        broadcast = executor.keep(at, key)
        with ThreadPoolExecutor(1) as meanwhile:
            pulls = meanwhile.submit(self._pulls, groups)  # M v, here, while the workers sum the gradient
            totals = self.rows.reduce(
                self.statistic, pieces, key, following=following, held=self._held, broadcast=broadcast
            )
        executor.release([broadcast])
        parts = zip(self.problems, groups, totals, pulls.result(), strict=True)
        made = [each.step(some, total, pull, rounds, factor) for each, some, total, pull in parts]
        return [state for some in made for state in some], totals

    def _pulls(self, groups: Sequence[Sequence[State]]) -> list[list[Array]]:
        return [
            [settings.regularizer(state.v) for settings, state in zip(each.heads, some, strict=True)]
            for each, some in zip(self.problems, groups, strict=True)
        ]

    def _by_problem(self, states: Sequence[State]) -> list[list[State]]:
        rest = iter(states)
        return [[next(rest) for _ in each.heads] for each in self.problems]
