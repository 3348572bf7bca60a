"""`open_source`: from the names of files to a Source, by way of their headers; no row is read by the client."""

import codecs
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, replace
from functools import partial
from os import PathLike
from typing import Any

from dask.delayed import Delayed

from dkernel.data.arrow_streams import is_stream, list_data, store_stream
from dkernel.data.bad_rows import without_bad_rows
from dkernel.data.block import chunk_limit
from dkernel.data.column_selection import select_columns
from dkernel.data.column_types import BOOL, EMPTY, INT
from dkernel.data.compute import dask_compute
from dkernel.data.encoded_columns import find_wide_columns, learn_encoding
from dkernel.data.encoding import Encoding
from dkernel.data.encoding.text_values import parse_formats
from dkernel.data.endings import FORMATS, split_ending
from dkernel.data.file_parts import count_part, format_module, read_unit
from dkernel.data.file_schema import FileSchema, ReadColumns, ReadOptions, divide, number_files, part_of_no_rows
from dkernel.data.paths import File, expand
from dkernel.data.readers.folder_keys import parse_keys, with_folder_keys
from dkernel.data.refused_columns import collect_refusals
from dkernel.data.scratch import Scratch
from dkernel.data.scratch_copies import copy_in_shares, unpack_all
from dkernel.data.source import Source, Unit
from dkernel.data.table_formats import kind_of_table
from dkernel.data.usable_files import check_bad_files, mask_names, without_bad_files
from dkernel.errors import DataError, RecipeError, UnseenFileError, mask_urls
from dkernel.kernels import Kernel
from dkernel.leaf_table import load_leaf
from dkernel.numerics.sparse_rows import RangeNames
from dkernel.numerics.validation import DTYPES

_Look = tuple[list[FileSchema], ReadColumns]
LABEL_FORMS = ("auto", "classes", "numbers", "text")
EVERY_COLUMN = "all"  # among the kept columns; the name of a column of that name


