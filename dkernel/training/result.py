"""The result of a fit."""

from dataclasses import dataclass, field
from typing import Any

from dkernel.data.block import Block
from dkernel.model import Model


@dataclass(frozen=True, eq=False)
class TrainResult:
    """Model, history and figures of a fit.

    Parameters
    ----------
    history : per round the progressive loss and accuracy, per pass the holdout's
    plan : predicted bytes and flops
    chosen : what was left open, and what it became, in words
    holdout : the raw rows that no gradient saw, None for none
    sample : raw rows that are no holdout, a uniform sample
    sample_path : alpha -> loss of the sample's solution on rows outside the sample, where several were tried
    resumed : where the checkpoint was from which this run went on, None where it began at the beginning
    """

    model: Model
    history: list[dict[str, Any]]
    plan: dict[str, Any]
    chosen: dict[str, str]
    holdout: Block | None = None
    sample: Block | None = None
    sample_path: dict[str, float] = field(default_factory=dict)
    resumed: str | None = None
