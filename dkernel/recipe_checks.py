"""The words that each parameter of a recipe takes, and the checks that a value is one of them."""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from dkernel.encoding.encoding import DATE_WORDS, MISSING_WORDS
from dkernel.errors import RecipeError
from dkernel.features import FAST, FEATURES, FORMS
from dkernel.features.scaling import SCALINGS
from dkernel.kernels import GAMMA_WORDS, SAMPLINGS, parse
from dkernel.linear.calibration import CALIBRATIONS
from dkernel.linear.losses import LOSSES, loss_named
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.validation import nearest_name

Label = bool | int | float | str

EFFORTS: Mapping[str, float] = {"low": 0.25, "normal": 1.0, "high": 4.0}
"""Word -> multiple of what the choice and the local stage may cost, see `dkernel.problem.budget`."""

CHOICES: dict[str, tuple[str, ...]] = {
    "task": ("auto", "classify", "regress"),
    "gamma": GAMMA_WORDS,
    "features": tuple(FEATURES),
    "n_components": ("auto",),
    "passes": ("auto",),
    "polish": ("auto",),
    "rounds": ("auto",),
    "landmarks": ("uniform", "stratified", "kmeans", "leverage", "rpcholesky"),
    "sampling": ("auto", *SAMPLINGS, *FAST),
    "form": FORMS,
    "loss": ("auto", *LOSSES),
    "alpha": ("auto",),
    "solver": tuple(SOLVERS),
    "scale": ("auto", *SCALINGS),
    "metric": ("auto", "identity", "diagonal", "full"),
    "class_weight": ("balanced",),
    "calibration": tuple(CALIBRATIONS),
    "dtype": ("float32", "float64"),
    "local": ("auto", "none", "grids", "cells"),
    "n_grids": ("auto",),
    "cell_rows": ("auto",),
    "cell_overlap": ("auto",),
    "one_hot": ("auto", "none"),
    "categorical": ("auto", "none"),
    "missing": MISSING_WORDS,
    "dates": DATE_WORDS,
    "effort": tuple(EFFORTS),
}
"""The words that each parameter understands; some take numbers too."""

GIVEN = "given"  # landmarks that were no rule's choice: the model holds them
LABELS = (bool, int, float, str)


