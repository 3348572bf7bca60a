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
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 - brings a BLAS of its own
from threadpoolctl import threadpool_info

from tests.golden.cases import CASES, Fitted, make

FILE = Path(__file__).parent / "sums.json"
ROWS = 20  # of the scores that are kept as numbers
DIGITS = 6  # of each of these scores
_LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn")
_FIGURES = ("holdout", "error")


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


def header_of(path: Path) -> dict[str, Any]:
    """The document in the header of a model file: a length of 8 bytes, then JSON."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    (document,) = header["__metadata__"].values()
    return json.loads(document)


def sums_of(fitted: Fitted) -> dict[str, Any]:
    """The sums of a model and its scores, and the figures that tell whether another model is as good."""
    found: dict[str, Any] = {"model": None, "scores": hashlib.sha256(fitted.scores.tobytes()).hexdigest()}
    holdout = None
    if fitted.model is not None:
        document = header_of(fitted.model)
        holdout = document.pop("facts").get("holdout", {}).get("loss")
        del document["sha256"]
        found["model"] = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    numbers = [float(f"{score:.{DIGITS}g}") for score in np.ravel(fitted.scores[:ROWS])]
    return {**found, "holdout": holdout, "error": fitted.error, "numbers": numbers}


def sums(name: str) -> dict[str, Any]:
    """Make one case in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return sums_of(make(name, Path(folder)))


def changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Which of a case's sums are not what they were."""
    return [part for part in ("model", "scores") if before[part] != now[part]]


def distance(before: dict[str, Any], now: dict[str, Any]) -> float:
    """The largest difference of two cases' scores, as a share of the range of the first."""
    old, new = np.array(before["numbers"]), np.array(now["numbers"])
    return float(np.abs(new - old).max() / np.ptp(old))


def told(name: str, before: dict[str, Any] | None, now: dict[str, Any]) -> str:
    """A line of the table for people: what changed, and the figures before and now."""
    if before is None:
        return f"{name}: new, " + ", ".join(f"{figure} {now[figure]}" for figure in _FIGURES)
    figures = []
    for figure in _FIGURES:
        old, new = before[figure], now[figure]
        step = f" ({new - old:+.1e})" if old is not None and new is not None else ""
        figures.append(f"{figure} {old} -> {new}{step}")
    return f"{name}: {' and '.join(changed(before, now))} changed, " + ", ".join(figures)


def main(arguments: list[str]) -> None:
    if set(arguments) - {"--dry-run"}:
        sys.exit(__doc__)
    known = family()
    file = kept() if FILE.exists() else {"family": known, "models": {}}
    before = file["models"]
    now = {name: sums(name) for name in CASES}
    other = [name for name in now if before.get(name) is None or changed(before[name], now[name])]
    for name in other:
        print(told(name, before.get(name), now[name]))
    for name in before.keys() - now.keys():
        print(f"{name}: gone")
    print(f"{len(other)} of {len(now)} changed for {known}")
    if known != file["family"]:
        print(f"The sums were made for {file['family']}.")
    if "--dry-run" not in arguments:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(line)}" for name, line in now.items())
        FILE.write_text(f'{{"family": {json.dumps(known)},\n "models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
