"""Checks of the parameters of a kernel: each is checked once, when the kernel is made, and becomes a plain number.

Plain Python numbers, because a kernel's text is its stored form and the text of a numpy scalar is not an expression.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from dkernel.errors import RecipeError
from dkernel.numerics.validation import nearest_name

GAMMA_WORDS = ("auto", "median", "scale")


def is_number(value: Any) -> bool:
    """True if a value is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _finite(owner: str, name: str, value: Any, needed: str) -> float:
    if is_number(value):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise RecipeError(f"{owner} was given {name}={value!r}; {needed} is needed.")


def positive(owner: str, name: str, value: Any) -> float:
    """`value` as a float above zero, or a RecipeError."""
    number = _finite(owner, name, value, "a finite number above 0")
    if number <= 0:
        raise RecipeError(f"{owner} was given {name}={number!r}; a number above 0 is needed.")
    return number


def nonnegative(owner: str, name: str, value: Any, why: str) -> float:
    """`value` as a float of at least zero, or a RecipeError that says why."""
    number = _finite(owner, name, value, "a finite number of at least 0")
    if number < 0:
        raise RecipeError(f"{owner} was given {name}={number!r}; at least 0 is needed: {why}.")
    return number


def at_least_one(owner: str, name: str, value: Any) -> int:
    """`value` as an integer of at least one, or a RecipeError."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise RecipeError(f"{owner} was given {name}={value!r}; an integer of at least 1 is needed.")
    return int(value)


def number_or_word(owner: str, name: str, value: Any) -> float | str:
    """`value` as a float above zero, or one of the words that stand for a number still to be chosen from the data."""
    if not isinstance(value, str):
        return positive(owner, name, value)
    if value not in GAMMA_WORDS:
        raise RecipeError(
            f"{owner} was given {name}={value!r}; a number above 0 or one of {', '.join(map(repr, GAMMA_WORDS))} "
            f"is needed.{nearest_name(value, GAMMA_WORDS)}"
        )
    return value


def finite_numbers(owner: str, name: str, values: Any) -> tuple[float, ...]:
    """A row of finite numbers (a list, a tuple, a 1-d array) as a tuple of floats, or a RecipeError."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise RecipeError(f"{owner} was given {name}={values!r}; a list of numbers is needed.")
    return tuple(_finite(owner, f"{name}[{i}]", v, "a finite number") for i, v in enumerate(values))


def per_column(
    owner: str, name: str, value: Any, change: Callable[[float], float] = lambda number: number
) -> float | tuple[float, ...]:
    """`change` of a number above zero, or of each in a list with one for each column."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) > 0:
        row = finite_numbers(owner, name, value)
        return tuple(change(positive(owner, f"{name}[{i}]", v)) for i, v in enumerate(row))
    return change(positive(owner, name, value))


def check_arguments(cls: type, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse arguments that a kernel does not take, by the words that its text is refused with."""
    try:
        inspect.signature(cls).bind(*args, **named)
    except TypeError:
        raise refuse_arguments(cls, args, named) from None


def refuse_arguments(cls: type, args: Sequence[Any], named: Mapping[str, Any]) -> RecipeError:
    """The refusal of arguments with which a kernel cannot be made."""
    parameters = list(inspect.signature(cls).parameters)
    for name in named:
        if name not in parameters:
            return RecipeError(f"{cls.__name__} has no parameter {name!r}.{nearest_name(name, parameters)}")
    given = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in named.items())])
    return RecipeError(
        f"{cls.__name__} cannot be made from ({given}); its parameters are: {', '.join(parameters) or 'none'}."
    )
