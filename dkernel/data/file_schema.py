"""The schema of a file before it is read: column names and kinds, and the steps that it can be read in."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dkernel.data.block import cut_evenly
from dkernel.data.column_types import TIMES
from dkernel.data.encoding import Encoding
from dkernel.data.paths import File
from dkernel.kernels import Kernel
from dkernel.numerics.layout import Layout
from dkernel.numerics.sparse_rows import RangeNames

UNNAMED = re.compile(r"\s*|Unnamed: 0|__index_level_\d+__|__null_dask_index__")
"""Names of a column without one: of an index of pandas or Dask that was written to CSV or Parquet, and read again."""


@dataclass(frozen=True)
class ReadOptions:
    """Arguments of `open_source`, which says what each means, as readers take them: names are tuples.

    `classes` are the labels that a sequence as `label_as` names, which then is the type of these.
    """

    label: str | None = None
    weight: str | None = None
    columns: Sequence[str] | None = None
    exclude: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    dtype: str = "float32"
    n_features: int | None = None
    allow_extra: bool = False
    compute: Callable[..., Any] = field(default=tuple, repr=False)
    scan_bytes: int = 8 * 2**20
    known: tuple[str, ...] = ()
    kept_as: str = "types"
    quarantine: bool = False
    kernel: Kernel | str | None = None
    categorical: str | tuple[str, ...] = "none"
    missing: str = "error"
    encoding: Encoding | None = None
    holes: bool = False
    delimiter: str | None = None
    no_header: bool = False
    max_bad_rows: int = 0
    dates: str = "calendar"
    formats: Mapping[str, str] = field(default_factory=dict)
    label_as: str = "auto"
    classes: tuple[Any, ...] | None = None
    time_column: str | None = None

    @property
    def column_set(self) -> Container[str]:
        """The `columns`, to look names up in."""
        return self.columns if isinstance(self.columns, RangeNames) else frozenset(self.columns or ())

    @property
    def known_formats(self) -> Mapping[str, str]:
        """The formats of columns: those of a model, or those that are given."""
        return self.formats if self.encoding is None else self.encoding.formats

    @property
    def lenient(self) -> bool:
        """True if bad rows are left out, so that a file may hold some."""
        return self.quarantine or self.max_bad_rows > 0


@dataclass(frozen=True)
class FileSchema:
    """One file: `kinds` maps each column to its kind (column_types.COLUMN_TYPES), in the file's order.

    `steps`: rows of the smallest parts that can be read alone, in order; or one number, the rows of every step but the
    last. `marks`: for text, where each step begins (bytes), and where the last ends; `lines`: the lines of the file
    before each of these. `indices` are columns of pandas that the file says are an index. `inferred`: kinds were
    guessed from text, so int may become float. `numbered`: the columns have no names but numbers, so "-1" means the
    last one. `extra` is the format's own. `width`: bytes of a row as stored, all columns together, 0 where that is not
    known; it tells how large rows of text are. `sparse`: the names of the features, where the rows stay sparse; they
    are not in `kinds`, and `width` is then the numbers that a row stores. `coded`: columns stored as categories, of
    numbers too. `keys`: columns that the names of its folders hold, and their value in all of its rows. `left_out`:
    numbers of bad rows. `types`: the Arrow type of each column, where the file says one. `before`: rows of the files
    before it. `whole_label`: the label is text such as 1.0, of whole numbers with a point. `unclear`: columns of
    numbers in a notation, as 1,200, which may be thousands or a fraction, and one of these texts.
    """

    file: File
    kinds: dict[str, str]
    rows: int
    steps: tuple[int, ...] | int = 1
    marks: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    indices: frozenset[str] = frozenset()
    inferred: bool = False
    numbered: bool = False
    extra: Any = None
    width: int = 0
    sparse: RangeNames | None = None
    coded: frozenset[str] = frozenset()
    keys: Mapping[str, str | None] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()
    types: Mapping[str, Any] = field(default_factory=dict, repr=False)
    before: int = 0
    whole_label: bool = False
    unclear: Mapping[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns that are only used by name: they number the rows, or have no name."""
        return tuple(name for name in self.kinds if name in self.indices or UNNAMED.fullmatch(name))


