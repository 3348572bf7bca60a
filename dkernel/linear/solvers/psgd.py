"""P-SGD: synchronous rounds of a preconditioned step, averaged. A pure state machine; gradients come from elsewhere.

    v <- v - η P (g + λ M v),    g the mean gradient of the loss over the b rows of a round

P, M: see `linear.preconditioner`. Heads are columns of v: for each λ of the path, one for each output. The mean over
the last part of a pass is the answer, the last iterate at constant η being worse by points; at very large n the mean
lags, so several windows are kept and the holdout chooses. Source: Polyak and Juditsky 1992.

What a pass does not reach are directions in which the loss is flatter than P takes it for: those below ρ, and all of
them where most rows are beyond the margin and only few bend the loss. There more rows make no longer steps. Momentum
does, and is stable wherever the step without it is (Polyak 1964): heads with a share above 1 go on by β times their
last move, so that in flat directions a step goes 1 / (1 - β) times as far; and so does the noise, which is why rows
enough of a round are asked for.

A few rows of a round may have so high a leverage that a step, made to be stable for all the others, overshoots for
them; where their labels are mixed the next of their kind overshoots back, and farther. Nothing but the length of the
gradient tells: where |g|_P = (g^T P g)^(1/2) is more than CLIP times what it usually was, it is cut to that (Pascanu,
Mikolov and Bengio 2013, in the norm of P).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dkernel.linear.losses import Loss
from dkernel.linear.preconditioner import Metric, Preconditioner
from dkernel.numerics import thin_linalg
from dkernel.numerics.threads import for_each

Array = NDArray[np.float64]

WINDOWS: Mapping[str, float] = {"average": 0.5, "tail": 0.125}
"""Name -> share of a pass, at its end, whose iterates are averaged."""

CLIP = 2.0  # a gradient is cut to this many times its usual length
MEMORY = 8  # the usual length is a mean of so many rounds


@dataclass(frozen=True, eq=False)
class State:
    """State of P-SGD.

    Parameters
    ----------
    v : float64 (n + 1, heads), the intercepts last
    sums : for each of WINDOWS the sum of its iterates so far
    done : rounds of this pass so far
    moved : by the last round, where a head has momentum; None for nothing
    usual : length of the gradient of each head, (heads,); None before the first round
    """

    v: Array
    sums: dict[str, Array]
    done: int = 0
    moved: Array | None = None
    usual: Array | None = None


@dataclass(frozen=True, eq=False)
class PSGD:
    """Settings of a step of P-SGD.

    Parameters
    ----------
    preconditioners, alphas : one for each λ of the path
    metric : M of the coordinates
    loss : whose curvature bounds the step
    outputs : heads of each λ
    shares : of the step, for each λ; None for the whole step, above 1 the whole step with momentum that goes so many
        times as far. Where labels are noisy a small step averages more noise away in a pass, where they are not a
        large one goes farther: the holdout can tell, a rule cannot
    """

    preconditioners: Sequence[Preconditioner]
    alphas: Sequence[float]
    metric: Metric
    loss: Loss
    outputs: int
    shares: Sequence[float] | None = None

    def only(self, paths: Sequence[tuple[int, float]]) -> "PSGD":
        """The solver of some of its paths, each with a share of the step; a path may come twice."""
        return replace(
            self,
            preconditioners=[self.preconditioners[j] for j, _ in paths],
            alphas=[self.alphas[j] for j, _ in paths],
            shares=[share for _, share in paths],
        )

    def start(self, v: Array) -> State:
        """The state before the first round of a pass."""
        return State(v, {name: np.zeros_like(v) for name in WINDOWS})

    @staticmethod
    def at_rest(v: Array) -> State:
        """The state before a round that knows nothing of others: no momentum, no usual length, no means."""
        return State(v, {})

    def advance(
        self, state: State, gradient: Array, batch: float, rounds: int, factor: float = 1.0, pull: Array | None = None
    ) -> State:
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
        moves, gone_on, squares = np.empty_like(state.v), np.empty(len(shares)), np.empty(len(shares))

        def move(group: tuple[Preconditioner, list[int]]) -> None:
            P, heads = group
            step = factor * P.step(batch, self.loss) * np.minimum(shares[heads], 1.0)
            found = P.solve(direction[:, heads])
            squares[heads] = np.einsum("ij,ij->j", direction[:, heads], found)
            moves[:, heads] = step * found
            gone_on[heads] = self.momentum(shares[heads], batch / P.leverage, rounds)

        groups = self.by_preconditioner()
        for_each(move, groups, len(groups))
        # each head has its own, so a target is learned as it would be alone
        lengths = np.sqrt(np.maximum(squares, 0.0))
        usual = lengths if state.usual is None else state.usual
        kept = np.minimum(1.0, CLIP * usual / np.maximum(lengths, 1e-300))
        v = state.v - kept * moves
        if state.moved is not None:
            v += gone_on * state.moved
        usual = usual + (kept * lengths - usual) / MEMORY
        done = state.done + 1
        sums = {
            name: total + v if done > rounds - self.counted(name, rounds) else total
            for name, total in state.sums.items()
        }
        return State(v, sums, done, v - state.v if shares.max() > 1 else None, usual)

    @staticmethod
    def momentum(shares: Array, batch: float, rounds: int) -> Array:
        """β of heads with these shares.

        Parameters
        ----------
        batch : b / R^2, as so many steps the noise of one allows
        rounds : of the pass: what a move is still felt in should be a small part of them
        """
        # The memory 1 / (1 - β) is at most a quarter of the rounds of a pass.
        return np.asarray(1 - 1 / np.clip(shares, 1.0, max(1.0, min(batch, 0.25 * rounds))))

    @staticmethod
    def counted(window: str, rounds: int) -> int:
        """Number of rounds of a pass that a window averages, at least one."""
        return max(1, round(WINDOWS[window] * rounds))

    def candidates(self, state: State, rounds: int) -> dict[str, Array]:
        """Candidates at the end of the pass: its means and its last iterate."""
        means = {name: total / self.counted(name, rounds) for name, total in state.sums.items()}
        return {**means, "last": state.v}

    def by_preconditioner(self) -> list[tuple[Preconditioner, list[int]]]:
        """List each preconditioner with its heads: alphas below ρ share one, and one solve is cheaper than several."""
        groups: dict[int, tuple[Preconditioner, list[int]]] = {}
        for j, P in enumerate(self.preconditioners):
            heads = groups.setdefault(id(P), (P, []))[1]
            heads += range(j * self.outputs, (j + 1) * self.outputs)
        return list(groups.values())

    def regularizer(self, v: Array) -> Array:
        """M v, nothing for the intercept."""
        out = np.zeros_like(v)
        if isinstance(self.metric, float):
            out[:-1] = self.metric * v[:-1]
        else:
            out[:-1] = thin_linalg.product(self.metric, v[:-1])
        return out
