"""The facts of a model file: what each of them is, where it is there. A file whose facts are others is no model."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from dkernel.errors import ModelFileError

Kind = Callable[[Any], bool]
"""Whether a value of JSON is one of a kind."""

DEEPEST = 8  # lists in lists of a fact that this version does not know: what prints it follows them


def check_facts(facts: Any, n_classes: int | None, file_name: str) -> None:
    """Refuse facts of which one is not of its kind.

    Parameters
    ----------
    facts : of the document of a file
    n_classes : number of classes, None for a regression
    file_name : that the refusal names

    Examples
    --------
    >>> check_facts({"rows": 10, "holdout": {"rows": 2, "accuracy": 0.5}, "of another version": [1]}, 2, "m")
    >>> try:
    ...     check_facts({"rows": "many"}, 2, "m.safetensors")
    ... except ModelFileError as error:
    ...     print(error)
    m.safetensors does not describe a model: its fact 'rows' is 'many'.
    """
    if not isinstance(facts, dict):
        raise ModelFileError(f"{file_name} does not describe a model: its facts are no table.")
    for name, value in facts.items():
        if not _is_json(value) or not FACTS.get(name, _is_json)(value):
            raise ModelFileError(f"{file_name} does not describe a model: its fact {name!r} is {repr(value)[:80]}.")
    for name, others in _TOGETHER.items():
        if name in facts and not others <= facts.keys():
            raise ModelFileError(f"{file_name} does not describe a model: of its facts {name!r} stands alone.")
    if n_classes is not None and len(facts.get("counts", range(n_classes))) != n_classes:
        raise ModelFileError(f"{file_name} does not describe a model: it counts other than its {n_classes} classes.")


def _is_number(value: Any) -> bool:
    """True for a number that a float can be: a whole number of JSON may be larger."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= sys.float_info.max


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_none(value: Any) -> bool:
    return value is None


def _is_json(value: Any, depth: int = DEEPEST) -> bool:
    """True for what can be printed, whatever it means."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_is_json(each, depth - 1) for each in inner)
    return value is None or _is_flag(value) or _is_text(value) or _is_number(value)


def _list_of(kind: Kind) -> Kind:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def _table(others: Kind = _is_json, **kinds: Kind) -> Kind:
    """Tables with all of these names, whose other names are of `others`."""
    return lambda value: (
        isinstance(value, dict)
        and kinds.keys() <= value.keys()
        and all(kinds.get(name, others)(each) for name, each in value.items())
    )


def _is_any(*of: Kind) -> Kind:
    return lambda value: any(kind(value) for kind in of)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


FACTS: Mapping[str, Kind] = {
    "calibrated": _is_count,
    "certificate": _table(_is_number),
    "chosen": _table(_is_text),
    "components": _is_count,
    "conformal": _table(rows=_is_count, of=_is_text),
    "counts": _list_of(_is_count),
    "data": _is_text,
    "exact": _table(alpha=_list_of(_is_number), steps=_is_count, moved=_is_number, converged=_is_flag),
    "holdout": _is_any(
        _table(_is_number, rows=_is_count, accuracy=_is_number), _table(_is_number, rows=_is_count, rmse=_is_number)
    ),
    "inertia": _is_number,
    "iterate": _is_text,
    "local": _table(_is_number),
    "noise": _is_any(_is_number, _list_of(_is_number)),
    "norm": _list_of(_is_number),
    "nu": _is_number,
    "offset": _is_number,
    "outliers": _is_number,
    "passed_over": _list_of(_is_text),
    "passes": _is_count,
    "ridge": _table(_list_of(_is_number)),
    "rows": _is_count,
    "schema": _table(missing=_list_of(_is_any(_is_none, _is_number)), range=_list_of(_is_any(_is_none, _is_pair))),
    "search": _table(),
    "setup": _table(_is_number),
    "share_of_step": _is_number,
    "solver": _is_any(
        _table(_is_none, passes=_is_count, decrement=_is_number, converged=_is_flag),
        _table(_is_none, worst_round=_is_number, usual_round=_is_number, converged=_is_flag),
    ),
    "span": _list_of(_list_of(_is_number)),
    "survey": _table(mean=_list_of(_is_number), deviation=_list_of(_is_number)),
    "targets": _list_of(_is_text),
    "updates": _is_count,
    "versions": _table(_is_text),
    "weight": _is_text,
    "weights": _list_of(_is_number),
}
"""Name -> its kind. A name that is not here is of a newer dkernel, and can be any JSON that is not too deep."""
_TOGETHER = {"nu": {"offset", "outliers"}}  # of a OneClassSVM
