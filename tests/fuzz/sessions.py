"""Cases of a fuzzer, one after the other: drawn from a seed and a number, each in a folder of its own, and counted."""

import random
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

FUZZERS = {
    "settings": "tests.fuzz.settings",
    "types": "tests.fuzz.types",
    "paths": "tests.fuzz.paths",
}


class SkippedError(Exception):
    """A case that cannot be tried here."""


class Hang(BaseException):
    """A case that did not end in its time."""


@dataclass
class Case:
    """One try: everything random in it comes from `rng`; `said` tells in a failure what was tried."""

    fuzzer: str
    seed: int
    number: int
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.fuzzer} {self.seed} {self.number}")

    def say(self, text: str) -> None:
        self.said.append(text)

    @property
    def again(self) -> str:
        """The command that repeats it."""
        return f"python -m tests.fuzz {self.fuzzer} --seed {self.seed} --case {self.number}"


@dataclass
class Session:
    """What came of many cases: how often, the first of each kind, and every failure."""

    outcomes: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def table(self) -> str:
        """The outcomes, the most frequent first, and the failures."""
        lines = [f"{sum(self.outcomes.values()):>6}  cases"]
        for outcome, count in self.outcomes.most_common():
            lines.append(f"{count:>6}  {outcome}  (case {self.first[outcome]})")
        return "\n".join([*lines, "", f"{len(self.failures)} failures", *self.failures])


def run(
    fuzzer: str,
    seed: int,
    numbers: Iterable[int],
    limit: int = 0,
    keep: Path | None = None,
    tell: Callable[[Case, str], None] | None = None,
) -> Session:
    """Try these cases of a fuzzer; a failure ends its case, not the session.

    Parameters
    ----------
    limit : seconds after which a case counts as hanging, 0 for none
    keep : folder in which the files of the cases stay; without it they are removed
    tell : is called with each case and what came of it
    """
    one_case = import_module(FUZZERS[fuzzer]).run
    session = Session()
    for number in numbers:
        case = Case(fuzzer, seed, number)
        with _folder(case, keep) as folder:
            try:
                with _in_time(limit):
                    outcome = one_case(case, folder)
            except SkippedError as reason:
                outcome = f"skipped: {reason}"
            except KeyboardInterrupt:  # what was tried so far is worth its table
                return session
            except BaseException as error:
                outcome = f"FAILED: {type(error).__name__}"
                session.failures.append(_report(case, error))
        session.outcomes[outcome] += 1
        session.first.setdefault(outcome, number)
        if tell is not None:
            tell(case, outcome)
    return session


def _report(case: Case, error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename}:{frame.lineno} in {frame.name}"
    tried = "".join(f"\n    {text}" for text in case.said)
    return f"{case.again}\n    {type(error).__name__}: {error}{tried}\n    {where}"


@contextmanager
def _folder(case: Case, keep: Path | None) -> Iterator[Path]:
    if keep is None:
        # Names that are no text are no reason to fail after the case.
        with tempfile.TemporaryDirectory(prefix="dkernel-fuzz-", ignore_cleanup_errors=True) as name:
            yield Path(name)
    else:
        folder = keep / f"{case.fuzzer}-{case.seed}-{case.number}"
        folder.mkdir(parents=True)
        yield folder


@contextmanager
def _in_time(limit: int) -> Iterator[None]:
    if not limit:
        yield
        return

    def late(*_: object) -> None:
        raise Hang(f"no end within {limit} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
