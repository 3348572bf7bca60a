"""Division of the reservoir into holdout, leverage rows, landmarks and the preconditioner's sample."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.survey import Reservoir


@dataclass(frozen=True, eq=False)
class ReservoirSplit:
    """Blocks of raw rows, which are disjoint; if there are few rows, landmarks and sample overlap.

    Parameters
    ----------
    threshold : rows with hashes up to it are the holdout, -1 for no holdout
    fitted : the rows outside the holdout, in the order of hashes
    pool : the rows that landmarks and sample are taken from, in the order of hashes
    """

    holdout: Block
    leverage_rows: Block
    landmarks: Block
    sample: Block
    fitted: Block
    pool: Block
    threshold: int

    @property
    def measured(self) -> Block:
        """Rows whose leverage is measured: the leverage rows, or the sample if there are none."""
        return self.leverage_rows if len(self.leverage_rows.X) else self.sample

    @property
    def unseen(self) -> Block:
        """Rows outside the preconditioner's sample, of the larger block of them; the sample where it has all."""
        larger = self.holdout if len(self.holdout.X) >= len(self.leverage_rows.X) else self.leverage_rows
        # 8,192 rows show which directions are far larger outside the sample, and which alphas go on.
        return select_rows(larger if len(larger.X) else self.sample, slice(8192))

    def sample_beside(self, landmarks: NDArray[np.intp]) -> Block:
        """The sample where these rows of the pool are the landmarks: as many rows, of which the others come first."""
        others = np.setdiff1d(np.arange(len(self.pool.X)), landmarks)
        return select_rows(self.pool, np.concatenate([others, landmarks])[: len(self.sample.X)])


def select_rows(block: Block, rows: NDArray[np.intp] | slice) -> Block:
    """Some rows of a block."""

    def of(values: Any) -> Any:
        return None if values is None else values[rows]

    return Block(block.X[rows], of(block.y), of(block.weight))


def split_reservoir(reservoir: Reservoir, sizes: Sizes) -> ReservoirSplit:
    """Cut the reservoir, by rank of hash: the holdout first, so that a row's hash alone tells its role."""
    n_holdout = min(sizes.holdout, len(reservoir) - 1)
    start = n_holdout + min(sizes.leverage_rows, max(1, (len(reservoir) - n_holdout) // 10))
    rest = np.arange(start, len(reservoir))
    if not len(rest):
        rest = np.arange(n_holdout, len(reservoir))
    landmarks = rest[: sizes.components]
    # The sample begins behind the landmarks, whose leverage differs from other rows', and takes them last.
    sample = np.concatenate([rest[sizes.components :], landmarks])[: sizes.sample]
    return ReservoirSplit(
        reservoir.part(slice(0, n_holdout)),
        reservoir.part(slice(n_holdout, start)),
        reservoir.part(landmarks),
        reservoir.part(sample),
        reservoir.part(slice(n_holdout, None)),
        reservoir.part(slice(int(rest[0]), None)),
        int(reservoir.hashes[n_holdout - 1]) if n_holdout else -1,
    )
