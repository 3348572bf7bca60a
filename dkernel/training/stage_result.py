"""The result of a local stage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dkernel.model.local.base import LocalMachine
from dkernel.training.holdout_losses import HoldoutLosses, find_best
from dkernel.training.residual import Residual


@dataclass(frozen=True, eq=False)
class StageResult:
    """The result of a local stage.

    Parameters
    ----------
    machine : local machine, None if it does not improve the holdout
    history : one line for each round
    facts : for the model file, as JSON
    why : reason to keep the machine or not, in words
    losses : losses of the rows of the holdout with this machine; None without a machine
    setting : settings from which the search of another way goes on
    """

    machine: LocalMachine | None
    history: list[dict[str, Any]]
    facts: dict[str, Any]
    why: str
    losses: HoldoutLosses | None = None
    setting: Any = None

    @classmethod
    def judge(
        cls,
        machine: LocalMachine,
        history: list[dict[str, Any]],
        facts: dict[str, Any],
        words: str,
        residual: Residual,
        scores: NDArray[np.float32],
    ) -> Self:
        """Keep a machine if it improves the holdout.

        Parameters
        ----------
        facts, words : facts and description of the machine
        scores : scores of the holdout by the global stage and this machine together
        """
        after = residual.losses(scores)
        if not residual.judges:
            return cls(machine, history, facts, words, after)
        before = residual.losses(residual.holdout.scores)
        facts = facts | {"loss_before": before.mean, "loss": after.mean}
        words += f": loss {after.mean:.4g} instead of {before.mean:.4g} on the holdout, "
        if after.spoils_labels(before):
            return cls(None, history, facts, f"none: {words}more wrong labels")
        if after.is_better(before):
            return cls(machine, history, facts, f"{words}a clear gain", after)
        return cls(None, history, facts, f"none: {words}no clear gain")


def best_stage(tried: Sequence[StageResult]) -> StageResult:
    """Return the best stage with a machine, by its losses on the holdout, with the history of all stages."""
    judged = [(stage, stage.losses) for stage in tried if stage.losses is not None]
    best = judged[find_best([losses for _, losses in judged])][0] if judged else tried[0]
    others = [stage.why for stage in tried if stage is not best]
    why = best.why + "".join(f"; {'not taken: ' * bool(judged)}{each.removeprefix('none: ')}" for each in others)
    return replace(best, why=why, history=[line for stage in tried for line in stage.history])
