"""The sums and scores of small models: `python -m tests.golden.sums` writes them anew and says what changed.

A refactoring changes no bit of a model, and tests/test_golden_sums.py shows it. For each case of `tests.golden.cases`
the file tests/golden/sums.json keeps

- the scores of 20 rows that were not learned from, which every processor reaches within 1e-4 of their range, or more
  where the test says why;
- the sha256 of the model (its recipe, classes, columns, map and tensors, not the facts of the fit) and of the scores
  of all new rows. Bits depend on the processor and on the libraries that compute, so these are compared only where
  the *family* is the one that made the file.

A commit that changes a sum says which and why, and shows with the table that this command prints that the loss on the
holdout and the error on new rows are as good, within 1e-6, or better. A machine of another family writes the whole file
anew.

    python -m tests.golden.sums             compare, print, write
    python -m tests.golden.sums --dry-run   compare and print
"""

import hashlib
import json
import platform
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 - brings a BLAS of its own
from threadpoolctl import threadpool_info

from tests.golden.cases import CASES, run

FILE = Path(__file__).parent / "sums.json"
ROWS = 20  # of the scores that are kept as numbers
DIGITS = 6  # of each of these scores
_LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn")


def family() -> dict[str, str]:
    """Everything that decides the bits of a result but the code: processor, compiler, BLAS, libraries."""
    from llvmlite import binding

    blas = {f"{pool.get('architecture')} {pool['version']}" for pool in threadpool_info() if pool["user_api"] == "blas"}
    return {
        "processor": binding.get_host_cpu_name(),
        "blas": ", ".join(sorted(blas)),
        "libc": " ".join(platform.libc_ver()),
        **{name: version(name) for name in _LIBRARIES},
    }


def kept() -> dict[str, Any]:
    """The family that made the sums, and case -> its sums, figures and scores."""
    return json.loads(FILE.read_text())


def sums(name: str) -> dict[str, Any]:
    """Make a case: the sums of its model and scores, and the figures that tell whether another model is as good."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that its passes stopped warns of it
        fitted = CASES[name](folder=Path(folder))
        header = run(f"show {fitted.model} --json") if fitted.model else None
    model = holdout = None
    if header is not None:
        document = json.loads(header)
        holdout = document.pop("facts").get("holdout", {}).get("loss")
        del document["sha256"]
        model = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    scores = hashlib.sha256(fitted.scores.tobytes()).hexdigest()
    numbers = [float(f"{score:.{DIGITS}g}") for score in np.ravel(fitted.scores[:ROWS])]
    return {"model": model, "scores": scores, "holdout": holdout, "error": fitted.error, "numbers": numbers}


def compare(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Which sums of a case changed, and its figures before and now; nothing where none did."""
    changed = [part for part in ("model", "scores") if before.get(part) != now[part]]
    figures = [f"{figure} {before.get(figure)} -> {now[figure]}" for figure in ("holdout", "error")]
    return ", ".join([*changed, *figures]) if changed else ""


def distance(before: dict[str, Any], now: dict[str, Any]) -> float:
    """The largest difference of two cases' scores, as a share of the range of the first."""
    old, new = np.array(before["numbers"]), np.array(now["numbers"])
    return float(np.abs(new - old).max() / np.ptp(old))


def main(arguments: list[str]) -> None:
    if set(arguments) - {"--dry-run"}:
        sys.exit(__doc__)
    known = family()
    file = kept()
    now = {name: sums(name) for name in CASES}
    other = {name: compare(file["models"].get(name, {}), found) for name, found in now.items()}
    for name, said in (other | dict.fromkeys(file["models"].keys() - now.keys(), "gone")).items():
        if said:
            print(f"{name}: {said}")
    print(f"For {known}; the sums were made for {file['family']}.")
    if "--dry-run" not in arguments:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(line)}" for name, line in now.items())
        FILE.write_text(f'{{"family": {json.dumps(known)},\n "models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
