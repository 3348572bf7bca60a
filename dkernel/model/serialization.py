"""Values of a fit as JSON and arrays, and back, for checkpoints; reading executes no code.

    None, bool, int, float, text     themselves; {"float": "nan"} for what JSON has no word for
    list, tuple, dict                [...], {"tuple": [...]}, {"dict": [[name, value], ...]}: names of any kind
    array                            {"array": its tensor, "dtype", "order"}
    a value of one of CODECS          {"value": its number, "kind", "of": [[name, part], ...]}; again {"again": number}

Parts are pairs, because a file sorts the names of JSON and "again" must come after. The same arrays come back in the
same layout in memory, and what was one object is one object again: BLAS takes another path, and so gives other bits,
for a matrix stored by columns, and a solver applies a preconditioner once to all heads that share it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.errors import ModelFileError
from dkernel.features import FeatureMap, Scaling, map_from
from dkernel.features.normal_scores import NormalScores
from dkernel.kernels import Kernel, parse
from dkernel.losses.calibration import Calibration
from dkernel.losses.predictive_variance import Variance
from dkernel.model.conformal import Conformal
from dkernel.model.local.base import LocalMachine
from dkernel.model.local_settings import local_machine
from dkernel.model.local_width import LocalWidth
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.numerics import object_values
from dkernel.numerics.sparse_rows import RangeNames, SparseRows

T = TypeVar("T", bound=type)


@dataclass(frozen=True)
class TypeCodec:
    """Conversion of the values of a class into parts, and back."""

    of: type
    parts: Callable[[Any], dict[str, Any]]
    build: Callable[[dict[str, Any]], Any]


def _plain(of: type) -> TypeCodec:
    """A dataclass by its fields."""
    names = [field.name for field in fields(of)]
    return TypeCodec(of, lambda value: {name: getattr(value, name) for name in names}, lambda parts: of(**parts))


def _by_spec(of: type, build: Callable[..., Any]) -> TypeCodec:
    return TypeCodec(of, lambda value: {"spec": value.spec(), "arrays": value.arrays()}, lambda parts: build(**parts))


CODECS: dict[str, TypeCodec] = {
    "Block": _plain(Block),
    "Calibration": _plain(Calibration),
    "Conformal": _plain(Conformal),
    "LocalWidth": _plain(LocalWidth),
    "Model": _plain(Model),
    "Numbered": _plain(RangeNames),
    "NormalScores": _plain(NormalScores),
    "Scaling": _plain(Scaling),
    "SparseRows": _plain(SparseRows),
    "Variance": _plain(Variance),
    "Encoding": TypeCodec(Encoding, lambda encoding: encoding.to_json(), Encoding.from_json),
    "FeatureMap": _by_spec(FeatureMap, map_from),
    "LocalMachine": _by_spec(LocalMachine, local_machine),
    "Kernel": TypeCodec(Kernel, lambda kernel: {"text": repr(kernel)}, lambda parts: parse(parts["text"])),
    "Recipe": TypeCodec(Recipe, lambda recipe: recipe.to_dict(), Recipe.from_dict),
}
"""Name in a file -> what it stands for. A checkpoint can make values of these and of no other class."""


def stored(name: str) -> Callable[[T], T]:
    """A class decorator: a checkpoint holds values of this dataclass, by its fields, under this name.

    Parameters
    ----------
    name : in the files; it stays when the class is renamed
    """

    def enter(of: T) -> T:
        CODECS[name] = _plain(of)
        return of

    return enter


def encode_value(value: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The value as JSON has it, and its arrays by name.

    Examples
    --------
    >>> encode_value({1: (2.5, np.zeros(2))})
    ({'dict': [[1, {'tuple': [2.5, {'array': 'a0', 'dtype': '<f8', 'order': 'C'}]}]]}, {'a0': array([0., 0.])})
    """
    encoder = _Encoder()
    return encoder.encode(value), encoder.arrays


def decode_value(tree: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The value that `encode_value` took apart.

    Examples
    --------
    >>> decode_value(*encode_value({1: (2.5, float("inf"))}))
    {1: (2.5, inf)}
    """
    return _Decoder(arrays).decode(tree)


class _Encoder:
    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        # The values themselves are held too: an id is a name only while its owner lives.
        self._seen: dict[int, tuple[int, Any]] = {}

    def encode(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, list):
            return [self.encode(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.encode(item) for item in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.encode(name), self.encode(item)] for name, item in value.items()]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        return self._value(value)

    def _array(self, array: NDArray[Any]) -> dict[str, Any]:
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise TypeError(f"An array {array.shape} with strides {array.strides} would come back in another layout.")
        name, order = f"a{len(self.arrays)}", "C" if array.flags.c_contiguous else "F"
        if array.dtype.kind == "O":
            data, ends = (
                object_values.encode_cells(array)
                if array.size
                else (np.zeros(0, np.uint8), np.zeros(array.shape, np.int64))
            )
            self.arrays |= {name: data, f"{name}-ends": ends}
            return {"array": name, "dtype": "O", "order": "C"}
        stored = array if order == "C" else array.T
        # The file takes finite numbers and no text; either is kept as what it is made of.
        if array.dtype.kind == "U" and array.size:
            stored = stored.view(np.uint32)
        elif array.dtype.kind == "U":
            stored = np.zeros(array.shape, np.uint32)
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            stored = stored.view(f"u{array.itemsize}")
        self.arrays[name] = stored
        return {"array": name, "dtype": array.dtype.str, "order": order}

    def _value(self, value: Any) -> dict[str, Any]:
        if id(value) in self._seen:
            return {"again": self._seen[id(value)][0]}
        # The last first: a class is entered after the one that it derives from.
        kind = next((name for name, kind in reversed(CODECS.items()) if isinstance(value, kind.of)), None)
        if kind is None:
            raise TypeError(f"A checkpoint has no place for a {type(value).__name__}: CODECS has none.")
        number = len(self._seen)
        self._seen[id(value)] = (number, value)
        parts = CODECS[kind].parts(value)
        return {"value": number, "kind": kind, "of": [[name, self.encode(part)] for name, part in parts.items()]}


class _Decoder:
    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = arrays
        self._seen: dict[int, Any] = {}

    def decode(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "float" in tree:
            return float(tree["float"])
        if "tuple" in tree:
            return tuple(self.decode(item) for item in tree["tuple"])
        if "dict" in tree:
            return {self.decode(name): self.decode(item) for name, item in tree["dict"]}
        if "array" in tree:
            return self._array(tree)
        if "again" in tree:
            return self._seen[tree["again"]]
        if tree.get("kind") not in CODECS:
            raise ModelFileError(f"A value of kind {tree.get('kind')!r} is unknown; known are {', '.join(CODECS)}.")
        value = CODECS[tree["kind"]].build({name: self.decode(part) for name, part in tree["of"]})
        self._seen[tree["value"]] = value
        return value

    def _array(self, tree: Mapping[str, Any]) -> NDArray[Any]:
        stored, dtype = self.arrays[tree["array"]], np.dtype(tree["dtype"])
        if dtype.kind == "O":
            ends = self.arrays[f"{tree['array']}-ends"]
            return object_values.decode_cells(stored, ends) if ends.size else np.empty(ends.shape, object)
        if dtype.kind == "U" and not stored.size:
            array = np.zeros(stored.shape, dtype)
        else:
            array = stored if stored.dtype == dtype else stored.view(dtype)
        return array if tree["order"] == "C" else array.T
