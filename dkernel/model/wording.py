"""A model in plain words, from the header of its file."""

import re
from collections.abc import Mapping
from typing import Any

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


def format_number(value: float, digits: int = 3) -> str:
    """A number with some digits that count, and never with an exponent where it is large.

    Examples
    --------
    >>> format_number(0.892804), format_number(43512.0), format_number(0.0213, 2), format_number(463.0, 2)
    ('0.893', '43,500', '0.021', '460')
    """
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10**digits else f"{value:.{digits}g}"
