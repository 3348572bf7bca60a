"""Columns of features, label, weight and kept ones: decided once, by name, for all files together."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import pyarrow as pa

from dkernel.data.column_types import (
    DATE,
    DECIMAL,
    DIGITS,
    EMPTY,
    FLOAT,
    NUMBERS,
    OTHER,
    TEXT,
    TIME,
    TIMES,
    join_types,
    label_type,
    name_type,
)
from dkernel.data.encoded_columns import encoded_kinds
from dkernel.data.encoding.text_values import DECIMAL_COMMA, is_number_format
from dkernel.data.file_schema import FileSchema, ReadColumns, ReadOptions
from dkernel.data.object_columns import object_columns
from dkernel.data.readers.arrow_tables import common_type
from dkernel.data.readers.csv_fields import read_types
from dkernel.data.refused_columns import RefusedColumnsError, explain_notation
from dkernel.errors import DataError, MissingColumnError
from dkernel.numerics.sparse_rows import RangeNames
from dkernel.numerics.validation import nearest_name, quote_name


def select_columns(tables: Sequence[FileSchema], request: ReadOptions) -> ReadColumns:
    """The columns to read of every table, or a DataError naming file and column."""
    first = tables[0]
    sparse = next(filter(None, (table.sparse for table in tables)), None)
    if sparse is None:
        request = _by_number(first, request)
    else:
        _check_sparse(tables, sparse, request)
    _check_named(first, request, {name for table in tables for name in table.kinds})
    _check_roles(first, request)
    columns = _features(first, request) if sparse is None else sparse
    _refuse_unclear(tables, {*columns, request.label, request.weight} if sparse is None else set(), request)
    needed = {*(n for n in (request.label, request.weight) if n), *request.keep}
    encoded, with_objects = None, set[str]()
    if sparse is None:
        needed.update(columns)
        for table in tables[1:]:
            _check_same(first, table, needed, request)
        encoded = _encode_kinds(tables, columns, request)
        filled = [table for table in tables if table.rows]
        with_objects.update(*(_objects(table, columns, request, encoded or {}) for table in filled))
    objects = tuple(name for name in columns if name in with_objects) if with_objects else ()
    # Text that looks like a number stays text where objects are needed.
    as_text = {name for name in objects if all(table.inferred for table in tables)}
    as_text |= {name for name, kind in (encoded or {}).items() if kind == "category"}
    times = {name: kind for name, kind in (encoded or {}).items() if kind in TIMES}
    keep = frozenset(request.keep)  # made once: there may be many columns
    kinds = {
        name: "text" if name in as_text else times.get(name) or _one_kind(name, tables, request, keep)
        for name in sorted(needed)  # a set has another order in another process
    }
    read = ReadColumns(
        columns,
        request.label,
        request.weight,
        request.keep,
        request.dtype,
        kinds,
        request.kept_as,
        request.quarantine,
        objects,
        encoded,
        formats=request.known_formats,
        keys={name: first.kinds[name] for name in first.keys if name in needed},
    )
    return replace(read, kept_types=_kept_types(tables, read))


def _refuse_unclear(tables: Sequence[FileSchema], used: Set[str | None], request: ReadOptions) -> None:
    """Refuse columns of numbers such as 1,200, which may be thousands or fractions, if no file tells which.

    Of features that are texts the counts of all rows tell.
    """
    named = {*request.exclude, *request.keep, *(request.categorical if isinstance(request.categorical, tuple) else ())}
    if request.label_as in ("text", "classes"):
        named.add(str(request.label))
    needed = {request.label, request.weight}
    unclear = {name: (table, text) for table in reversed(tables) for name, text in table.unclear.items()}
    forms = ((t, getattr(t.extra, "forms", {}).items()) for t in tables)
    commas = {name for t, found in forms for name, form in found if form == DECIMAL_COMMA and name not in t.unclear}
    settled = commas - request.known_formats.keys()
    if request.columns is not None:  # rows for a model: one number tells of all columns
        settled |= {name for name in used if settled and name}
    uses = {name: "label" if name in needed else "feature" if request.columns is None else "model" for name in unclear}
    found = {
        name: explain_notation(name, [text], text, table.file.name, uses[name])
        for name, (table, text) in unclear.items()
        if name in used and name not in named | settled and (table.kinds[name] != TEXT or name in needed)
    }
    if found:
        raise RefusedColumnsError(next(iter(unclear.values()))[0].file.name, found)


def _kept_types(tables: Sequence[FileSchema], columns: ReadColumns) -> dict[str, pa.DataType]:
    """The one type of each kept column that the files have in several; texts have that which they are read as."""
    common_types: dict[str, pa.DataType] = {}
    if columns.kept_as == "text" or all(table.inferred for table in tables):
        return common_types
    texts = read_types(columns) if any(table.inferred for table in tables) else {}
    for name in columns.kept:
        read_as = {table.types.get(name, texts.get(name)): table for table in reversed(tables) if table.rows}
        types = {kind: table for kind, table in read_as.items() if kind is not None}  # folder keys have none
        if len(types) < 2:
            continue
        common = common_type(list(types))
        if common is None:
            (kind, table), (other, second) = list(types.items())[:2]
            raise DataError(
                f"{table.file.name}: the kept column {name!r} is of type {kind}, but of {other} in {second.file.name}, "
                "and no type holds both. Convert one of them, or leave the column out."
            )
        common_types[name] = common
    return common_types


def _encode_kinds(tables: Sequence[FileSchema], columns: Sequence[str], request: ReadOptions) -> dict[str, str] | None:
    kinds = [table.kinds for table in tables if table.rows]
    coded = frozenset(name for table in tables for name in table.coded)
    return encoded_kinds(columns, kinds, coded, request, tables[0].file.name) if kinds or request.encoding else None


def _check_sparse(tables: Sequence[FileSchema], columns: RangeNames, request: ReadOptions) -> None:
    """Refuse files whose rows stay sparse beside others; their features are taken all together, and have numbers."""
    first = tables[0]
    for table in tables:
        if table.sparse != columns:
            raise DataError(
                f"{table.file.name} has other columns than {first.file.name}: rows that stay sparse and tables cannot "
                "be read together."
            )
    for option, names in (("exclude", request.exclude), ("keep", request.keep), ("weight", (request.weight,))):
        for name in names:
            if name is not None and name in columns:
                raise DataError(
                    f"{first.file.name}: {option} names the column {name!r}, and of the {len(columns):,} columns "
                    "of sparse rows none is used alone. Leave it out, or make another file."
                )


def _by_number(table: FileSchema, request: ReadOptions) -> ReadOptions:
    """Negative numbers of columns that have no names, counted from the end."""
    if not table.numbered:
        return request
    p = sum(name.isdigit() for name in table.kinds)

    def known(name: str) -> str:
        if name not in table.kinds and name.startswith("-") and name[1:].isdigit() and 1 <= int(name[1:]) <= p:
            return str(p - int(name[1:]))
        return name

    return replace(
        request,
        label=None if request.label is None else known(request.label),
        weight=None if request.weight is None else known(request.weight),
        exclude=tuple(map(known, request.exclude)),
        keep=tuple(map(known, request.keep)),
    )


def _check_named(table: FileSchema, request: ReadOptions, anywhere: Set[str]) -> None:
    """Refuse names that the first file lacks, and excluded columns that all files lack."""
    asked = [("label", request.label), ("weight", request.weight)]
    keep = "keep" if request.columns else "keep or holdout_by"  # a fit keeps the column that divides its rows
    asked += [("exclude", n) for n in request.exclude if n not in anywhere] + [(keep, n) for n in request.keep]
    names = list(table.kinds)
    for option, name in asked:
        if name is not None and name not in table.kinds:
            kind = DataError if name in anywhere else MissingColumnError
            raise kind(
                f"{table.file.name} has no column {quote_name(name)}, named by {option}.{nearest_name(name, names)}"
            )


def _check_roles(table: FileSchema, request: ReadOptions) -> None:
    label, weight = request.label, request.weight
    if label is not None and label == weight:
        raise DataError(f"{table.file.name}: column {label!r} cannot be both the label and the weight.")
    features, keep = request.column_set, frozenset(request.keep)
    for role, name in (("label", label), ("weight", weight)):
        if name is not None and name in request.exclude:
            raise DataError(f"{table.file.name}: column {name!r} is excluded, but it is named as the {role}.")
        if name is not None and name in features:
            raise DataError(f"{table.file.name}: column {name!r} is a feature of the model; it cannot be the {role}.")
    clash = [n for n in request.exclude if n in features or n in keep]
    if clash:
        raise DataError(f"{table.file.name}: columns {_join_names(clash)} are excluded, but they are needed.")


def _features(table: FileSchema, request: ReadOptions) -> tuple[str, ...]:
    named = {*request.exclude, *request.keep, request.label, request.weight}
    if request.columns is None:
        time = request.time_column
        dated = table.kinds.get(time or "") in (DATE, TIME, TEXT) or time in request.formats
        unused = named.union(table.hidden) - ({time} if dated and request.dates == "calendar" else set())
        columns = tuple(n for n in table.kinds if n not in unused)
        if not columns:
            raise DataError(
                f"{table.file.name}: no column is left for the features; there are {_join_names(table.kinds)}."
            )
        return columns
    missing = [n for n in request.columns if n not in table.kinds]
    if missing:
        hint = nearest_name(missing[0], list(table.kinds)) if len(missing) == 1 else ""
        raise DataError(f"{table.file.name} lacks the columns {_join_names(missing)} that the model needs.{hint}")
    expected = {*request.columns, *named, *table.hidden, *request.known}
    extra = [n for n in table.kinds if n not in expected]
    if extra and not request.allow_extra:
        raise DataError(
            f"{table.file.name} has the columns {_join_names(extra)} that the model does not know. Leave them out "
            "with exclude=COLUMN, or pass over all such columns with allow_extra=True."
        )
    return tuple(request.columns)


def _check_same(first: FileSchema, table: FileSchema, needed: set[str], request: ReadOptions) -> None:
    """Refuse a file without a column that the first has, or with one that it has not, but for those nobody reads."""
    scored = request.columns is not None
    unread = {*request.exclude, *request.known} - needed
    hidden = {*first.hidden, *table.hidden}
    every = set(first.kinds) <= {*request.keep, *request.exclude, request.label}  # and no column may be lost
    optional = unread.union(() if every else hidden)
    only_needed = scored and request.allow_extra
    missing = [n for n in first.kinds if n not in table.kinds and (n in needed or not (only_needed or n in optional))]
    extra = [n for n in table.kinds if n not in first.kinds and not (only_needed or n in optional)]
    if missing or extra:
        what = " and ".join(
            [f"lacks {_join_names(missing)}"] * bool(missing) + [f"has {_join_names(extra)} besides"] * bool(extra)
        )
        raise DataError(
            f"{table.file.name} {what}, compared with {first.file.name}. All files need the same columns, in any order."
            + _ways_past(missing, needed - hidden, scored and not every)
        )


def _ways_past(missing: Sequence[str], needed: set[str], scored: bool) -> str:
    if any(name in needed for name in missing):
        return " Add what is lacking, or leave the file out."
    everything = ", or pass over all such columns with allow_extra=True" if scored else ""
    return f" Leave these columns out with exclude=COLUMN{everything}."


def _objects(
    table: FileSchema, columns: Sequence[str], request: ReadOptions, encoded: Mapping[str, str]
) -> tuple[str, ...]:
    """The features of a table that are objects; a feature or a weight that is not what it should be is refused."""
    formats = request.known_formats
    if request.weight is not None and not _fits(table, request.weight, "number", formats.get(request.weight, "")):
        kind = name_type(table.kinds[request.weight])
        raise RefusedColumnsError(table.file.name, {request.weight: f"the weight holds {kind}, not numbers."})
    kinds = {
        name: table.kinds[name] for name in columns if not _fits(table, name, encoded.get(name), formats.get(name, ""))
    }
    times = [name for name in kinds if encoded.get(name) in TIMES and kinds[name] in (*NUMBERS, *TIMES)]
    if times and table.file.format != "csv":  # of text, the reader names the row
        said = {n: f"it holds {name_type(kinds[n])}, and the model takes {name_type(encoded[n])} there." for n in times}
        raise RefusedColumnsError(table.file.name, said)
    if table.inferred:
        if undecoded := [name for name, kind in kinds.items() if kind == OTHER]:
            advice = "Give its --encoding (latin-1, ...), save the file as UTF-8, or exclude the column, as with"
            said = {n: f"it holds text that is not UTF-8. {advice} `--exclude {n}`." for n in undecoded}
            raise RefusedColumnsError(table.file.name, said)
        kinds = {name: DIGITS if kind in NUMBERS else kind for name, kind in kinds.items()}
    return object_columns(request.kernel, kinds, table.file.name, True, request.columns is not None)


def _fits(table: FileSchema, name: str, encoded: str | None, form: str) -> bool:
    """True if the encoding takes a column of its kind, which is then no matter of the kernel's."""
    kind = table.kinds[name]
    if encoded == "category":
        return kind != "other"
    if is_number_format(form):
        return kind in (*NUMBERS, TEXT, EMPTY)
    if form and kind in NUMBERS:  # digits such as 20241231, in a table
        return table.file.format in ("csv", "parquet")
    if encoded == "number" and kind in (*NUMBERS, EMPTY):
        return True
    # Of text the reader makes dates or durations, or names the row that is none.
    return encoded in TIMES and kind in (encoded, "text", "empty")


