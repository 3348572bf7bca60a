"""A command of dkernel in this process: its answer as JSON, its error by type, and what no answer may hold."""

import gc
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from dkernel import errors
from dkernel.cli import main

# What a command may end with, by the type of its error.
_OF_DATA = ("DataError", "MissingValueError", "TooLargeError", "DamagedFileError", "ModelFileError")
_OF_OPTIONS = ("RecipeError", "UnsupportedError")
ENDS = dict.fromkeys(_OF_DATA, 65) | dict.fromkeys(_OF_OPTIONS, 2) | {"MemoryBudgetError": 1}
SHORTEST, LONGEST = 20, 6000  # characters of a message that says who, what was found and what to do


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended; `error` is "" of one that succeeded."""

    code: int
    printed: Mapping[str, Any]
    error: str
    message: str


def command(*words: Any) -> Answer:
    """Run it; a NaN in its answer, an untyped error or a mistaken exit code is an AssertionError.

    With --json among the words what it printed is read; without, a refusal is known by its exit code alone.
    """
    texts = [str(word) for word in words]
    result = CliRunner().invoke(main, texts, catch_exceptions=False)
    gc.unfreeze()  # a command leaves nothing to the collector, as its process would end
    code, stdout, stderr = result.exit_code, result.stdout.strip(), result.stderr.strip()
    if "--json" not in texts:
        assert code in (0, *ENDS.values()), f"exit code {code}: {stderr}"
        assert code != 1, f"exit code {code}: {stderr}"
        return Answer(code, {}, f"exit {code}" if code else "", stderr)
    if code == 0:
        return Answer(0, json.loads(stdout, parse_constant=_refuse_constant), "", "")
    if not stdout:  # a mistake in the options, which click reports
        assert code == 2, f"exit code {code}: {stderr}"
        return Answer(2, {}, "UsageError", stderr)
    found = json.loads(stdout)
    kind, message = found["error"]["type"], found["error"]["message"]
    check_error(kind, message)
    assert code == ENDS.get(kind, -1), f"exit code {code} of {kind}: {message}"
    return Answer(code, found, kind, message)


def check_error(kind: str, message: str) -> None:
    """An error of dkernel's, in words for people."""
    found = getattr(errors, kind, None)
    assert found is not None, f"untyped error {kind}: {message}"
    assert issubclass(found, errors.DKernelError), f"untyped error {kind}: {message}"
    assert "should not happen" not in message, message
    assert "Traceback" not in message, message
    assert SHORTEST <= len(message) <= LONGEST, f"a message of {len(message)} characters: {message}"


def _refuse_constant(name: str) -> Any:
    raise AssertionError(f"the answer of the command holds {name}")
