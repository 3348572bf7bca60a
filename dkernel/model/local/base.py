"""The contract of a local machine: the part of a model that a local stage fits."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray


class LocalMachine(ABC):
    """A function of rows that a model adds to its scores. It is pickled as a model file stores it."""

    kind: ClassVar[str]
    by_parts: ClassVar[frozenset[str]] = frozenset()
    """Names of arrays that `scores` reads in parts, so that large ones may stay in the model file."""

    @abstractmethod
    def scores(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores (rows, outputs) of a block (rows, p) of raw rows; a row has the same alone and in any block."""

    @abstractmethod
    def without(self, outputs: Sequence[int]) -> Self:
        """The machine that adds nothing to these outputs."""

    @abstractmethod
    def fits(self, n_in: int, outputs: int) -> bool:
        """True if its arrays agree, and give `outputs` numbers for rows of `n_in` features."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The parameters that are no arrays, as JSON, with the machine's `kind`."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The parameters that are arrays."""

    def array_names(self) -> set[str]:
        """Names of `arrays`; a machine that packs its arrays knows them without packing."""
        return set(self.arrays())

    @classmethod
    @abstractmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Build the machine of `spec` and `arrays`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).build, (self.spec(), self.arrays())
