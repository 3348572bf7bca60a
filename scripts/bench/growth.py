"""CPU seconds of a training as one thing grows: 1, 2 and 4 times the features, classes, files, text columns, rows.

    python scripts/bench/growth.py [--only NAME ...] [--most 4] [--json]

Each fit is the command, with nothing given, in a process of its own: user and system seconds of it and its children,
the least of --repeats. The slope is that of the logarithms, between the first size and the last, without the seconds
of a fit of 500 rows of two features: 1 is linear growth. A slope above SLOPE says that something is paid twice.
"""

import math
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from plans import rows
from report import finish, parser

SLOPE = 1.15
# What grows, and the sizes: features, classes, files of 20 rows, text columns of CSV, rows.
SIZES: dict[str, tuple[int, int, int]] = {
    "features": (100, 200, 400),
    "classes": (125, 250, 500),
    "files": (1000, 2000, 4000),
    "text columns": (50, 100, 200),
    "rows": (10_000, 20_000, 40_000),
}


def table(n: int, p: int, classes: int = 2) -> pa.Table:
    """Rows of plans.py, the classes as texts."""
    X, y = rows(n, p, classes)
    return pa.table({**{f"x{j}": X[:, j] for j in range(p)}, "y": [f"c{label}" for label in y]})


def write(name: str, size: int, folder: Path) -> Path:
    """The data of a size: a file, or a folder of files."""
    if name == "files":
        whole = table(20 * size, 8)
        for i in range(size):
            pq.write_table(whole.slice(20 * i, 20), folder / f"{i:05d}.parquet")
        return folder
    if name == "text columns":
        rng, y = np.random.default_rng(1), table(5000, 2)["y"]
        words = {f"t{j}": np.char.add("v", rng.integers(0, 20, 5000).astype(str)) for j in range(size)}
        pyarrow.csv.write_csv(pa.table({**words, "y": y}), folder / "d.csv")
        return folder / "d.csv"
    shapes = {"features": (3000, size, 2), "classes": (10_000, 10, size), "rows": (size, 10, 2), "none": (500, 2, 2)}
    pq.write_table(table(*shapes[name]), folder / "d.parquet")
    return folder / "d.parquet"


def cpu_seconds(data: Path, out: Path, repeats: int) -> float:
    """CPU seconds of a training, the least of some."""
    command = [sys.executable, "-c", "from dkernel.cli import main; main(prog_name='dkernel')", "train", str(data)]
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--label", "y", "--out", str(out), "--overwrite", "--quiet"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=SIZES, default=list(SIZES), help="what grows")
    options.add_argument("--most", type=int, choices=(2, 4), default=4, help="how many times the first size")
    options.add_argument("--repeats", type=int, default=1, help="runs of each size, of which the least counts")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:

        def seconds(name: str, size: int) -> float:
            folder = Path(place) / f"{name}-{size}"
            folder.mkdir()
            return cpu_seconds(write(name, size, folder), Path(place) / "m.safetensors", given.repeats)

        start = seconds("none", 0)
        lines, steep = list[dict[str, Any]](), []
        for name in given.only:
            sizes = [size for size in SIZES[name] if size <= given.most * SIZES[name][0]]
            took = [max(seconds(name, size) - start, 1e-3) for size in sizes]
            slope = math.log(took[-1] / took[0]) / math.log(sizes[-1] / sizes[0])
            lines += [{"grows": name, "size": size, "cpu_s": s} for size, s in zip(sizes, took, strict=True)]
            lines[-1]["slope"] = slope
            steep += [name] if slope > SLOPE else []
    finish("CPU seconds as one thing grows, without those of 500 rows", lines, given.json, of_500=start, steep=steep)


if __name__ == "__main__":
    main()
