"""Preconditioned stochastic gradients, P-SGD: synchronous rounds, each a gradient, a step and means of the iterates.

    α = B v                         coefficients of the components, which the workers get
    G = Σ φ(x) ℓ'(y, φ(x) · α)      summed by them over the rows of the round
    g = Bᵀ G / Σ weight             the mean gradient, in the coordinates of v
    v ← v - η P (g + λ M v)         the step

B and M are the map's (`dkernel.features.base.Coordinates`), G is `dkernel.solvers.objective.Gradient`, P and η are
`dkernel.solvers.preconditioner`. A round is of a source, of its sample or of a block, for one objective or for several
that share the reading.

Heads are columns of v: for each λ of the path, one for each output. The answer is the mean over the last part of a
pass, since the last iterate at constant η is worse by points. At very large n the mean lags, so several windows are
kept and the holdout chooses. Source: Polyak and Juditsky 1992.

A pass moves little in directions in which the loss is flatter than P assumes: those below ρ, and all directions if most
rows are beyond the margin and only few rows bend the loss. More rows do not make longer steps there. Momentum does, and
it is stable wherever the step without it is (Polyak 1964). A head with a share above 1 adds β times its last move, so a
step goes 1 / (1 - β) times as far in flat directions. The noise grows as much, so momentum needs rounds of many rows.

A few rows of a round may have so high a leverage that a step overshoots for them which is stable for all other rows.
Where their labels are mixed, the next such row overshoots back, and farther. Only the length of the gradient shows
this: a gradient whose |g|_P = (g^T P g)^(1/2) is more than CLIP times its usual value is cut to that length (Pascanu,
Mikolov and Bengio 2013, in the norm of P).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkernel.features.base import Coordinates
from dkernel.model.serialization import stored
from dkernel.numerics.array_types import F64
from dkernel.numerics.threads import for_each
from dkernel.solvers.alpha_path import AlphaPath
from dkernel.solvers.objective import Coefficients, Gradient, GradientSum, Objective
from dkernel.solvers.preconditioner import Preconditioner
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.kept_block import KeptBlock
from dkernel.streaming.reduction import StatisticTuple
from dkernel.streaming.schedule import Partition

WINDOWS: Mapping[str, float] = {"average": 0.5, "tail": 0.125}
"""Name -> share of a pass, at its end, whose iterates are averaged."""

CLIP = 2.0  # a gradient is cut to this many times its usual length
LENGTH_ROUNDS = 8  # rounds whose mean is the usual length


@stored("SGDState")
@dataclass(frozen=True, eq=False)
class SGDState:
    """State of P-SGD.

    Parameters
    ----------
    v : float64 (n + 1, heads), the intercepts last
    sums : for each of WINDOWS the sum of its iterates so far
    done : rounds of this pass so far
    moved : move of the last round if a head has momentum, else None
    usual : length of the gradient of each head, (heads,), the least so far in a stream; None before the first round
    """

    v: F64
    sums: dict[str, F64]
    done: int = 0
    moved: F64 | None = None
    usual: F64 | None = None


@dataclass(frozen=True, eq=False)
class PSGD(AlphaPath):
    """The step of P-SGD, a pure function of its state and a gradient."""

    def start(self, v: F64) -> SGDState:
        """The state before the first round of a pass."""
        return SGDState(v, {name: np.zeros_like(v) for name in WINDOWS})

    @staticmethod
    def at_rest(v: F64, usual: F64 | None = None) -> SGDState:
        """The state before a round of a stream: no momentum and no means."""
        return SGDState(v, {}, usual=usual)

    def advance(
        self,
        state: SGDState,
        gradient: F64,
        batch: float,
        rounds: int,
        factor: float = 1.0,
        pull: F64 | None = None,
    ) -> SGDState:
        """One round.

        Parameters
        ----------
        gradient : mean over the round's rows, float64 (n + 1, heads)
        batch : b, how many rows they are
        rounds : T of this pass
        factor : of the step, for later passes and after a pass that made things worse
        pull : `regularizer` of the state's v, where it was made meanwhile
        """
        alphas = np.repeat(self.alphas, self.outputs)
        direction = gradient + alphas * (self.regularizer(state.v) if pull is None else pull)
        shares = np.repeat(self.shares or np.ones(len(self.alphas)), self.outputs)
        moves, momentum, squares = np.empty_like(state.v), np.empty(len(shares)), np.empty(len(shares))

        def move(group: tuple[Preconditioner, list[int]]) -> None:
            P, heads = group
            step = factor * P.step(batch, self.loss) * np.minimum(shares[heads], 1.0)
            preconditioned = P.solve(direction[:, heads])
            squares[heads] = np.einsum("ij,ij->j", direction[:, heads], preconditioned)
            moves[:, heads] = step * preconditioned
            momentum[heads] = self.momentum(shares[heads], batch / P.leverage, rounds)

        groups = self.by_preconditioner()
        for_each(move, groups, len(groups))
        # each head has its own, so a target is learned as it would be alone
        lengths = np.sqrt(np.maximum(squares, 0.0))
        usual = lengths if state.usual is None else state.usual
        clip = np.minimum(1.0, CLIP * usual / np.maximum(lengths, 1e-300))
        v = state.v - clip * moves
        if state.moved is not None:
            v += momentum * state.moved
        change = (clip * lengths - usual) / LENGTH_ROUNDS
        usual = usual + (change if state.sums else np.minimum(change, 0.0))  # a stream, which none judges, could rise
        done = state.done + 1
        sums = {
            name: total + v if done > rounds - self.count_rounds(name, rounds) else total
            for name, total in state.sums.items()
        }
        return SGDState(v, sums, done, v - state.v if shares.max() > 1 else None, usual)

    @staticmethod
    def momentum(shares: F64, batch: float, rounds: int) -> F64:
        """β of heads with these shares.

        Parameters
        ----------
        batch : b / R^2, the number of steps that the noise of one allows
        rounds : of the pass: what a move is still felt in should be a small part of them
        """
        # The memory 1 / (1 - β) is at most a quarter of the rounds of a pass.
        return np.asarray(1 - 1 / np.clip(shares, 1.0, max(1.0, min(batch, 0.25 * rounds))))

    @staticmethod
    def count_rounds(window: str, rounds: int) -> int:
        """Number of rounds of a pass that a window averages, at least one."""
        return max(1, round(WINDOWS[window] * rounds))

    def candidates(self, state: SGDState, rounds: int) -> dict[str, F64]:
        """Candidates at the end of the pass: its means and its last iterate."""
        means = {name: total / self.count_rounds(name, rounds) for name, total in state.sums.items()}
        return {**means, "last": state.v}


def expand_coefficients(coordinates: Coordinates, v: F64) -> Coefficients:
    """The coefficients of the components and the intercepts for v, (n + 1, heads), as the workers get them."""
    return coordinates.expand(v[:-1]).astype(np.float32), v[-1].astype(np.float32)


def mean_gradient(coordinates: Coordinates, total: GradientSum) -> F64:
    """The mean gradient in the coordinates of v, (n + 1, heads)."""
    return np.concatenate([coordinates.reduce(total.components), total.intercept[None]]) / max(total.weight, 1e-300)


@dataclass(frozen=True, eq=False)
class SGDHeads:
    """An objective and the heads that learn it.

    Parameters
    ----------
    objective : its loss is that of all heads, in their order
    coordinates : of its map
    heads : settings of groups of heads that lie side by side
    """

    objective: Objective
    coordinates: Coordinates
    heads: Sequence[PSGD]

    def coefficients(self, states: Sequence[SGDState]) -> Coefficients:
        """The value that the workers get."""
        together = states[0].v if len(states) == 1 else np.concatenate([state.v for state in states], axis=1)
        return expand_coefficients(self.coordinates, together)

    def step(
        self, states: Sequence[SGDState], total: GradientSum, pulls: Sequence[F64], rounds: int, factor: float
    ) -> list[SGDState]:
        """The states after a step; see `PSGD.advance`."""
        gradient, after, first = mean_gradient(self.coordinates, total), [], 0
        for settings, state, pull in zip(self.heads, states, pulls, strict=True):
            last = first + state.v.shape[1]
            after.append(settings.advance(state, gradient[:, first:last], total.n, rounds, factor, pull))
            first = last
        return after


class SGD:
    """Rounds of P-SGD over the rows of one reader, for all objectives in the same tasks.

    Parameters
    ----------
    rows : reader of a source, or a block
    key : key of the tasks, made of everything that decides their results
    """

    def __init__(self, rows: BlockReader | KeptBlock, objectives: Sequence[SGDHeads], key: str) -> None:
        self.rows, self.objectives, self.key = rows, objectives, key
        self.statistic = StatisticTuple(tuple(Gradient(each.objective) for each in objectives))
        self._handle = rows.executor.keep(self.statistic, f"{key}-gradient")

    def __enter__(self) -> "SGD":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers forget the objectives."""
        self.rows.executor.release([self._handle])

    def round(
        self,
        states: Sequence[SGDState],
        pieces: Any,
        name: str,
        rounds: int,
        factor: float = 1.0,
        following: Partition | None = None,
    ) -> tuple[list[SGDState], list[GradientSum]]:
        """Make one round: the states after it, and the sums of each objective.

        Parameters
        ----------
        states : of each group of heads of the first objective, then of the next
        pieces : rows of the round
        name : of the round, in the keys of its tasks
        rounds : of a pass
        factor : of the step
        following : pieces that are read ahead
        """
        groups = self._by_objective(states)
        coefficients = [each.coefficients(some) for each, some in zip(self.objectives, groups, strict=True)]
        key = f"{self.key}-{name}"
        with self.rows.executor.broadcast(coefficients, key) as broadcast, ThreadPoolExecutor(1) as meanwhile:
            pulls = meanwhile.submit(self._pulls, groups)  # M v, here, while the workers sum the gradient
            totals = self.rows.reduce(
                self.statistic, pieces, key, following=following, handle=self._handle, broadcast=broadcast
            )
        parts = zip(self.objectives, groups, totals, pulls.result(), strict=True)
        after = [each.step(some, total, pull, rounds, factor) for each, some, total, pull in parts]
        return [state for some in after for state in some], totals

    def _pulls(self, groups: Sequence[Sequence[SGDState]]) -> list[list[F64]]:
        return [
            [settings.regularizer(state.v) for settings, state in zip(each.heads, some, strict=True)]
            for each, some in zip(self.objectives, groups, strict=True)
        ]

    def _by_objective(self, states: Sequence[SGDState]) -> list[list[SGDState]]:
        rest = iter(states)
        return [[next(rest) for _ in each.heads] for each in self.objectives]