@dataclass(frozen=True)
class ReadColumns:
    """Columns that are read from every file: `features` in their order; `kinds` are of all that are named.

    `objects` are the features that are no numbers. `encoded` says of each feature whether it is a "number", a "date",
    a "duration" or a "category", where `encoding` makes inputs of them, once it has been learned. `formats` are of
    dates that are text and not in ISO 8601. `keys` stand in the names of folders, as whole numbers or as text.
    `kept_types` are the Arrow types of kept columns that differ between files. `strict` says that no encoding will fill
    a missing value, before there is one.
    """

    features: Sequence[str]
    label: str | None
    weight: str | None
    kept: tuple[str, ...]
    dtype: str
    kinds: dict[str, str]
    kept_as: str = "types"
    quarantine: bool = False
    objects: tuple[str, ...] = ()
    encoded: Mapping[str, str] | None = None
    encoding: Encoding | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    kept_types: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    @property
    def inputs(self) -> Sequence[str]:
        """Names of a block's columns."""
        return self.features if self.encoding is None else self.encoding.names

    @property
    def layout(self) -> Layout:
        """The layout of the blocks."""
        return Layout(self.inputs, self.dtype, self.objects)

    @property
    def as_table(self) -> bool:
        """True if the features are read as an Arrow table, which holds what an encoding takes."""
        return self.encoded is not None and (self.encoding is None or not self.encoding.plain)

    @property
    def fills(self) -> bool:
        """True if features may be missing."""
        return self.encoded is not None and not (self.strict if self.encoding is None else self.encoding.strict)

    def is_category(self, name: str) -> bool:
        """True if the column is a feature that is a category."""
        return self.encoded is not None and self.encoded.get(name) == "category"

    def is_time(self, name: str) -> bool:
        """True if the column is a feature that is a date or a duration."""
        return self.encoded is not None and self.encoded.get(name) in TIMES

    def form_of(self, name: str) -> str:
        """The format of texts that are times or numbers; the kind of times that have the usual one."""
        kind = (self.encoded or {}).get(name, "")
        return self.formats.get(name) or (kind if kind in TIMES else "")

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        others = [n for n in (self.label, self.weight, *self.kept) if n is not None]
        return tuple(dict.fromkeys([*self.features, *others]))


@dataclass(frozen=True)
class FilePart:
    """One unit of one file: steps first .. stop - 1, which are rows first_row .. first_row + rows - 1.

    Of a text it is the bytes between `marks`, with `line` lines of the file before them. `without` are the numbers in
    it of rows that are left out. `number` is that of its first row among the rows of all files.
    """

    first: int
    stop: int
    first_row: int
    rows: int
    marks: tuple[int, int] = (0, 0)
    extra: Any = None
    line: int = 0
    without: tuple[int, ...] = ()
    number: int = 0


def divide(table: FileSchema, limit: int) -> list[tuple[FilePart, tuple[int, ...]]]:
    """The parts of one file with the rows of their chunks, without the rows that are left out.

    Small consecutive steps are read together up to `limit` rows; a longer step is one part cut into several chunks.
    """
    bad, parts = np.array(table.left_out, np.int64), []
    for part, _ in _divide_steps(table, limit):
        before = part.first_row - int((bad < part.first_row).sum())
        inside = bad[(bad >= part.first_row) & (bad < part.first_row + part.rows)] - part.first_row
        if len(inside) < part.rows:
            part = replace(part, without=tuple(inside.tolist()), number=table.before + before)
            parts.append((part, cut_evenly(part.rows - len(inside), limit)))
    return parts


def number_files(tables: Sequence[FileSchema]) -> list[FileSchema]:
    """The files, each with the number of rows before it."""
    result, before = [], 0
    for table in tables:
        result.append(replace(table, before=before))
        before += table.rows - len(table.left_out)
    return result


def _divide_steps(table: FileSchema, limit: int) -> list[tuple[FilePart, tuple[int, ...]]]:
    if isinstance(table.steps, int):
        return _divide_even(table, table.steps, limit)
    parts: list[tuple[FilePart, tuple[int, ...]]] = []
    first, first_row, rows = 0, 0, 0
    for i, n in enumerate(table.steps):
        if rows and rows + n > limit:
            parts.append((_part(table, first, i, first_row, rows), cut_evenly(rows, limit)))
            first, first_row, rows = i, first_row + rows, 0
        rows += n
    if rows:
        parts.append((_part(table, first, len(table.steps), first_row, rows), cut_evenly(rows, limit)))
    return parts


def part_of_no_rows(table: FileSchema) -> FilePart:
    """What is read of a file where no file has any rows: its columns."""
    begin = table.marks[0] if table.marks else 0
    return FilePart(0, 0, 0, 0, (begin, begin), table.extra)


def _part(table: FileSchema, first: int, stop: int, first_row: int, rows: int) -> FilePart:
    marks = (table.marks[first], table.marks[stop]) if table.marks else (0, 0)
    return FilePart(first, stop, first_row, rows, marks, table.extra, table.lines[first] if table.lines else 0)


def _divide_even(table: FileSchema, step: int, limit: int) -> list[tuple[FilePart, tuple[int, ...]]]:
    parts, row = [], 0
    # Equal parts, each a whole number of steps, so that no stored chunk is read twice.
    for steps in cut_evenly(-(-table.rows // step), max(1, limit // step)):
        n = min(steps * step, table.rows - row)
        parts.append((FilePart(row, row + n, row, n, extra=table.extra), cut_evenly(n, limit)))
        row += n
    return parts