def open_source(
    paths: Any,
    *,
    label: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    dtype: str = "auto",
    scratch: str | PathLike | Scratch | None = None,
    storage_options: Mapping[str, Any] | None = None,
    n_features: int | None = None,
    allow_extra: bool = False,
    compute: Callable[..., Any] = dask_compute,
    scan_bytes: int = 8 * 2**20,
    known: Sequence[str] = (),
    kept_as: str = "types",
    quarantine: bool = False,
    kernel: Kernel | str | None = None,
    categorical: str | Sequence[str] = "auto",
    missing: str = "indicator",
    encoding: Encoding | None = None,
    holes: bool = False,
    delimiter: str | None = None,
    no_header: bool = False,
    max_bad_rows: int = 0,
    max_bad_files: int = 0,
    text_encoding: str | None = None,
    dates: str = "calendar",
    formats: Mapping[str, str] | None = None,
    label_as: str | Sequence[Any] = "auto",
    time_column: str | None = None,
) -> Source:
    """Open files as rows in the order given: every chunk of known size, nothing read yet.

    Parameters
    ----------
    paths : str, path-like or sequence of them, or stream of Arrow batches
        Files, folders, globs or fsspec URLs. Names of folders such as year=2020 hold a column. A stream is a LazyFrame
        of Polars, or what has `__arrow_c_stream__`, such as a relation of DuckDB or a RecordBatchReader; its rows are
        kept once as Parquet on scratch, a batch at a time.
    label : str, default=None
        Column with the label.
    weight : str, default=None
        Column with the weights.
    columns : sequence of str, default=None
        Exactly the features to read, by name (for scoring); by default all columns that have no other use.
    exclude : str or sequence of str, default=()
        Columns that are no features.
    keep : str or sequence of str, default=()
        Columns that are carried along untouched; "all" stands for every column that is not excluded, an index too.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Dtype of the blocks. "auto" is float32 until a fit finds that float32 has no digits for a column, as of 1e9 +
        N(0, 1): it then reads all rows again as float64.
    scratch : str or path-like, default=None
        Folder, seen by every worker, for unpacked copies; by default a temporary one that ends with this process.
    storage_options : dict, default=None
        Options of fsspec for URLs.
    n_features : int, default=None
        Number of features of svmlight files; by default decided from all of them together.
    allow_extra : bool, default=False
        If True, columns beside these, and those with another use, are passed over.
    compute : callable, default=dask_compute
        Runs Delayed tasks (counting rows of text, unpacking), as `dask.compute` does; by default on the client, and
        where there is none, and Dask's configuration names no other scheduler, by threads.
    scan_bytes : int, default=8 * 2 ** 20
        Bytes of a text file that are scanned together.
    known : sequence of str, default=()
        Columns that do not count as extra (the label of the training, when scoring).
    kept_as : {"types", "numbers", "text"}, default="types"
        Form of the kept columns of text files: numbers where these give the same text again, wherever they are numbers,
        or whole numbers alone, and all else is text, for an output that is CSV.
    quarantine : bool, default=False
        If True, bad rows are left out of the blocks and listed instead (Block.refused); for data without a label.
    kernel : Kernel or str, default=None
        Kernel that the rows are for: the columns that it takes as objects may hold text, or lists; without one all
        features are numbers.
    categorical : {"auto", "none"} or sequence of str, default="auto"
        Features that are categories: text and what is stored as categories, none, or these beside those of "auto".
    missing : {"indicator", "mean", "error"}, default="indicator"
        Missing values of features: the mean and an input that says so, the mean alone, or a DataError.
    encoding : Encoding, default=None
        Encoding of a model that the rows are for, in place of these two.
    holes : bool, default=False
        If True, missing values are looked for before the first reading. Else they are looked for where there are
        categories or dates, and a fit that meets one in numbers opens the files again.
    delimiter : str, default=None
        Delimiter of CSV files; by default found in the first row: a comma, semicolon, tab or bar.
    no_header : bool, default=False
        If True, CSV files have no names in their first row, and the columns are 0, 1, ...
    max_bad_rows : int, default=0
        Most bad rows that may be left out of data with a label; an additional reading looks for them. `Source.rejected`
        lists them.
    max_bad_files : int, default=0
        Most files of data to score that may be left out, because they cannot be read or lack a column.
        `Source.bad_files` has their names and reasons.
    text_encoding : str, default=None
        Encoding of the text of CSV files, such as "latin-1"; by default UTF-8.
    dates : {"calendar", "seconds"}, default="calendar"
        Inputs of dates: seconds, year, month, weekday and hour, or the seconds alone.
    formats : dict, default=None
        Column -> how its values are written: dates as of strptime, {"day": "%d.%m.%Y"}, numbers by an example,
        {"pay": "$1,234.5"}. Such a column of text, or of numbers as 20241231, holds dates or numbers; "ISO8601" is
        the format of a CSV's dates. A model knows the format of its columns.
    label_as : {"auto", "classes", "numbers", "text"} or sequence, default="auto"
        Type of a label of CSV files and of names of folders, and of whole numbers in some files. Numbers are numbers,
        but where texts differ, as 007 and 7, 1.50 and 1.5, and the numbers do not: with "auto" whole numbers are then
        text, with "classes" fractions too, with "numbers" none, with "text" all labels. Classes of a model stand for
        their type, and a row with another label is a bad row.
    time_column : str, default=None
        Column of `keep` by whose times rows will be left out: one of dates with a calendar is a feature too.

    Returns
    -------
    Source
        The rows.

    Raises
    ------
    DataError
        If a file is missing, damaged, empty, or unlike the others.
    RecipeError
        If a parameter has no meaning.

    See Also
    --------
    KernelClassifier : Learns from a Source.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.arange(12.0).reshape(4, 3))
    ...     source = open_source(folder, label="-1")
    ...     source.columns, source.X.compute()[1].tolist(), source.y.compute().tolist()
    (('0', '1'), [3.0, 4.0], [2.0, 5.0, 8.0, 11.0])
    """
    given = {**locals()}
    classes = None if isinstance(label_as, str) else tuple(label_as)
    if classes is not None:
        label_as = "text" if any(isinstance(each, str) for each in classes) else "numbers"
    if label_as not in LABEL_FORMS:
        raise RecipeError(f"label_as={label_as!r} is none of {', '.join(map(repr, LABEL_FORMS))}.")
    if dtype not in DTYPES:
        raise RecipeError(f"Blocks cannot be of dtype {dtype!r}: {', '.join(map(repr, DTYPES))} can.")
    lists = {
        "columns": columns if columns is None or isinstance(columns, RangeNames) else _names(columns),
        "exclude": _names(exclude),
        "keep": _names(keep),
        "known": tuple(known),
        "categorical": categorical if isinstance(categorical, str) else _names(categorical),
        "label_as": label_as,
        "formats": parse_formats(formats),
        "classes": classes,
    }
    request = ReadOptions(**{option.name: given.get(option.name) for option in fields(ReadOptions)} | lists)
    if max_bad_files and columns is None:
        raise RecipeError("Bad files can be left out of data that are scored, not of data that are learned from.")
    if quarantine and (label or weight):
        raise RecipeError("Bad rows can be left out of data that are scored, not of data with a label or a weight.")
    paths = _store_streams(paths, Scratch.of(scratch), storage_options or {})
    bad: dict[str, str] = {}
    files = _with_encoding_of_text(expand(paths, storage_options, bad if max_bad_files else None), text_encoding)
    look = partial(_look_at, scratch=Scratch.of(scratch))
    if request.keep == (EVERY_COLUMN,):
        request = replace(request, keep=_names_to_keep(files, look, request, bad, max_bad_files))

    def attempt(refused: Set[str]) -> tuple[Source, bool]:
        exclude = (*request.exclude, *sorted(refused - {*request.exclude}))
        label, weight = (None if name in refused else name for name in (request.label, request.weight))
        asked = replace(request, exclude=exclude, label=label, weight=weight)
        return _open(files, look, asked, bad, max_bad_files)

    source, has_kinds = collect_refusals(attempt)
    again = partial(open_source, **given | {"paths": paths})
    source = replace(source, reopen=again, in_dtype=(lambda dtype: again(dtype=dtype)) if source.wide else None)
    settled = missing == "error" or has_kinds or source.sparse
    return source if settled else replace(source, filled=partial(again, holes=True))


