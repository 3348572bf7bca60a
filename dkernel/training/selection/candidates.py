"""A candidate of a choice, and the result of the choice."""

from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from dkernel.features import Scaling
from dkernel.kernels import Kernel
from dkernel.model.serialization import stored
from dkernel.training.selection.descent import SettingIndex
from dkernel.training.selection.ways import Way


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel with numbers, and the scaling before it.

    Parameters
    ----------
    family : the kernel as the recipe has it, with words for numbers
    factor : gamma as a multiple of the median value
    metric : metric of the scaling: "identity", "diagonal" or "full"
    weights : weights of the columns in the metric, with the sum 1, or None
    plain : whether its components may be the features themselves, as those of a linear kernel
    """

    family: Kernel
    kernel: Kernel
    scaling: Scaling
    factor: float
    metric: str = "identity"
    weights: NDArray[np.float64] | None = None
    plain: bool = False


@stored("SelectedModel")
@dataclass(frozen=True, eq=False)
class SelectedModel:
    """The result of a choice.

    Parameters
    ----------
    why : part of the choice -> the reason in words
    enough : components beyond which there is little to gain; None if that is not known
    ways : ways to fit; without a race the way of the recipe
    findings : settings of the local stage of each way in the race, from which a search begins
    reached : loss of the best ridge regression on rows that judged it; infinite if nothing was judged
    alpha : alpha of the best ridge regression; None if nothing was judged
    loss : the joint loss, if the choice is a linear kernel with it; None for the loss of the recipe
    """

    kernel: Kernel
    scaling: Scaling
    why: dict[str, str]
    metric: str = "identity"
    weights: NDArray[np.float64] | None = None
    enough: int | None = None
    ways: tuple[Way, ...] = ()
    findings: dict[Way, SettingIndex | None] = field(default_factory=dict)
    reached: float = inf
    alpha: float | None = None
    loss: str | None = None
