"""A file of named tensors and one JSON document, in the safetensors layout; reading executes no code.

    8 bytes   length of the header, little-endian
    header    {"__metadata__": {"dkernel": DOCUMENT}, tensor name: {"data_offsets", "dtype", "shape"}, ...}, spaces
    tensors   the largest item size first, then by name, each right after the one before

DOCUMENT is canonical JSON (sorted names, no spaces). It lists dtype, shape and sha256 of every tensor and the sha256
of itself, so the whole header follows from it: the reader builds the header again and compares. One content has one
file, and a file that differs from what the writer would write is refused, be it by one bit.

`safetensors.numpy.load_file` reads these files. The reader here is our own because the library checks less (no hash,
no order, no bound before it reads), and because a file must not need more memory than it has bytes.
"""

import contextlib
import hashlib
import json
import math
import mmap
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dkernel.data.store import is_url, locate
from dkernel.errors import DKernelError, ModelFileError

Document = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]

# Bytes of a tensor from which it may stay in the file. A smaller one is as well in memory, where nothing that others do
# to the file counts.
LARGE_TENSOR = 2**28
_PART = 2**22  # values that are looked at at one time
_HEADER_LIMIT = 100_000_000  # the limit of safetensors
_BEGINNING = b'{"__metadata__":{"dkernel":"{'
_FREE_BYTES = 2 * 2**20  # bytes of values that any machine can hold
_DTYPES = {
    "BOOL": "?",
    "F32": "<f4",
    "F64": "<f8",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U32": "<u4",
    "U64": "<u8",
    "U8": "u1",
}
_DTYPE_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_AGAIN = "Copy the file again, or train the model again."


def write_tensors(path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Arrays) -> str:
    """Write the file whole or not at all; returns its sha256. `document` may not have `tensors` or `sha256` in it."""
    digest = hashlib.sha256()
    store, name = locate(path)
    with store.replacing(name) as file:
        for part in _parts(*_describe(document, arrays)):
            digest.update(part)
            file.write(part)
    return digest.hexdigest()


def digest_to_be(document: Mapping[str, Any], arrays: Arrays) -> str:
    """Sha256 of the file that `write_tensors` would write."""
    return digest_as_read(*_describe(document, arrays))


def digest_as_read(document: Document, arrays: Arrays) -> str:
    """Sha256 of the file from which `read_document` and `read_tensors` have made these."""
    digest = hashlib.sha256()
    for part in _parts(document, arrays):
        digest.update(part)
    return digest.hexdigest()


