"""Does the memory of learning an encoding grow with the rows? Values of a text column are counted, of a million levels.

Parquet files of one text column, one number and a label are written, a million rows each, and opened: the one reading
in which the values and the label by value are counted. A tenth of the rows has one of 200 frequent values, the others
any of a million. Printed for each number of rows: seconds, the most memory of the reading process, and how many of the
100 levels are frequent values.

    python scripts/bench/categories.py --rows 1000000 10000000 100000000
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from report import finish, measure_block, parser

from dkernel import open_source

FILE = 1_000_000  # rows of a file
FREQUENT, LEVELS = 200, 1_000_000


def write_files(place: Path, rows: int) -> None:
    """The files."""
    levels = pa.array([f"value {i}" for i in range(LEVELS)])
    for number, first in enumerate(range(0, rows, FILE)):
        rng = np.random.default_rng(number)
        n = min(FILE, rows - first)
        places = np.where(rng.random(n) < 0.1, rng.integers(0, FREQUENT, n), rng.integers(0, LEVELS, n))
        columns = {"value": levels.take(pa.array(places)), "x": rng.random(n), "label": places % 7 + rng.random(n)}
        pq.write_table(pa.table(columns), place / f"part.{number}.parquet", row_group_size=FILE // 8)


def line(rows: int, place: Path) -> dict[str, Any]:
    """One line of the table."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        write_files(Path(folder), rows)
        with measure_block() as found:
            encoding = open_source(folder, label="label").encoding
    assert encoding is not None
    levels = set(encoding.columns[0].levels)
    often = sum(f"value {i}" in levels for i in range(FREQUENT))
    return {"rows": rows, "seconds": round(found.seconds, 1), "peak_mib": round(found.peak_mib), "frequent": often}


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    ask.add_argument("--place", type=Path, help="folder for the files; a temporary one when it is not given")
    args = ask.parse_args(arguments)
    finish("memory of counting categories", [line(rows, args.place) for rows in args.rows], args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
