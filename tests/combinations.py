"""How many of the combinations of settings, and how many examples of a law, are tried."""

from itertools import product
from typing import Any

import pytest
from hypothesis import settings


def every_two(*settings: list[Any]) -> list[Any]:
    """All combinations, for `parametrize`: by default half of them, in which every two values meet; others are slow.

    Of two settings alone every value is in the half, and not every pair.
    """
    found = []
    for chosen in product(*map(enumerate, settings)):
        even = sum(number for number, _ in chosen) % 2 == 0
        found.append(pytest.param(*(value for _, value in chosen), marks=() if even else pytest.mark.slow))
    return found


def examples(number: int) -> settings:
    """So many examples of a law, or a hundred times as many by --hypothesis-profile=long."""
    return settings(max_examples=number * settings.default.max_examples // 100)
