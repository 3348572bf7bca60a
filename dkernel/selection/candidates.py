"""A candidate of the choice of kernel, scale and metric, and the result of the choice."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dkernel.features import Scaling
from dkernel.kernels import Kernel
from dkernel.persistence.serialization import stored
from dkernel.selection.stage_settings import RaceFindings
from dkernel.selection.ways import Way


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel with numbers and the scaling before it.

    Parameters
    ----------
    family : the kernel with its words
    factor : its place in the grid of gamma, 1 for the median value
    metric : of the scaling: "identity", "diagonal" or "full"
    weights : of the columns in the metric, of sum 1, or None
    plain : whether the components that judge it are the features, as those of a linear kernel may be
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
    """The choice, and a line for each of its parts that says why.

    Parameters
    ----------
    enough : components beyond which there is little to gain; None where that is not known
    ways : that are to be fitted, at most two; the one that was asked for where there was no race
    fallback : that is fitted too where no local stage of `ways` gains anything; None for none
    findings : of the race, for the local stage of each way
    alpha : of the ridge regression that was judged best; None where nothing was judged
    loss : that was chosen with a linear kernel of the features; None for the one that was asked for
    """

    kernel: Kernel
    scaling: Scaling
    why: dict[str, str]
    metric: str = "identity"
    weights: NDArray[np.float64] | None = None
    enough: int | None = None
    ways: tuple[Way, ...] = ()
    fallback: Way | None = None
    findings: dict[Way, RaceFindings] = field(default_factory=dict)
    alpha: float | None = None
    loss: str | None = None