def _describe(document: Mapping[str, Any], arrays: Arrays) -> tuple[Document, Arrays]:
    """The whole document, and the arrays as they lie in the file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return _seal({**document, "tensors": {name: _entry(name, array) for name, array in arrays.items()}}), arrays


def _parts(document: Document, arrays: Arrays) -> Iterator[memoryview | bytes]:
    """The bytes of the file: its header, then its tensors."""
    yield _header(document)
    for name in _order(document["tensors"]):
        yield _view_bytes(arrays[name])


@contextlib.contextmanager
def open_tensors(path: str | os.PathLike[str], all_of_it: bool = True) -> Iterator[BinaryIO]:
    """The file opened for `read_document`, and `all_of_it` for `read_tensors`; trouble with it is a ModelFileError."""
    try:
        store, name = locate(path)
        if not is_url(path) and not Path(store.path(name)).is_file():
            what = "is not a file" if Path(store.path(name)).exists() else "does not exist"
            raise ModelFileError(f"The model {str(path)!r} {what}. Give the path that was --out of dkernel train.")
        with store.reading(name, all_of_it) as file:
            yield file
    except FileNotFoundError:
        raise ModelFileError(
            f"The model {str(path)!r} does not exist. Give the address that was --out of dkernel train."
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, DKernelError):
            raise
        raise ModelFileError(f"The model {str(path)!r} cannot be read: {error}.") from None


def read_document(file: BinaryIO, file_name: str, newest: int) -> Document:
    """The document, checked against itself and against the size of the file; `newest` is the protocol that is read."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or not 2 <= length <= min(_HEADER_LIMIT, size - 8):
        raise ModelFileError(
            f"{file_name} is not a dkernel model: its {size} bytes do not begin with a header that fits. "
            "A model is the file that dkernel train or dkernel.save wrote, whole."
        )
    raw = file.read(length)
    if not raw.startswith(_BEGINNING):
        raise ModelFileError(f"{file_name} is not a dkernel model: its header does not begin as that of one does.")
    values = sum(raw.count(sign) for sign in (b",", b"[", b"{"))
    # Three bytes of text can stand for a value of sixty in memory; a model's tensors outweigh the values of its header.
    if values * 4 > max(size, _FREE_BYTES):  # a number and its comma take more, an empty list less
        raise ModelFileError(
            f"{file_name} is not a dkernel model: its header has {values:,} values for {size:,} bytes."
        )
    try:
        document: Document = _parse(_parse(raw.decode())["__metadata__"]["dkernel"])
        _check_protocol(document["protocol"], newest, file_name)
        _check_document(document, file_name)
        written = _header(document)
    except ModelFileError:
        raise
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ModelFileError(
            f"{file_name} is not a dkernel model, or it is damaged: its header cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}). {_AGAIN}"
        ) from error
    if first + raw != written:
        raise ModelFileError(f"{file_name} is damaged: its header is not what dkernel writes. {_AGAIN}")
    needed = len(written) + sum(_nbytes(entry) for entry in document["tensors"].values())
    if size != needed:
        raise ModelFileError(f"{file_name} is damaged: it has {size} bytes and its header describes {needed}. {_AGAIN}")
    return document


