"""A model in plain words, from the header of its file."""

import math
import re
from collections.abc import Mapping
from typing import Any

from dkernel.losses.metrics import usual_error

_LOCAL = {"grids": "random grids of {columns:,} columns", "cells": "local machines (cells)"}


def describe_model(recipe: Mapping[str, Any], facts: Mapping[str, Any], columns: int) -> str:
    """What a model is made of.

    Parameters
    ----------
    recipe : as JSON, settled
    facts : of the model file
    columns : of the table

    Examples
    --------
    >>> describe_model({"kernel": "Gaussian(gamma=0.29)", "local": "none"}, {"components": 512}, 8)
    '512 components of a Gaussian kernel'
    >>> local = {"local": "grids", "features": "none", "kernel": "Linear()"}
    >>> describe_model(local, {"components": 0, "local": {"grids": 536}}, 27)
    '536 random grids of 27 columns'
    """
    kind = str(recipe.get("local", "none")).partition("(")[0]
    number = (facts.get("local") or {}).get(kind)
    local = f"{number:,} {_LOCAL.get(kind, kind).format(columns=columns)}" if number else ""
    whole = _describe_components(str(recipe["kernel"]), facts.get("components", 0), columns)
    if recipe.get("features") == "none":
        whole = "" if local else "a constant"
    return " + ".join(filter(None, (whole, local)))


def _describe_components(kernel: str, components: int, columns: int) -> str:
    names = list(dict.fromkeys(re.findall(r"\b[A-Z]\w*", kernel)))
    # The text of a kernel may be of a function that is not registered here; this one names linear kernels alone.
    if not re.search(r"[A-Za-z]\w*\(", re.sub(r"Linear\(|Polynomial\(degree=1,", "", kernel)):
        return f"linear model of {columns:,} columns"
    if not names:
        return f"{components:,} components of the kernel {kernel}"
    of = f"a {names[0]} kernel" if len(names) == 1 else f"a kernel of {', '.join(names[:-1])} and {names[-1]}"
    return f"{components:,} components of {of}"


def format_rows(n: int, different: bool = False) -> str:
    """How many rows there are; `different` where equal ones were merged and count once."""
    return f"{n:,}{' different' * different} rows"


def format_number(value: float, error: float = 0.0) -> str:
    """A number to the second digit of its standard error, or with three digits if none is known.

    Examples
    --------
    >>> format_number(0.892804), format_number(39.0), format_number(43512.0), format_number(1e-9)
    ('0.893', '39.0', '43,500', '1.00e-09')
    >>> format_number(5.5602, 0.0441), format_number(43512.0, 463.0), format_number(463.0, 463.0)
    ('5.560', '43,510', '460')
    """
    digits, of = (2, error) if error else (3, value)
    if not of or not math.isfinite(of):
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(float(f"{of:.{digits - 1}e}"))))
    return f"{round(value, places):z,.{max(places, 0)}f}" if places < 10 else f"{value:#.3g}"


def format_with_error(value: float, error: float) -> str:
    """A number and its standard error.

    Examples
    --------
    >>> format_with_error(0.05253, 0.00296), format_with_error(0.0, 0.0)
    ('0.0525 ± 0.0030', '0 ± 0')
    """
    return f"{format_number(value, error)} ± {format_number(error, error)}"


def format_figure(figure: str, value: float, error: float) -> str:
    """A figure to the second digit of its standard error, a share of wrong labels in percent."""
    return f"{format_number(100 * value, 100 * error)} %" if figure == "error" else format_number(value, error)


def format_share(share: float, n: float) -> str:
    """A share of n rows in percent."""
    return format_figure("error", share, usual_error("error", share, n))


def format_of_rows(name: str, value: float | None, n: float, beside: float | None = None) -> str:
    """A figure of n rows, to the digits that as many rows tell, of it or of one that it stands beside; "-" of None."""
    if not isinstance(value, float):
        return "-" if value is None else f"{value:,}"
    return format_figure(name, value, usual_error(name, value if beside is None else beside, n))
