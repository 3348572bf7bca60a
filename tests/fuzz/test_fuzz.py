"""A few cases of every fuzzer by default, some minutes of each among the slow tests; every odd spelling once."""

import random
import time

import pytest

from dkernel.model.recipe import Recipe
from tests.fuzz import draws, sessions, types
from tests.kernels.catalogue import CATALOGUE

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the commands: what random settings warn of is not looked at

# Fuzzer -> seed and cases of the default tests; a seed is chosen for cases that are quick, not for cases that pass.
SHORT = {
    "settings": (1, range(6)),
    "types": (1, range(0, 144, 18)),
    "paths": (1, range(8)),
}
LONG_SEED = 2026
LONG_SECONDS = 180
LIMIT = 300


@pytest.mark.parametrize("fuzzer", SHORT)
def test_a_few_cases(fuzzer):
    seed, numbers = SHORT[fuzzer]
    session = sessions.run(fuzzer, seed, numbers)
    assert not session.failures, session.table()


@pytest.mark.slow
@pytest.mark.parametrize("fuzzer", sessions.FUZZERS)
def test_many_cases(fuzzer):
    """As many as fit into some minutes, always in the same order; of the types all pairs."""
    began = time.monotonic()
    whole = len(types.TYPES) * len(types.ROLES)

    def numbers():
        number = 0
        while time.monotonic() - began < LONG_SECONDS or (fuzzer == "types" and number < whole):
            yield number
            number += 1

    session = sessions.run(fuzzer, LONG_SEED, numbers(), limit=LIMIT)
    print(session.table())
    assert not session.failures, session.table()


def test_a_case_is_drawn_from_its_number_alone():
    draw = [draws.settings(sessions.Case("settings", 3, 5).rng, False, False, [0, 1]) for _ in range(2)]
    assert draw[0] == draw[1]
    assert draw[0] != draws.settings(sessions.Case("settings", 3, 6).rng, False, False, [0, 1])


def test_every_word_and_every_kernel_is_drawn():
    """The settings know no list of their own: what the recipe and the catalogue learn is drawn too."""
    rng = random.Random(0)
    drawn = [draws.settings(rng, i % 3 == 0, i % 2 == 0, [0, 1]) for i in range(6000)]
    for name, words in draws.CHOICES.items():
        if name not in draws.NOWHERE and draws.CHANCE.get(name, draws.OTHERWISE):
            assert set(words) <= {found.get(name) for found in drawn}, name
    kernels = " ".join(found.get("kernel", "") for found in drawn)
    assert [m for m in CATALOGUE if repr(m.kernel) not in kernels] == []
    assert {"kernel", "positive", *draws.PARAMETERS, *draws.NOWHERE} == set(Recipe.__dataclass_fields__)
