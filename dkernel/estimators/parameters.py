"""The types of the parameters that estimators share, as an editor shows them."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels import Kernel

__all__ = ["Callbacks", "ClassWeight", "Folder", "KernelLike", "Landmarks", "Seed"]

KernelLike = str | Kernel
Landmarks = str | NDArray[Any]
Seed = int | np.random.RandomState | None
Folder = str | PathLike[str] | None
ClassWeight = str | Mapping[Any, float] | None
Callbacks = Sequence[Callable[[dict[str, Any]], Any]] | None