def _open(
    files: list[File], look: Callable[..., _Look], request: ReadOptions, bad: dict[str, str], max_bad_files: int
) -> tuple[Source, bool]:
    """The rows of these files, and whether some of their columns are no numbers."""
    files, (tables, chosen), bad = _usable(files, partial(look, request=request), bad, max_bad_files)
    rejected = None
    if request.dtype == "auto":
        chosen = replace(chosen, dtype="float32")  # in which no number may be too large
    if request.max_bad_rows:
        tables, rejected = without_bad_rows(tables, chosen, request)
    if request.dtype == "auto":
        chosen = replace(chosen, dtype="float64")  # to count in, until all rows say which
    tables = number_files(tables)
    chosen, notes = _with_encoding(tables, chosen, request)
    notes |= _note_hidden(tables[0], request)
    wide: Mapping[int, bool] = {}
    if request.dtype == "auto":
        chosen = replace(chosen, dtype="float32")
        wide = _wide_columns(tables, chosen)
    source = replace(_source(files, tables, chosen, request.exclude), notes=notes, rejected=rejected, wide=wide)
    return replace(source, bad_files=mask_names(bad)), chosen.encoded is not None or bool(chosen.objects)


def _store_streams(paths: Any, scratch: Scratch, options: Mapping[str, Any]) -> list[Any]:
    """What was named, with a file on scratch in the place of each stream and each table with a log."""
    listed = list_data(paths)
    for i, item in enumerate(listed):
        if is_stream(item):
            listed[i] = store_stream(item, scratch)
        elif isinstance(item, File):
            continue
        elif split_ending(text := os.fspath(item))[0] not in FORMATS and (kind := kind_of_table(text, options)):
            snapshots = load_leaf("lakes", "snapshots", f"{text}, the folder of {kind} table")
            if rows := snapshots.live_rows(text, kind):
                listed[i] = store_stream(rows, scratch, mask_urls(text))
    return listed


