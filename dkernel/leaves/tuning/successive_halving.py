"""Successive halving: all candidates share each reading of a block, and those of one map share its components.

A map has a head for each output of each alpha and loss. In a round one task computes the gradients of all maps from the
same block, before any coefficient has used these rows. So the losses and right answers of the task are those of new
rows (progressive validation), and they compare the candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features.base import Coordinates
from dkernel.losses.losses import Loss
from dkernel.numerics.array_types import F64
from dkernel.solvers.objective import LossStatistic, LossSums, Objective
from dkernel.solvers.sgd_round import PSGD, SGD, SGDHeads, expand_coefficients
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import Partition, RowSlice, Schedule


@dataclass(frozen=True, eq=False)
class MixedLoss(Loss):
    """Several losses as one, each for a run of paths, since all heads share the components of a tile.

    Scores are (rows, paths) or (rows, paths, outputs): a loss may use the outputs of a row together.

    Parameters
    ----------
    parts : losses, each with its number of paths

    Examples
    --------
    >>> from dkernel.losses.losses import Hinge, Squared
    >>> y = np.array([[1.0, 1.0]])
    >>> MixedLoss(((Hinge(), 1), (Squared(), 1))).value(y, np.array([[0.0, 3.0]]))
    array([[1., 2.]])
    """

    name: ClassVar[str] = "mixed"
    curvature: ClassVar[float] = 1.0
    parts: tuple[tuple[Loss, int], ...] = ()

    def value(self, y: NDArray[np.floating], s: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.concatenate([loss.value(y[:, c], s[:, c]) for loss, c in self._runs()], axis=1)

    def derivative(self, y: NDArray[np.floating], s: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.concatenate([loss.derivative(y[:, c], s[:, c]) for loss, c in self._runs()], axis=1)

    def _runs(self) -> list[tuple[Loss, slice]]:
        ends = np.cumsum([paths for _, paths in self.parts]).tolist()
        return [(loss, slice(end - paths, end)) for (loss, paths), end in zip(self.parts, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class RacedHeads:
    """The heads of one loss.

    Parameters
    ----------
    v : coefficients, float64 (n + 1, alphas * outputs)
    candidates : number of the candidate of each alpha
    """

    loss: Loss
    solver: PSGD
    v: F64
    candidates: tuple[int, ...]

    def only(self, alive: Sequence[int]) -> "RacedHeads | None":
        """Return the heads of the candidates that are left, or None."""
        alphas = [j for j, number in enumerate(self.candidates) if number in alive]
        if not alphas:
            return None
        return replace(
            self,
            solver=self.solver.only([(j, 1.0) for j in alphas]),
            v=np.ascontiguousarray(np.concatenate([self.of(self.candidates[j]) for j in alphas], axis=1)),
            candidates=tuple(self.candidates[j] for j in alphas),
        )

    def of(self, number: int) -> F64:
        """Return the columns of v of a candidate."""
        outputs, j = self.solver.outputs, self.candidates.index(number)
        return self.v[:, j * outputs : (j + 1) * outputs]


@dataclass(frozen=True, eq=False)
class RacedMap:
    """A map and the heads on its columns.

    Parameters
    ----------
    objective : objective of the rows, with the loss of the first entry
    """

    objective: Objective
    coordinates: Coordinates
    entries: tuple[RacedHeads, ...]

    @property
    def candidates(self) -> tuple[int, ...]:
        """Numbers of the candidates, in the order of the heads."""
        return tuple(number for entry in self.entries for number in entry.candidates)

    def only(self, alive: Sequence[int]) -> "RacedMap | None":
        """Return the map with the heads of the candidates that are left, or None."""
        entries = tuple(smaller for entry in self.entries if (smaller := entry.only(alive)) is not None)
        return replace(self, entries=entries) if entries else None

    def at(self, v: dict[int, F64]) -> "RacedMap":
        """Return the map with these coefficients, one array for each candidate."""
        entries = [
            replace(entry, v=np.ascontiguousarray(np.concatenate([v[n] for n in entry.candidates], axis=1)))
            for entry in self.entries
        ]
        return replace(self, entries=tuple(entries))

    @property
    def sgd_heads(self) -> SGDHeads:
        """The objective of all entries together, with their heads."""
        outputs = self.objective.targets.outputs
        parts = tuple((entry.loss, entry.v.shape[1] // outputs) for entry in self.entries)
        loss = parts[0][0] if len(parts) == 1 else MixedLoss(parts)
        return SGDHeads(replace(self.objective, loss=loss), self.coordinates, [entry.solver for entry in self.entries])

    def judge(self, rows: Block) -> dict[int, LossSums]:
        """Return the losses of each candidate on validation rows."""
        whole, scores = RowSlice.whole(len(rows.X)), {}
        for entry in self.entries:
            objective = replace(self.objective, loss=entry.loss, threshold=-1)
            sums = LossStatistic(objective).step(rows, whole, expand_coefficients(self.coordinates, entry.v))
            for number, loss, right in zip(entry.candidates, sums.loss, sums.right, strict=True):
                scores[number] = LossSums(loss, right, sums.weight, sums.n)
        return scores


def run_rounds(
    maps: Sequence[RacedMap],
    rounds: Schedule,
    reader: BlockReader,
    key: str,
    first: int,
    length: int,
    whole: int,
    following: Partition | None,
    progress: Any,
) -> tuple[list[RacedMap], dict[int, LossSums]]:
    """Run some rounds of all maps; return the maps after them, and the losses of each candidate on their rows.

    Parameters
    ----------
    first : number of the first of these rounds in the whole race
    length, whole : rounds of a pass, and of a whole race
    following : the pieces after the last of these rounds, which are read ahead
    """
    candidates = [raced.candidates for raced in maps]
    scores = {number: LossSums() for some in candidates for number in some}
    entries = [entry for raced in maps for entry in raced.entries]
    v = [entry.v for entry in entries]
    with SGD(reader, [raced.sgd_heads for raced in maps], f"{key}-{first}") as sgd:
        for i, pieces in enumerate(rounds):
            ahead = rounds[i + 1] if i + 1 < len(rounds) else following
            # Towards the end the steps become small: otherwise the losses would show the noise of few rows in the last
            # iterate, and the most regularized candidate would win.
            factor = max(0.05, 1 - (first + i) / whole)  # the last steps are this share of a fit's
            states, totals = sgd.round([PSGD.at_rest(each) for each in v], pieces, f"{i}", length, factor, ahead)
            v = [state.v for state in states]
            for some, total in zip(candidates, totals, strict=True):
                for number, loss, right in zip(some, total.loss, total.right, strict=True):
                    scores[number] += LossSums(loss, right, total.weight, total.n)
            progress.advance(int(pieces.rows().sum()), round=f"{i + 1}/{len(rounds)}")
    after = iter([replace(entry, v=each) for entry, each in zip(entries, v, strict=True)])
    return [replace(raced, entries=tuple(next(after) for _ in raced.entries)) for raced in maps], scores
