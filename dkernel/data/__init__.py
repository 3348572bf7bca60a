"""Files, arrays and frames to blocks and back, and the encoding of their columns."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkernel.data.block import Block, chunk_limit
    from dkernel.data.collections.arrays import from_arrays
    from dkernel.data.opening import open_source
    from dkernel.data.source import Source, Unit

__all__ = ["Block", "Source", "Unit", "chunk_limit", "from_arrays", "open_source"]

_LAZY_NAMES = {
    "Block": "dkernel.data.block",
    "Source": "dkernel.data.source",
    "Unit": "dkernel.data.source",
    "chunk_limit": "dkernel.data.block",
    "from_arrays": "dkernel.data.collections.arrays",
    "open_source": "dkernel.data.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY_NAMES[name]), name)
