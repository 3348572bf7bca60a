"""The study of scripts/bench/STUDY.md: runs its points, each in a process of one thread; study_page.py makes the page.

A line of JSON is appended for each point, and a point whose line is there is not run again, so a stopped study goes on
where it was. Points stand in the order of their worth, and what would go beyond 8 predicted hours of one core is left
out. A choice of width and alpha, of seed 0, goes before the points of its set.

    python scripts/bench/study.py --dry-run
    python scripts/bench/study.py
    python scripts/bench/study.py --stages 1e6 --only "smooth/.*/(grids|cells)/1024"
    python scripts/bench/study.py --small && python scripts/bench/study_page.py --small
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from data import advice
from report import DATA, ROOT
from study_points import HOURS, METHODS, SETS, Point, choice, stages, within

LINES = ROOT / "scripts" / "bench" / "study.jsonl"
SMALL = Path("study-small")
SMALL_JOBS = 2
LIMIT = 3600  # seconds of a point, by the clock
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Key of a point -> its line. A line that was cut off by the end of a process is removed from the file."""
    if not path.exists():
        return {}
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        path.write_bytes(whole)
    return {line["point"]: line for line in map(json.loads, whole.decode().splitlines())}


def chosen_of(point: Point, lines: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Gamma and alpha of the set, of the kernel of the point's method; KeyError where they are not chosen yet."""
    kernel = METHODS[point.method].kernel
    if not kernel or point.chooses:
        return {}
    line = lines[choice(point.set, kernel).key]
    return {name: line[name] for name in (("gamma", "alpha") if kernel == "gaussian" else ("alpha",))}


def run_one(point: Point, chosen: Mapping[str, float], data: Path, place: Path) -> dict[str, Any]:
    """The line of a point from a process of its own, which keeps to one thread.

    Raises
    ------
    InterruptedError
        if the process was killed
    """
    asked = json.dumps({"point": asdict(point), "chosen": chosen, "data": str(data), "place": str(place)})
    command = [sys.executable, str(Path(__file__).with_name("study_fit.py")), asked]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"point": point.key, "failed": f"more than {LIMIT} seconds"}
    if done.returncode < 0:
        raise InterruptedError(f"{point.key}: killed by signal {-done.returncode}")
    if done.returncode:
        return {"point": point.key, "failed": done.stderr.strip().splitlines()[-1][:200]}
    return {"point": point.key, **json.loads(done.stdout.splitlines()[-1])}


def run(points: Sequence[Point], path: Path, data: Path, place: Path, jobs: int = 1) -> int:
    """Run what the file has no line of; the number of points that were run."""
    lines, lock = read(path), Lock()
    path.parent.mkdir(parents=True, exist_ok=True)

    def one(point: Point) -> None:
        try:
            chosen = chosen_of(point, lines)
        except KeyError as missing:
            print(f"left out: {point.key}, whose choice {missing} has no line", file=sys.stderr)
            return
        line = run_one(point, chosen, data, place)
        with lock, path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            lines[point.key] = line
        print(describe(line), file=sys.stderr, flush=True)

    begin = len(lines)
    for batch in batches([point for point in points if point.key not in lines]):
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, batch))
    return len(lines) - begin


def batches(points: Iterable[Point]) -> list[list[Point]]:
    """The points, the ones that others need before them."""
    points = list(points)
    first = [point for point in points if point.chooses and point.seed == 0]
    return [batch for batch in (first, [point for point in points if point not in first]) if batch]


def describe(line: Mapping[str, Any]) -> str:
    if "failed" in line:
        return f"{line['point']}: {line['failed']}"
    return f"{line['point']}: error {line['error']:.4g}, fit {line['fit_s']:.1f} s"


def available(points: Iterable[Point], data: Path) -> list[Point]:
    """The points whose data are there: those of made sets always are."""
    there = {name for name, about in SETS.items() if about.made or (data / name / "train.parquet").is_file()}
    points = list(points)
    absent = sorted({point.set for point in points} - there)
    if absent:
        print(advice(data, absent), file=sys.stderr)
    return [point for point in points if point.set in there]


def dry_run(points: Mapping[str, Sequence[Point]], left: Sequence[Point], known: Mapping[str, Any]) -> None:
    """Print every point with its predicted seconds, and the hours of the stages."""
    total = 0.0
    for stage, those in points.items():
        for point in those:
            word = "left out" if point in left else "there" if point.key in known else ""
            print(f"{point.seconds:8.0f} s  {point.key}  {word}".rstrip())
        hours = sum(point.seconds for point in those if point not in left) / 3600
        total += hours
        print(f"{hours:8.2f} h  stage {stage}: {sum(point not in left for point in those)} of {len(those)} points")
    print(f"{total:8.2f} h  in all; {len(left)} points are left out")


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", type=Path, default=DATA)
    ask.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "dkernel-study", help="of made rows")
    ask.add_argument("--lines", type=Path, help=f"default: {LINES.relative_to(ROOT)}, small: {SMALL}/study.jsonl")
    ask.add_argument("--stages", nargs="+", choices=list(stages()), help="only these")
    ask.add_argument("--only", default="", metavar="PATTERN", help="points whose name has this regular expression")
    ask.add_argument("--hours", type=float, default=HOURS, help="of one core, predicted, that the list may have")
    ask.add_argument("--jobs", type=int, help="processes at a time; default 1, small: 2")
    ask.add_argument("--small", action="store_true", help="the first stage alone, into a folder of its own")
    ask.add_argument("--dry-run", action="store_true", help="print the points and their predicted hours")
    args = ask.parse_args(arguments)
    names = ["small"] if args.small else args.stages or list(stages())
    asked = {
        name: [point for point in points if re.search(args.only, point.key)]
        for name, points in stages().items()
        if name in names
    }
    taken, left = within(asked, args.hours)
    path = args.lines or (SMALL / "study.jsonl" if args.small else LINES)
    if args.dry_run:
        dry_run(asked, left, read(path))
        return 0
    begun, jobs = time.monotonic(), args.jobs or (SMALL_JOBS if args.small else 1)
    known = read(path)
    wanted = [point for point in taken if point.key not in known]
    points = available(wanted, args.data)
    try:
        done = run(points, path, args.data, args.place, jobs)
    except InterruptedError as killed:
        print(f"{killed}; the same command goes on", file=sys.stderr)
        return 1
    print(f"{done} points in {time.monotonic() - begun:.0f} s: {path}", file=sys.stderr)
    return int(len(points) < len(wanted))


if __name__ == "__main__":
    sys.exit(main())
