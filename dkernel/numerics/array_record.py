"""Dataclasses of arrays alone, and parts of named arrays, as model files hold them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from numpy.typing import NDArray


def arrays_under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class ArrayRecord:
    """Base class of dataclasses whose fields are arrays."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for a model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def build(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the record of `arrays` again; others among them are passed over."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})  # type: ignore[arg-type]