def _usable(
    files: list[File], look: Callable[..., _Look], bad: dict[str, str], allowed: int
) -> tuple[list[File], _Look, dict[str, str]]:
    """The files without bad ones, what `look` says of them, and the bad ones with the reasons.

    Each is looked at alone where something is wrong with one of them.
    """
    try:
        if not bad:
            return files, look(files), bad
    except DataError as error:
        if not allowed or isinstance(error, UnseenFileError):
            raise
    files, bad = without_bad_files(files, lambda file: look([file]), allowed, bad)
    return files, look(files), bad


def _look_at(files: Sequence[File], request: ReadOptions, scratch: Scratch) -> tuple[list[FileSchema], ReadColumns]:
    tables = _read_schemas(unpack_all(files, scratch, request.compute), request)
    tables = with_folder_keys(copy_in_shares(tables, scratch, request.compute), request)
    return tables, select_columns(tables, request)


def _names_to_keep(
    files: Sequence[File], look: Callable[..., Any], request: ReadOptions, bad: dict[str, str], allowed: int
) -> tuple[str, ...]:
    """The columns that "all" stands for: those of the first file that can be read, but for excluded ones."""
    others = () if request.columns is not None else request.exclude  # which this file may lack
    alone, schema, bad = replace(request, keep=(), exclude=others, allow_extra=True), None, dict(bad)
    for file in files:
        try:
            (schema,), _ = look([file], request=alone)
            break
        except DataError as error:
            if not allowed:
                raise
            bad[file.name] = str(error)
    if schema is None:
        check_bad_files(bad, allowed, 0)
    assert schema is not None
    if EVERY_COLUMN in schema.kinds:
        return (EVERY_COLUMN,)
    if schema.sparse is not None:
        raise DataError(f"{schema.file.name}: columns of sparse rows cannot be kept.")
    names = dict.fromkeys([*schema.kinds, *parse_keys(schema.file.name)])
    left_out = {*request.exclude, request.label}
    return tuple(name for name in names if name not in left_out)


def _with_encoding_of_text(files: list[File], encoding: str | None) -> list[File]:
    """The files, of which CSV is text in this encoding."""
    if encoding is None:
        return files
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise RecipeError(
            f"text_encoding={encoding!r} is no encoding. Possible: utf-8 | latin-1 | cp1252 | utf-16 | any of Python's."
        ) from None
    if name == "utf-8":
        return files
    return [replace(file, text_encoding=name) if file.format == "csv" else file for file in files]


def _with_encoding(
    tables: Sequence[FileSchema], columns: ReadColumns, request: ReadOptions
) -> tuple[ReadColumns, dict[str, str]]:
    """The columns with the encoding that they are read by: that of a model, or one learned from all rows."""
    if request.encoding is not None or columns.encoded is None:
        return replace(columns, encoding=request.encoding if columns.encoded else None), {}
    limit = chunk_limit(len(columns.features), 8)
    parts = [(table.file, part) for table in tables for part, _ in divide(table, limit)]
    if not parts:
        return replace(columns, encoded=None), {}
    tasks = [file.task(count_part, part, columns) for file, part in parts]
    coded, where = frozenset(name for table in tables for name in table.coded), tables[0].file.name
    encoding, notes = learn_encoding(tasks, columns.encoded, request, coded, where)
    return replace(columns, encoded=encoding.kinds, encoding=encoding), notes


def _note_hidden(table: FileSchema, request: ReadOptions) -> dict[str, str]:
    """A note about the columns that are no features unless they are named."""
    named = {request.label, request.weight, *request.keep, *request.exclude}
    unused = [repr(name) for name in table.hidden if request.columns is None and name not in named]
    said = f"{', '.join(unused)}: an index or a column without a name; rename it to learn from it"
    return {"left out": said} if unused else {}


def _large_groups(tables: Sequence[FileSchema]) -> str:
    """What the files of large row groups take beside a reading; "" where there are none."""
    large = [table.file for table in tables if table.file.format == "parquet" and table.extra]
    if alone := [file.name for file in large if not file.copy]:
        return f"those of {alone[0]} are decoded from their beginning for each share: write groups of 100,000 rows"
    return f"those of {large[0].name} are large: it is read from a copy on scratch" if large else ""


