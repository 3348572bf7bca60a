"""Does the time of a row grow with their number? The same training at a million rows and at --rows, in little memory.

Rows of 28 columns are written chunk by chunk as NPY, Parquet and CSV (scripts/make_data.py) and trained on from there
with D = 1024 landmarks and 2 workers of 1 GiB. Printed for each format: seconds of the command and of its phases,
microseconds a row of the two readings (survey and pass), and the most memory that all processes had. CSV is bound by
the parsing of its text, so it is tried with --csv-rows. With --grids N grids alone are fitted, in one sweep, in place
of landmarks, and with --nothing-given the plain command chooses; what the plan states of readings, bytes and seconds
stands beside what was measured then. 100 million rows need 12 GB of disk for each of NPY and Parquet at a time; what
was made is removed after its run unless --keep.

    python scripts/bench/size.py                        # 100 million rows: about an hour for all formats
    python scripts/bench/size.py --rows 10000000 --formats npy
    python scripts/bench/size.py --nothing-given --formats npy
    python scripts/bench/size.py --grids 128 --formats npy --small-rows 10000000
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from commands import BYTES_A_NUMBER, make_files, phases_of, train
from report import finish, parser

SMALL = 1_000_000
GRIDS = ("--features", "none", "--alpha", "1e-6", "--baselines", "off")
SETTINGS = ("--kernel", "Gaussian(gamma=0.08)", "--features", "nystrom", "--scale", "global", "--metric", "identity")


def line(place: Path, form: str, rows: int, args: argparse.Namespace) -> dict[str, Any]:
    """One training."""
    data = make_files(place, form, rows)
    options = [*SETTINGS, "--n-components", str(args.components), "--alpha", "1e-6"]
    options = [*GRIDS, "--local", f"grids(n_grids={args.grids})"] if args.grids else options
    options = [] if args.nothing_given else options
    options += ["--workers", str(args.workers)]
    model = place / "model.safetensors"
    found = train(data, model, [*options, "--memory-limit", args.memory_limit])
    if not args.keep:
        shutil.rmtree(data)
    phases, record = phases_of(found["record"]), found["record"]
    print(f"{form}, {rows:,} rows: {found['seconds']:.0f} s", file=sys.stderr)
    plan, readings = record["plan"], phases["survey"] + phases["pass"]
    more = {}
    if args.grids or args.nothing_given:
        local = sum(record["phases"].get(name, 0.0) for name in ("grids", "cells"))
        nbytes = rows * 28 * 4
        more = {"local_s": local, "local_us_a_row": 1e6 * local / rows, "plan_cpu_s": plan["core_seconds"]}
        more |= {"plan_readings": plan["readings"], "plan_read_GB": plan["readings"] * nbytes / 1e9}
        readings += local
    if args.nothing_given:
        print(f"chosen: {record['chosen']}", file=sys.stderr)
        more["model_mib"] = model.stat().st_size / 2**20
    return {
        "format": form,
        "rows": rows,
        "GB": rows * 29 * BYTES_A_NUMBER[form] / 1e9,
        "command_s": found["seconds"],
        **{f"{name}_s": seconds for name, seconds in phases.items()},
        "pass_rows_s": rows / phases["pass"],
        "readings_us_a_row": 1e6 * readings / rows,
        **more,
        "peak_mib": found["peak_bytes"] / 2**20,
        "stated_mib": (plan["client_bytes"] + args.workers * plan["worker_bytes"]) / 2**20,
        "accuracy_%": 100 * record["facts"]["holdout"]["accuracy"],
    }


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, default=100_000_000)
    ask.add_argument("--small-rows", type=int, default=SMALL, help="rows of the other fit of each format")
    ask.add_argument("--grids", type=int, default=0, help="fit so many grids in place of landmarks")
    ask.add_argument("--nothing-given", action="store_true", help="the plain command, but for the workers")
    ask.add_argument("--csv-rows", type=int, default=10_000_000, help="at most so many as CSV")
    ask.add_argument("--formats", nargs="+", choices=sorted(BYTES_A_NUMBER), default=["npy", "parquet", "csv"])
    ask.add_argument("--components", type=int, default=1024)
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--memory-limit", default="1GiB")
    ask.add_argument("--place", type=Path, help="folder for the data; a temporary one when it is not given")
    ask.add_argument("--keep", action="store_true", help="do not remove the data that were made")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        place, found = args.place or Path(scratch), []
        for form in args.formats:
            most = min(args.rows, args.csv_rows) if form == "csv" else args.rows
            pair = [line(place, form, rows, args) for rows in sorted({min(args.small_rows, most), most})]
            grown = pair[-1]["readings_us_a_row"] / pair[0]["readings_us_a_row"]
            pair[-1]["time of a row, against the small"] = grown
            found += pair
    finish(f"size: {args.workers} workers of {args.memory_limit}, D = {args.components}", found, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