def read_tensors(
    file: BinaryIO, document: Document, file_name: str, by_parts: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """The tensors, in the file's order, each checked by its sha256.

    Parameters
    ----------
    by_parts : names of tensors of which large ones stay in the file, and are read as they are used
    """
    arrays = {}
    for name in _order(document["tensors"]):
        entry = document["tensors"][name]
        # The size of the file was checked against the header: nothing larger than the file is ever allocated.
        buffer: bytearray | memoryview
        if name in by_parts and _nbytes(entry) >= LARGE_TENSOR:
            buffer = _map(file, _nbytes(entry))
        else:
            buffer = bytearray(_nbytes(entry))
            if file.readinto(buffer) != len(buffer):  # type: ignore[attr-defined]
                raise ModelFileError(f"{file_name} ends in the middle of the tensor {name!r}. {_AGAIN}")
        if hashlib.sha256(buffer).hexdigest() != entry["sha256"]:
            raise ModelFileError(f"{file_name} is damaged: the sha256 of the tensor {name!r} does not match. {_AGAIN}")
        arrays[name] = np.frombuffer(buffer, dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def _map(file: BinaryIO, size: int) -> memoryview:
    """The next bytes of the file, where they are."""
    start = file.tell()
    skipped = start % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(file.fileno(), skipped + size, access=mmap.ACCESS_READ, offset=start - skipped)
    file.seek(start + size)
    return memoryview(mapped)[skipped:]


def all_finite(array: NDArray[Any]) -> bool:
    """True if every value of an array is finite; part by part, for those that are larger than memory."""
    flat = array.reshape(-1)
    return all(bool(np.isfinite(flat[i : i + _PART]).all()) for i in range(0, flat.size, _PART))


def _entry(name: str, array: NDArray[Any]) -> dict[str, Any]:
    if name <= "__metadata__":
        raise ModelFileError(f"The tensor {name!r} would stand before the document: its name must begin with a-z.")
    if array.dtype not in _DTYPE_NAMES:
        dtypes = ", ".join(str(dtype) for dtype in _DTYPE_NAMES)
        raise ModelFileError(f"The tensor {name!r} is of type {array.dtype}; a model file holds {dtypes}.")
    if array.dtype.kind == "f" and not all_finite(array):
        raise ModelFileError(
            f"The tensor {name!r} has a value that is not finite: the fit did not converge. Train again, with a "
            "larger alpha or scaled features."
        )
    digest = hashlib.sha256(_view_bytes(array)).hexdigest()
    return {"dtype": _DTYPE_NAMES[array.dtype], "shape": list(array.shape), "sha256": digest}


def _view_bytes(array: NDArray[Any]) -> memoryview | bytes:
    # A view of no bytes cannot be cast.
    return array.data.cast("B") if array.size else b""


def _seal(document: Document) -> Document:
    """The document as reading will find it, with the sha256 of its own canonical text."""
    try:
        text = canonical(document)
        again: Document = _parse(text)
        if canonical(again) != text:
            raise ValueError("a dictionary has names that are not text")
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"This model cannot be written as JSON: {error}. Its facts, recipe and map may hold finite numbers, "
            "strings, lists and dictionaries with text names."
        ) from error
    return {**again, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _header(document: Mapping[str, Any]) -> bytes:
    """The first bytes of the file, which the document alone decides: length, JSON, spaces up to a multiple of 8."""
    entries: dict[str, Any] = {"__metadata__": {"dkernel": canonical(document)}}
    start = 0
    for name in _order(document["tensors"]):
        entry = document["tensors"][name]
        end = start + _nbytes(entry)
        entries[name] = {"data_offsets": [start, end], "dtype": entry["dtype"], "shape": entry["shape"]}
        start = end
    text = canonical(entries).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _HEADER_LIMIT:
        raise ModelFileError(
            f"The header of this model is {len(text)} bytes long; at most {_HEADER_LIMIT} can be read. It holds the "
            "column names and the class labels: use fewer or shorter ones."
        )
    return len(text).to_bytes(8, "little") + text


def _order(entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    # Large items first keeps every tensor aligned to its own item size without holes, which the format forbids.
    return sorted(entries, key=lambda name: (-np.dtype(_DTYPES[entries[name]["dtype"]]).itemsize, name))


def _nbytes(entry: Mapping[str, Any]) -> int:
    return int(np.dtype(_DTYPES[entry["dtype"]]).itemsize * math.prod(entry["shape"]))


def _check_protocol(protocol: Any, newest: int, file_name: str) -> None:
    if type(protocol) is int and protocol > newest:
        raise ModelFileError(
            f"{file_name} was made by a newer dkernel: it has protocol {protocol} and this dkernel reads "
            f"{newest}. Install a newer dkernel."
        )
    if type(protocol) is not int or protocol < 1:
        raise ModelFileError(f"{file_name} has the unknown protocol {protocol!r}; this dkernel reads {newest}.")
    if protocol < newest:
        raise ModelFileError(
            f"{file_name} was made by a dkernel before the first release: it has protocol {protocol} and this dkernel "
            f"reads {newest}. Train the model again, or read it with the dkernel that made it."
        )


def _check_document(document: Document, file_name: str) -> None:
    unsealed = {name: value for name, value in document.items() if name != "sha256"}
    if hashlib.sha256(canonical(unsealed).encode()).hexdigest() != document["sha256"]:
        raise ModelFileError(f"{file_name} is damaged: the sha256 of its header does not match. {_AGAIN}")
    for name, entry in document["tensors"].items():
        shape = entry["shape"]
        if not (
            name != "__metadata__"
            and set(entry) == {"dtype", "shape", "sha256"}
            and entry["dtype"] in tuple(_DTYPES)
            and isinstance(shape, list)
            and len(shape) <= 8
            and all(type(n) is int and 0 <= n < 2**48 for n in shape)
        ):
            raise ModelFileError(f"{file_name} does not describe a model: the tensor {name!r} is {str(entry)[:200]}.")


def canonical(value: Any) -> str:
    """The one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")
