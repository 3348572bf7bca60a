"""The source of a fit's rows: units that a worker reads at once, cut into chunks of known size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import Delayed
from dask.local import get_sync
from dask.tokenize import tokenize
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.numerics.layout import Layout
from dkernel.numerics.sparse_rows import RangeNames

if TYPE_CHECKING:
    import dask.array as da


@dataclass(frozen=True)
class Unit:
    """One read: a row group, a byte range or a slice; its task returns one Block for each of `rows`.

    `name` is that of its file in messages; `parts` are the units that it was joined of, if it was.

    Examples
    --------
    >>> Unit((2,), Delayed("k", {"k": (Block, np.zeros((2, 1)))}), "a.npy").n_rows
    2
    """

    rows: tuple[int, ...]
    task: Delayed
    name: str
    parts: "tuple[Unit, ...]" = ()

    @property
    def n_rows(self) -> int:
        """Rows of all its chunks."""
        return sum(self.rows)

    def labels(self) -> NDArray[Any]:
        """The labels of its rows, which are read here and now."""
        return np.concatenate([block.y for block in get_sync(dict(self.task.__dask_graph__()), self.task.key)])


@dataclass(frozen=True)
class Source:
    """An ordered table of n_rows x n_in features, with label, weight and kept columns, nothing of it read yet.

    The columns named in `objects` hold texts, lists or sets; there are such only if dtype is "object" (see
    dkernel.numerics.object_values). With `RangeNames` the rows are sparse (dkernel.numerics.sparse_rows).
    The features of a row take `row_bytes` (of objects and of sparse rows this is an estimate). Rows are those of
    `units` in their order; all chunks are known. `label_kind` is "bool", "int", "float" or "text" where the files
    say it (None otherwise, and without a label). `label_dtype` is the dtype of y (text of any width: "U"). `stamps`
    are the size and date of each of `files`. With several `targets` the label has a number for each. `counted` are
    the rows of positive weight, None before they are counted. `judged` are rows beside it that judge a fit. `encoding`
    made the inputs `columns` from the columns of a table, and `notes` are about it; `filled` opens the source again
    with an encoding of its missing values, where there may be some. `wide` are the positions of columns whose values
    float32 may not hold, each with True where they are whole numbers; `in_dtype` opens the source again in another
    dtype, None where the dtype is settled. `rejected` lists the bad rows that were left out, an Arrow table with the
    columns of `dkernel.data.rejected_rows.REJECTS`, None where they were not searched. `passed_over` are the excluded
    columns and the weight, `weight_column` is the weight of files, `bad_files` the files that were left out, each with
    the reason. `large_groups` says how large row groups of Parquet are read, where there are some, and `copied_bytes`
    are those of their copies on scratch. `reopen` opens the files again with other arguments of `open_source`.

    Examples
    --------
    >>> from dkernel.data.collections.arrays import from_arrays
    >>> source = from_arrays(np.ones((5, 2)), [0, 1, 0, 1, 1])
    >>> source.n_rows, source.n_in, source.columns
    (5, 2, ('0', '1'))
    >>> source.X
    dask.array<X, shape=(5, 2), dtype=float32, chunksize=(5, 2), chunktype=numpy.ndarray>
    """

    units: tuple[Unit, ...]
    columns: Sequence[str]
    label: str | None = None
    weight: str | None = None
    kept: tuple[str, ...] = ()
    dtype: str = "float32"
    fingerprint: str = ""
    label_kind: str | None = None
    files: tuple[str, ...] = field(default=())
    objects: tuple[str, ...] = ()
    row_bytes: int = 0
    stamps: tuple[str, ...] = ()
    targets: int = 1
    counted: int | None = None
    judged: int = 0
    encoding: Encoding | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    filled: "Callable[[], Source] | None" = field(default=None, repr=False, compare=False)
    wide: Mapping[int, bool] = field(default_factory=dict, repr=False, compare=False)
    in_dtype: "Callable[[str], Source] | None" = field(default=None, repr=False, compare=False)
    rejected: Any = field(default=None, repr=False, compare=False)
    passed_over: tuple[str, ...] = ()
    weight_column: str | None = None
    bad_files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    large_groups: str = field(default="", repr=False, compare=False)
    copied_bytes: int = field(default=0, repr=False, compare=False)
    reopen: "Callable[..., Source] | None" = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Take the bytes of a row from the layout of the blocks where nobody has counted them."""
        if not self.row_bytes:
            object.__setattr__(self, "row_bytes", self.layout.row_bytes())

    @property
    def chunk_rows(self) -> tuple[int, ...]:
        """Rows of every chunk, in order."""
        return tuple(n for unit in self.units for n in unit.rows)

    @property
    def n_rows(self) -> int:
        """Rows of the whole source."""
        return sum(self.chunk_rows)

    @property
    def n_counted(self) -> int:
        """Rows that a fit learns from: without those of weight 0, where these have been counted."""
        return self.n_rows if self.counted is None else self.counted

    @property
    def n_in(self) -> int:
        """Number of features."""
        return len(self.columns)

    @property
    def table_columns(self) -> Sequence[str]:
        """Names of the columns that its features are made of."""
        return self.columns if self.encoding is None else self.encoding.column_names

    @property
    def reading(self) -> Encoding | None:
        """The encoding by which rows that follow these are read; None of sparse rows and of objects."""
        return Encoding.of_numbers(self.columns) if self.encoding is None and self.layout.numeric else self.encoding

    @property
    def layout(self) -> Layout:
        """The layout of its blocks."""
        return Layout(self.columns, self.dtype, self.objects)

    @property
    def sparse(self) -> bool:
        """True if its blocks are of sparse rows."""
        return isinstance(self.columns, RangeNames)

    @property
    def n_terms(self) -> int:
        """Numbers in a product with a row: one a column, of a sparse row about as many as it stores."""
        return max(1, self.row_bytes // (4 + np.dtype(self.dtype).itemsize)) if self.sparse else self.n_in

    @property
    def in_memory(self) -> bool:
        """True if its rows are arrays of this process, so that no reading of them takes time."""
        return not self.files and all(len(unit.task.__dask_graph__()) == 1 for unit in self.units)

    @property
    def nbytes(self) -> int:
        """Bytes of all features as blocks."""
        return self.n_rows * self.row_bytes

    @property
    def label_dtype(self) -> str | None:
        """The dtype of y as text, None where it is not known before reading."""
        return {"bool": "bool", "int": "int64", "float": "float64", "text": "U"}.get(self.label_kind or "")

    @property
    def X(self) -> "da.Array":  # noqa: N802
        """The features as a Dask array (n_rows, n_in), one column block; of sparse rows with chunks of scipy's CSR."""
        return self._array("X", (self.chunk_rows, (self.n_in,)), self.dtype)

    @property
    def y(self) -> "da.Array | None":
        """The label as a Dask array (n_rows,), of several targets (n_rows, k); text as objects."""
        dtype = "O" if self.label_dtype in (None, "U") else self.label_dtype
        chunks = (self.chunk_rows,) if self.targets == 1 else (self.chunk_rows, (self.targets,))
        return None if self.label is None else self._array("y", chunks, dtype)

    def _array(self, part: str, chunks: tuple[tuple[int, ...], ...], dtype: str) -> "da.Array":
        import dask.array as da

        name = f"{part}-{self.token}"
        graph: dict[Any, Any] = {}
        numbered = ((unit.task.key, number) for unit in self.units for number in range(len(unit.rows)))
        for i, (key, number) in enumerate(numbered):
            graph[(name, i, *[0] * (len(chunks) - 1))] = (_take_part, key, number, part)
        for unit in self.units:
            graph.update(unit.task.__dask_graph__())
        return da.Array(graph, name, chunks, dtype=np.dtype(dtype))

    @property
    def token(self) -> str:
        """Names what reading gives: files or arrays, and which of their columns; `fingerprint` names files alone."""
        return str(tokenize([unit.task.key for unit in self.units]))


def _take_part(blocks: tuple[Block, ...], number: int, part: str) -> Any:
    values = getattr(blocks[number], part)
    if hasattr(values, "tocsr"):
        return values.tocsr()
    # Blocks of text differ in width, and Dask would cut all of them to the width of the first.
    return values.astype(object) if values.dtype.kind == "U" else values
