"""Arguments of the solvers that read all rows at once, in whatever order they come: normal, pcg and lbfgs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.execution.base import Executor, Handle
from dkernel.persistence.journal import Journal
from dkernel.solving.sgd import merit
from dkernel.solving.sgd_setup import SampleEvaluator, evaluate_candidates
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import RowSlice

__all__ = ["FullBatchContext", "judge_names"]

Array = NDArray[np.float64]


@contextmanager
def judge_names(executor: Executor, holdout: Block, key: str) -> Iterator[tuple[Handle, int] | None]:
    """The holdout and its rows, where workers can judge on it; None for an empty one."""
    if not len(holdout.X):
        yield None
        return
    handle = executor.keep(holdout, f"{key}-holdout")
    yield handle, len(holdout.X)
    executor.release([handle])


@dataclass(frozen=True, eq=False)
class FullBatchContext:
    """The rows of a fit, all at once.

    Parameters
    ----------
    bench : of the problem that leaves the holdout out
    inside : the bench that knows no holdout: what judges its rows
    pieces : all of the feed's
    holdout : handle of the holdout's block and its rows, None for none
    """

    bench: SampleEvaluator
    inside: SampleEvaluator
    feed: BlockReader
    pieces: Sequence[RowSlice]
    holdout: tuple[Handle, int] | None
    progress: Any
    journal: Any = field(default_factory=Journal)

    def judged(self, found: Mapping[float, Array], name: str) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Figures on the holdout of the best of some alphas' coefficients, and what the history says of it."""
        if self.holdout is None:
            return {}, []
        alphas = list(found)
        v = np.concatenate(list(found.values()), axis=1)
        total = evaluate_candidates(self.inside, *self.holdout, v, f"{name}-judge")
        losses = total.loss / total.weight
        i = int(np.argmin(losses))
        figures = {"loss": float(losses[i]), "rows": int(total.n)}
        figures |= merit(self.bench.problem.targets, float(total.right[i]), total.n)
        path = {f"{alpha:g}": float(loss) for alpha, loss in zip(alphas, losses, strict=True)}
        line = {"holdout": name, "iterate": name, "alpha": alphas[i], "share_of_step": 1.0, **figures, "path": path}
        return figures, [line]
