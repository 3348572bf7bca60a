"""New rows of an update, as a local stage learns them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32


@dataclass(frozen=True, eq=False)
class NewRows:
    """New rows as a local stage learns them.

    Parameters
    ----------
    X : raw inputs (n, p)
    Y : targets (n, outputs);  S : scores of the global stage (n, outputs), both in the machine's unit
    weight : float64 (n,)
    """

    X: NDArray[Any]
    Y: F32
    S: F32
    weight: NDArray[np.float64]