def _one_kind(name: str, tables: Sequence[FileSchema], request: ReadOptions, keep: Set[str]) -> str:
    table_of_kind = {t.kinds[name]: t for t in reversed(tables) if t.rows and t.kinds[name] != EMPTY}
    if name == request.label:
        if is_number_format(request.known_formats.get(name, "")):
            table_of_kind = {FLOAT if kind == TEXT and not t.inferred else kind: t for kind, t in table_of_kind.items()}
        table_of_kind = {label_type(t.types[name]) if k == DECIMAL else k: t for k, t in table_of_kind.items()}
        return _label_kind(name, tables, table_of_kind, request.label_as)
    if len(table_of_kind) <= 1:
        return next(iter(table_of_kind), EMPTY)
    if (joined := join_types(table_of_kind)) is not None:
        return joined
    if name in keep and all(t.inferred for t in table_of_kind.values()):
        return "text"
    (kind, table), (other, second) = list(table_of_kind.items())[:2]
    raise DataError(
        f"{table.file.name}: column {name!r} holds {name_type(kind)}, but {name_type(other)} in {second.file.name}."
    )


def _label_kind(name: str, tables: Sequence[FileSchema], table_of_kind: dict[str, FileSchema], label_as: str) -> str:
    """The kind of the label in all files; "whole" where some have integers and others floats, which must be whole."""
    kinds, typed = set(table_of_kind), {t.kinds[name] for t in tables if t.rows and not t.inferred}
    if kinds == {"digits"} or (kinds <= {"int", "float", "digits"} and "digits" in kinds and not typed):
        return "float" if "float" in kinds and label_as == "auto" else "text"  # 007 in one file, 1.5 in another
    if len(kinds) <= 1:
        return next(iter(kinds), "empty")
    if kinds <= {"bool", "int", "float"} and ("bool" not in kinds or kinds <= typed):
        fractions = any(t.kinds[name] == "float" and t.inferred and not t.whole_label for t in tables)
        # A text file shows a decimal point by accident; a typed file has the type that it means.
        return "float" if label_as == "numbers" or fractions or typed == {"float"} else "whole"
    (kind, table), (other, second) = list(table_of_kind.items())[:2]
    raise DataError(
        f"The label {name!r} holds {name_type(kind)} in {table.file.name} but {name_type(other)} in {second.file.name}"
        ": one type of label is needed in all files."
    )


def _join_names(names: Sequence[str] | dict[str, str]) -> str:
    shown = list(names)
    return ", ".join(map(quote_name, shown[:12])) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")