def _copied_bytes(file: File) -> int:
    """Bytes of the copy of a file in smaller row groups; where only workers see it, about as many as the file has."""
    return os.path.getsize(file.copy) if os.path.exists(file.copy) else file.size


def _wide_columns(tables: Sequence[FileSchema], columns: ReadColumns) -> dict[int, bool]:
    """The positions of the numbers that float32 may not hold, each with True where they are whole."""
    if columns.objects or isinstance(columns.features, RangeNames):
        return {}
    there = [[table for table in tables if name in table.kinds] for name in columns.features]
    by_name = list(zip(columns.features, there, strict=True))
    types = [[table.types.get(name) for table in some] for name, some in by_name]
    whole = [all(table.kinds[name] in (BOOL, INT, EMPTY) for table in some) for name, some in by_name]
    return find_wide_columns(columns.features, types, whole, columns.encoding)


def _source(
    files: Sequence[File], tables: Sequence[FileSchema], columns: ReadColumns, passed_over: Sequence[str]
) -> Source:
    rows = sum(table.rows for table in tables)
    if not (rows or columns.quarantine):  # a day without rows has scores without rows
        listed = ", ".join(f.name for f in files[:3]) + (", ..." if len(files) > 3 else "")
        raise DataError(f"{listed}: there are no rows, only headers.")
    # Bytes of the features of a row, by the files alone: they decide the chunks, and so the bits.
    stored = sum(table.width * table.rows for table in tables)
    row_bytes = columns.layout.row_bytes(-(-stored // max(1, rows)))
    return Source(
        _units(tables, columns, row_bytes),
        columns.inputs,
        columns.label,
        columns.weight,
        columns.kept,
        columns.layout.array_dtype,
        hashlib.sha256(repr([(f.name, f.size, f.stamp) for f in files]).encode()).hexdigest(),
        {"whole": "int"}.get(kind := columns.kinds[columns.label], kind) if columns.label else None,
        tuple(f.name for f in files),
        columns.objects,
        row_bytes,
        tuple(f"{f.size} bytes, {f.stamp}" for f in files),
        encoding=columns.encoding,
        weight_column=columns.weight,
        large_groups=_large_groups(tables),
        copied_bytes=sum(_copied_bytes(table.file) for table in tables if table.file.copy),
        passed_over=tuple(
            sorted(
                {*passed_over, *([columns.weight] if columns.weight else []), *(columns.kept if columns.label else ())}
            )
        ),
    )


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    """A lone name is one name, not its letters; a name given twice counts once."""
    return (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))


def _read_schemas(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """The schema of each file, in their order; each format reads those of its own files together."""
    schemas: dict[int, FileSchema] = {}
    for name in dict.fromkeys(file.format for file in files):
        indices = [i for i, file in enumerate(files) if file.format == name]
        reader = format_module(name)
        try:
            tables = reader.read_schema([files[i] for i in indices], request)
        except OSError as error:
            raise DataError(f"{error.filename or files[indices[0]].name}: the file cannot be read ({error}).") from None
        schemas.update(zip(indices, tables, strict=True))
    return [schemas[i] for i in range(len(files))]


def _units(tables: Sequence[FileSchema], columns: ReadColumns, row_bytes: int) -> tuple[Unit, ...]:
    limit = chunk_limit(row_bytes, 1)
    token = hashlib.sha256(repr(columns).encode()).hexdigest()
    units = []
    divided = [(table, divide(table, limit)) for table in tables]
    if columns.quarantine and not any(parts for _, parts in divided):
        divided = [(tables[0], [(part_of_no_rows(tables[0]), (0,))])]
    for table, parts in divided:
        for part, rows in parts:
            key = table.file.key("read", part, rows, token)
            task = Delayed(key, {key: (read_unit, table.file, part, columns, rows)})
            units.append(Unit(rows, task, table.file.name))
    return tuple(units)