def _plain(value: Any) -> Any:
    """The Python value of a numpy scalar, whose repr and JSON would differ from the same number's."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value


def _refuse(name: str, value: Any, needed: str) -> RecipeError:
    words = CHOICES.get(name, ())
    hint = nearest_name(value, words) if isinstance(value, str) and words else ""
    hint = hint if hint.startswith(" Did") else ""
    return RecipeError(f"{name}={value!r} is not valid.{hint} Possible: {needed}.")


def _word(name: str, value: Any) -> str:
    if not (isinstance(value, str) and value in CHOICES[name]):
        raise _refuse(name, value, " | ".join(CHOICES[name]))
    return str(value)


def _loss(name: str, value: Any) -> str:
    if isinstance(value, str) and "(" in value:
        return loss_named(value).text
    return _word(name, value)


def _whole(least: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        try:
            number = -1 if isinstance(_plain(value), bool) else operator.index(value)
        except TypeError:
            number = -1
        if number < least:
            raise _refuse(name, value, " | ".join([*CHOICES.get(name, ()), f"a whole number of at least {least}"]))
        return number

    return check


def _real(needed: str, holds: Callable[[float], bool]) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        plain = _plain(value)
        try:
            number = math.nan if isinstance(plain, bool) or not isinstance(plain, int | float) else float(plain)
        except OverflowError:
            number = math.inf
        if not holds(number):
            raise _refuse(name, value, " | ".join([*CHOICES.get(name, ()), needed]))
        return number

    return check


def _word_or(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    def either(name: str, value: Any) -> Any:
        return str(value) if isinstance(value, str) and value in CHOICES[name] else check(name, value)

    return either


def _or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


def _kernel(name: str, value: Any) -> str:  # noqa: ARG001 - the refusal of `parse` names the kernel
    if isinstance(value, str) and value == "auto":
        return value
    kernel = parse(value)
    return value if isinstance(value, str) else repr(kernel)


def _label(name: str, value: Any) -> Label:
    label = _plain(value)
    if not isinstance(label, LABELS) or (isinstance(label, float) and not math.isfinite(label)):
        raise _refuse(name, value, "a bool, a finite number or a string")
    return str(label) if isinstance(label, str) else label


def _class_weight(name: str, value: Any) -> str | dict[Label, float] | None:
    if value is None or isinstance(value, str):
        return None if value is None else _word(name, value)
    if not isinstance(value, Mapping) or not value:
        raise _refuse(name, value, "None | balanced | {label: weight}")
    pairs: list[tuple[Label, float]] = [
        (_label(f"{name} label", label), _weight(f"{name}[{label!r}]", weight)) for label, weight in value.items()
    ]
    return dict(sorted(pairs, key=_by_label))


def _by_label(pair: tuple[Label, float]) -> tuple[str, Any]:
    # Text and numbers have no order among themselves; equal dictionaries must still be equal texts.
    return ("text", pair[0]) if isinstance(pair[0], str) else ("number", pair[0])


_weight = _real("a finite number of at least 0", lambda v: math.isfinite(v) and v >= 0)


def _alpha(name: str, value: Any) -> str | float:
    C = re.fullmatch(r"C=(\d+\.?\d*(e[+-]?\d+)?)", value.replace(" ", "")) if isinstance(value, str) else None
    if C is not None and 0 < float(C[1]) < math.inf:
        return f"C={float(C[1])!r}"
    found: str | float = _word_or(_strength)(name, value)
    return found


_strength = _real("a finite number of at least 0 | C=NUMBER above 0", lambda v: math.isfinite(v) and v >= 0)


def _columns(name: str, value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value if value in CHOICES[name] else tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list | tuple) or not value or not all(isinstance(part, str) for part in value):
        raise _refuse(name, value, "auto | none | names of columns")
    return tuple(map(str, value))


def _one_hot(name: str, value: Any) -> str | tuple[tuple[str, ...], ...]:
    if isinstance(value, str) and value in CHOICES[name]:
        return value
    given = [group.split(",") for group in value.split(";")] if isinstance(value, str) else value
    if isinstance(given, list | tuple) and given and all(isinstance(group, list | tuple) and group for group in given):
        groups = tuple(tuple(str(part).strip() for part in group) for group in given)
        if all(part for group in groups for part in group):
            return groups
    raise _refuse(name, value, "auto | none | groups of names, as 'a,b;c,d' or [['a', 'b'], ['c', 'd']]")


UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def _size(name: str, value: Any) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmg]i?|)b?", str(_plain(value)).lower())
    if found is None or isinstance(value, bool):
        raise _refuse(name, value, "bytes, as 200MiB, 1GB or 1000000")
    return int(float(found[1]) * UNITS[found[2]])


CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "task": _word,
    "kernel": _kernel,
    "gamma": _word_or(_real("a finite number above 0", lambda v: math.isfinite(v) and v > 0)),
    "features": _word,
    "n_components": _word_or(_whole(1)),
    "rank": _or_none(_whole(1)),
    "landmarks": lambda name, value: GIVEN if isinstance(value, str) and value == GIVEN else _word(name, value),
    "sampling": _word,
    "form": _word,
    "loss": _loss,
    "alpha": _alpha,
    "solver": _word,
    "passes": _word_or(_whole(1)),
    "patience": _whole(0),
    "polish": _word_or(_whole(0)),
    "rounds": _word_or(_whole(1)),
    "scale": lambda name, value: _word(name, "none" if value is None else value),
    "metric": _word,
    "class_weight": _class_weight,
    "positive": _or_none(_label),
    "holdout": _real("a share of at least 0 and less than 1", lambda v: 0 <= v < 1),
    "seed": _whole(0),
    "dtype": _word,
    # scikit-learn's CalibratedClassifierCV calls Platt's curve so.
    "calibration": _or_none(lambda name, value: _word(name, "platt" if value == "sigmoid" else value)),
    "local": _word,
    "n_grids": _word_or(_whole(1)),
    "cell_rows": _word_or(_whole(16)),
    "cell_overlap": _word_or(_real("a number from 0 to 2", lambda v: 0 <= v <= 2)),
    "cell_partitions": _whole(1),
    "categorical": _columns,
    "missing": _word,
    "dates": _word,
    "one_hot": _one_hot,
    "max_model_size": _or_none(_size),
    "effort": _word,
    "max_seconds": _or_none(_real("a finite number above 0", lambda v: math.isfinite(v) and v > 0)),
}
