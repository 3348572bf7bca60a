"""A few cases of every fuzzer by default, some minutes of each among the slow tests; every odd spelling once."""

import random
import time

import numpy as np
import pytest

import dkernel
from dkernel.model.recipe import Recipe
from tests.fuzz import csv_files, draws, sessions, spellings, types
from tests.fuzz.commands import command
from tests.kernels.catalogue import CATALOGUE

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the commands: what random settings warn of is not looked at

# Fuzzer -> seed and cases of the default tests; a seed is chosen for cases that are quick, not for cases that pass.
SHORT = {
    "settings": (1, range(6)),
    "csv": (1, range(10)),
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


def test_a_failure_names_the_command_that_repeats_it(monkeypatch):
    def broken(case, folder):
        case.say(f"drew {case.rng.random():.3f}, folder there: {folder.is_dir()}")
        assert case.number != 1, "one is odd"
        return "fine"

    monkeypatch.setattr(csv_files, "run", broken)
    session = sessions.run("csv", 9, range(3))
    assert session.outcomes == {"fine": 2, "FAILED: AssertionError": 1}
    (failure,) = session.failures
    for text in ("python -m tests.fuzz csv --seed 9 --case 1", "one is odd", "drew 0.", "folder there: True"):
        assert text in failure


def test_a_case_without_an_end_is_a_failure(monkeypatch):
    monkeypatch.setattr(csv_files, "run", lambda case, folder: time.sleep(30))  # noqa: ARG005
    session = sessions.run("csv", 0, [0], limit=1)
    assert "no end within 1 s" in session.failures[0]


def test_no_odd_spelling_is_read_as_another_number(tmp_path):
    """Each beside rows that are right: what is no number is listed, what is one has the score of this number."""
    model = csv_files.model_of("linear")
    dkernel.save(model, tmp_path / "m")
    texts = [*spellings.ODD, *spellings.NUMBERS]
    quoted = ['"{}"'.format(text.replace('"', '""')) for text in texts]
    lines = [f"{text},{i},1" for i, text in enumerate(quoted)] + [f"{i % 9},{len(texts) + i},1" for i in range(200)]
    (tmp_path / "in.csv").write_text("\n".join(["a,id,b", *lines]) + "\n", encoding="utf-8")
    found = command("score", tmp_path / "m", tmp_path / "in.csv", "--out", tmp_path / "out.csv", "--keep", "id",
                    "--write", "score", "--max-bad-rows", len(texts), "--json", "--progress", "none")  # fmt: skip
    assert found.code == 0, found.message
    written = dict(line.split(",") for line in (tmp_path / "out.csv").read_text().split()[1:])
    read = {text: float(written[str(i)]) for i, text in enumerate(texts) if str(i) in written}
    assert sorted(read) == sorted(spellings.NUMBERS)
    for text, number in spellings.NUMBERS.items():
        expected = model.scores(np.array([[1.0, number]]))[0, 0]
        assert expected == expected.dtype.type(read[text]), text
