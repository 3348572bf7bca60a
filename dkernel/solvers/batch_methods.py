"""Batch solvers, preconditioned: conjugate gradients for the squared loss, L-BFGS for smooth losses.

Pure state machines, as P-SGD is: `candidates` says at which coefficients the gradient over all rows is wanted,
`advance` makes the next state of what comes back. One reading of the data gives the gradients of several candidates, so
there are no readings that only look for a step. Heads are columns of v: for each α of the path, one for each output.
The order of the rows means nothing to them. Source: Nocedal and Wright 2006, chapters 5 and 7.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.losses.losses import Loss
from dkernel.model.serialization import stored
from dkernel.numerics.array_types import F64
from dkernel.solvers.alpha_path import AlphaPath
from dkernel.solvers.preconditioner import Metric, factorize

STEP_LENGTHS = (1.0, 0.5, 0.25)  # step lengths that one reading compares
JUDGING_TOLERANCE = 1e-3  # a fit that only judges an alpha stops when scores move by less
LOSS_ROUNDING, FLATTER = 1e-6, 0.8  # error of a sum of float32 losses; a slope that shrinks by this factor has fallen


@stored("BatchState")
@dataclass(frozen=True, eq=False)
class BatchState:
    """State of a batch solver.

    Parameters
    ----------
    v : float64 (n + 1, heads), the intercepts last
    direction : (n + 1, heads)
    gradient : of the objective at v, (n + 1, heads); zeros before the first reading
    value : of the objective at v for each α, (paths,)
    decrement : sqrt(g^T P g) for each α, as good as the root mean square by which scores would still move
    pairs : steps and changes of the gradient that L-BFGS remembers, the oldest first
    scale : of the steps, for each α
    failures : readings without a better point; L-BFGS counts those whose promised gain rounding would hide
    passes : readings so far
    """

    v: F64
    direction: F64
    gradient: F64
    value: F64
    decrement: F64
    pairs: tuple[tuple[F64, F64], ...] = ()
    scale: F64 = field(default_factory=lambda: np.ones(1))
    failures: F64 = field(default_factory=lambda: np.zeros(1))
    passes: int = 0


@dataclass(frozen=True, eq=False)
class Batch(ABC):
    """Settings of a batch solver.

    Parameters
    ----------
    path : preconditioners, alphas, metric, loss and outputs, as P-SGD has them
    tolerance : of the decrement
    """

    path: AlphaPath
    tolerance: float
    name: ClassVar[str]

    @property
    def paths(self) -> int:
        return len(self.path.alphas)

    def start(self, v: F64) -> BatchState:
        """The state before the first reading."""
        zeros = np.zeros_like(v)
        each = np.ones(self.paths)
        return BatchState(v, zeros, zeros, np.inf * each, np.inf * each, (), each, 0 * each)

    def ended(self, state: BatchState) -> NDArray[np.bool_]:
        """Whether the fit of each α has ended."""
        # After three failures the gain that is left is below the rounding of the gradients.
        return (state.decrement <= self.tolerance) | (state.failures >= 3)

    def is_over(self, state: BatchState) -> bool:
        """True if the fits of all α have ended."""
        return bool(self.ended(state).all())

    @abstractmethod
    def candidates(self, state: BatchState) -> F64:
        """Coefficients at which loss and gradient are wanted, (n + 1, k * heads): k points, each with all heads."""

    @abstractmethod
    def advance(self, state: BatchState, loss: F64, gradient: F64) -> BatchState:
        """The state after a reading.

        Parameters
        ----------
        loss : mean over the rows, of each candidate and α, (k * paths,)
        gradient : of these, (n + 1, k * heads)
        """

    def _objective(self, v: F64, loss: F64, gradient: F64) -> tuple[F64, F64]:
        """Value (paths,) and gradient of loss and regularization."""
        pull = self.path.regularizer(v) * np.repeat(self.path.alphas, self.path.outputs)
        return loss + 0.5 * self._dot(v, pull), gradient + pull

    def _dot(self, a: F64, b: F64) -> F64:
        """Inner products for each α, (paths,)."""
        products = np.einsum("ij,ij->j", a, b)
        # Of few rows these calls are most of a fit: one output needs neither the sum nor the copies.
        return products if self.path.outputs == 1 else products.reshape(self.paths, -1).sum(axis=1)

    def _heads(self, each: NDArray[Any]) -> NDArray[Any]:
        return each if self.path.outputs == 1 else np.repeat(each, self.path.outputs)

    def _solve(self, gradient: F64) -> F64:
        """P g."""
        out = np.empty_like(gradient)
        for P, heads in self.path.by_preconditioner():
            out[:, heads] = P.solve(gradient[:, heads])
        return out


class PCG(Batch):
    """Conjugate gradients with P, for the squared loss.

    Each reading has the gradient at v and at v + d: their difference is the curvature along d, and the first of them is
    a fresh residual, so that rounding does not pile up over the iterations.
    """

    name = "pcg"

    def candidates(self, state: BatchState) -> F64:
        return np.concatenate([state.v, state.v + state.direction], axis=1)

    def advance(self, state: BatchState, loss: F64, gradient: F64) -> BatchState:
        heads = state.v.shape[1]
        value, g = self._objective(state.v, loss[: self.paths], gradient[:, :heads])
        _, ahead = self._objective(state.v + state.direction, loss[self.paths :], gradient[:, heads:])
        curved, d = ahead - g, state.direction
        along = np.einsum("ij,ij->j", d, curved)
        moves = along > 0
        safe = np.where(moves, along, 1.0)
        step = np.where(moves, -np.einsum("ij,ij->j", g, d) / safe, 0.0)
        v, after = state.v + step * d, g + step * curved
        z = self._solve(-after)
        beta = np.where(moves, -np.einsum("ij,ij->j", z, curved) / safe, 0.0)
        decrement = np.sqrt(np.maximum(-self._dot(after, z), 0.0))
        # Below what rounding lets a gradient be known, more readings change nothing.
        worse = (value >= state.value) & np.isfinite(state.value)
        return replace(
            state,
            v=v,
            direction=z + beta * d,
            gradient=after,
            value=value,
            decrement=decrement,
            failures=np.where(worse, state.failures + 1, 0.0),
            passes=state.passes + 1,
        )


class LBFGS(Batch):
    """L-BFGS whose first guess of the inverse Hessian is P / L: the directions that P knows need not be learned."""

    name = "lbfgs"

    def candidates(self, state: BatchState) -> F64:
        if not state.passes:
            return state.v
        step = self._heads(state.scale) * state.direction
        return np.concatenate([state.v + t * step for t in STEP_LENGTHS], axis=1)

    def advance(self, state: BatchState, loss: F64, gradient: F64) -> BatchState:
        points = self.candidates(state)
        heads, k = state.v.shape[1], points.shape[1] // state.v.shape[1]
        objectives = [
            self._objective(
                points[:, i * heads : (i + 1) * heads],
                loss[i * self.paths : (i + 1) * self.paths],
                gradient[:, i * heads : (i + 1) * heads],
            )
            for i in range(k)
        ]
        if not state.passes:
            value, g = objectives[0]
            return self._turn(replace(state, gradient=g, value=value, passes=1))
        values = np.stack([value for value, _ in objectives])
        slope = state.scale * self._dot(state.gradient, state.direction)
        slopes = np.stack([state.scale * self._dot(g, state.direction) for _, g in objectives])
        taken = self._merits(state, values, slope, slopes)
        best, better = taken.argmin(axis=0), np.isfinite(taken.min(axis=0))
        v, g = state.v.copy(), state.gradient.copy()
        for i in range(k):
            mine = self._heads(better & (best == i)).astype(bool)
            v[:, mine] = points[:, i * heads : (i + 1) * heads][:, mine]
            g[:, mine] = objectives[i][1][:, mine]
        moved = replace(
            state,
            v=v,
            gradient=g,
            value=np.where(better, np.take_along_axis(values, best[None], axis=0)[0], state.value),
            # L-BFGS remembers 12 pairs.
            pairs=(*state.pairs, (v - state.v, g - state.gradient))[-12:] if better.any() else state.pairs,
            scale=np.where(better, 1.0, state.scale * self._shorter(slope, slopes[-1])),
            failures=np.where(better, 0.0, state.failures + ~(-slope > LOSS_ROUNDING * np.abs(state.value))),
            passes=state.passes + 1,
        )
        return self._turn(moved)

    @staticmethod
    def _shorter(slope: F64, last: F64) -> F64:
        """Factor of the steps after a reading without a better point, at most half of the shortest candidate's.

        With it the first candidate is where the slope, as a line from v to the shortest candidate, is zero: a few far
        rows that P has not seen can make the curvature a million times that of P.

        Parameters
        ----------
        slope, last : of the value along the steps, at v and at the shortest candidate
        """
        rise = np.where(last > 0, last - slope, np.inf)
        return np.clip(np.where(rise < np.inf, -slope / rise, 1.0), np.finfo(np.float64).eps, 0.5) * STEP_LENGTHS[-1]

    def _merits(self, state: BatchState, values: F64, slope: F64, slopes: F64) -> F64:
        """Merit of each candidate and α, (k, paths), small is good, infinite where the candidate is no step forward.

        The value, where it fell as the slope promised (Armijo). Near the optimum that is below the rounding of sums, of
        which slopes still tell: then the slope, where it has come down and the value has not risen by more than that
        rounding (the approximate conditions of Hager and Zhang 2005).

        Parameters
        ----------
        slope, slopes : of the value along the steps, at v and at the candidates
        """
        # A step must gain 1e-4 of what the slope promises (Armijo).
        fell = np.stack(
            [value <= state.value + 1e-4 * t * slope for t, value in zip(STEP_LENGTHS, values, strict=True)]
        )
        level = values <= state.value + LOSS_ROUNDING * np.abs(state.value)
        flat = level & (np.abs(slopes) <= FLATTER * np.abs(slope))
        return np.where(fell.any(axis=0), np.where(fell, values, np.inf), np.where(flat, np.abs(slopes), np.inf))

    def _turn(self, state: BatchState) -> BatchState:
        """Set the direction of the two-loop recursion, one for each α."""
        q, terms = state.gradient.copy(), []
        for s, y in reversed(state.pairs):
            product = self._dot(s, y)
            # A pair without curvature says nothing, such as one of an α that did not move.
            rho = np.where(product > 1e-14 * self._dot(y, y), 1.0 / np.where(product > 0, product, 1.0), 0.0)
            a = rho * self._dot(s, q)
            q -= self._heads(a) * y
            terms.append((s, y, rho, a))
        z = self._solve(q) / self.path.loss.curvature
        for s, y, rho, a in reversed(terms):
            z += self._heads(a - rho * self._dot(y, z)) * s
        plain = self._solve(state.gradient)
        decrement = np.sqrt(np.maximum(self._dot(state.gradient, plain), 0.0))
        downhill = self._dot(state.gradient, z) > 0
        direction = -np.where(self._heads(downhill).astype(bool), z, plain / self.path.loss.curvature)
        return replace(state, direction=direction, decrement=decrement)


def batch_solver(loss: Loss) -> type[Batch]:
    """The solver that suits a loss."""
    return PCG if loss.quadratic else LBFGS


def minimize(
    F: F64,
    Y: F64,
    w: F64,
    loss: Loss,
    alpha: float,
    metric: Metric,
    tolerance: float,
    most: int,
    start: F64 | None = None,
) -> BatchState:
    """The last state on features that are held in memory.

    Parameters
    ----------
    F : features with their 1 last (n, m + 1);  Y : targets (n, outputs);  w : weights (n,) of sum 1
    metric : of the ridge
    most : readings
    start : coefficients to begin at; None for those of a ridge regression
    """
    weighted, outputs = w[:, None] * F, Y.shape[1]
    P = factorize(F.T @ weighted, metric, max(alpha, 1e-14), F[:1])
    solver = batch_solver(loss)(AlphaPath([P], [alpha], metric, loss, outputs), tolerance)
    state = solver.start(P.solve(weighted.T @ Y) if start is None else start)
    while not solver.is_over(state) and state.passes < most:
        points = solver.candidates(state)
        S, values, slopes = F @ points, [], np.empty_like(points)
        for j in range(0, points.shape[1], outputs):
            s = S[:, j : j + outputs]
            values.append(float(w @ loss.value(Y, s).sum(axis=1)))
            slopes[:, j : j + outputs] = weighted.T @ loss.derivative(Y, s)
        state = solver.advance(state, np.array(values), slopes)
    return state
