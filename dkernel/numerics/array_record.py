"""Dataclasses of arrays alone, as model files hold them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from numpy.typing import NDArray


class ArrayRecord:
    """Base class of dataclasses whose fields are arrays."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for a model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def build(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the record of `arrays` again; others among them are passed over."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})  # type: ignore[arg-type]
