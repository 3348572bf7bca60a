"""The result of a local stage."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dkernel.model.local.base import LocalMachine
from dkernel.training.residual import Residual


@dataclass(frozen=True, eq=False)
class LocalStage:
    """The result of a local stage.

    Parameters
    ----------
    machine : None if the holdout does not gain by it
    history : a line for each round
    facts : for the model file, as JSON
    why : the reason, in words
    holdout : figures of the holdout with this machine
    """

    machine: LocalMachine | None
    history: list[dict[str, Any]]
    facts: dict[str, Any]
    why: str
    holdout: dict[str, float] = field(default_factory=dict)

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
        """Keep a machine if the holdout gains by it.

        Parameters
        ----------
        facts, words : of the machine
        scores : of the holdout, by the global stage and this machine together
        """
        figures = residual.figures(scores)
        if not residual.judges:
            return cls(machine, history, facts, words, figures)
        before, after, error = residual.gain(scores)
        facts = facts | {"loss_before": before, "loss": after}
        words += f": loss {after:.4g} instead of {before:.4g} on the holdout, "
        if residual.spoils_labels(scores):
            return cls(None, history, facts, f"none: {words}more wrong labels")
        if after < before - error:
            words += f"a gain of {(before - after) / error:.1f} standard errors"
            return cls(machine, history, facts, words, figures)
        return cls(None, history, facts, f"none: {words}no gain of more than one standard error")


def best_stage(tried: Sequence[LocalStage]) -> LocalStage:
    """The stage with a machine and the smallest loss on the holdout, with the history of all."""
    kept = [stage for stage in tried if stage.machine is not None]
    best = min(kept, key=lambda stage: stage.facts.get("loss", 0.0), default=tried[0])
    others = [stage.why for stage in tried if stage is not best]
    why = best.why + "".join(f"; {'not taken: ' * bool(kept)}{each.removeprefix('none: ')}" for each in others)
    return replace(best, why=why, history=[line for stage in tried for line in stage.history])
