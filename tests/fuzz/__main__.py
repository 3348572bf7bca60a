"""`python -m tests.fuzz FUZZER --seed S --case N`, or `--cases N` for a session: see the package."""

import argparse
import sys
import time
import warnings
from pathlib import Path

from tests.fuzz.sessions import FUZZERS, Case, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("fuzzer", choices=list(FUZZERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--cases", type=int, default=100, help="so many; default: 100")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them; default: 0")
    parser.add_argument("--limit", type=int, default=600, help="seconds of a case, 0 for no limit; default: 600")
    parser.add_argument("--seconds", type=float, help="begin no case after so many seconds")
    parser.add_argument("--keep", type=Path, help="folder in which the files of the cases stay")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # as the commands do; what a warning is about is checked where it matters
    numbers = range(given.first, given.first + given.cases) if given.case is None else [given.case]
    began = time.monotonic()

    def in_time():
        for number in numbers:
            if given.seconds is not None and time.monotonic() - began > given.seconds:
                return
            yield number

    def tell(case: Case, outcome: str) -> None:
        if given.case is not None:
            print("\n".join(case.said))
        if given.case is not None or outcome.startswith("FAILED"):
            print(f"case {case.number}: {outcome}", flush=True)

    session = run(given.fuzzer, given.seed, in_time(), given.limit, given.keep, tell)
    print(session.table())
    return 1 if session.failures else 0


if __name__ == "__main__":
    sys.exit(main())
