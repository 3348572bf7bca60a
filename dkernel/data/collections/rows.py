"""The rows of collections with label and weight, in memory or in Dask: their parts, their inputs, and their source."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from dkernel.data.block import (
    Block,
    UncheckedBlock,
    check_beside,
    chunk_limit,
    cut_blocks,
    cut_evenly,
    label_and_weight,
    one_a_row,
    targets_in,
)
from dkernel.data.collections.dask_arrays import (
    block_graphs,
    compute_values,
    describe_row,
    is_dask,
    make_regular,
    refuse_parts,
    unwrap,
)
from dkernel.data.collections.tables import (
    check_names,
    check_numbers,
    column_arrays,
    column_names,
    matrix,
    take_rows,
    to_table,
)
from dkernel.data.column_types import BOOL, FLOAT, INT, TEXT, type_of_dtype
from dkernel.data.compute import dask_compute
from dkernel.data.encoding import Encoding
from dkernel.data.source import Source, Unit
from dkernel.errors import DataError
from dkernel.numerics.layout import Layout
from dkernel.numerics.rows import byte_views, stored_size
from dkernel.numerics.sparse_rows import RangeNames

Part = tuple[int, Any, Any, Any]
"""Number of the first row; rows, labels and weights, of Dask as tasks."""

_NO_TASKS: Mapping[Any, Any] = MappingProxyType({})
_HASH_BYTES = 64 * 2**20  # hashed at a time: a copy of no more is made


@dataclass(frozen=True, eq=False)
class GivenRows(ABC):
    """The rows of collections.

    Parameters
    ----------
    X : a frame or an array, of numbers or of objects, or sparse rows
    label, weight : one value a row, or some; None where there are none
    compute : as `dask.compute`
    """

    X: Any
    label: Any
    weight: Any
    compute: Callable[..., Any]

    @staticmethod
    def of(X: Any, label: Any, weight: Any, compute: Callable[..., Any]) -> "GivenRows":
        """The rows of collections in memory, or of one in Dask and what is beside it."""
        if X.ndim != 2:
            raise DataError(f"X has {X.ndim} dimension(s); a table of 2 (rows, columns) is needed.")
        label, weight = unwrap(label), unwrap(weight)
        refuse_parts(label, weight)
        if is_dask(X):
            return DaskRows(X, label, weight, compute)
        label, weight = compute_values((label, weight), compute)
        return MemoryRows(X, label, weight, compute)

    @abstractmethod
    def regular(self) -> "GivenRows":
        """These rows with parts of known sizes, which label and weight have too."""

    def parts(self) -> list[Part]:
        """Regular rows in parts, each with the number of its first row."""
        sizes, *columns = self._parts()
        return list(zip(np.cumsum([0, *sizes[:-1]]).tolist(), *columns, strict=True))

    @abstractmethod
    def _parts(self) -> tuple[Sequence[Any], ...]:
        """Numbers that the rows of each part have; its X, labels and weights."""

    @abstractmethod
    def source(self, layout: Layout, encoding: Encoding | None) -> Source:
        """The source of these rows.

        Parameters
        ----------
        layout : of X; without names its columns have numbers
        encoding : makes the inputs of the columns
        """


class MemoryRows(GivenRows):
    """Rows in memory: a frame, an array, or sparse rows."""

    def regular(self) -> "GivenRows":
        label, weight = label_and_weight(self.label, self.weight, len(self.X))
        return replace(self, label=label, weight=weight)

    def _parts(self) -> tuple[Sequence[Any], ...]:
        sizes = cut_evenly(len(self.X), chunk_limit(self.X.shape[1], 8))
        slices = [slice(stop - n, stop) for n, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
        chunks, labels, weights = (
            [None if each is None else take_rows(each, part) for part in slices]
            for each in (self.X, self.label, self.weight)
        )
        return sizes, chunks, labels, weights

    def source(self, layout: Layout, encoding: Encoding | None) -> Source:
        X = self.X
        rows, p = (int(n) for n in X.shape)
        if not rows:
            raise DataError("X has no rows.")
        label, weight = check_beside(self.label, self.weight, rows, describe_row)
        layout, stored = replace(layout, columns=check_names(layout.columns, p)), None
        if not layout.numeric:
            X = layout.block(matrix(X, layout.array_dtype), describe_row)
            stored = -(-stored_size(X) // rows)
        elif encoding is None or encoding.plain:
            check_numbers(X, layout.columns, fitted=encoding is not None)
        inputs = layout if encoding is None else replace(layout, columns=encoding.names)
        row_bytes = inputs.row_bytes(stored)
        token = _hash(X, layout.columns, label, weight, encoding)
        units, first = [], 0
        for i, n in enumerate(cut_evenly(rows, chunk_limit(row_bytes, 1))):
            some = [None if each is None else take_rows(each, slice(first, first + n)) for each in (X, label, weight)]
            make = partial(_make_blocks, layout, (n,), first, encoding)
            units.append(_unit((n,), (token, layout.columns, layout.dtype, i), make, some))
            first += n
        return _source(units, inputs, token, label, row_bytes, encoding)


def hold_block(rows: Block, like: Source, dtype: str) -> Source:
    """A source of rows in memory, whose columns are those of the source they were read from."""
    # The inputs that an encoding made may have equal names; a kernel finds columns of objects by theirs.
    numbers: Sequence[str] = RangeNames(0, int(rows.X.shape[1])) if like.sparse else ()
    layout = Layout(like.columns if like.objects else numbers, dtype, like.objects)
    held = MemoryRows(rows.X, rows.y, rows.weight, dask_compute).source(layout, None)
    return replace(
        held,
        columns=like.columns,
        label=like.label,
        targets=targets_in(rows.y),
        encoding=like.encoding,
        notes=like.notes,
        passed_over=like.passed_over,
        weight_column=like.weight_column,
        weight=None if rows.weight is None else like.weight or "weight",
    )


class DaskRows(GivenRows):
    """Rows in Dask: a data frame or an array; what is beside it may be in memory."""

    def regular(self) -> "GivenRows":
        return DaskRows(*make_regular(self.X, self.label, self.weight, self.compute), self.compute)

    def _parts(self) -> tuple[Sequence[Any], ...]:
        sizes = self.X.chunks[0]
        chunks, labels, weights = (
            [None] * len(sizes) if each is None else list(each.to_delayed().reshape(len(sizes), -1)[:, 0])
            for each in (self.X, self.label, self.weight)
        )
        return sizes, chunks, labels, weights

    def source(self, layout: Layout, encoding: Encoding | None) -> Source:
        names = column_names(self.X)
        if encoding is None and names and not layout.objects:
            check_numbers(self.X, names, self.compute)
        rows = self.regular()
        layout = replace(layout, columns=check_names(layout.columns, int(rows.X.shape[1])))
        inputs = layout if encoding is None else replace(layout, columns=encoding.names)
        row_bytes, reading = inputs.row_bytes(), (layout.columns, layout.dtype, repr(encoding))
        arrays = [None if each is None else (each.name, each.chunks) for each in (rows.X, rows.label, rows.weight)]
        token = hashlib.sha256(repr((arrays, reading)).encode()).hexdigest()
        units, first = [], 0
        for i, n, keys, graph in block_graphs(rows.X, rows.label, rows.weight):
            sizes = cut_evenly(n, chunk_limit(row_bytes, 1))
            make = partial(_make_blocks, layout, sizes, first, encoding)
            units.append(_unit(sizes, (token, i), make, keys, graph))
            first += n
        if not units:
            raise DataError("X has no rows.")
        return _source(units, inputs, token, rows.label, row_bytes, encoding)


def _unit(
    rows: tuple[int, ...],
    content: Any,
    make: Callable[..., Any],
    parts: Sequence[Any],
    graph: Mapping[Any, Any] = _NO_TASKS,
) -> Unit:
    """A unit whose task is make(*parts) and is named after its content; `graph` has the tasks of the parts."""
    key = f"dkernel-read-{hashlib.sha256(repr(content).encode()).hexdigest()[:32]}"
    return Unit(rows, Delayed(key, {**graph, key: (make, *parts)}), "X")


def _source(
    units: Sequence[Unit], layout: Layout, token: str, label: Any, row_bytes: int, encoding: Encoding | None
) -> Source:
    """The source of these units, with the kind of this label: several targets become numbers."""
    kind = None if label is None else type_of_dtype(label.dtype) if label.ndim == 1 else FLOAT
    return Source(
        tuple(units),
        layout.columns,
        dtype=layout.array_dtype,
        fingerprint=token,
        label_kind=kind if kind in (BOOL, INT, FLOAT, TEXT) else None,
        objects=layout.objects,
        row_bytes=row_bytes,
        encoding=encoding,
    )


def _make_blocks(
    layout: Layout,
    rows: tuple[int, ...],
    first: int,
    encoding: Encoding | None,
    X: Any,
    label: Any = None,
    weight: Any = None,
) -> tuple[Block, ...]:
    """The blocks of one unit of collections, whose first row has this number; runs on a worker."""
    columns = layout.columns
    values = (
        matrix(X, layout.array_dtype) if encoding is None else to_table(X, columns, encoding.kinds, encoding.formats)
    )
    raw = UncheckedBlock(values, one_a_row(label, "y", several=True), one_a_row(weight, "weight"))
    raw = raw.encode(encoding, layout.dtype, None if label is None else first)
    layout = layout if encoding is None else replace(layout, columns=encoding.names)
    return cut_blocks(raw, rows, layout, partial(describe_row, first=first))


def _hash(
    X: Any,
    columns: Sequence[str],
    label: NDArray[Any] | None,
    weight: NDArray[Any] | None,
    encoding: Encoding | None,
) -> str:
    """sha256 of the content, once for all units: on a cluster an address says nothing."""
    digest = hashlib.sha256(repr(encoding).encode())
    for values in chain(column_arrays(X, columns if encoding is not None else None), (label, weight)):
        digest.update(repr(None if values is None else (values.shape, values.dtype.str)).encode())
        if values is None:
            continue
        step = max(1, _HASH_BYTES // max(1, values.nbytes // max(1, len(values))))
        for start in range(0, len(values), step):
            for view in byte_views(values[start : start + step]):
                digest.update(view)
    return digest.hexdigest()
