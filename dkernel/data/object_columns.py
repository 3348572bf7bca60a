"""Columns of objects: the types that the kernel takes, checked against those of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

from dkernel.data.column_types import DATE, DIGITS, DURATION, EMPTY, NUMBERS, TEXT, TIME, UNTYPED, name_type
from dkernel.data.refused_columns import RefusedColumnsError
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import Kernel, parse
from dkernel.numerics.sparse_rows import RangeNames


def find_domains(kernel: Kernel | str | None, columns: Sequence[str]) -> dict[str, str]:
    """Domain of each column, "numbers", "objects" or "any"; a column that no part of the kernel uses is not in it.

    Examples
    --------
    >>> find_domains("SpectrumKernel(3).on(['s']) + Linear().on(['a'])", ["a", "b", "s"])
    {'s': 'objects', 'a': 'numbers'}
    """
    if kernel is None:
        return dict.fromkeys(columns, "numbers")
    return parse(kernel).bind_columns(columns).wants(tuple(columns))


def known_numbers(request: Any) -> tuple[str, ...]:
    """The columns that a model takes as numbers, where rows without them are left out; none where no model asks."""
    if not request.lenient or request.columns is None or isinstance(request.columns, RangeNames):
        return ()
    columns = tuple(request.columns)
    domains = find_domains(request.kernel, columns)
    return tuple(name for name in columns if domains.get(name, "numbers") == "numbers")


def object_columns(
    kernel: Kernel | str | None, kinds: Mapping[str, str], where: str, flag: bool = False, fitted: bool = False
) -> tuple[str, ...]:
    """The columns that are to be read as objects, or a DataError where kernel and data do not fit together.

    Parameters
    ----------
    kernel : None takes all columns as numbers
    kinds : of each feature, one of COLUMN_TYPES, or UNTYPED, which fits what the kernel takes; EMPTY fits everything
    where : the file, or X
    flag : whether the reader has an option --exclude
    fitted : whether the columns are those of a model, which needs them all

    Examples
    --------
    >>> object_columns("SpectrumKernel(3)", {"s": "text"}, "a.csv")
    ('s',)
    """
    domains = find_domains(kernel, tuple(kinds))
    names, refused = [], {}
    for name, kind in kinds.items():
        domain = domains.get(name)
        is_number = kind in NUMBERS or (kind == UNTYPED and domain == "numbers")
        if domain == "objects" and kind in NUMBERS and kind != DIGITS:
            takes = f"{parse(kernel or '')!r} takes text, lists or sets: store the column as text."
            refused[name] = f"it holds {name_type(kind)}, and {takes}"
        elif domain == "objects" or (domain == "any" and not is_number and kind != EMPTY):
            names.append(name)
        elif not is_number and kind != EMPTY and fitted:
            refused[name] = f"it holds {name_type(kind)}, and the model takes numbers there."
        elif not is_number and kind != EMPTY:
            refused[name] = _refusal(name, kind, None if domain else kernel, flag)
    if refused:
        raise RefusedColumnsError(where, refused)
    return tuple(names)


def _refusal(name: str, kind: str, passed_over_by: Kernel | str | None, flag: bool) -> str:
    exclude = f"exclude it, as with `--exclude {name}`" if flag else "leave it out"
    if passed_over_by is not None:
        return (
            f"it holds {name_type(kind)}, and no part of {parse(passed_over_by)!r} takes it: {exclude}, or add a "
            f"kernel of it, as in ... + SpectrumKernel(3).on([{name!r}])."
        )
    if not flag:
        return (
            f"it holds {name_type(kind)}, not numbers, so it cannot be a feature: leave it out, or encode it as "
            "numbers. fit of KernelClassifier and KernelRegressor encodes text, categories and dates; for others "
            "sklearn.preprocessing has encoders."
        )
    advice = {
        TEXT: f"take it as a category (`--categorical {name}`), or give it a kernel of texts, such as "
        f"Gaussian().on([...]) + SpectrumKernel(3).on([{name!r}])",
        DATE: "or store it as a date or as seconds",
        TIME: "or store it as a time or as seconds",
        DURATION: "or store it as seconds",
    }.get(kind, "or make columns of numbers or text of its parts")
    return f"it holds {name_type(kind)}, not numbers, so it cannot be a feature: {exclude}, {advice}."


def check_gamma(kernels: Sequence[Kernel], gamma: Any) -> None:
    """Refuse a gamma that none of the kernels takes: it would be passed over."""
    if gamma != "auto" and not any("auto" in kernel.placeholders for kernel in kernels):
        which = " or ".join(map(repr, kernels))
        raise RecipeError(
            f"gamma={gamma!r} is for a kernel with a gamma left open, and {which} has none: leave gamma out."
        )


def check_source(kernel: Kernel, source: Any) -> None:
    """Refuse a kernel for which the source was not opened."""
    if source.sparse and kernel.domain != "objects":  # all of the many columns are numbers
        return
    domains = kernel.wants(source.columns)
    missing = [name for name, domain in domains.items() if domain == "objects" and name not in source.objects]
    if missing:
        raise DataError(
            f"{kernel!r} takes the column {missing[0]!r} as objects, and the source holds numbers: open it for this "
            f"kernel, open_source(..., kernel={kernel!r})."
        )
    for name in source.objects:
        if domains.get(name, "numbers") == "numbers":
            raise RefusedColumnsError("the source", {name: _refusal(name, "text", kernel, flag=False)})
